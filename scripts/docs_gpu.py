# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/gpu.md, for the expressions in it (docs_numbers.py)."""
import json
import re

from docs_rows import TOP, mean, one, read, rows, table


def odd(row):
    return any(size % 8 for size in (row.n, row.k))


# ---- GEMMs against PyTorch ----


GROUPS = (("linear layers, aligned", lambda row: row.kind == "linear" and row.dtype == "bf16" and row.m > 128 and not odd(row)),
          ("linear layers, misaligned", lambda row: row.kind == "linear" and row.dtype == "bf16" and row.m > 128 and odd(row)),
          ("dgrad", lambda row: row.kind == "dgrad"), ("wgrad", lambda row: row.kind == "wgrad"),
          ("1 to 128 rows", lambda row: row.kind == "linear" and row.dtype == "bf16" and row.m <= 128),
          ("batched: score, attention over value, decoding",
           lambda row: row.dtype == "bf16" and row.kind in ("score", "over_value", "value_grad")),
          ("linear and score in fp16, tf32, fp32", lambda row: row.dtype != "bf16"))


def gemm_vs_torch_table():
    lines = []
    for name, test in GROUPS:
        ratios = [row.ratio for row in read("h200/gemm_vs_torch.csv") if test(row)]
        lines.append([name, len(ratios), f"{mean(ratios):.4f}", f"{min(ratios):.4f} to {max(ratios):.4f}"])
    return table(["GEMMs", "how many", "Headroom's time over PyTorch's", "least to largest"], lines)


# ---- what the heuristic leaves ----


CHOICES = (("QKV", (8192, 7680, 2560)), ("MLP up", (8192, 10240, 2560)), ("MLP down", (8192, 2560, 10240)),
           ("MLP up, wgrad", (10240, 2560, 8192)), ("vocabulary, aligned", (8192, 50304, 2560)),
           ("vocabulary, odd", (8192, 50257, 2560)), ("n odd", (4096, 4097, 4096)), ("k odd", (4096, 4096, 4097)),
           ("k a multiple of 4", (4096, 4096, 4100)), ("128 scores, heads of 80", (2048, 2048, 80)),
           ("80 scores, heads of 128", (2048, 2048, 128)), ("128 scores, heads of 100", (2048, 2048, 100)),
           ("128 attention over value, heads of 80", (2048, 80, 2048)),
           ("80 attention over value, heads of 128", (2048, 128, 2048)))


def ordinal(number):
    return str(number) + {1: "st", 2: "nd", 3: "rd"}.get(number, "th")


def autotune_table():
    lines = []
    for name, (m, n, k) in CHOICES:
        row = one("h200/autotune.csv", m=m, n=n, k=k, lda=0, ldc=0)
        lines.append([name, f"{m} × {n} × {k}", ordinal(row.choice), f"{row.choice_speedup:.3f}", f"{row.median_ns / 1e3:.0f} µs"])
    few = rows("h200/autotune.csv", m=(1, 8, 32, 128))
    times = [row.median_ns / 1e3 for row in few]
    lines.insert(9, ["1, 8, 32, 128 rows", "decoding", ordinal(max(row.choice for row in few)),
                     f"{max(row.choice_speedup for row in few):.3f}", f"{min(times):.0f} to {max(times):.0f} µs"])
    return table(["GEMM", "m × n × k", "fastest", "ratio", "time"], lines)


# ---- leading dimensions ----


def stride(m, n, k, lda=0, ldb=0, ldc=0, **wanted):
    """Time of a row of strides.csv, in µs."""
    return one("h200/strides.csv", m=m, n=n, k=k, lda=lda, ldb=ldb, ldc=ldc, **wanted).median_ns / 1e3


def strides_table():
    def both(*sizes, **padded):
        return [f"{stride(*sizes, transpose_b=1):.0f} µs", f"{stride(*sizes, transpose_b=1, **padded):.0f} µs"]

    wide, crooked = (stride(4096, 4096, 4096, lead, lead, transpose_b=1) for lead in (8192, 4097))
    logits = [stride(8192, columns, 2560, ldc=lead) / 1e3 for columns, lead in ((50257, 0), (50257, 50264), (50304, 0))]
    wgrad = [stride(4097, 4096, 4096, lead, transpose_a=1) for lead in (0, 4104)]
    return table(["GEMM", "packed", "rows padded to a multiple of 8"], [
        ["k 4096", f"{stride(4096, 4096, 4096, transpose_b=1):.0f} µs", f"{wide:.0f} µs (rows of 8192), {crooked:.0f} µs (rows of 4097)"],
        *(["k " + str(k), *both(4096, 4096, k, lda=4104, ldb=4104)] for k in (4097, 4098, 4100)),
        ["n 4097, of C", *both(4096, 4097, 4096, ldc=4104)],
        ["n 50257 (m 8192, k 2560), of C", f"{logits[0]:.1f} ms", f"{logits[1]:.1f} ms; n 50304 takes {logits[2]:.1f} ms"],
        ["m 4097, A transposed (wgrad)", f"{wgrad[0]:.0f} µs", f"{wgrad[1]:.0f} µs"]])


