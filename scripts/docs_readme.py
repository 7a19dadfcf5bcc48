# SPDX-License-Identifier: Apache-2.0
"""Tables of README.md, of terms, and of gains in docs/notes/prediction.md, for the expressions in it (docs_numbers.py)."""
import json
import math
import re

from docs_command import unpadded
from docs_rows import TOP, mean, one, rows, table

GAINS = (("Llama 3 8B, vocabulary 128257 to 128320", "vocabulary 128257 to 128320", "fused"),
         ("GPT-3 2.7B, vocabulary 50257 to 50304", "vocabulary 50257 to 50304", "fused"),
         ("32 heads to 20", "32 heads to 20", "fused"), ("both", "20 heads and vocabulary 50304", "fused"),
         ("32 heads to 20", "32 heads to 20", "unfused"), ("both", "20 heads and vocabulary 50304", "unfused"),
         ("32 heads to 64", "32 heads to 64", "unfused"))


def step_ns(shape, attention):
    """Of PyTorch's kernels in a CUDA graph, whose GEMMs nothing pads."""
    compact = json.dumps(json.loads(shape), separators=(",", ":"))
    return unpadded(f"advise {compact} --device h200 --attention {attention}")[1]


def gains_table(names=GAINS):
    """Measured gains of a step in PyTorch beside what is predicted for the same two shapes."""
    lines = []
    for title, name, attention in names:
        row = one("h200/gains.csv", name=name, attention=attention)
        gain = step_ns(row["before"], attention) / step_ns(row["after"], attention) - 1
        lines.append([title, attention, f"{100 * row.gain:+.1f}%", f"{100 * gain:+.1f}%"])
    return table(["change", "attention", "measured gain", "predicted"], lines)


CHANGES = ("GPT-3 2.7B, |vocabulary 50257 to 50304", "Llama 3 8B, |vocabulary 128257 to 128320", "GPT-3 2.7B, |32 heads to 20",
           "GPT-3 2.7B, |32 heads to 40| (C2)", "GPT-3 2.7B, |32 heads to 64| (C1)", "GPT-3 2.7B, |20 heads and vocabulary 50304",
           "|hidden 2560 to 2568|, 24 heads of 107", "Llama-2-7B, |MLP 11008 to 10922", "Llama-2-7B, |MLP 11008 to 10944",
           "Llama-2-7B, |MLP 11008 to 11264", "Llama-2-7B, |32 KV heads to 8", "h 1024, |16 heads to 8", "h 1024, |batch 1 to 4")


def gain_of(name, attention):
    """The row of a change, and the predicted times of its two steps, which may differ in their batch."""
    row = one("h200/gains.csv", name=name, attention=attention)
    return row, step_ns(row["before"], attention), step_ns(row["after"], attention)


def batches(row):
    return json.loads(row["after"])["b"] / json.loads(row["before"])["b"]


def changes_table():
    lines = []
    for change in CHANGES:
        name, cells = change.split("|")[1], [change.replace("|", "")]
        for attention in ("fused", "unfused"):
            row, before, after = gain_of(name, attention)
            cells += [f"{100 * row.gain:+.1f}%", f"{100 * (batches(row) * before / after - 1):+.1f}%"]
        lines.append(cells)
    return table(["change", "fused: measured gain", "predicted", "unfused: measured gain", "predicted"], lines)


def changes_errors():
    """Of all steps and gains, as a sentence."""
    steps, gains = [], []
    for row in rows("h200/gains.csv"):
        _, before, after = gain_of(row["name"], row["attention"])
        steps += [abs(math.log(before / row.before_ns)), abs(math.log(after / row.after_ns))]
        gains.append(abs(batches(row) * before / after - 1 - row.gain))
    return (f"The steps' times are {100 * math.exp(sum(steps) / len(steps)) - 100:.1f}% off in the geometric mean, the gains "
            f"{100 * sum(gains) / len(gains):.1f} points in the mean.")


def one_attention_table():
    """What `headroom attention` measures of one call: every kernel on an H200."""
    lines = []
    for method in ("flash", "fused", "materialized", "naive"):
        row = one("h200/attention-forward.csv", series=f"{method} XS", s=4096, dtype="bf16")
        lines.append([row.kernel.replace("attention_fused", "attention_blocked"), f"{row.ms:.3g} ms", f"{row.tflops:.3g}"])
    return table(["kernel", "time", "TFLOP/s"], lines)


def one_decode_table():
    """What `headroom decode` measures: STD and SIGMA, 16 sequences of 32k tokens on an H200."""
    lines = []
    for title, series in (("32 query, 16 K, 16 V heads", "STD"), ("32 query, 4 K, 16 V heads", "SIGMA")):
        row = one("h200/sigma-ket.csv", series=f"{series}, batch 16, part 0", prefix=32768)
        lines.append([title, row.kernel, f"{row.median_ns / 1e3:.0f} µs", f"{row.bytes_per_s / 1e12:.2f} TB/s"])
    return table(["heads", "kernel", "time", "bytes"], lines)


def speed(name, column, **wanted):
    """Geometric mean and minimum of a ratio, as text."""
    ratios = [getattr(row, column) for row in rows(name, **wanted) if getattr(row, column) != ""]
    return f"{mean(ratios):.2f}, {min(ratios):.2f}"


def terms():
    """Words, meaning and page of each row of cli/terms.inc."""
    return re.findall(r'^CLI_TERM\("(.*?)", "(.*?)", "(.*?)"\)$', (TOP / "cli/terms.inc").read_text(encoding="utf-8"), re.MULTILINE)


def terms_table():
    return table(["term", "meaning", "page"], [[words, meaning, f"[{page.partition('#')[0]}]({page})"] for words, meaning, page in terms()])
