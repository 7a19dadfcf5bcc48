# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/gpu.md, for the expressions in it (docs_numbers.py)."""
import json

from docs_rows import TOP, mean, one, read, table


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


# ---- leading dimensions ----


def stride(m, n, k, lda=0, ldb=0, ldc=0, **wanted):
    """Time of a row of strides.csv, in µs."""
    return one("h200/strides.csv", m=m, n=n, k=k, lda=lda, ldb=ldb, ldc=ldc, **wanted).median_ns / 1e3


# ---- latency ----


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
