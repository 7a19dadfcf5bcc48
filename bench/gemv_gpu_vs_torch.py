#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares y = x Wᵀ of few tokens on a CUDA GPU, as in decoding: Headroom's gemv_cuda, cuBLASLt through Headroom, and
torch.nn.functional.linear.

    gemv_gpu_vs_torch.py LIBHEADROOM [--dtype bf16] [--tokens 1,2,4,8] [--only NAME] [--tune] [--output FILE.csv]

Needs PyTorch and a shared libheadroom. The weights are those of Llama 3 8B, Llama 3.2 1B and Pythia 160M. As in
gemm_vs_torch.py each turn is a captured graph over copies of the weights that together are twice the L2, and the three
take turns. Times are medians; ratios are Headroom's time over the other's, medians over rounds. The share is that of
bytes read and written per second in those of a copy of 2 GiB on this GPU. --tune times each tiling of gemv_cuda, too.

Exits with 1 where a result is wrong.
"""
import argparse
import csv
import ctypes
import math
import statistics
import sys
import time

import torch

import gemm_vs_torch
from gemm_vs_torch import FORMATS, L2_BYTES, Headroom, Plan, capture, empty_output, linear, operands, run_torch
from gemm_vs_torch import worst_error
from libheadroom import bindings, call

WEIGHTS = {  # n × k
    "8B qkv": (6144, 4096), "8B o": (4096, 4096), "8B up": (14336, 4096), "8B down": (4096, 14336),
    "8B vocabulary": (128256, 4096), "1B qkv": (3072, 2048), "1B o": (2048, 2048), "1B up": (8192, 2048),
    "1B down": (2048, 8192), "1B vocabulary": (128256, 2048), "160M qkv": (2304, 768), "160M o": (768, 768),
    "160M up": (3072, 768), "160M down": (768, 3072), "160M vocabulary": (50304, 768)}
ROUNDS, TURN_S = 24, 2.5e-4
COLUMNS = ["weights", "m", "n", "k", "dtype", "gemv_ns", "cublaslt_ns", "torch_ns", "ratio_cublaslt", "ratio_torch",
           "share", "best_ns", "configuration", "best_configuration"]


class Choice(Plan):
    """Configuration number `choice` of a kernel."""

    def __init__(self, headroom, row, kernel, choice=0):
        self.wanted = bindings.hr_plan_choice(kernel.encode(), choice, 32)
        super().__init__(headroom, headroom.gemm(row))
        self.choices = headroom.library.hr_plan_choices(self.handle)

    def create(self, library, gemm):
        call(library.hr_plan_gemm_choice, self.headroom.device, ctypes.byref(gemm), ctypes.byref(self.wanted),
             ctypes.byref(self.handle))


def bytes_of(row):
    element = FORMATS[row["dtype"]][1].itemsize
    return element * (row["m"] * row["k"] + row["n"] * row["k"] + row["m"] * row["n"])


def copy_rate(stream):
    """Bytes read and written per second by a copy."""
    a, b = (torch.empty(2**31, dtype=torch.uint8, device="cuda") for _ in range(2))
    graph, _ = capture(lambda i: b.copy_(a), 4, stream)
    return 4 * 2 * 2**31 / statistics.median(interleaved([graph], 9)[0])


def interleaved(graphs, rounds):
    """Seconds of each graph, a list for each; the first round is dropped."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range((rounds + 1) * len(graphs) + 1)]
    events[0].record()
    for i, event in enumerate(events[1:]):
        graphs[i % len(graphs)].replay()
        event.record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:])]
    return [times[i::len(graphs)][1:] for i in range(len(graphs))]


def check(row, plan, inputs):
    out = empty_output(row).fill_(math.nan)
    plan.run(*inputs, out)
    error = worst_error(row, inputs, out)
    if not error <= 1 or not torch.isfinite(out).all():
        raise RuntimeError(f"{plan.configuration}: wrong result, {error:.3g} of the allowed error")


