#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's attention on the CPU with PyTorch's scaled_dot_product_attention.

    attention_cpu_vs_torch.py LIBHEADROOM [--threads N] [--dtype bf16|fp32] [--dims 64,128] [--lengths 512,1024]
                              [--masks all,causal] [--minutes M] [--pairs N] [--rates libceiling_rates.so]
                              [--backward] [--output FILE.csv] [--markdown]

Needs PyTorch (from PyPI) and a shared libheadroom. Both work on the same tensors [batch, heads, length, dim] in one
process with the same number of threads, interleaved (A B A B), each after a pause in which the other's threads stop spinning
(OpenMP's spin for some milliseconds and would occupy the cores). The ratio, PyTorch's time over Headroom's, is
computed per pair, and its median is reported. PyTorch gets K and V expanded to the query heads beforehand, untimed, or its
own enable_gqa, whichever is faster. Before that, rows of both results are compared with float64.

--backward times the gradients of Q, K and V instead: PyTorch's by autograd, of a forward call that is not timed. O and
the log-sum-exp that ours reads come from our own forward call. Rows of dQ, dK and dV are compared with float64.

The grid: head dim 64 and 128, lengths 512 to 4096, causal and not; heads 12 (dim 64) or 16 (dim 128), 32/8/8 and 32/4/16.

Two rates bound a kernel: GEMMs and exponentials. Both are the instruction ceilings that hr_device_probe() measures,
on as many threads: once at the beginning, or with --rates (a target of bench/CMakeLists.txt) before, amid and after the
pairs of each call, which is what a machine needs whose speed changes. Without instructions for bf16 the rate is that of fp32, to which kernels widen it. `sum` is the time of the GEMMs followed by the exponentials; a kernel that overlaps
them may beat it, and none beats the larger of the two, `either`. Causal FLOPs count unmasked scores only.

Exits with 1 where a result is wrong.
"""
import argparse
import csv
import ctypes
import datetime
import math
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from libheadroom import address_64, bindings, call, default, load, open_device

FORMATS = {"fp32": (bindings.HR_FP32, torch.float32, 2e-5), "bf16": (bindings.HR_BF16, torch.bfloat16, 2e-2)}
PAUSE_S = 0.012
COLUMNS = ["kernel", "dtype", "threads", "head_dim", "length", "causal", "q_heads", "k_heads", "v_heads", "headroom_ms",
           "torch_ms", "ratio", "pairs", "headroom_gflops", "torch_gflops", "of_sum_bound", "of_larger_bound",
           "torch_of_sum_bound", "gemm_gflops", "exponentials_g", "headroom_error", "torch_error"]


class Headroom:
    def __init__(self, path, threads):
        self.library = load(path)
        self.device = open_device(self.library, "cpu", threads)

    def ceilings(self, dtype):
        """GEMM rate in FLOP/s and exponentials per second."""
        hardware, ceiling = self.library.hr_hardware_create(), self.library.hr_hardware_ceiling
        call(self.library.hr_device_probe, self.device, None, None, hardware)
        gemms = [ceiling(hardware, bindings.HR_CEILING_GEMM, number) for number in (dtype, bindings.HR_FP32)]
        exponentials = ceiling(hardware, bindings.HR_CEILING_EXP, bindings.HR_FP32)
        self.library.hr_hardware_free(hardware)
        return [gemms[0] or gemms[1], exponentials]

    def rates_beside(self, path, dtype, threads):
        """A function that measures both now."""
        measure, rates = ctypes.CDLL(path).bench_ceiling_rates, (ctypes.c_double * 2)()

        def both():
            if measure(dtype, threads, rates) != 0:
                sys.exit(f"{path}: no rates")
            return list(rates)
        return both

    def attention(self, q, k, v, o, causal, dtype):
        a = default(self.library, bindings.hr_attention)
        a.batch, a.q_heads, a.q_len, a.qk_dim = q.shape
        a.kv_len, a.v_dim, a.k_heads, a.v_heads = k.shape[2], v.shape[3], k.shape[1], v.shape[1]
        a.dtype, a.mask = dtype, int(causal)
        for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
            batch, head, row, _ = tensor.stride()
            setattr(a, name + "_strides", bindings.hr_strides(batch, row, head))
        return a

    def plan(self, q, k, v, o, causal, dtype, kernel, lse=None):
        a, plan = self.attention(q, k, v, o, causal, dtype), ctypes.c_void_p()
        call(self.library.hr_plan_attention, self.device, ctypes.byref(a), kernel, ctypes.byref(plan))
        work = torch.empty(self.library.hr_plan_workspace_bytes(plan) + 64, dtype=torch.uint8)
        arguments = default(self.library, bindings.hr_attention_arguments)
        arguments.q, arguments.k, arguments.v, arguments.o = (x.data_ptr() for x in (q, k, v, o))
        arguments.lse = lse.data_ptr() if lse is not None else None

        def run(keep=(work, q, k, v, o, lse)):
            call(self.library.hr_plan_run_attention, plan, ctypes.byref(arguments), address_64(work), None)
        return plan, run

    def backward_plan(self, q, k, v, o, lse, d_o, gradients, causal, dtype, kernel):
        a, options = self.attention(q, k, v, o, causal, dtype), default(self.library, bindings.hr_attention_backward)
        operands = dict(q=q, k=k, v=v, o=o, lse=lse, d_o=d_o, dq=gradients[0], dk=gradients[1], dv=gradients[2])
        for name in ("dq", "dk", "dv", "d_o"):
            batch, head, row, _ = operands[name].stride()
            setattr(options, name.replace("_", "") + "_strides", bindings.hr_strides(batch, row, head))
        plan = ctypes.c_void_p()
        call(self.library.hr_plan_attention_backward, self.device, ctypes.byref(a), ctypes.byref(options), kernel,
             ctypes.byref(plan))
        work = torch.empty(self.library.hr_plan_workspace_bytes(plan) + 64, dtype=torch.uint8)
        arguments = default(self.library, bindings.hr_attention_backward_arguments)
        for name, tensor in operands.items():
            setattr(arguments, name, tensor.data_ptr())

        def run(keep=(work, operands)):
            call(self.library.hr_plan_run_attention_backward, plan, ctypes.byref(arguments), address_64(work), None)
        return plan, run


def error_of(found, q, k, v, causal, rows):
    """Largest difference from float64 in some rows, over the largest weighted mean of |v|."""
    worst, length = 0.0, q.shape[2]
    for i in range(rows):
        query, head = (i * 7919 + length - 1) % length, (i * 31) % q.shape[1]
        keys = query + 1 if causal else length
        kk = k[0, head * k.shape[1] // q.shape[1], :keys].double()
        vv = v[0, head * v.shape[1] // q.shape[1], :keys].double()
        weights = torch.softmax(kk @ q[0, head, query].double() / math.sqrt(q.shape[3]), 0)
        off = (found[0, head, query].double() - weights @ vv).abs().max() / (weights @ vv.abs()).max()
        worst = max(worst, float(off)) if math.isfinite(float(off)) else math.inf
    return worst


def off_by(found, factors, rows):
    """Largest difference from factors · rows in float64, over that sum of absolute values."""
    return float((found.double() - factors @ rows).abs().max() / (factors.abs() @ rows.abs()).max())


def gradient_errors(gradients, q, k, v, o, lse, d_o, causal, tokens):
    """The largest error of some rows, each time of dQ, dK and dV (None: not looked at)."""
    worst, length, scale = 0.0, q.shape[2], 1 / math.sqrt(q.shape[3])
    q, k, v, o, d_o, lse = (x[0].double() for x in (q, k, v, o, d_o, lse))
    delta, k_share, v_share = (o * d_o).sum(2), q.shape[0] // k.shape[0], q.shape[0] // v.shape[0]

    def scores(heads, queries, keys):  # P and dS of a query or of a key
        p, ds = [], []
        for h in heads:
            kk, vv, qq, dd = k[h // k_share, keys], v[h // v_share, keys], q[h, queries], d_o[h, queries]
            p.append(torch.exp(scale * (kk * qq).sum(1) - lse[h, queries]))
            ds.append(p[-1] * ((vv * dd).sum(1) - delta[h, queries]) * scale)
        return torch.cat(p), torch.cat(ds)
    for i in range(tokens):
        token, head = (i * 7919 + length - 1) % length, (i * 31) % q.shape[0]
        seen, seeing = slice(0, token + 1 if causal else length), slice(token if causal else 0, length)
        _, ds = scores([head], slice(token, token + 1), seen)
        worst = max(worst, off_by(gradients[0][0, head, token], ds, k[head // k_share, seen]))
        if gradients[1] is None:
            continue
        for gradient, share, rows, which in ((gradients[1], k_share, q, 1), (gradients[2], v_share, d_o, 0)):
            heads = range(head // share * share, (head // share + 1) * share)
            factors = scores(heads, seeing, slice(token, token + 1))[which]
            worst = max(worst, off_by(gradient[0, head // share, token], factors,
                                      torch.cat([rows[h, seeing] for h in heads])))
    return worst if math.isfinite(worst) else math.inf


def seconds(run):
    time.sleep(PAUSE_S)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def torch_forms(q, k, v, causal, out):
    """Functions for PyTorch's variants of these heads; each stores its result in out[0]."""
    wide_k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    wide_v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    def expanded():
        out[0] = F.scaled_dot_product_attention(q, wide_k, wide_v, is_causal=causal)

    def grouped():
        out[0] = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return [expanded] + ([grouped] if k.shape[1] == v.shape[1] != q.shape[1] else [])


def backward_forms(q, k, v, d_o, causal, out):
    """The same of its gradients. Those of expanded heads are not added up, which takes less time."""
    made, shares = [], (q.shape[1] // k.shape[1], q.shape[1] // v.shape[1])
    operands = [(q, k.repeat_interleave(shares[0], 1), v.repeat_interleave(shares[1], 1))]
    if shares[0] == shares[1] != 1:
        operands.append((q, k, v))
    for number, tensors in enumerate(operands):
        leaves = [x.detach().clone().requires_grad_() for x in tensors]
        with torch.enable_grad():
            o = F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=number > 0)

        def run(o=o, leaves=leaves):
            out[0] = torch.autograd.grad(o, leaves, d_o, retain_graph=True)
        made.append(run)
    return made


def forward_calls(headroom, options, q, k, v, causal):
    """Our plan and its run, PyTorch's forms, and a function for the errors of both."""
    o, out = torch.full_like(q, math.nan), [None]
    plan, ours = headroom.plan(q, k, v, o, causal, FORMATS[options.dtype][0], options.kernel)
    return plan, ours, torch_forms(q, k, v, causal, out), lambda: [
        error_of(x, q, k, v, causal, 24) for x in (o, out[0])]


def backward_calls(headroom, options, q, k, v, causal):
    number, out, d_o, o = FORMATS[options.dtype][0], [None], torch.randn_like(q), torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32)
    gradients = [torch.full_like(x, math.nan) for x in (q, k, v)]
    forward, run_forward = headroom.plan(q, k, v, o, causal, number, None, lse)
    run_forward()
    headroom.library.hr_plan_free(forward)
    plan, ours = headroom.backward_plan(q, k, v, o, lse, d_o, gradients, causal, number, options.kernel)
    return plan, ours, backward_forms(q, k, v, d_o, causal, out), lambda: [
        gradient_errors(x, q, k, v, o, lse, d_o, causal, 12) for x in (gradients, (out[0][0], None, None))]


