# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/diffqkv.md and SIGMA's of docs/papers.md, for the expressions in them (docs_numbers.py)."""
import functools
import subprocess
import sys
import textwrap

from docs_rows import RESULTS, TOP, one, read, rows, table

READ_RATE = 4.43e12  # bytes per second at which an H200 reads, docs/gpu.md
CALLS = 260  # of the paper's kernel times: 10 tokens, 26 layers
PARTS = {"call": 0, "split": 2, "combine": 3}
CASES = ((1, 2048), (1, 4096), (1, 16384), (1, 32768), (16, 4096), (16, 16384), (16, 32768))


# ---- kernel times: table 8 ----


def call(model, batch, prefix, part="call"):
    return one("h200/sigma-ket.csv", series=f"{model}, batch {batch}, part {PARTS[part]}", prefix=prefix)


def least_bytes(row):
    """Q, K, V and O of a decode call in bf16."""
    token = row.k_heads * row.qk_dim + row.v_heads * row.v_dim
    return 2 * row.batch * (row.kv_len * token + row.q_heads * (row.qk_dim + row.v_dim))


def time_text(row):
    """µs, or why there is no time."""
    if row.status != "ok":
        return "one split" if row.reason == "one split has nothing to combine" else row.status
    us = row.median_ns / 1e3
    return f"{us:.1f}" if us < 100 else f"{us:.0f}"


def change(now, before, digits=0):
    return f"{100 * now / before - 100:+.{digits}f}%".replace("-", "−")


def paper_time(model, prefix, kernel):
    """µs of one call."""
    name = {"STD": "standard", "SIGMA": "sigma"}[model]
    return one("published/sigma-kernel-times.csv", model=name, prefix=f"{prefix // 1024}k", kernel=kernel).time_ns / CALLS / 1e3


def call_change(model, batch, prefix):
    return change(call(model, batch, prefix).median_ns, call("STD", batch, prefix).median_ns)


def kernel_line(batch, prefix):
    models = ("STD", "SIGMA")
    bounds = [least_bytes(call(model, batch, prefix)) / READ_RATE * 1e6 for model in models]
    return [batch, f"{prefix // 1024}k", ", ".join(f"{us:.1f}" if us < 100 else f"{us:.0f}" for us in bounds),
            *(", ".join(time_text(call(model, batch, prefix, part)) for model in models) for part in PARTS),
            call_change("SIGMA", batch, prefix)]


def sigma_calls_table():
    """Pairs: STD, SIGMA."""
    return table(["batch", "prefix", "bound", "call", "split", "combine", "change of the call"], [kernel_line(*case) for case in CASES])


def sigma_kernel_table():
    """Short form: the whole call beside the paper's."""
    lines = []
    for prefix in (2048, 4096, 16384, 32768):
        line = [f"{prefix // 1024}k"]
        for std, sigma in [[paper_time(model, prefix, "total") for model in ("STD", "SIGMA")],
                           *([call(model, batch, prefix).median_ns / 1e3 for model in ("STD", "SIGMA")] for batch in (1, 16))]:
            line += [f"{std:.1f}", f"{sigma:.1f}", change(sigma, std)]
        lines.append(line)
    return table(["prefix", "paper: STD, µs", "SIGMA", "change", "H200, batch 1: STD", "SIGMA", "change", "batch 16: STD", "SIGMA",
                  "change"], lines)


# ---- whole outputs: figures 3 to 6 ----


@functools.lru_cache(maxsize=None)
def calls_summed(batch):
    """Tables of scripts/sigma_elapsed.py: lines of cells without the head."""
    files = [RESULTS / "h200/sigma-ceet.csv", RESULTS / "h200/sigma-ceet-runs.csv"]
    done = subprocess.run([sys.executable, TOP / "scripts/sigma_elapsed.py", *files, "--batch", str(batch)],
                          capture_output=True, text=True, check=True)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in part.strip().split("\n")[2:]]
            for part in done.stdout.split("\n\n")]


@functools.lru_cache(maxsize=None)
def elapsed(batch):
    """(output, prefix) -> seconds of STD and SIGMA, and the saved share as text."""
    found = {}
    for cells in calls_summed(batch)[0]:
        if len(cells) == 12:
            found[cells[0], cells[1]] = float(cells[8]) / 1e3, float(cells[9]) / 1e3, float(cells[11].rstrip("%"))
    return found


