#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the costs of scans (scan_* of data/hardware/h200.json, src/analysis/predict/scan.c) to data/results/h200/scans.csv (bench/scans_torch.py).

    scripts/fit_scans.py

A time is launch + bytes at a share of the bandwidth + FLOPs at a share of the library's rate, where bytes and FLOPs are counted as
src/analysis/model/mixer_scan_operators.c does; in decode launch + bytes. The squares of relative errors are minimized. Prints the
figures, and the error of each row when it is left out.
"""
import csv
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_SHARE = 0.9  # of the bandwidth, that any kernel reaches


def rows():
    with open(ROOT / "data/results/h200/scans.csv", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def work(row):
    """(bytes, FLOPs)"""
    b, s, h, p, n, g, c = (int(row[name]) for name in ("batch", "seq", "heads", "head_dim", "state", "groups", "chunk"))
    t, decode = b * s, row["phase"] == "decode"
    if row["kind"] == "convolution":
        return t * h * 4 + b * h * n * 2, t * h * 2 * n
    inputs = h * p + 2 * g * n + {"ssd": h, "delta": 2 * h, "lightning": 0}[row["kind"]]
    moved = t * (inputs + h * p) * 2 + b * h * p * n * 4 * (2 if decode else 1)
    c = min(c, s)
    flops = t * h * (2 * c * (3 * n + 2 * p) + c * c / 3 + 6 * p * n) if row["kind"] == "delta" else t * (
        2 * c * g * n + 2 * c * h * p + 4 * h * p * n)
    return moved, flops


def solve(matrix, right):
    """Gaussian elimination."""
    n = len(right)
    rows_ = [list(m) + [r] for m, r in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows_[j][i]))
        rows_[i], rows_[pivot] = rows_[pivot], rows_[i]
        for j in range(n):
            if j != i:
                factor = rows_[j][i] / rows_[i][i]
                rows_[j] = [x - factor * y for x, y in zip(rows_[j], rows_[i])]
    return [rows_[i][n] / rows_[i][i] for i in range(n)]


def least_squares(features, fixed, times):
    """Coefficients of `features`, so that fixed + them come near the times, by relative errors."""
    scaled = [[x / t for x in f] for f, t in zip(features, times)]
    left = [1 - f / t for f, t in zip(fixed, times)]
    n = len(features[0])
    return solve([[sum(r[i] * r[j] for r in scaled) for j in range(n)] for i in range(n)],
                 [sum(r[i] * y for r, y in zip(scaled, left)) for i in range(n)])


def fit(members, hardware):
    """(launch ns, share of the bandwidth, share of the rate or 0)"""
    bandwidth, rate = hardware["bandwidth_bytes_per_s"] / 1e9, hardware["dense_flops_per_s"]["bf16"] * hardware["library_share"]["bf16"] / 1e9
    times = [float(row["measured_ns"]) for row in members]
    moved, useful = [work(row)[0] / bandwidth for row in members], [work(row)[1] / rate for row in members]
    if members[0]["kind"] == "convolution" or members[0]["phase"] == "decode":
        launch, factor = least_squares([[1, m] for m in moved], [0] * len(times), times)
        return launch, 1 / factor, 0
    launch, factor, busy = least_squares([[1, m, u] for m, u in zip(moved, useful)], [0] * len(times), times)
    if 0 < 1 / factor <= MOST_SHARE:
        return launch, 1 / factor, 1 / busy
    launch, busy = least_squares([[1, u] for u in useful], [m / MOST_SHARE for m in moved], times)
    return launch, MOST_SHARE, 1 / busy


def predicted(row, figures, hardware):
    launch, share, matrix = figures
    moved, flops = work(row)
    rate = hardware["dense_flops_per_s"]["bf16"] * hardware["library_share"]["bf16"]
    return launch + moved / hardware["bandwidth_bytes_per_s"] / share * 1e9 + (flops / rate / matrix * 1e9 if matrix else 0)


def main():
    hardware = json.loads((ROOT / "data/hardware/h200.json").read_text(encoding="utf-8"))
    groups = {}
    for row in rows():
        groups.setdefault((row["kind"], row["phase"]), []).append(row)
    for (kind, phase), members in groups.items():
        launch, share, matrix = fit(members, hardware)
        errors = []
        for i, row in enumerate(members if len(members) > 3 else []):
            ratio = predicted(row, fit(members[:i] + members[i + 1:], hardware), hardware) / float(row["measured_ns"])
            errors.append(max(ratio, 1 / ratio) - 1)
        left_out = f"left out: mean {100 * sum(errors) / len(errors):.1f}%, most {100 * max(errors):.1f}%" if errors else ""
        print(f"{kind} {phase}: {len(members)} rows, launch {launch:.0f} ns, {share:.3f} of the bandwidth, {matrix:.3f} of the rate; {left_out}")


if __name__ == "__main__":
    main()
