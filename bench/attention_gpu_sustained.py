# SPDX-License-Identifier: Apache-2.0
"""The sustained mode of attention_gpu_vs_torch.py: each contender alone, at its own power.

Interleaved contenders share one clock, and one that draws much power borrows what the others leave. Here blocks of one
contender follow blocks of another: 0.7 s until clock and power have settled, 0.8 s measured, in turn, so often. A
training run or a server is this case: at the power cap a call's time is its energy.
"""
import csv
import math
import os

import torch

import attention_gpu_peers as common
from gpu_power import Meter, Nvml, block

SETTLE_S, SAMPLE_S, TURN_S = 0.7, 0.8, 2e-3
MEAN_LEAST, LEAST = 1.02, 0.98  # of the best peer's time over Headroom's
COLUMNS = ["tier", "batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "causal", "dtype", "operands",
           "contender", "us", "tflops", "clock_mhz", "power_w", "call_j", "tflop_j", "ratio", "ratio_low", "ratio_high",
           "blocks", "error", "configuration"]


def take_turns(graphs, meter, rounds):
    """Blocks of every graph, in turn: a list per graph."""
    blocks = [[] for _ in graphs]
    for _ in range(rounds):
        for graph, own in zip(graphs, blocks):
            own.append(block(graph[0], meter, SETTLE_S, SAMPLE_S))
    return blocks


def mean(values):
    return sum(values) / len(values)


def digits(value, count):
    return "" if math.isnan(value) else f"{value:.{count}f}"


def contender_row(row, name, own, ours, plan, count, error, zeros):
    """`own`: this contender's blocks; `ours`: Headroom's of the same rounds."""
    us = mean([b["ms"] for b in own]) * 1e3 / count
    power, tflop = mean([b["power_w"] for b in own]), plan.flops * 1e-12
    ratios = [a["ms"] / b["ms"] for a, b in zip(own, ours)]
    return dict(row, contender=name, operands="zeros" if zeros else "uniform", us=f"{us:.1f}", tflops=f"{tflop / us * 1e6:.1f}",
                clock_mhz=digits(mean([b["clock_mhz"] for b in own]), 0), power_w=digits(power, 1),
                call_j=digits(power * us * 1e-6, 5), tflop_j=digits(power * us * 1e-6 / tflop, 4),
                ratio=f"{mean(ratios):.4f}", ratio_low=f"{min(ratios):.4f}", ratio_high=f"{max(ratios):.4f}",
                blocks=len(own), error=f"{error:.3g}", configuration=plan.configuration if name == "headroom" else "")


def compare(row, headroom, peers, meter, rounds, zeros):
    plan, inputs = headroom.plan(row), common.operands(row)
    theirs = common.able(peers, row, inputs)
    errors = common.check(row, plan, inputs, theirs)
    sets = common.cold_sets(row, inputs)
    graphs, count, kept = common.record(row, plan, theirs, sets, headroom.stream, TURN_S, 64)
    if zeros:
        for tensor in [t for group in (*sets, *(t for tensors in kept[len(sets):] for t in tensors)) for t in group]:
            tensor.zero_()
    blocks = take_turns(graphs, meter, rounds)
    del kept
    plan.free()
    return [contender_row(row, name, own, blocks[0], plan, count, errors[name], zeros)
            for name, own in zip(["headroom", *theirs], blocks)]


def shown(r):
    text = f"{r['contender']} {float(r['tflops']):.0f} at {r['clock_mhz'] or '?'} MHz {r['power_w'] or '?'} W {r['tflop_j'] or '?'} J/TFLOP"
    return text if r["contender"] == "headroom" else f"{text} ({r['ratio']})"


def summarize(calls, wrong):
    """calls: a list of contenders' rows each. Whether the target is met."""
    best = [min(float(r["ratio"]) for r in rows[1:]) for rows in calls if len(rows) > 1]
    for name in common.PEERS:
        ratios = [float(r["ratio"]) for rows in calls for r in rows if r["contender"] == name]
        if ratios:
            print("{:9} over Headroom's time {:.3f} in the geometric mean of {}, least {:.3f}".format(
                name, common.mean_of(ratios)[0], len(ratios), min(ratios)))
    geometric, least = common.mean_of(best)
    met = wrong == 0 and geometric >= MEAN_LEAST and least >= LEAST
    print(f"{len(calls)} calls, sustained: the best peer's time over Headroom's is {geometric:.3f} in the geometric mean, "
          f"least {least:.3f}; target {MEAN_LEAST} and {LEAST}: {'met' if met else 'not met'}; {wrong} failed")
    return met


def run(rows, headroom, peers, arguments):
    nvml = Nvml()
    meter, calls, wrong = Meter(nvml), [], 0
    with open(arguments.output or os.devnull, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        file.write(common.provenance(f"power limit {nvml.limit_w():.0f} W; each alone, {arguments.rounds} blocks of {SAMPLE_S} s "
                                     f"after {SETTLE_S} s, in turn, cold L2, bench/attention_gpu_vs_torch.py --sustained"))
        file.write("# errors are in units of the allowed error; ratios are a contender's time over Headroom's, low and "
                   "high of the rounds\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        common.settle()
        for row in rows:
            try:
                calls.append(compare(row, headroom, peers, meter, arguments.rounds, arguments.zeros))
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                wrong += 1
                print(common.label(row), "FAILED:", problem, flush=True)
                continue
            writer.writerows(calls[-1])
            file.flush()  # keeps the rows so far if the run is stopped
            print(common.label(row), "; ".join(map(shown, calls[-1])), flush=True)
    return summarize(calls, wrong)
