#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the gradients of Headroom's attention on a CUDA GPU with those of PyTorch's scaled_dot_product_attention,
backends cudnn and flash, and of FlashAttention-4 (fa4) where that is installed.

    attention_gpu_backward.py LIBHEADROOM [--modes interleaved,sustained] [--output FILE.csv] [--only NAME,…]
                              [--peers cudnn,flash,fa4] [--kernel NAME] [--deterministic] [--rounds N] [--hold]

A call is what autograd asks for: dQ, dK and dV from dO, with what the forward call kept; a peer's is
torch.autograd.grad(). Everything else is as in attention_gpu_vs_torch.py: one stream of one process, calls recorded as
graphs, interleaved turns and, sustained, each alone until clock and power have settled; but the operands are one set, so
that those of short calls may be in the L2. --hold waits for a line on standard input before the first timing, so that
several processes can compile at once. TFLOP/s are of the five products over the entries that are not masked. Errors are
norms of the difference from float64 over the norm of the gradient, the largest of dQ, dK and dV, of one group of query
heads.

Where a peer wants as many heads of K as of V, or of Q, it gets them repeated beforehand and its gradients have as many:
the sum over a group, which Headroom's call includes, is then not part of its time.

Exits with 1 where a result is wrong or a target is missed: of the best peer's time over Headroom's a geometric mean of
1.03 and none below 0.95, sustained a mean of 1.0; errors of at most 1.5 times the best peer's."""
import argparse
import csv
import ctypes
import math
import os
import sys
import time

import torch

import attention_gpu_peers as common
import attention_gpu_sustained as sustained
from attention_gpu_vs_torch import sample
from gemm_vs_torch import capture, median_interval, stream
from gpu_power import Meter, Nvml
from libheadroom import address_64, bindings, call as call_library, default

SETTLE_S, SAMPLE_S, TURNS_LEAST, TURN_S = 0.1, 0.25, 8, 1e-3
MEANS_LEAST, LEAST, ERRORS_MOST, WRONG = {"interleaved": 1.03, "sustained": 1.0}, 0.95, 1.5, 0.02
EXACT_ROWS = 1024  # of float64 weights at a time
CONTENDERS = ("headroom", "cudnn", "flash", "fa4")
COLUMNS = ["mode", "tier", "batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "causal", "dtype", "contender", "us",
           "tflops", "ratio", "low", "high", "error", "clock_mhz", "power_w", "tflop_j", "configuration"]


def grid():
    call = common.call
    marks = [call("long128", 16384, (16,) * 3, 128, 0), call("long128c", 16384, (16,) * 3, 128, 1),
             call("train128c", 2048, (16,) * 3, 128, 1), call("gqa128c", 4096, (32, 8, 8), 128, 1),
             call("long64", 16384, (32,) * 3, 64, 0), call("train64c", 2048, (32,) * 3, 64, 1),
             call("long256c", 16384, (8,) * 3, 256, 1), call("phi80c", 2048, (32,) * 3, 80, 1, batch=4)]
    short = [call("bert64", 512, (16,) * 3, 64, 0), call("short128c", 512, (16,) * 3, 128, 1),
             call("vit64", 197, (12,) * 3, 64, 0, batch=64), call("short256c", 512, (8,) * 3, 256, 1)]
    groups = [call("gqa64c", 8192, (32, 8, 8), 64, 1), call("mqa128c", 4096, (32, 1, 1), 128, 1),
              call("llama128c", 8192, (32, 8, 8), 128, 1), call("gqa128", 2048, (32, 8, 8), 128, 0)]
    diff = [call("equal128c", 4096, (32, 16, 16), 128, 1), call("diff128c", 4096, (32, 4, 16), 128, 1),
            call("diff64c", 8192, (32, 4, 16), 64, 1), call("half64_128c", 4096, (32, 16, 16), 64, 1, v_dim=128)]
    wide = [call("mla192c", 4096, (16,) * 3, 192, 1, v_dim=128), call("mla192", 8192, (16,) * 3, 192, 0, v_dim=128),
            call("wide96", 8192, (16,) * 3, 96, 0), call("train256c", 2048, (16,) * 3, 256, 1, batch=4)]
    return marks + short + groups + diff + wide


