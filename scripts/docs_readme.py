# SPDX-License-Identifier: Apache-2.0
"""Tables of README.md, of terms, and of gains in docs/notes/prediction.md, for the expressions in it (docs_numbers.py)."""
import json
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


def batches(row):
    return json.loads(row["after"])["b"] / json.loads(row["before"])["b"]


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


GPU_CALLS = ("mha", "gqa", "diffqkv", "seeds")
SPEEDS = (("H200, 44 calls", "cuDNN", "h200/attention_gpu_vs_torch.csv", "cudnn_ratio", {"tier": GPU_CALLS}, "cudnn"),
          ("", "FlashAttention-3", "h200/attention_gpu_vs_torch.csv", "fa3_ratio", {"tier": GPU_CALLS}, "fa3"),
          ("Xeon with AMX, 2 threads, 48 calls", "PyTorch 2.11", "xeon-amx/attention_cpu_vs_torch.csv", "ratio",
           {"kernel": "attention_flash_amx"}, ""),
          ("the same, 36 calls in fp32, AVX-512", "PyTorch 2.11", "xeon-amx/attention_cpu_vs_torch.csv", "ratio",
           {"kernel": "attention_flash_avx512"}, ""),
          ("the same in AVX2", "PyTorch 2.11", "xeon-amx/attention_cpu_vs_torch.csv", "ratio",
           {"kernel": "attention_flash_avx2"}, ""))


def speed_table():
    """Attention against other libraries, interleaved and, on an H200, sustained."""
    lines = [[calls, peer, speed(name, column, **wanted),
              contender and speed("h200/attention_gpu_sustained_grid.csv", "ratio", contender=contender)]
             for calls, peer, name, column, wanted, contender in SPEEDS]
    return table(["", "compared with", "interleaved", "sustained"], lines)


def terms():
    """Words, meaning and page of each row of cli/terms.inc."""
    return re.findall(r'^CLI_TERM\("(.*?)", "(.*?)", "(.*?)"\)$', (TOP / "cli/terms.inc").read_text(encoding="utf-8"), re.MULTILINE)


def terms_table():
    return table(["term", "meaning", "page"], [[words, meaning, f"[{page.partition('#')[0]}]({page})"] for words, meaning, page in terms()])
