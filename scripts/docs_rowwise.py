# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/rowwise.md, for the expressions in it (docs_numbers.py)."""
import textwrap

from docs_rows import one, rows, table

RATES = "h100/rowwise-rates.csv"
NORMS = (("softmax", "softmax"), ("layer norm", "layer_norm"), ("RMS norm", "rms_norm"))
OTHERS = (("rotary", "rotary"), ("GELU", "gelu"), ("SwiGLU", "swiglu"), ("residual", "residual"), ("dropout", "dropout"))


def copy_share(operation, dtype, columns):
    """Percent of a copy's rate."""
    return 100 * one(RATES, operation=operation, dtype=dtype, columns=columns).copy_share


def rowwise_table(operations, some=None, dtypes=("bf16", "fp32")):
    """A line for each length that was measured in both formats, or for some of them."""
    names = [operation for _, operation in operations]
    measured = ({row.columns for row in rows(RATES, operation=names[0], dtype=dtype)} for dtype in dtypes)
    lengths = some or sorted(set.intersection(*measured))
    head = [name + (f", {dtype}" if i == 0 else "") for dtype in dtypes for i, (name, _) in enumerate(operations)]
    return table(["elements of a row", *head],
                 [[length, *(f"{copy_share(operation, dtype, length):.0f}" for dtype in dtypes for operation in names)] for length in lengths])


def rowwise_span(dtype, columns, *without):
    """Least and largest share of all operations, in whole percent."""
    found = [100 * row.copy_share for row in rows(RATES, dtype=dtype, columns=columns) if row.operation not in without]
    return f"{min(found):.0f} to {max(found):.0f}%"


def rowwise_formats():
    """A sentence about the other formats."""
    def shares(dtype, columns):
        return ", ".join(f"{copy_share(operation, dtype, columns):.0f}" for _, operation in NORMS)

    text = (f"Softmax, layer norm and RMS norm in other formats: fp16 {shares('fp16', 4096)}% in rows of 4096, {shares('fp16', 4099)}% of 4099 and "
            f"{shares('fp16', 50257)}% of 50,257; fp8 {shares('fp8', 4096)}% in rows of 4096, {shares('fp8', 16384)}% of 16384, "
            f"{shares('fp8', 4099)}% of 4099, whose rows begin at any byte.")
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))
