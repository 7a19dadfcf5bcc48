#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's attention on a CUDA GPU with PyTorch's scaled_dot_product_attention, backends cudnn and flash.

    attention_gpu_vs_torch.py LIBHEADROOM [--output FILE.csv] [--quick] [--kernel NAME] [--grid peers|fig12]

Needs PyTorch and a shared libheadroom (docs/gpu.md says how to get one for a bare machine). All three work on the same
tensors, [batch, length, heads, dim] in memory, in one stream of one process, interleaved: A B C A B C. Each turn is a captured
graph of as many calls as take about 0.4 ms, over sets of tensors that together are twice the L2, so that all
operands are cold. A backend's ratio, its time over Headroom's, is computed per turn; its median is reported with a 95%
confidence interval. Before that, rows of all results are compared with float64, and Headroom's output is poisoned first.

The grid: 16384 tokens of hidden size 2048 with heads of 64, 128 and 256, causal and not; grouped queries (32 heads of Q, 8 of
K and V), DiffQKV (32 of Q, 4 of K, 16 of V), and 12 heads of 64 in batches of 4. Where PyTorch wants as many heads of K as
of V it gets K repeated beforehand, outside of the time, and enable_gqa or everything repeated, whichever is faster.
`--grid fig12` is the sweep of that name instead, 128 heads over the hidden size (`scripts/draw_sweeps.py --peers` draws it).

