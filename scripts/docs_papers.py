# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/papers.md, for the expressions in it (docs_numbers.py)."""
from docs_rows import one


def published(sweep, x, /, **wanted):
    """A published rate of the co-design paper, in TFLOP/s."""
    return one("published/codesign-figures.csv", sweep=sweep, x=x, **wanted).tflops_per_s
