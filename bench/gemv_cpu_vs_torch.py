#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares y = x Wᵀ of few tokens on the CPU, as in decoding: Headroom's GEMV, oneDNN through Headroom, and
torch.nn.functional.linear, beside a loop that reads the weights.

    gemv_cpu_vs_torch.py LIBHEADROOM [--threads N] [--dtype bf16|fp32] [--tokens 1,2,4,8] [--kernel NAME]
                         [--sizes 4096x4096,…] [--pairs N] [--cold MiB] [--output FILE.csv]

Needs PyTorch (from PyPI) and a shared libheadroom. All run in one process with the same number of threads. A turn is as
many calls as take about 10 ms, over copies of the weights that together have --cold MiB; turns are interleaved, each
after a pause in which the other's threads stop spinning. The loop is torch.dot() of the weights with themselves, as fp32.
Ratios are the other's time over Headroom's, and share the loop's over Headroom's: medians over rounds, and of the
shortest turns (on a machine that others use, too, these are what the kernels can do). Exits with 1 where a result is
wrong.
"""
import argparse
import csv
import ctypes
import datetime
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from libheadroom import address_64, bindings, call, default, load, open_device

FORMATS = {"fp32": (bindings.HR_FP32, torch.float32, 2e-6), "bf16": (bindings.HR_BF16, torch.bfloat16, 6e-3)}
PAUSE_S, TURN_S = 0.012, 0.01
SIZES = "768x768,3072x768,768x3072,50304x768,2048x2048,8192x2048,4096x4096,14336x4096"  # n × k
COLUMNS = ["dtype", "threads", "kernel", "m", "n", "k", "gemv_us", "onednn_us", "torch_us", "read_us", "ratio_onednn",
           "ratio_torch", "share", "best_onednn", "best_torch", "best_share", "pairs", "error"]


class Headroom:
    def __init__(self, path, threads):
        self.library = load(path)
        self.device = open_device(self.library, "cpu", threads)

    def plan(self, m, n, k, dtype, kernel):
        g = default(self.library, bindings.hr_gemm)
        g.m, g.n, g.k, g.dtype, g.transpose_b = m, n, k, dtype, True
        plan = ctypes.c_void_p()
        call(self.library.hr_plan_gemm, self.device, ctypes.byref(g), kernel, ctypes.byref(plan))
        work = torch.empty(self.library.hr_plan_workspace_bytes(plan) + 64, dtype=torch.uint8)
        arguments = default(self.library, bindings.hr_gemm_arguments)

        def run(x, w, y):
            arguments.a, arguments.b, arguments.c = x.data_ptr(), w.data_ptr(), y.data_ptr()
            call(self.library.hr_plan_run_gemm, plan, ctypes.byref(arguments), address_64(work), None)
        return plan, run


def turn(run, sets, first, calls):
    """Seconds of a call; the first one of the turn wakes the threads."""
    time.sleep(PAUSE_S)
    run(*sets[first % len(sets)])
    start = time.perf_counter()
    for i in range(calls):
        run(*sets[(first + 1 + i) % len(sets)])
    return (time.perf_counter() - start) / calls


def compare(headroom, options, m, n, k):
    number, dtype, allowed = FORMATS[options.dtype]
    size = n * k * dtype.itemsize
    x, y = torch.rand(m, k).sub(0.5).to(dtype), torch.full((m, n), math.nan, dtype=dtype)
    sets = [(x, torch.rand(n, k).sub(0.5).to(dtype), y)]
    while len(sets) < max(2, math.ceil(options.cold * 2**20 / size)):
        sets.append((x, sets[0][1].clone(), y))
    plan, ours = headroom.plan(m, n, k, number, options.kernel)
    _, library = headroom.plan(m, n, k, number, ("gemm_onednn_" + options.dtype).encode())
    ours(*sets[0])
    exact = x.double() @ sets[0][1].double().T
    error = float(((y.double() - exact).abs() / (x.double().abs() @ sets[0][1].double().abs().T)).max())
    flat = [(w.reshape(-1).view(torch.float32),) for _, w, _ in sets]
    runs = [(ours, sets), (library, sets), (lambda x, w, y: F.linear(x, w), sets), (lambda w: torch.dot(w, w), flat)]
    calls = [max(1, int(TURN_S / turn(run, over, 0, 2))) for run, over in runs]
    rounds = [[turn(run, over, 7 * i, count) for (run, over), count in zip(runs, calls)] for i in range(options.pairs)]
    medians, least = ([of(times) * 1e6 for times in zip(*rounds)] for of in (statistics.median, min))
    ratios = [statistics.median(times[i] / times[0] for times in rounds) for i in range(1, 4)]
    row = dict(dtype=options.dtype, threads=options.threads, kernel=headroom.library.hr_plan_kernel(plan).decode(), m=m,
               n=n, k=k, pairs=len(rounds), error=error if error == error else math.inf)
    row.update(zip(["gemv_us", "onednn_us", "torch_us", "read_us"], medians))
    row.update(zip(["ratio_onednn", "ratio_torch", "share"], ratios))
    row.update(zip(["best_onednn", "best_torch", "best_share"], [time / least[0] for time in least[1:]]))
    return row, error <= allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", choices=FORMATS, default="bf16")
    parser.add_argument("--tokens", default="1,2,4,8")
    parser.add_argument("--kernel", type=str.encode, help="a name of `headroom kernels`; default: the best")
    parser.add_argument("--sizes", default=SIZES, help="n x k of the weights")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--cold", type=int, default=512, help="MiB")
    parser.add_argument("--output", help="CSV")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    headroom, rows, right = Headroom(options.library, options.threads), [], True
    print(f"{options.dtype}, {options.threads} threads, PyTorch {torch.__version__}, {datetime.date.today()}")
    with torch.no_grad():
        for size in options.sizes.split(","):
            for m in map(int, options.tokens.split(",")):
                row, good = compare(headroom, options, m, *map(int, size.split("x")))
                rows.append(row)
                right = right and good
                print("{kernel} {m} x {n:>6} x {k:>5} {gemv_us:9.1f} {onednn_us:9.1f} {torch_us:9.1f} {read_us:9.1f} us  "
                      "over oneDNN {ratio_onednn:.2f} torch {ratio_torch:.2f} share {share:.2f}  best {best_onednn:.2f} "
                      "{best_torch:.2f} {best_share:.2f}".format(**row), "" if good else f"WRONG {row['error']}",
                      flush=True)
    if options.output:
        with open(options.output, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