Exits with 1 where a result is wrong, and over the first grid where the geometric mean over cudnn is below 1.05 or one below
0.95, or the mean over flash below 1.4.
"""
import argparse
import csv
import ctypes
import datetime
import math
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gemm_vs_torch as common

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 2048, 8192, 16384)
TURN_S, SETTLE_S, SAMPLE_S, TURNS_LEAST = 4e-4, 0.1, 0.2, 12
CUDNN_MEAN_LEAST, CUDNN_LEAST, FLASH_MEAN_LEAST = 1.05, 0.95, 1.4
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
DTYPES = {"bf16": (4, torch.bfloat16, 2.0**-8), "fp16": (3, torch.float16, 2.0**-11)}
COLUMNS = ["tier", "batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "causal", "dtype", "kernel",
           "headroom_us", "headroom_tflops", "cudnn_tflops", "cudnn_ratio", "cudnn_low", "cudnn_high", "flash_tflops",
           "flash_ratio", "flash_low", "flash_high", "turns", "headroom_error", "cudnn_error", "flash_error",
           "configuration"]


def call(tier, length, heads, dim, causal, batch=None, v_dim=None, dtype="bf16"):
    return dict(tier=tier, batch=batch or TOKENS // length, length=length, q_heads=heads[0], k_heads=heads[1],
                v_heads=heads[2], qk_dim=dim, v_dim=v_dim or dim, causal=causal, dtype=dtype)


def grid(quick):
    lengths = (512, 2048, 16384) if quick else LENGTHS
    calls = [call("mha", s, (HIDDEN // d,) * 3, d, c) for d in (64, 128, 256) for s in lengths for c in (0, 1)]
    for s in (2048, 16384) if quick else LENGTHS:
        for c in (0, 1):
            calls.append(call("gqa", s, (32, 8, 8), 64, c))
            calls.append(call("diffqkv", s, (32, 4, 16), 64, c))
    seeds = (2048,) if quick else (2048, 4096, 8192, 16384)
    return calls + [call("seeds", s, (12, 12, 12), 64, 0, batch=4) for s in seeds]


def figure_12(quick):
    """The call of data/sweeps/flash-attention.json."""
    return [call("fig12", 2048, (128, 128, 128), d, 1, batch=4) for d in range(16 if quick else 8, 257, 16 if quick else 8)]


GRIDS = {"peers": grid, "fig12": figure_12}


class Strides(ctypes.Structure):  # hr_strides
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "row", "head")]


class Attention(ctypes.Structure):  # hr_attention
    _fields_ = [("struct_size", ctypes.c_size_t)] + \
        [(name, ctypes.c_int64) for name in ("batch", "q_len", "kv_len", "q_heads", "k_heads", "v_heads", "qk_dim",
                                             "v_dim")] + \
        [("dtype", ctypes.c_int), ("mask", ctypes.c_int), ("window", ctypes.c_int64), ("scale", ctypes.c_float),
         ("softcap", ctypes.c_float), ("alibi", ctypes.c_bool), ("variable_lengths", ctypes.c_bool),
         ("q_total", ctypes.c_int64), ("kv_total", ctypes.c_int64)] + \
        [(name, Strides) for name in ("q_strides", "k_strides", "v_strides", "o_strides")]


class Arguments(ctypes.Structure):  # hr_attention_arguments
    _fields_ = [("struct_size", ctypes.c_size_t)] + \
        [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "alibi_slopes", "q_offsets", "kv_offsets")]


class Headroom(common.Headroom):
    def __init__(self, path, kernel):
        super().__init__(path)
        library, address = self.library, ctypes.c_void_p
        self.kernel = kernel.encode() if kernel else None
        library.hr_attention_default.restype = Attention
        library.hr_attention_arguments_default.restype = Arguments
        library.hr_plan_kernel.restype, library.hr_plan_kernel.argtypes = ctypes.c_char_p, [address]
        library.hr_plan_attention.argtypes = [address, address, ctypes.c_char_p, address, address]
        library.hr_plan_run_attention.argtypes = [address] * 4
        library.hr_attention_flops.argtypes = [address, address]

    def plan(self, row):
        problem = self.library.hr_attention_default()
        assert problem.struct_size == ctypes.sizeof(Attention)
        for name in ("batch", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim"):
            setattr(problem, name, row[name])
        problem.q_len = problem.kv_len = row["length"]
        problem.dtype, problem.mask = DTYPES[row["dtype"]][0], row["causal"]
        return Plan(self, problem)


class Plan(common.Plan):
    def __init__(self, headroom, problem):
        self.headroom, self.handle, self.workspace = headroom, ctypes.c_void_p(), None
        library, flops = headroom.library, ctypes.c_int64()
        begin = time.monotonic()
        headroom.check(library.hr_plan_attention(headroom.device, ctypes.byref(problem), headroom.kernel,
                                                 ctypes.byref(self.handle), ctypes.byref(headroom.error)))
        self.seconds = time.monotonic() - begin
        library.hr_attention_flops(ctypes.byref(problem), ctypes.byref(flops))
        self.flops = flops.value
        self.kernel = library.hr_plan_kernel(self.handle).decode()
        self.configuration = library.hr_plan_configuration(self.handle).decode()
        bytes_needed = library.hr_plan_workspace_bytes(self.handle)
        if bytes_needed:
            self.workspace = torch.empty(bytes_needed, dtype=torch.uint8, device="cuda")

    def run(self, q, k, v, o):
        arguments = self.headroom.library.hr_attention_arguments_default()
        arguments.q, arguments.k, arguments.v, arguments.o = (t.data_ptr() for t in (q, k, v, o))
        workspace = self.workspace.data_ptr() if self.workspace is not None else None
        self.headroom.check(self.headroom.library.hr_plan_run_attention(
            self.handle, ctypes.byref(arguments), workspace, ctypes.byref(self.headroom.error)))
        return o


def operands(row):
    dtype = DTYPES[row["dtype"]][1]
    sizes = ((row["q_heads"], row["qk_dim"]), (row["k_heads"], row["qk_dim"]), (row["v_heads"], row["v_dim"]))
    return tuple(common.uniform(row["batch"], row["length"], *size, dtype=dtype) for size in sizes)


def empty_output(row):
    return torch.empty(row["batch"], row["length"], row["q_heads"], row["v_dim"], device="cuda",
                       dtype=DTYPES[row["dtype"]][1])


def ways(row):
    """Numbers of heads that K and V may be repeated to for PyTorch; fewer than Q's need enable_gqa."""
    most = max(row["k_heads"], row["v_heads"])
    return sorted({most, row["q_heads"]})


