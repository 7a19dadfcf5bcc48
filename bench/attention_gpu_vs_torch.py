#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's attention on a CUDA GPU with PyTorch's scaled_dot_product_attention, backends cudnn and flash, and
with FlashAttention-3 (fa3) of FlashInfer and FlashAttention-4 (fa4) where they are installed.

    attention_gpu_vs_torch.py LIBHEADROOM [--sustained] [--output FILE.csv] [--quick] [--kernel NAME]
                              [--grid peers|fig12|named|short] [--peers cudnn,flash,fa3,fa4] [--only NAME,…] [--rounds N]
                              [--zeros]

Needs PyTorch and a shared libheadroom (docs/gpu.md says how to get one for a bare machine). All work on the same
tensors, [batch, length, heads, dim] in memory, in one stream of one process. Rows of all results are compared with
float64 first, and Headroom's output is poisoned before that. Calls are recorded as graphs over sets of tensors that
together are twice the L2, so that all operands are cold.

Interleaved, which is the default: A B C A B C, turns of about 0.4 ms. All share one clock. A peer's ratio, its time over
Headroom's, is computed per turn; its median is reported with a 95% confidence interval. This answers which kernel is
faster at the same clock, and what a call takes among other work.

--sustained: each alone until clock and power have settled, in blocks of 0.8 s, --rounds (2) of these in turn, with mean
clock, power and energy (NVML's counter). This answers what a program gets that runs nothing else for seconds: at the
power cap a call's time is its energy. --zeros uses zeros as operands, with which the cap does not bind.

The grid: 16384 tokens of hidden size 2048 with heads of 64, 128 and 256, causal and not; grouped queries (32 heads of Q, 8 of
K and V), DiffQKV (32 of Q, 4 of K, 16 of V), and 12 heads of 64 in batches of 4. Where a peer wants as many heads of K as
of V it gets K repeated beforehand, outside of the time, and enable_gqa or everything repeated, whichever is faster.
`--grid named`, the default of --sustained, has twelve calls (--only takes some of them by name); `--grid fig12` is the sweep
of that name, 128 heads over the hidden size (`headroom plot fig12 --peers` draws it); `--grid short` has 24 calls of 64 to
512 tokens.

Exits with 1 where a result is wrong, or a target is missed: interleaved over the first grid and the short one, geometric means
of 1.05 over the best peer and 1.4 over flash, and none below 1.0; sustained, a geometric mean over the best peer of 1.02, and none
below 0.98.
"""
import argparse
import csv
import os
import sys
import time

import torch

import attention_gpu_peers as common
import attention_gpu_sustained as sustained
from gemm_vs_torch import median_interval

SETTLE_S, SAMPLE_S, TURNS_LEAST = 0.1, 0.2, 12
BEST_MEAN_LEAST, BEST_LEAST, FLASH_MEAN_LEAST = 1.05, 1.0, 1.4
FIGURES = ("tflops", "ratio", "low", "high")
COLUMNS = ["tier", "batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "causal", "dtype", "kernel",
           "headroom_us", "headroom_tflops", *(f"{name}_{figure}" for name in common.PEERS for figure in FIGURES), "turns",
           "headroom_error", *(f"{name}_error" for name in common.PEERS), "configuration"]


def sample(graphs, rounds):
    """Times in ms of `rounds` rounds of turns, all submitted at once; the first round is a warm-up and is dropped."""
    n = len(graphs)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(n * (rounds + 1) + 1)]
    events[0].record()
    for i, event in enumerate(events[1:]):
        graphs[i % n][0].replay()
        event.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in zip(events, events[1:])]
    return [times[i:i + n] for i in range(n, len(times), n)]


def compare(row, headroom, peers):
    plan, inputs = headroom.plan(row), common.operands(row)
    theirs = common.able(peers, row, inputs)
    errors = common.check(row, plan, inputs, theirs)
    graphs, count, kept = common.record(row, plan, theirs, common.cold_sets(row, inputs), headroom.stream)
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample(graphs, 2)
    rounds, per_call, begin = [], max(2, min(50, int(30 / sum(settled[-1])))), time.monotonic()
    while len(rounds) < TURNS_LEAST or time.monotonic() - begin < SAMPLE_S:
        rounds += sample(graphs, per_call)
    medians = [median_interval(side)[1] for side in zip(*rounds)]
    result = dict(row, kernel=plan.kernel, configuration=plan.configuration, turns=len(rounds),
                  headroom_us=f"{medians[0] * 1e3 / count:.1f}",
                  headroom_tflops=f"{plan.flops * count / medians[0] * 1e-9:.1f}",
                  headroom_error=f"{errors['headroom']:.3g}")
    for i, name in enumerate(theirs, 1):
        low, ratio, high = median_interval([times[i] / times[0] for times in rounds])
        result |= {f"{name}_tflops": f"{plan.flops * count / medians[i] * 1e-9:.1f}", f"{name}_ratio": f"{ratio:.4f}",
                   f"{name}_low": f"{low:.4f}", f"{name}_high": f"{high:.4f}", f"{name}_error": f"{errors[name]:.3g}"}
    del kept
    plan.free()
    return result


def ratios(row):
    return {name: float(row[f"{name}_ratio"]) for name in common.PEERS if f"{name}_ratio" in row}


def summarize(rows, wrong, targets):
    for name in common.PEERS:
        own = [ratios(row)[name] for row in rows if name in ratios(row)]
        if own:
            print("{:9} over Headroom's time {:.3f} in the geometric mean of {}, least {:.3f}".format(
                name, common.mean_of(own)[0], len(own), min(own)))
    best, least = common.mean_of([min(ratios(row).values()) for row in rows if ratios(row)])
    flash = common.mean_of([ratios(row)["flash"] for row in rows if "flash" in ratios(row)])[0]
    print(f"{len(rows)} calls, interleaved: the best peer's time over Headroom's is {best:.3f} in the geometric mean, least "
          f"{least:.3f}; {wrong} failed")
    missed = best < BEST_MEAN_LEAST or least < BEST_LEAST or flash < FLASH_MEAN_LEAST  # NAN, without flash, misses nothing
    return wrong == 0 and not (targets and missed)


def run_interleaved(rows, headroom, peers, arguments):
    done, wrong = [], 0
    with open(arguments.output or os.devnull, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        file.write(common.provenance("interleaved turns, cold L2, bench/attention_gpu_vs_torch.py"))
        file.write("# errors are in units of the allowed error; ratios are a peer's time over Headroom's\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        common.settle()
        for row in rows:
            try:
                done.append(compare(row, headroom, peers))
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                wrong += 1
                print(common.label(row), "FAILED:", problem, flush=True)
                continue
            r = done[-1]
            writer.writerow(r)
            file.flush()  # keeps the rows so far if the run is stopped
            print(common.label(row), f"{r['headroom_us']:>8} us {r['headroom_tflops']:>6} TFLOP/s",
                  *(f" {name} {r[name + '_tflops']:>6} ({ratio:.4f})" for name, ratio in ratios(r).items()), flush=True)
    return summarize(done, wrong, arguments.grid in ("peers", "short"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--sustained", action="store_true", help="each contender alone, at its own power")
    parser.add_argument("--output", help="CSV file")
    parser.add_argument("--quick", action="store_true", help="part of the grid")
    parser.add_argument("--grid", choices=common.GRIDS, help="which calls (peers; named with --sustained)")
    parser.add_argument("--only", metavar="NAME,…", help="only the calls of these tiers or names")
    parser.add_argument("--peers", default=",".join(common.PEERS), metavar="NAME,…", help="with whom to compare (all)")
    parser.add_argument("--kernel", help="a kernel by name rather than the one that dispatch takes")
    parser.add_argument("--rounds", type=int, default=2, help="blocks of each contender, with --sustained (2)")
    parser.add_argument("--zeros", action="store_true", help="zeros as operands, with --sustained")
    arguments = parser.parse_args()
    arguments.grid = arguments.grid or ("named" if arguments.sustained else "peers")
    unknown = set(arguments.peers.split(",")) - {*common.PEERS, ""}
    if unknown:
        parser.error(f"--peers: there is no {', '.join(sorted(unknown))}; there are {', '.join(common.PEERS)}")
    if arguments.zeros and not arguments.sustained:
        parser.error("--zeros goes with --sustained")
    if arguments.rounds < 1:
        parser.error("--rounds: expected at least 1")
    rows, only = common.GRIDS[arguments.grid](arguments.quick), (arguments.only or "").split(",")
    tiers = list(dict.fromkeys(row["tier"] for row in rows))
    if arguments.only and set(only) - set(tiers):
        parser.error(f"--only: there is no {', '.join(sorted(set(only) - set(tiers)))}; there are {', '.join(tiers)}")
    return arguments, [row for row in rows if not arguments.only or row["tier"] in only]


def main():
    arguments, rows = parse()
    if not torch.cuda.is_available():
        sys.exit("attention_gpu_vs_torch.py: no CUDA GPU here")
    torch.cuda.init()
    headroom = common.Headroom(arguments.library, arguments.kernel)
    peers = common.peers(arguments.peers.split(","), rows)
    run = sustained.run if arguments.sustained else run_interleaved
    sys.exit(0 if run(rows, headroom, peers, arguments) else 1)


if __name__ == "__main__":
    main()
