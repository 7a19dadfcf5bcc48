#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's attention of fp8 (E4M3) operands on a Hopper GPU with its own in bf16, and with fp8 of
FlashAttention-3 (FlashInfer's single_prefill_with_kv_cache, backend fa3, where it is installed) and of cuDNN
(nvidia-cudnn-frontend, where that is installed).

    attention_gpu_fp8.py LIBHEADROOM [--output FILE.csv] [--only NAME,…] [--peers bf16,fa3,cudnn]

Q, K and V are uniform in [-1, 1], times another factor for each head, and rounded to E4M3 with a scale per head, their largest value
over 448; cuDNN has one scale for all heads, and so gets the numbers of another rounding. O is bf16, of cuDNN E4M3, too. bf16 gets the
values that the fp8 numbers stand for. Errors are those of some rows of all heads against float64 over the very operands of each
contender: root mean square, over that of the exact result, so that rounding P and O, and the sums of Tensor Cores, are what they
hold. Interleaved as in attention_gpu_vs_torch.py: turns of 0.4 ms, cold L2, ratios per turn, with a 95% interval.

Exits with 1 where an error exceeds that of rounding P to E4M3 (4% in the root mean square, bf16 0.6%), or Headroom is
below 1.4 times its bf16 at 1 × 16384, 16 heads of 128 without a mask.
"""
import argparse
import csv
import math
import os
import sys
import time

import torch

import attention_gpu_peers as common
from attention_gpu_vs_torch import sample
from gemm_vs_torch import median_interval

E4M3, LARGEST = torch.float8_e4m3fn, 448.0
SETTLE_S, SAMPLE_S, TURNS_LEAST, TURN_S = 0.1, 0.2, 12, 4e-4
ERROR_MOST = {"bf16": 0.006, "cudnn": 0.06}
FP8_ERROR_MOST, OVER_BF16_LEAST = 0.04, 1.4
PEERS = ("bf16", "fa3", "cudnn")
FIGURES = ("us", "tflops", "ratio", "low", "high", "error")
COLUMNS = ["tier", "batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "causal", "kernel", "headroom_us",
           "headroom_tflops", "headroom_error", *(f"{name}_{figure}" for name in PEERS for figure in FIGURES), "turns",
           "configuration"]


def calls():
    return [common.call(tier, length, heads, dim, causal, dtype="fp8") for tier, length, heads, dim, causal in (
        ("long128", 16384, (16,) * 3, 128, 0), ("long128c", 16384, (16,) * 3, 128, 1), ("train128", 2048, (16,) * 3, 128, 0),
        ("train128c", 2048, (16,) * 3, 128, 1), ("gqa128c", 8192, (32, 8, 8), 128, 1), ("long64", 16384, (32,) * 3, 64, 0),
        ("long64c", 16384, (32,) * 3, 64, 1), ("train64c", 2048, (32,) * 3, 64, 1), ("long256", 16384, (8,) * 3, 256, 0),
        ("long256c", 16384, (8,) * 3, 256, 1), ("train256c", 2048, (8,) * 3, 256, 1))]


# ---- operands ----


def quantized(values, per_head):
    """E4M3 numbers and the scales of heads, of [batch, length, heads, dim]."""
    largest = values.abs().amax((0, 1, 3)) if per_head else values.abs().amax().expand(values.shape[2])
    scales = (largest / LARGEST).float().contiguous()
    return (values / scales[:, None]).to(E4M3), scales


def meant(numbers, scales):
    """The values that numbers stand for, in float64."""
    return numbers.double() * scales.double()[:, None]


def make_values(row):
    sizes = ((row["q_heads"], row["qk_dim"]), (row["k_heads"], row["qk_dim"]), (row["v_heads"], row["v_dim"]))
    shape = (row["batch"], row["length"])
    return [torch.empty(*shape, *size, device="cuda").uniform_(-1, 1) * torch.empty(size[0], 1, device="cuda").uniform_(0.5, 1.5)
            for size in sizes]


# ---- contenders: make(row, values) gives operands, run(row, operands) O, meant(operands) the values that they stand for ----


class Headroom:
    def __init__(self, headroom):
        self.headroom, self.plans = headroom, {}

    def plan(self, row):
        key = tuple(row.values())
        if key not in self.plans:
            self.plans[key] = self.headroom.plan(row)
        return self.plans[key]

    def make(self, row, values):
        numbers, scales = zip(*(quantized(v, True) for v in values))
        return numbers, scales, torch.full((row["batch"], row["length"], row["q_heads"], row["v_dim"]), math.nan, device="cuda",
                                           dtype=torch.bfloat16)

    def run(self, row, operands):
        numbers, scales, out = operands
        return self.plan(row).run(*numbers, out, scales)

    def meant(self, operands):
        return [meant(n, s) for n, s in zip(*operands[:2])]

    def result(self, operands, out):
        return out.double()


class Bf16(Headroom):
    def make(self, row, values):
        numbers = [meant(*quantized(v, True)).bfloat16() for v in values]
        return numbers, None, torch.full((row["batch"], row["length"], row["q_heads"], row["v_dim"]), math.nan, device="cuda",
                                         dtype=torch.bfloat16)

    def run(self, row, operands):
        return self.plan(dict(row, dtype="bf16")).run(*operands[0], operands[2])

    def meant(self, operands):
        return [n.double() for n in operands[0]]


class FlashInfer(Headroom):
    """One sequence, equal head sizes."""

    def __init__(self):
        os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
        import flashinfer
        self.library = flashinfer

    def run(self, row, operands):
        (q, k, v), scales, _ = operands
        if row["batch"] != 1:
            raise RuntimeError("one sequence")
        return self.library.single_prefill_with_kv_cache(
            q[0], k[0], v[0], causal=bool(row["causal"]), o_dtype=torch.bfloat16, backend="fa3", scale_q=scales[0],
            scale_k=scales[1], scale_v=scales[2])[None]


class Cudnn(Headroom):
    """One scale for all heads; O in E4M3 as well, as cuDNN on Hopper has it, scaled so that its largest is 256."""

    def __init__(self):
        import cudnn
        self.library, self.handle, self.graphs = cudnn, cudnn.create_handle(), {}

    def make(self, row, values):
        numbers, scales = zip(*(quantized(v, False) for v in values))
        out = torch.zeros(row["batch"], row["length"], row["q_heads"], row["v_dim"], device="cuda", dtype=E4M3)
        extra = [torch.full((1, 1, 1, 1), x, device="cuda") for x in (1 / 256, 256.0, 1.0, 0.0, 0.0)]  # P times 256: the format's range
        made = numbers, scales, out, [s[:1].clone().view(1, 1, 1, 1) for s in scales], extra
        self.run(row, made)
        extra[2].copy_(256 / extra[4].clamp_min(1e-6))  # scale of O, from its largest magnitude
        return made

    def result(self, operands, out):
        return out.double() / operands[4][2].item()

    def build(self, row, operands):
        cudnn, types = self.library, self.library.data_type
        graph = cudnn.pygraph(io_data_type=types.FP8_E4M3, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT,
                              handle=self.handle)

        def tensor(t, of):
            b, s, h, d = t.shape
            return graph.tensor(dim=(b, h, s, d), stride=(s * h * d, d, h * d, 1), data_type=of)

        def one():
            return graph.tensor(dim=(1, 1, 1, 1), stride=(1, 1, 1, 1), data_type=types.FLOAT)

        (q, k, v), out = operands[0], operands[2]
        inputs = [tensor(t, types.FP8_E4M3) for t in (q, k, v)] + [one() for _ in range(6)]
        o, _, amax_s, amax_o = graph.sdpa_fp8(
            q=inputs[0], k=inputs[1], v=inputs[2], descale_q=inputs[3], descale_k=inputs[4], descale_v=inputs[5],
            descale_s=inputs[6], scale_s=inputs[7], scale_o=inputs[8], is_inference=True,
            attn_scale=1 / math.sqrt(row["qk_dim"]), use_causal_mask=bool(row["causal"]))
        b, s, h, d = out.shape
        o.set_output(True).set_dim((b, h, s, d)).set_stride((s * h * d, d, h * d, 1)).set_data_type(types.FP8_E4M3)
        for amax in (amax_s, amax_o):
            amax.set_output(True).set_dim((1, 1, 1, 1)).set_stride((1, 1, 1, 1)).set_data_type(types.FLOAT)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
        return graph, inputs, o, amax_s, amax_o, workspace

    def run(self, row, operands):
        key = tuple(row.values())
        if key not in self.graphs:
            try:
                self.graphs[key] = self.build(row, operands)
            except Exception as refused:  # cudnnGraphNotSupportedError and others
                self.graphs[key] = None
                print(f"cudnn: {str(refused)[:300]}", flush=True)
        if self.graphs[key] is None:
            raise RuntimeError("cuDNN refuses")
        graph, inputs, o, amax_s, amax_o, workspace = self.graphs[key]
        numbers, _, out, descales, extra = operands
        given = dict(zip(inputs, [n.view(torch.uint8) for n in numbers] + descales + extra[:3]))
        given |= {o: out.view(torch.uint8), amax_s: extra[3], amax_o: extra[4]}
        try:
            self.library.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
            graph.execute(given, workspace, handle=self.handle)
        except Exception as refused:
            raise RuntimeError(str(refused)) from refused
        return out


def contenders(headroom, names):
    found = {"headroom": Headroom(headroom)}
    for name, kind in (("bf16", lambda: Bf16(headroom)), ("fa3", FlashInfer), ("cudnn", Cudnn)):
        try:
            if name in names:
                found[name] = kind()
        except (ImportError, OSError, RuntimeError) as missing:
            print(f"without {name}: {missing}", flush=True)
    return found


# ---- correctness and time ----


def error_of(row, values, out):
    """Of rows 0 and the last, and four others, of all heads of the last sequence."""
    q, k, v = (t[-1] for t in values)
    at = torch.randint(0, row["length"], (6,), device="cuda")
    at[0], at[1] = 0, row["length"] - 1
    k, v = (t.repeat_interleave(row["q_heads"] // t.shape[1], 1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q[at], k) / math.sqrt(row["qk_dim"])
    if row["causal"]:
        scores.masked_fill_(torch.arange(row["length"], device="cuda") > at[:, None], -math.inf)
    exact = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)
    rms = (out[-1][at] - exact).square().mean((1, 2)).sqrt() / exact.square().mean((1, 2)).sqrt()
    if rms.max() > 0.1:
        print("errors of rows", at.tolist(), [f"{x:.3g}" for x in rms.tolist()], flush=True)
    return math.inf if rms.isnan().any() else rms.max().item()


def able(row, found, values):
    """The contenders that compute this call, their operands, and their errors."""
    operands, errors = {}, {}
    for name, one in found.items():
        try:
            made = one.make(row, values)
            out = one.run(row, made)
        except (RuntimeError, AssertionError) as refused:
            if name == "headroom":
                raise
            print(f"{name} refuses {common.label(row)}: {str(refused)[:200]}", flush=True)
            continue
        torch.cuda.synchronize()
        errors[name] = error_of(row, one.meant(made), one.result(made, out))
        if errors[name] > ERROR_MOST.get(name, FP8_ERROR_MOST):
            message = f"{name} is off by {errors[name]:.3g} of the result"
            if name == "headroom":
                raise RuntimeError(message)
            print(message, flush=True)
        operands[name] = made
    return operands, errors


def compare(row, found, stream):
    values = make_values(row)
    operands, errors = able(row, found, values)
    plan = found["headroom"].plan(row)
    set_bytes = sum(t.numel() for t in operands["headroom"][0])
    sets = 1 + common.common.L2_BYTES // set_bytes
    count = max(sets, min(16, math.ceil(TURN_S / (plan.flops / 900e12))))
    graphs = []
    for name in operands:
        made = [operands[name]] + [found[name].make(row, make_values(row)) for _ in range(sets - 1)]
        graphs.append(common.common.capture(lambda i: found[name].run(row, made[i % sets]), count, stream) + (made,))
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample(graphs, 2)
    rounds, per_call, begin = [], max(2, min(50, int(30 / sum(settled[-1])))), time.monotonic()
    while len(rounds) < TURNS_LEAST or time.monotonic() - begin < SAMPLE_S:
        rounds += sample(graphs, per_call)
    result = dict({name: row[name] for name in COLUMNS[:9]}, kernel=plan.kernel, turns=len(rounds), configuration=plan.configuration)
    for i, name in enumerate(operands):
        ms = median_interval([times[i] for times in rounds])[1] / count
        result |= {f"{name}_us": f"{ms * 1e3:.1f}", f"{name}_tflops": f"{plan.flops / ms * 1e-9:.1f}",
                   f"{name}_error": f"{errors[name]:.4f}"}
        if i > 0:
            low, ratio, high = median_interval([times[i] / times[0] for times in rounds])
            result |= {f"{name}_ratio": f"{ratio:.4f}", f"{name}_low": f"{low:.4f}", f"{name}_high": f"{high:.4f}"}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--output", default=os.devnull, help="CSV file")
    parser.add_argument("--only", help="only the calls of these names")
    parser.add_argument("--peers", default=",".join(PEERS), help="with whom to compare (all)")
    arguments = parser.parse_args()
    torch.cuda.init()
    headroom = common.Headroom(arguments.library, None)
    found, failed, over_bf16 = contenders(headroom, arguments.peers.split(",")), 0, math.inf
    with open(arguments.output, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        file.write(common.provenance("interleaved turns, cold L2, bench/attention_gpu_fp8.py"))
        file.write("# errors are root mean squares over that of the exact result of the same operands; ratios are a contender's time "
                   "over that of Headroom's fp8\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        common.settle()
        for row in calls():
            if arguments.only and row["tier"] not in arguments.only.split(","):
                continue
            try:
                r = compare(row, found, headroom.stream)
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                failed += 1
                print(common.label(row), "FAILED:", str(problem)[:300], flush=True)
                continue
            writer.writerow(r)
            file.flush()
            if row["tier"] == "long128":
                over_bf16 = float(r.get("bf16_ratio", "inf"))
            print(common.label(row), f"{r['headroom_us']:>8} us {r['headroom_tflops']:>6} TFLOP/s, error {r['headroom_error']}",
                  *(f"; {n} {r[n + '_tflops']} ({r[n + '_ratio']}, error {r[n + '_error']})" for n in PEERS if n + "_us" in r),
                  flush=True)
    sys.exit(0 if failed == 0 and over_bf16 >= OVER_BF16_LEAST else 1)


if __name__ == "__main__":
    main()