def expressed(row, inputs, heads):
    q, k, v = inputs
    return q, *(t.repeat_interleave(heads // t.shape[2], 2) if t.shape[2] < heads else t for t in (k, v))


def run_torch(backend, row, q, k, v):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                              is_causal=bool(row["causal"]),
                                              enable_gqa=k.shape[2] < q.shape[2]).transpose(1, 2)


def quickest(backend, row, inputs):
    """The fastest variant, or None if the backend refuses all."""
    best, best_ms = None, math.inf
    for heads in ways(row):
        tensors = expressed(row, inputs, heads)
        try:
            run_torch(backend, row, *tensors)
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(3):
                run_torch(backend, row, *tensors)
            events[1].record()
            torch.cuda.synchronize()
        except RuntimeError:
            continue
        if events[0].elapsed_time(events[1]) < best_ms:
            best, best_ms = heads, events[0].elapsed_time(events[1])
    return best


def worst_error(row, inputs, out):
    """Largest error of some queries of all heads, in units of the allowed error: two roundings of the result's magnitude."""
    q, k, v = (t[-1].double() for t in inputs)
    at = torch.randint(0, row["length"], (6,), device="cuda")
    at[0], at[1] = 0, row["length"] - 1
    k, v = (t.repeat_interleave(row["q_heads"] // t.shape[1], 1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q[at], k) / math.sqrt(row["qk_dim"])
    if row["causal"]:
        scores.masked_fill_(torch.arange(row["length"], device="cuda") > at[:, None], -math.inf)
    weights = scores.softmax(-1)
    exact, size = (torch.einsum("hqk,khd->qhd", weights, t) for t in (v, v.abs()))
    error = ((out[-1][at].double() - exact).abs() / (2 * DTYPES[row["dtype"]][2] * size)).max().item()
    return math.inf if math.isnan(error) else error


def check(row, plan, inputs, theirs):
    ours = plan.run(*inputs, empty_output(row).fill_(math.nan))
    if not torch.isfinite(ours).all():
        raise RuntimeError("Headroom left elements unwritten")
    errors = {"headroom": worst_error(row, inputs, ours)}
    for name, heads in theirs.items():
        errors[name] = worst_error(row, inputs, run_torch(BACKENDS[name], row, *expressed(row, inputs, heads)))
    if max(errors.values()) > 1:
        raise RuntimeError(f"wrong result, in units of the allowed error: {errors}")
    return errors


def record(row, plan, theirs, sets, stream):
    """A graph of each contender's calls, and the number of calls in a graph."""
    count = max(len(sets), min(16, math.ceil(TURN_S / (plan.flops / 500e12))))
    outputs = [empty_output(row) for _ in sets]
    graphs = [common.capture(lambda i: plan.run(*sets[i % len(sets)], outputs[i % len(sets)]), count, stream)]
    for name, heads in theirs.items():
        tensors = [expressed(row, inputs, heads) for inputs in sets]
        graphs.append(common.capture(lambda i: run_torch(BACKENDS[name], row, *tensors[i % len(sets)]), count, stream))
        outputs.append(tensors)
    return graphs, count, outputs


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


def compare(row, headroom):
    plan, inputs = headroom.plan(row), operands(row)
    theirs = {name: quickest(backend, row, inputs) for name, backend in BACKENDS.items()}
    theirs = {name: heads for name, heads in theirs.items() if heads}
    errors = check(row, plan, inputs, theirs)
    set_bytes = sum(t.numel() * t.element_size() for t in inputs)
    sets = [inputs] + [operands(row) for _ in range(common.L2_BYTES // set_bytes)]
    graphs, count, kept = record(row, plan, theirs, sets, headroom.stream)
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample(graphs, 2)
    rounds, per_call, begin = [], max(2, min(50, int(30 / sum(settled[-1])))), time.monotonic()
    while len(rounds) < TURNS_LEAST or time.monotonic() - begin < SAMPLE_S:
        rounds += sample(graphs, per_call)
    medians = [common.median_interval(side)[1] for side in zip(*rounds)]
    result = dict(row, kernel=plan.kernel, configuration=plan.configuration, turns=len(rounds),
                  headroom_us=f"{medians[0] * 1e3 / count:.1f}",
                  headroom_tflops=f"{plan.flops * count / medians[0] * 1e-9:.1f}",
                  headroom_error=f"{errors['headroom']:.3g}")
    for i, name in enumerate(theirs, 1):
        low, ratio, high = common.median_interval([times[i] / times[0] for times in rounds])
        result |= {f"{name}_tflops": f"{plan.flops * count / medians[i] * 1e-9:.1f}", f"{name}_ratio": f"{ratio:.4f}",
                   f"{name}_low": f"{low:.4f}", f"{name}_high": f"{high:.4f}", f"{name}_error": f"{errors[name]:.3g}"}
    del kept
    plan.free()
    return result


def label(row):
    return (f"{row['tier']:8} {row['batch']:>3} x {row['length']:>5}  {row['q_heads']:>2}/{row['k_heads']}/{row['v_heads']}"
            f" d {row['qk_dim']}/{row['v_dim']} {'causal' if row['causal'] else '      '} {row['dtype']}")


def provenance():
    return (f"# {torch.cuda.get_device_name()}, driver {common.driver()}, CUDA {torch.version.cuda}, PyTorch "
            f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {datetime.date.today()}; interleaved turns, cold "
            "L2, bench/attention_gpu_vs_torch.py\n"
            "# errors are in units of the allowed error; ratios are PyTorch's time over Headroom's\n")


def mean_of(rows, column):
    ratios = [float(row[column]) for row in rows if column in row]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)) if ratios else (math.nan, math.nan)


def summarize(rows, wrong, targets):
    cudnn, cudnn_least = mean_of(rows, "cudnn_ratio")
    flash, flash_least = mean_of(rows, "flash_ratio")
    print(f"{len(rows)} calls: over Headroom's time cudnn's is {cudnn:.3f} in the geometric mean, least {cudnn_least:.3f}; "
          f"flash's {flash:.3f}, least {flash_least:.3f}; {wrong} failed")
    met = cudnn >= CUDNN_MEAN_LEAST and cudnn_least >= CUDNN_LEAST and flash >= FLASH_MEAN_LEAST
    return wrong == 0 and (met or not targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--output", default=os.devnull, help="CSV file")
    parser.add_argument("--quick", action="store_true", help="part of the grid")
    parser.add_argument("--grid", choices=GRIDS, default="peers", help="which calls (peers)")
    parser.add_argument("--kernel", help="a kernel by name rather than the one that dispatch takes")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("attention_gpu_vs_torch.py: no CUDA GPU here")
    torch.cuda.init()
    headroom = Headroom(arguments.library, arguments.kernel)
    rows, wrong = [], 0
    with open(arguments.output, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        file.write(provenance())
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        hot, begin = common.uniform(8192, 8192, dtype=torch.bfloat16), time.monotonic()
        while time.monotonic() - begin < 3:  # until the clock has settled
            hot @ hot
            torch.cuda.synchronize()
        for row in GRIDS[arguments.grid](arguments.quick):
            try:
                rows.append(compare(row, headroom))
                r = rows[-1]
                writer.writerow(r)
                file.flush()  # keeps the rows so far if the run is stopped
                print(label(row), f"{r['headroom_us']:>8} us {r['headroom_tflops']:>6} TFLOP/s",
                      *(f" {name} {r[name + '_tflops']:>6} ({r[name + '_ratio']})" for name in BACKENDS
                        if name + "_ratio" in r), flush=True)
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                wrong += 1
                print(label(row), "FAILED:", problem, flush=True)
    sys.exit(0 if summarize(rows, wrong, arguments.grid == "peers") else 1)


if __name__ == "__main__":
    main()
