# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/serving.md: published rates of servers beside serve-plan's predictions (docs_numbers.py).

bench/serving_accuracy.c predicts every row of data/results/published/serving.csv in one run, bench/serving_load_accuracy.c simulates
those of serving_load.csv."""
import functools
import statistics

from docs_command import beside
from docs_rows import table


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


@functools.lru_cache(maxsize=None)
def loads():
    """Rows of data/results/published/serving_load.csv beside the simulation of each: part, engine, ratios of TTFT and TPOT, and
    whether each is inside its band."""
    lines = [line.split(",") for line in beside("bench/serving_load_accuracy").strip().split("\n")[1:]]
    return [(line[0], line[1], float(line[11]), float(line[14]), *(float(line[low]) <= float(line[at]) <= float(line[low + 1])
                                                                   for at, low in ((9, 15), (12, 17)))) for line in lines]


def load_share_inside(place):
    """Of the rows that nothing was fitted to: the percentage whose TTFT (place 4) or TPOT (5) is inside its band."""
    inside = [row[place] for row in loads() if row[0] == "check"]
    return 100 * sum(inside) / len(inside)


def load_errors(engine, place):
    """Of the rows that nothing was fitted to: median and 90th percentile of the error of TTFT (place 2) or TPOT (3), in percent."""
    errors = sorted(100 * abs(row[place] - 1) for row in loads() if row[0] == "check" and engine in (row[1], ""))
    return statistics.median(errors), errors[int(0.9 * (len(errors) - 1))]


def load_ratio(engine):
    """The median of simulated over measured TTFT, of all rows."""
    return statistics.median(row[2] for row in loads() if row[1] == engine)


def load_table():
    lines = []
    for engine, name in (("trtllm", "TensorRT-LLM"), ("vllm", "vLLM"), ("sglang", "SGLang"), ("", "all")):
        count = sum(row[0] == "check" and engine in (row[1], "") for row in loads())
        lines.append([name, count, *("{:.0f}%, {:.0f}%".format(*load_errors(engine, place)) for place in (2, 3))])
    return table(["engine", "rows", "TTFT", "TPOT"], lines)