def compare(row, headroom, tune):
    gemv = Choice(headroom, row, "gemv_cuda")
    plans = [gemv, Choice(headroom, row, "gemm_cublaslt")]
    if tune:
        plans += [Choice(headroom, row, "gemv_cuda", i) for i in range(1, gemv.choices)]
    inputs = operands(row)
    for plan in plans:
        check(row, plan, inputs)
    weights = row["n"] * row["k"] * FORMATS[row["dtype"]][1].itemsize
    sets = [inputs] + [operands(row) for _ in range(min(127, L2_BYTES // weights))]
    count = max(len(sets), math.ceil(TURN_S / (bytes_of(row) / 4e12 + 1e-6)))
    outputs = [empty_output(row) for _ in range(count)]
    graphs = [capture(lambda i, p=p: p.run(*sets[i % len(sets)], outputs[i]), count, headroom.stream)[0] for p in plans]
    theirs, kept = capture(lambda i: run_torch(row, *sets[i % len(sets)]), count, headroom.stream)
    times = interleaved(graphs + [theirs], ROUNDS)
    del kept
    medians = [statistics.median(each) * 1e9 / count for each in times]
    own = [0] + list(range(2, len(plans)))
    best = min(own, key=lambda i: medians[i])
    result = dict(row, gemv_ns=round(medians[0]), cublaslt_ns=round(medians[1]), torch_ns=round(medians[-1]),
                  ratio_cublaslt=statistics.median(a / b for a, b in zip(times[0], times[1])),
                  ratio_torch=statistics.median(a / b for a, b in zip(times[0], times[-1])),
                  best_ns=round(medians[best]), configuration=gemv.configuration,
                  best_configuration=plans[best].configuration)
    for plan in plans:
        plan.free()
    return result


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--dtype", default="bf16", choices=list(FORMATS))
    parser.add_argument("--tokens", default="1,2,4,8")
    parser.add_argument("--only", default="", help="weights whose name contains this")
    parser.add_argument("--tune", action="store_true", help="time each tiling of gemv_cuda")
    parser.add_argument("--output", help="CSV file")
    return parser.parse_args()


def line(row, rate):
    row["share"] = bytes_of(row) / row["gemv_ns"] * 1e9 / rate
    text = "{weights:14} {m} x {n:>6} x {k:>5} {dtype} {gemv_ns:>8} {cublaslt_ns:>8} {torch_ns:>8} ns  " \
           "{ratio_cublaslt:.3f} {ratio_torch:.3f}  share {share:.3f}  best {best_ns:>8} ".format(**row)
    return text + (row["best_configuration"] if row["best_ns"] < 0.98 * row["gemv_ns"] else "")


def summarize(rows):
    for name in ("ratio_cublaslt", "ratio_torch"):
        for m in sorted({row["m"] for row in rows}):
            ratios = [row[name] for row in rows if row["m"] == m]
            print(f"m = {m}: {name} {statistics.geometric_mean(ratios):.3f} in the geometric mean, "
                  f"{min(ratios):.3f} to {max(ratios):.3f}")


def main():
    arguments, rows, wrong, begin = arguments_of(), [], 0, time.monotonic()
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    headroom = Headroom(arguments.library)
    with torch.cuda.stream(headroom.stream):
        rate = copy_rate(headroom.stream)
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: a copy moves {rate / 1e12:.3f} TB/s")
        print("weights        m x      n x     k            gemv cublaslt    torch     over cublaslt, torch")
        for name, (n, k) in WEIGHTS.items():
            for m in [int(text) for text in arguments.tokens.split(",") if arguments.only in name]:
                row = dict(linear(m, n, k, arguments.dtype), weights=name)
                try:
                    rows.append(compare(row, headroom, arguments.tune))
                    print(line(rows[-1], rate), flush=True)
                except (RuntimeError, torch.OutOfMemoryError) as problem:
                    wrong += 1
                    print(name, m, "FAILED:", problem, flush=True)
    summarize(rows)
    print(f"{time.monotonic() - begin:.0f} s")
    if arguments.output:
        with open(arguments.output, "w", newline="") as file:
            file.write(gemm_vs_torch.provenance())
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    sys.exit(1 if wrong or not rows else 0)


if __name__ == "__main__":
    main()