def compare(headroom, options, rates, dim, length, causal, heads, budget_s):
    _, dtype, allowed = FORMATS[options.dtype]
    q_heads, k_heads, v_heads = heads
    q, k, v = (torch.randn(1, n, length, dim).to(dtype) for n in heads)
    calls = backward_calls if options.backward else forward_calls
    plan, ours, forms, errors_of_both = calls(headroom, options, q, k, v, causal)
    ours()
    for form in forms:
        form()
    theirs = min(forms, key=lambda form: min(seconds(form) for _ in range(3))) if len(forms) > 1 else forms[0]
    theirs()
    errors = errors_of_both()
    pairs, end, measured = [], time.perf_counter() + budget_s, [rates()]
    while len(pairs) < options.pairs or (time.perf_counter() < end and len(pairs) < 99):
        pairs.append((seconds(ours), seconds(theirs)))
        if len(pairs) % 4 == 0:
            measured.append(rates())
    measured.append(rates())
    own, other = (statistics.median(times) for times in zip(*pairs))
    entries = q_heads * (length * (length + 1) // 2 if causal else length * length)
    flops = (10 if options.backward else 4) * dim * entries  # of five products, or two
    products, exponentials = [statistics.median(rate) for rate in zip(*measured)]
    times = (flops / products, entries / exponentials)
    kernel = headroom.library.hr_plan_kernel(plan).decode()
    headroom.library.hr_plan_free(plan)
    row = dict(kernel=kernel, dtype=options.dtype, threads=options.threads, head_dim=dim, length=length, causal=int(causal),
               q_heads=q_heads, k_heads=k_heads, v_heads=v_heads, headroom_ms=own * 1e3, torch_ms=other * 1e3,
               ratio=statistics.median(b / a for a, b in pairs), pairs=len(pairs), headroom_gflops=flops / own * 1e-9,
               torch_gflops=flops / other * 1e-9, of_sum_bound=sum(times) / own, of_larger_bound=max(times) / own,
               torch_of_sum_bound=sum(times) / other, gemm_gflops=products * 1e-9, exponentials_g=exponentials * 1e-9,
               headroom_error=errors[0], torch_error=errors[1])
    return row, errors[0] <= allowed


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(x) for x in values))


