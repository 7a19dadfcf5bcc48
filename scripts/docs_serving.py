# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/serving.md: published rates of servers beside serve-plan's predictions (docs_numbers.py).

bench/serving_accuracy.c predicts every row of data/results/published/serving.csv in one run."""
import functools

from docs_command import beside


def _pair(cells):
    """The published and the predicted figure; None if it was not published."""
    return (float(cells[0]), float(cells[1])) if cells[0] else None


@functools.lru_cache(maxsize=None)
def served(source):
    """Rows of a source: model, device, t, lengths, batch, and pairs of rate, ttft, tpot."""
    blocks = beside("bench/serving_accuracy").strip().split("\n\n")
    lines = blocks[blocks.index(source) + 1].split("\n")[2:]
    found = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        cells += [""] * (14 - len(cells))
        found.append({"model": cells[0], "device": cells[1], "t": int(cells[2]), "lengths": cells[3], "batch": int(cells[4]),
                      "rate": _pair(cells[5:7]), "ttft": _pair(cells[8:10]), "tpot": _pair(cells[11:13])})
    return found


def served_rows(source, **wanted):
    found = [row for row in served(source) if all(row[name] == value for name, value in wanted.items())]
    if not found:
        raise ValueError(f"no row of {source} with {wanted}")
    return found


def ratios_of(source, **wanted):
    return [row["rate"][1] / row["rate"][0] for row in served_rows(source, **wanted) if row["rate"]]


def mean_error(*some):
    """Of the ratios of several lists, in percent."""
    ratios = [ratio for one_of in some for ratio in one_of]
    return 100 * sum(abs(ratio - 1) for ratio in ratios) / len(ratios)