# ---- latency ----


def latency_table():
    """Median of a group and latency of one run alone, of small GEMMs of figure 5a."""
    found = rows("h200/figures-1-to-20.csv", sweep="fig5a", dtype="bf16", status="ok", latency_ns=lambda latency: latency > 0)
    lines = [[f"{row.m} × {row.n} × {row.k}", f"{row.median_ns / 1e3:.1f} µs", f"{row.latency_ns / 1e3:.1f} µs"]
             for row in sorted(found, key=lambda row: row.m)]
    return table(["GEMM", "median", "latency"], lines)


# ---- ceilings ----

CEILINGS = {"exp": "exponentials", "read": "reads", "copy": "copies"}


def ceiling(of):
    """A row of the probe, in 1e12 a second, whose instruction ceiling is that of the device's file, which predictions use."""
    row = one("h200/ceilings.csv", of=of)
    device = json.loads((TOP / "data/hardware/h200.json").read_text(encoding="utf-8"))
    filed = next(known for known in device["ceilings"] if of in (known.get("dtype"), known["kind"]))
    if abs(filed["per_s"] / row.instruction - 1) > 1e-6:
        raise ValueError(f"h200.json has another ceiling of {of}: {filed['per_s']}")
    return row


def ceilings_table():
    lines = []
    for row in read("h200/ceilings.csv"):
        row = ceiling(row.of)
        sheet, library = (f"{value / 1e12:.3g}" if value != "" and value < 1e15 else f"{value / 1e12:.0f}" if value != "" else ""
                          for value in (row.data_sheet, row.library))
        lines.append([CEILINGS.get(row.of, f"{row.of} GEMM"), f"{sheet} {row.unit}" if sheet else "",
                      f"{row.instruction / 1e12:.{3 if row.instruction < 1e14 else 0}{'g' if row.instruction < 1e14 else 'f'}}"
                      + ("" if row.data_sheet else f" {row.unit}"), library, row.loop,
                      f"{row.clock_hz / 1e6:.0f} MHz" if row.clock_hz else ""])
    return table(["of", "data sheet", "instruction", "library", "loop", "clock in the loop"], lines)


def attention_bounds_table():
    """What Tensor Cores and exponentials allow: a score of heads of d costs 4 d FLOPs and an exponential."""
    cores, exponentials = (ceiling(of).instruction / 1e12 for of in ("bf16", "exp"))
    lines = []
    for size in (64, 128, 256):
        softmax = 4 * size * exponentials
        lines.append([size, f"{cores:.0f}", f"{softmax:.0f}", f"{1 / (1 / cores + 1 / softmax):.0f}", f"{min(cores, softmax):.0f}"])
    return table(["head size", "Tensor Cores", "exponentials", "one after the other", "overlapped"], lines)


# ---- docs/measuring-derivations.md: errors of GEMMs over k ----

ERROR_K = (1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20)


def gemm_error(dtype, k):
    return one("h200/gemm-errors.csv", dtype=dtype, k=k)


def rough(value):
    """Two to three digits, as the formula is no better."""
    return f"{value:.0f}" if value < 100 else f"{10 * round(value / 10)}" if value < 1000 else f"{100 * round(value / 100)}"


def parts_text(row):
    parts = re.search(r"split-k (\d+)", row.configuration)
    return f" ({parts[1]} parts)" if parts and parts[1] != "1" else ""


def gemm_errors_over_k():
    def line(name, dtype):
        return [name, *(rough(gemm_error(dtype, k).rms) + (parts_text(gemm_error(dtype, k)) if dtype == "fp32" else "") for k in ERROR_K)]

    def formula(step):
        return [f"0.42 · k/{step}", *(rough(0.42 * k / step) for k in ERROR_K)]

    return table(["k", "2¹⁰", "2¹⁴", "2¹⁶", "2¹⁸", "2²⁰"],
                 [line("fp32, rounded", "fp32"), line("tf32 (of which 4200 from the factors' 10 bits)", "tf32"), formula(8),
                  line("fp16 (of which 3300 from rounding the result)", "fp16"), line("bf16 (of which 28000 from rounding the result)", "bf16"),
                  formula(16)])
