# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/advice-validated.md and of steps in docs/notes/prediction.md, for the expressions in them (docs_numbers.py): what
`headroom advise` predicts beside the rows of bench/steps_torch.py."""
import json
import statistics

from docs_command import document, unpadded
from docs_rows import mean, median, rows, table

TORCH = "h200/steps_torch.csv"
RULES = {"vocabulary_alignment": "vocabulary", "head_size": "head size", "fewer_heads": "fewer heads", "parallel_layers": "parallel layers"}
FORMS = {"compiled": "", "logits apart": ", logits not compiled"}
PAPER = {"h": 2560, "L": 32, "s": 2048, "b": 4}
HEADLINES = {"vocabulary 50304": {"a": 32, "v": 50304}, "20 heads": {"a": 20, "v": 50257}, "40 heads": {"a": 40, "v": 50257},
             "64 heads": {"a": 64, "v": 50257}, "20 heads, vocabulary 50304": {"a": 20, "v": 50304}}
FRAMEWORKS = {"compiled": "torch.compile, one CUDA graph", "eager": "operator by operator"}


def step_ns(model, attention="fused", framework="compiled", phase="forward", more=""):
    """Without loss and optimizer, as the benches run a step."""
    step = document(f"advise {model} --device h200 --attention {attention} --framework {framework} --phase {phase} {more}")
    return step["step_time_ns"] - sum(row["predicted_ns"] for row in step["operators"] if row["name"] in ("loss", "loss_dgrad", "optimizer"))


def short(change):
    return json.dumps({**PAPER, **change}, separators=(",", ":"))


def predicted_gain(row):
    """Of a finding, or of one of the paper's shapes. What is no finding any more has none."""
    apart = row["framework"] == "logits apart"
    if row.get("kind") == "headline":
        before, after = (f"advise {short(change)} --device h200 --attention {row.attention}"
                         for change in ({"a": 32, "v": 50257}, HEADLINES[row["change"]]))
        time = (lambda line: unpadded(line)[1]) if apart else (lambda line: document(line)["step_time_ns"])
        return time(before) / time(after) - 1
    advice, plain_ns = unpadded(f"advise {row['model']} --device h200 --only free,retrain -b {row.batch} --seq {row.seq}")
    before = plain_ns if apart else advice["step_time_ns"]
    found = [before / f["predicted_time_ns"] - 1 for f in advice["findings"] if f["rule"] == row["change"] and f["predicted_time_ns"]]
    return found[0] if found else None


def pairs(found):
    """(row, predicted, measured) of the rows that have both."""
    both = [(row, predicted_gain(row), row.gain) for row in found]
    return [(row, predicted, measured) for row, predicted, measured in both if predicted is not None]


def torch_gains(kind="gain"):
    return pairs(rows(TORCH, kind=kind))


def points(found):
    return [100 * abs(predicted - measured) for _, predicted, measured in found]


def gains_sentence():
    torch, paper = torch_gains(), torch_gains("headline")
    parts = [f"{len(found)} {name} by {median(points(found)):.1f} points in the median, {statistics.fmean(points(found)):.1f} in the mean and "
             f"{max(points(found)):.1f} at most" for name, found in (("findings", torch),
                                                                      ("shapes of the paper", paper))]
    models = len({row["model"] for row, _, _ in torch})
    return f"Of {models} models and the paper's one, predicted gains are off: {'; '.join(parts)}."


def gain_cells(row, predicted, measured, low, high):
    return [f"{100 * measured:+.1f}% ({100 * low:+.1f} to {100 * high:+.1f})", f"{100 * predicted:+.1f}%",
            f"{100 * (predicted - measured):+.1f}"]


def headline_gain(change, attention="fused"):
    """Measured and predicted gain of a compiled step in %."""
    row = next(row for row in rows(TORCH, kind="headline", framework="compiled") if (row["change"], row["attention"]) == (change, attention))
    return 100 * row.gain, 100 * predicted_gain(row)


