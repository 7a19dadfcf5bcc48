# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/serving.md: published rates of servers beside serve-plan's predictions (docs_numbers.py).

bench/serving_accuracy.c predicts every row of data/results/published/serving.csv in one run."""
import functools
import textwrap

from docs_command import beside, document
from docs_rows import rows, table

LENGTHS = ("128/128", "128/2048", "128/4096", "500/2000", "1000/1000", "1000/2000", "2048/128", "2048/2048", "5000/500",
           "20000/2000")
GPUS = {"h200": "H200", "h100-sxm": "H100", "a100-sxm4-80gb": "A100", "l40s": "L40S"}


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


def requests_at_once_table():
    systems = [("llama-3.1-70b", "h200", 1), ("llama-3.1-70b", "h100-sxm", 2), ("llama-3.1-8b", "h200", 1), ("llama-3.1-8b", "h100-sxm", 1)]
    head, lines = ["prompt/output"], []
    for model, device, t in systems:
        name = f"{model.rpartition('-')[2].upper()}, {'two' if t > 1 else 'one'} {GPUS[device]}"
        head += [name, "predicted", ""]
    for lengths in LENGTHS:
        line = [lengths]
        for model, device, t in systems:
            measured, predicted = served_rows("trtllm-1.0", model=model, device=device, t=t, lengths=lengths)[0]["rate"]
            line += [f"{measured:,.0f}", f"{predicted:,.0f}", f"{predicted / measured:.2f}"]
        lines.append(line)
    return table(head, lines)


def gpus(row):
    return f"{row['t']} × {row['device']}"


NIM = "serve-plan llama-3.1-70b -d h100-sxm -t 2 --expert-parallel 1 --weights fp8 --kv-cache fp8 --prompt 5000 --output 500"


# ---- docs/parallelism.md: a published training run ----


LARGEST = ('advise {"h":20480,"a":128,"L":105,"v":51200,"s":2048,"b":1} --device a100-sxm4-80gb --phase train -t 8 -p 35 '
           "--microbatches 280 --data-parallel 8 --attention unfused ")


def training_runs():
    """(options, published MFU, predicted MFU, predicted step in s)."""
    found = []
    for row in rows("published/training.csv"):
        step = document(LARGEST + row.options)
        found.append((row.options, row.mfu_percent / 100, step["model_efficiency"], step["step_time_ns"] / 1e9))
    return found


def training_table():
    return table(["", "published MFU", "predicted", "predicted step"],
                 [[f"`{options}`", f"{100 * published:.1f}%", f"{100 * predicted:.0f}%", f"{seconds:.1f} s"]
                  for options, published, predicted, seconds in training_runs()])


def training_sentence():
    (_, first, first_predicted, _), (_, second, second_predicted, _) = training_runs()
    bubble = document(LARGEST + training_options()[0])["bubble"]
    text = (f"The gain of the first over the second is {100 * first / second - 100:.0f}% published and "
            f"{100 * first_predicted / second_predicted - 100:.0f}% predicted. Two errors cancel in part: the paper's interleaved schedule has "
            f"a smaller bubble than the one predicted here ({100 * bubble:.0f}%), and the time between kernels is not predicted.")
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


def training_options():
    return [row.options for row in rows("published/training.csv")]