def heads_of(row):
    return "/".join(str(row[name]) for name in ("q_heads", "k_heads", "v_heads"))


def show(row, markdown):
    causal = "causal" if row["causal"] else "all"
    cells = [str(row["head_dim"]), str(row["length"]), causal, heads_of(row), f"{row['headroom_ms']:.2f}",
             f"{row['torch_ms']:.2f}", f"{row['ratio']:.2f}", f"{row['headroom_gflops']:.0f}",
             f"{row['torch_gflops']:.0f}", f"{row['of_sum_bound']:.0%}", f"{row['of_larger_bound']:.0%}",
             f"{row['torch_of_sum_bound']:.0%}"]
    print("| " + " | ".join(cells) + " |" if markdown else " ".join(x.rjust(9) for x in cells), flush=True)


def summary(rows, options):
    gemms, exponentials = (statistics.median(row[name] for row in rows) for name in ("gemm_gflops", "exponentials_g"))
    print(f"\n{options.dtype}, {options.threads} threads, {rows[0]['kernel']}, PyTorch {torch.__version__}, "
          f"{datetime.date.today()}: GEMMs {gemms:.0f} GFLOP/s, exponentials {exponentials:.2f} G/s")
    ratios = [row["ratio"] for row in rows]
    print(f"times PyTorch's speed: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    long = [row["of_sum_bound"] for row in rows if row["head_dim"] == 128 and row["length"] >= 1024]
    if long:
        print(f"share of the sum bound at dim 128, length 1024 and up: {min(long):.0%} to {max(long):.0%}")
    for heads in sorted({heads_of(row) for row in rows}):
        speeds = [row["headroom_gflops"] for row in rows if heads_of(row) == heads]
        print(f"heads {heads}: {geometric_mean(speeds):.0f} GFLOP/s in the geometric mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", choices=FORMATS, default="bf16")
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--lengths", default="512,1024,2048,4096")
    parser.add_argument("--masks", default="all,causal")
    parser.add_argument("--backward", action="store_true", help="gradients instead of the forward call")
    parser.add_argument("--kernel", type=str.encode, help="a name of `headroom kernels`; default: the best")
    parser.add_argument("--minutes", type=float, default=5, help="for the whole grid, about")
    parser.add_argument("--pairs", type=int, default=5, help="at least, for each point")
    parser.add_argument("--rates", help="libceiling_rates.so, measures the bounds beside each call")
    parser.add_argument("--output", help="CSV")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    headroom = Headroom(options.library, options.threads)
    number = FORMATS[options.dtype][0]
    if options.rates:
        rates = headroom.rates_beside(options.rates, number, options.threads)
    else:
        once = headroom.ceilings(number)

        def rates():
            return once
    dims, lengths = ([int(x) for x in text.split(",")] for text in (options.dims, options.lengths))
    masks = [mask == "causal" for mask in options.masks.split(",")]
    points = [(dim, length, causal, heads) for dim in dims for length in lengths for causal in masks
              for heads in ((12 if dim == 64 else 16,) * 3, (32, 8, 8), (32, 4, 16))]
    rows, right = [], True
    with torch.no_grad(), open(options.output or os.devnull, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for point in points:
            row, good = compare(headroom, options, rates, *point, options.minutes * 60 / len(points))
            rows.append(row)
            writer.writerow({name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()})
            file.flush()  # a run may be cut off
            right = right and good
            show(row, options.markdown)
            if not good:
                print(f"wrong: off by {row['headroom_error']}")
    summary(rows, options)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