def percents(values):
    """A value, or the least and the largest one."""
    low, high = (f"{100 * value:+.1f}%" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def findings_table():
    """Findings of public models by what they change."""
    found = {}
    for gain in torch_gains():
        found.setdefault(RULES[gain[0]["change"]] + FORMS[gain[0]["framework"]], []).append(gain)
    return table(["finding", "models", "measured gain", "predicted", "points off, median", "at most"],
                 [[name, len(gains), percents([measured for _, _, measured in gains]), percents([predicted for _, predicted, _ in gains]),
                   f"{median(points(gains)):.1f}", f"{max(points(gains)):.1f}"] for name, gains in found.items()])


def paper_table():
    return table(["GPT-3 2.7B with", "attention", "measured gain", "predicted", "points off"],
                 [[row["change"] + FORMS[row["framework"]], row["attention"], *gain_cells(row, predicted, measured, row.gain_low, row.gain_high)]
                  for row, predicted, measured in torch_gains("headline")])


# ---- steps ----


def step_pairs(phase, framework):
    """Of steps without dropout, as the bench runs them."""
    return [(row, step_ns(row["model"], "fused", framework, phase, "--dropout none"), row.step_ns)
            for row in rows(TORCH, kind="step", phase=phase, framework=framework)]


def own_pairs():
    return [(row, step_ns(row["model"], "fused", "headroom"), row.step_ns) for row in rows("h200/steps_headroom.csv")
            if not row["model"].startswith("hit")]


def model_pairs(phase):
    """Whole models by `headroom step`; the sequence of a prefill is the context of a decode step."""
    return [(row, step_ns(row["model"], "fused", "headroom", phase,
                          f"-b 1 --dtype bf16 --{'seq' if phase == 'prefill' else 'context'} {row.tokens}"), row.step_ns)
            for row in rows("h200/model-steps.csv", phase=phase)]


def error_cells(found):
    errors = [abs(predicted / measured - 1) for _, predicted, measured in found]
    bias = mean(predicted / measured for _, predicted, measured in found) - 1
    return [len(found), f"{100 * statistics.fmean(errors):.1f}%", f"{100 * max(errors):.1f}%", f"{100 * bias:+.1f}%"]


def steps_table():
    lines = [[f"PyTorch, {FRAMEWORKS[framework]}", {"forward": "forward", "train": "forward and backward"}[phase],
              *error_cells(step_pairs(phase, framework))] for framework in FRAMEWORKS for phase in ("forward", "train")]
    lines.append(["Headroom's kernels", "forward", *error_cells(own_pairs())])
    lines += [["`headroom step`", phase, *error_cells(model_pairs(phase))] for phase in ("prefill", "decode")]
    return table(["whose step", "pass", "models", "mean error", "largest", "bias"], lines)




# ---- a search's hits ----


# ---- random points ----

RANDOM = "h200/random.csv"
TARGETS = {"GEMMs": "4%, 12%", "batched GEMMs": "5%, 15%", "attention": "5%", "decode": "5%"}


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [rank for _, rank in sorted(zip(order, range(len(values))))]


def random_line(name, found):
    ratios = [float(row["ratio"]) for row in found]
    errors = sorted(max(ratio, 1 / ratio) - 1 for ratio in ratios)
    inside = sum(float(row["predicted_low_ns"]) <= float(row["measured_ns"]) <= float(row["predicted_high_ns"]) for row in found)
    rank = statistics.correlation(*(ranks([float(row[key]) for row in found]) for key in ("predicted_ns", "measured_ns")))
    return [name, len(found), f"{100 * statistics.median(errors):.1f}%", f"{100 * (mean(1 + error for error in errors) - 1):.1f}%",
            f"{100 * errors[-(-9 * len(errors) // 10) - 1]:.1f}%", f"{100 * (mean(ratios) - 1):+.1f}%",
            f"{100 * inside / len(found):.0f}%", f"{rank:.3f}", TARGETS.get(name, "")]