class Gradients:
    """Headroom's forward call, its gradients' plan, and their operands."""

    def __init__(self, headroom, row, kernel, deterministic):
        self.library, forward = headroom.library, headroom.plan(row)
        problem = default(self.library, bindings.hr_attention)
        options = default(self.library, bindings.hr_attention_backward)
        for name in ("batch", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim"):
            setattr(problem, name, row[name])
        problem.q_len = problem.kv_len = row["length"]
        problem.dtype, problem.mask = common.DTYPES[row["dtype"]][0], row["causal"]
        options.deterministic = deterministic
        self.forward, self.handle, flops = forward, ctypes.c_void_p(), ctypes.c_int64()
        call_library(self.library.hr_plan_attention_backward, headroom.device, ctypes.byref(problem),
                     ctypes.byref(options), kernel.encode() if kernel else None, ctypes.byref(self.handle))
        self.library.hr_attention_backward_flops(ctypes.byref(problem), ctypes.byref(flops))
        self.flops = flops.value
        self.configuration = (self.library.hr_plan_kernel(self.handle).decode() + ": " +
                              self.library.hr_plan_configuration(self.handle).decode())
        self.workspace = torch.zeros(self.library.hr_plan_workspace_bytes(self.handle) + 64, dtype=torch.uint8, device="cuda")

    def attend(self, row, q, k, v):
        """O and the log-sum-exp of the forward call."""
        o, lse = common.empty_output(row), torch.empty(row["batch"], row["q_heads"], row["length"], device="cuda")
        x = default(self.library, bindings.hr_attention_arguments)
        x.q, x.k, x.v, x.o, x.lse = (t.data_ptr() for t in (q, k, v, o, lse))
        call_library(self.library.hr_plan_run_attention, self.forward.handle, ctypes.byref(x),
                     self.forward.workspace.data_ptr() if self.forward.workspace is not None else None, stream())
        return o, lse

    def arguments(self, q, k, v, o, lse, d_o):
        x = default(self.library, bindings.hr_attention_backward_arguments)
        grads = [torch.full_like(t, math.nan) for t in (q, k, v)]
        x.q, x.k, x.v, x.o, x.lse, x.d_o = (t.data_ptr() for t in (q, k, v, o, lse, d_o))
        x.dq, x.dk, x.dv = (t.data_ptr() for t in grads)
        return x, grads

    def run(self, x):
        call_library(self.library.hr_plan_run_attention_backward, self.handle, ctypes.byref(x), address_64(self.workspace),
                     stream())


def differentiable(forward, row, inputs, d_o):
    """A peer's call with the fewest heads of K and V that it takes: a function, and its leaves; None if it refuses."""
    for heads in common.ways(row):
        leaves = [t.detach().clone().requires_grad_() for t in common.expressed(row, inputs, heads)]
        try:
            with torch.enable_grad():
                out = forward(row, *leaves)

            def run(out=out, leaves=leaves):
                return torch.autograd.grad(out, leaves, d_o, retain_graph=True)
            run()
            torch.cuda.synchronize()
            return run
        except Exception as refused:  # noqa: BLE001 compilers of kernels raise much
            print(f"  refused with {heads} heads: {str(refused)[:120]}", flush=True)
    return None


def exact(row, q, k, v, d_o):
    """float64 gradients of the query heads that share the first of the fewest heads of K or V, in the last sequence."""
    heads = row["q_heads"] // min(row["k_heads"], row["v_heads"])
    n_k, n_v = heads * row["k_heads"] // row["q_heads"], heads * row["v_heads"] // row["q_heads"]
    dq, dk, dv = [], *([torch.zeros(row["length"], row[dim], dtype=torch.double, device="cuda") for _ in range(n)]
                       for dim, n in (("qk_dim", n_k), ("v_dim", n_v)))
    scale, keys = row["qk_dim"] ** -0.5, torch.arange(row["length"], device="cuda")
    for h in range(heads):
        a, b, rows = h * n_k // heads, h * n_v // heads, []
        hq, hk, hv, hd = (t[-1, :, i].double() for t, i in ((q, h), (k, a), (v, b), (d_o, h)))
        for some in keys.split(EXACT_ROWS):
            p = hq[some] @ hk.T * scale
            if row["causal"]:
                p.masked_fill_(keys > some[:, None], -math.inf)
            p = p.softmax(-1)
            dv[b] += p.T @ hd[some]
            ds = hd[some] @ hv.T
            ds -= (ds * p).sum(-1, keepdim=True)
            ds *= p
            rows.append(ds @ hk * scale)
            dk[a] += ds.T @ hq[some] * scale
        dq.append(torch.cat(rows))
    return [torch.stack(t, 1) for t in (dq, dk, dv)]


def error(row, found, right):
    """Gradients of repeated heads are summed first."""
    worst = 0
    for mine, want, heads in zip(found, right, (row["q_heads"], row["k_heads"], row["v_heads"])):
        mine = mine[-1].double()
        mine = mine.view(row["length"], heads, -1, mine.shape[-1]).sum(2)[:, :want.shape[1]]
        worst = max(worst, ((mine - want).norm() / want.norm()).item())
    return math.inf if math.isnan(worst) else worst


def prepare(row, headroom, found, arguments):
    """Recorded calls of every contender: names, graphs, calls in a graph, errors, the plan; and what they refer to."""
    inputs, d_o = common.operands(row), common.empty_output(row).uniform_(-1, 1)
    plan = Gradients(headroom, row, arguments.kernel, arguments.deterministic)
    outputs = plan.attend(row, *inputs)
    x, grads = plan.arguments(*inputs, *outputs, d_o)
    plan.run(x)
    torch.cuda.synchronize()
    right = exact(row, *inputs, d_o)
    errors, runs = {"headroom": error(row, grads, right)}, {"headroom": lambda: plan.run(x)}
    for name, forward in found.items():
        run = differentiable(forward, row, inputs, d_o)
        off = error(row, run(), right) if run else math.inf
        if off <= WRONG:
            errors[name], runs[name] = off, run
        elif run:
            print(f"  {name} is wrong and left out: error {off:.2g}", flush=True)
    del right
    if errors["headroom"] > WRONG:
        raise RuntimeError(f"wrong result, error {errors['headroom']:.2g}")
    count = max(1, min(8, math.ceil(TURN_S / (plan.flops / 400e12))))
    graphs = [capture(lambda i, run=run: run(), count, headroom.stream) for run in runs.values()]
    return list(runs), graphs, count, errors, plan, (runs, inputs, outputs, grads, d_o)


def interleaved(graphs):
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample(graphs, 2)
    rounds, each, begin = [], max(2, min(50, int(30 / sum(settled[-1])))), time.monotonic()
    while len(rounds) < TURNS_LEAST or time.monotonic() - begin < SAMPLE_S:
        rounds += sample(graphs, each)
    return [[{"ms": ms} for ms in side] for side in zip(*rounds)]


def rows_of(row, mode, names, blocks, count, errors, plan):
    result = []
    for name, own in zip(names, blocks):
        low, ratio, high = median_interval([a["ms"] / b["ms"] for a, b in zip(own, blocks[0])])
        us = median_interval([b["ms"] for b in own])[1] * 1e3 / count
        power, clock = (sum(b.get(key, math.nan) for b in own) / len(own) for key in ("power_w", "clock_mhz"))
        result.append(dict(row, mode=mode, contender=name, us=f"{us:.1f}", tflops=f"{plan.flops / us * 1e-6:.1f}", ratio=f"{ratio:.4f}",
                           low=f"{low:.4f}", high=f"{high:.4f}", error=f"{errors[name]:.2e}",
                           clock_mhz=sustained.digits(clock, 0), power_w=sustained.digits(power, 1),
                           tflop_j=sustained.digits(power * us * 1e-6 / (plan.flops * 1e-12), 4),
                           configuration=plan.configuration if name == "headroom" else ""))
    return result


def summarize(calls, mode, wrong):
    """calls: a list of contenders' rows each. Whether the targets are met."""
    best, errors = [], []
    for rows in calls:
        if len(rows) > 1:
            best.append(min(float(r["ratio"]) for r in rows[1:]))
            errors.append(float(rows[0]["error"]) / min(float(r["error"]) for r in rows[1:]))
    for name in CONTENDERS[1:]:
        own = [float(r["ratio"]) for rows in calls for r in rows if r["contender"] == name]
        if own:
            print("{:6} over Headroom's time {:.3f} in the geometric mean of {}, least {:.3f}".format(
                name, common.mean_of(own)[0], len(own), min(own)))
    geometric, least = common.mean_of(best)
    print(f"{len(calls)} calls, {mode}: the best peer's time over Headroom's is {geometric:.3f} in the geometric mean, least "
          f"{least:.3f}; errors at most {max(errors, default=math.nan):.2f} of the best peer's; {wrong} failed")
    return not wrong and geometric >= MEANS_LEAST[mode] and least >= LEAST and max(errors, default=0) <= ERRORS_MOST


def time_call(row, headroom, found, arguments, meter):
    """The rows of a call, a list for each mode."""
    names, graphs, count, errors, plan, kept = prepare(row, headroom, found, arguments)
    if arguments.hold:
        print("ready", flush=True)
        input()
        arguments.hold = False
    result = []
    for mode in arguments.modes:
        blocks = sustained.take_turns(graphs, meter, arguments.rounds) if mode == "sustained" else interleaved(graphs)
        result.append(rows_of(row, mode, names, blocks, count, errors, plan))
        print(common.label(row), f"{mode}:", "; ".join(
            f"{r['contender']} {r['us']} us {r['tflops']} ({r['ratio']}) {r['power_w']} W, error {r['error']}"
            for r in result[-1]), flush=True)
    del kept
    return result


def run(rows, headroom, found, arguments):
    calls, wrong, meter = [], 0, Meter(Nvml())
    with open(arguments.output or os.devnull, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        file.write(common.provenance(f"{' and '.join(arguments.modes)}, bench/attention_gpu_backward.py"))
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            try:
                calls.append(time_call(row, headroom, found, arguments, meter))
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                wrong += 1
                print(common.label(row), "FAILED:", str(problem)[:300], flush=True)
                continue
            for mode in calls[-1]:
                writer.writerows(mode)
            file.flush()
    met = [summarize([call[i] for call in calls], mode, wrong) for i, mode in enumerate(arguments.modes)]
    return all(met)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--modes", default="interleaved", help="interleaved, sustained: each alone, at its own power")
    parser.add_argument("--hold", action="store_true", help="wait for a line on standard input before the first timing")
    parser.add_argument("--output", help="CSV file")
    parser.add_argument("--only", metavar="NAME,…", help="only the calls of these names")
    parser.add_argument("--peers", default=",".join(CONTENDERS[1:]), metavar="NAME,…", help="with whom to compare (all)")
    parser.add_argument("--kernel", help="a kernel by name rather than the one that dispatch takes")
    parser.add_argument("--deterministic", action="store_true", help="Headroom adds in one order")
    parser.add_argument("--rounds", type=int, default=1, help="blocks of each contender, sustained (1)")
    arguments = parser.parse_args()
    arguments.modes, rows = arguments.modes.split(","), grid()
    only = arguments.only.split(",") if arguments.only else [row["tier"] for row in rows]
    unknown = {*only} - {row["tier"] for row in rows} | {*arguments.peers.split(",")} - {*CONTENDERS[1:], ""} | \
        {*arguments.modes} - {*MEANS_LEAST}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available():
        sys.exit("attention_gpu_backward.py: no CUDA GPU here")
    torch.cuda.init()
    headroom = common.Headroom(arguments.library, None)
    rows = [row for row in rows if row["tier"] in only]
    found = {name: peer.run for name, peer in common.peers(arguments.peers.split(","), rows).items()}
    sys.exit(0 if run(rows, headroom, found, arguments) else 1)


if __name__ == "__main__":
    main()