def seconds(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def saved(batch, output, prefix):
    return f"{elapsed(batch)[output, prefix][2]:+.0f}%".replace("-", "−")


def sigma_outputs_table():
    lines = []
    for output, prefix in (("2k", "0k"), ("2k", "16k"), ("2k", "64k"), ("16k", "0k"), ("16k", "16k"), ("16k", "64k"), ("64k", "0k"),
                           ("64k", "64k")):
        line = [output, "0" if prefix == "0k" else prefix]
        for batch in (1, 16):
            std, sigma, _ = elapsed(batch)[output, prefix]
            line += [seconds(std), seconds(sigma), saved(batch, output, prefix)]
        lines.append(line)
    return table(["output", "prefix", "batch 1: STD", "SIGMA", "saved", "batch 16: STD", "SIGMA", "saved"], lines)


def model_times(size):
    """The standard's and SIGMA's whole model behind each prefix: ms of the prefix and 256 tokens of output."""
    return [(prefix, *(one("h200/sigma-steps.csv", series=f"{model} {size}", x=prefix).ms for model in ("STD", "SIGMA")))
            for prefix in (2048, 8192, 32768)]


def sigma_models_table():
    lines = [[size, f"{prefix // 1024}k", f"{standard:.0f}", f"{sigma:.0f}", change(sigma, standard)]
             for size in ("1.5B", "10B") for prefix, standard, sigma in model_times(size)]
    return table(["model", "prefix", "STD, ms", "SIGMA, ms", "change"], lines)


def model_changes():
    """By how many percent SIGMA's whole models take longer, from the least to the most."""
    more = [100 * sigma / standard - 100 for size in ("1.5B", "10B") for _, standard, sigma in model_times(size)]
    return f"{min(more):.0f} to {max(more):.0f}%"


def tokens_text(tokens):
    return tokens if not tokens.isdigit() else "0" if int(tokens) < 100 else f"{int(tokens) / 1e3:.1f}k"


def sigma_even_table():
    """Prefix from which an output of SIGMA takes less, and context from which a step does, with its augmented Q and without."""
    lines = []
    for batch in (1, 16):
        _, step, outputs, *_ = calls_summed(batch)
        for column, q in ((1, "augmented Q"), (2, "a Q of one layer")):
            lines.append([f"batch {batch}, {q}", *(tokens_text(cells[column]) for cells in outputs), tokens_text(step[0][column])])
    lengths = [cells[0] for cells in calls_summed(1)[2]]
    return table(["an output of", *lengths, "a step, from a context of"], lines)


# ---- the sentences ----


def beside_torch(batch, keys, k_heads):
    """µs of a call of the comparison with PyTorch, pages of 16, heads of 64."""
    found = rows("h200/decode_gpu_vs_torch.csv", batch=batch, q_heads=32, k_heads=k_heads, v_heads=16, qk_dim=64, v_dim=64)
    return next(row.paged_us for row in found if row["keys"] == str(keys))  # row.keys is a method


def less(batch, keys):
    """What SIGMA's calls take less there, in percent."""
    return 100 - 100 * beside_torch(batch, keys, 4) / beside_torch(batch, keys, 16)


def span_of(values, sign="−"):
    """−36% to −38%, or one number where both round to it."""
    least, most = f"{sign}{min(values):.0f}%", f"{sign}{max(values):.0f}%"
    return least if least == most else f"{least} to {most}"


def attention_bullet():
    many = span_of([less(16, keys) for keys in (4096, 16384, 32768)])
    few = [f"−{less(1, keys):.0f}% at {keys // 1024}k" for keys in (2048, 4096, 16384, 32768)]
    text = ("- **Attention on an H200** takes nearly as much less time as it reads fewer bytes, where calls are long: "
            f"{many} with 16 sequences from 4k tokens on. With one sequence it takes {', '.join(few[:-1])} and {few[-1]}, because a "
            "short call has few bytes to save ([decode_gpu_vs_torch.csv](../data/results/h200/decode_gpu_vs_torch.csv), pages of 16).")
    return "\n".join(textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))


def q_us(where, *series):
    """µs of the layers that make Q, one sequence."""
    return sum(one(f"{where}/sigma-ceet.csv", sweep="sigma-ceet-q", series=name, b=1).median_ns for name in series) / 1e3


def augmented_q(where="h200"):
    return q_us(where, "SIGMA up", "SIGMA to heads")


# ---- quality: tables 1 to 6 ----


QUALITY = "published/sigma-quality.csv"
QUALITY_BASES = {"mha": "32", "gqa-2": "16", "gqa-8": "4"}  # K and V heads of 32 query heads
QUALITY_CHANGES = (
    ("half of the K heads; of 16 and 4: a quarter", ("half-k-heads", "quarter-k-heads")),
    ("as many fewer V heads", ("half-v-heads", "quarter-v-heads")),
    ("K heads of half the size", ("half-k-size",)),
    ("V of 100 keys alone (selective V)", ("selected-v",)),
    ("augmented Q, 5632 wide; of 16: 3072", ("augmented-q",)),
    ("an FFN wider by 3072", ("wider-ffn",)),
    ("augmented Q, K heads of half the size", ("augmented-q-half-k-size",)),
    ("a quarter of the K heads, of half the size", ("quarter-k-heads-half-k-size",)),
)
SIGMA_CHANGES = (("augmented Q, a quarter of the K heads", "sigma"), ("all three", "sigma-half-k-size"))


def quality(variant):
    return one(QUALITY, variant=variant).mean


def quality_change(base, variants):
    """Percentage points by which the one of these variants that the paper has differs; None if it has none."""
    found = [row for row in read(QUALITY) if row["variant"] in variants]
    return f"{found[0].mean - quality(base):+.2f}".replace("-", "−") if found else None


def quality_table():
    lines = [[text, *(quality_change(base, [f"{base}-{name}" for name in names]) for base in QUALITY_BASES)]
             for text, names in QUALITY_CHANGES]
    lines += [[text, None, quality_change("gqa-2", [name]), None] for text, name in SIGMA_CHANGES]
    heads = [f"{heads} K and V heads: {quality(base):.2f}" for base, heads in QUALITY_BASES.items()]
    return table(["what changes", *heads], lines)
