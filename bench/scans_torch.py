#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the recurrent mixers' kernels that are in use, on a CUDA GPU: Mamba-2's chunked scan and its state update (mamba_ssm's Triton
kernels), gated delta nets, lightning attention and the short convolution (flash-linear-attention's).

    scans_torch.py --output scans.csv [--kinds ssd,delta,lightning,convolution] [--compile]

Operands rotate through more than twice the L2, calls are replayed as CUDA graphs, times are medians. The first shape of each kind is
compared with the recurrence token by token in float64. --compile only compiles the kernels' configurations.
"""
import argparse
import csv
import datetime
import os
import statistics
import sys
import time
import traceback

COLUMNS = ["kind", "phase", "batch", "seq", "heads", "head_dim", "state", "groups", "chunk", "measured_ns", "low_ns", "high_ns", "sets",
           "error", "clock_mhz"]
# of models: Codestral Mamba 7B and Nemotron-H, Granite 4.0 H, Mamba-2 2.7B, Zamba2; Qwen3-Next, Qwen3.5; MiniMax-01
SSD = [(128, 64, 128, 8, 256), (128, 64, 128, 1, 256), (80, 64, 128, 1, 256), (112, 64, 64, 2, 256), (128, 64, 128, 8, 128)]
DELTA = [(32, 128, 128, 16, 64), (48, 128, 128, 16, 64), (16, 128, 128, 16, 64)]
LIGHTNING = [(64, 128, 128, 64, 64)]
CHANNELS = [10240, 8192, 5376]
TOKENS = [(4, 2048), (1, 2048), (1, 512), (8, 4096), (1, 16384)]
BATCHES = [1, 16, 128]


def shapes(kinds):
    for kind, list_ in (("ssd", SSD), ("delta", DELTA), ("lightning", LIGHTNING)):
        for n, (heads, dim, state, groups, chunk) in enumerate(list_):
            for batch, seq in TOKENS[:5 if n == 0 else 2] if kind in kinds else []:
                yield kind, "prefill", batch, seq, heads, dim, state, groups, chunk
            for batch in BATCHES if kind in kinds and n == 0 else []:
                yield kind, "decode", batch, 1, heads, dim, state, groups, chunk
    for n, channels in enumerate(CHANNELS):
        for batch, seq in TOKENS[:5 if n == 0 else 2] if "convolution" in kinds else []:
            yield "convolution", "prefill", batch, seq, channels, 1, 4, 1, 0


def operands(torch, shape):
    kind, phase, b, s, h, p, n, g, _ = shape
    u = lambda *size, dtype=torch.bfloat16: torch.empty(size, device="cuda", dtype=dtype).uniform_(-1, 1)
    if kind == "convolution":
        return u(b, s, h), u(h, n)
    if kind == "ssd" and phase == "decode":
        return u(b, h, p, n, dtype=torch.float32), u(b, h, p), u(b, h), -torch.rand(h, device="cuda"), u(b, g, n), u(b, g, n)
    if kind == "ssd":
        return u(b, s, h, p), u(b, s, h).abs() * 0.1, -torch.rand(h, device="cuda"), u(b, s, g, n), u(b, s, g, n)
    norm = lambda t: torch.nn.functional.normalize(t.float(), dim=-1).to(t.dtype)
    q, k, v = norm(u(b, s, g, n)), norm(u(b, s, g, n)), u(b, s, h, p)
    state = [u(b, h, n, p, dtype=torch.float32)] if phase == "decode" else []
    if kind == "lightning":
        return [q, k, v] + state
    return [q, k, v, -torch.rand(b, s, h, device="cuda") * 0.1, torch.rand(b, s, h, device="cuda").to(torch.bfloat16)] + state


def call_of(shape):
    kind, phase, _, _, h, _, _, _, chunk = shape
    if kind == "ssd" and phase == "decode":
        import torch
        from mamba_ssm.ops.triton.selective_state_update import selective_state_update

        def update(state, x, dt, a, b, c):
            p, n = state.shape[2:]
            bias = torch.zeros(state.shape[1], device="cuda")[:, None].expand(-1, p)
            return selective_state_update(state, x, dt[..., None].expand(-1, -1, p), a[:, None, None].expand(-1, p, n), b, c,
                                          dt_bias=bias)

        return update
    if kind == "ssd":
        from mamba_ssm.ops.triton.ssd_combined import _mamba_chunk_scan_combined_fwd
        return lambda x, dt, a, b, c: _mamba_chunk_scan_combined_fwd(x, dt, a, b, c, chunk)[0]
    if kind == "delta":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
        if phase == "decode":
            return lambda q, k, v, g, beta, s: fused_recurrent_gated_delta_rule(q, k, v, g=g, beta=beta, initial_state=s,
                                                                                output_final_state=True)[0]
        return lambda q, k, v, g, beta: chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True)[0]
    if kind == "lightning":
        from fla.ops.lightning_attn import chunk_lightning_attn, fused_recurrent_lightning_attn
        if phase == "decode":
            return lambda q, k, v, s: fused_recurrent_lightning_attn(q, k, v, 10, 80, initial_state=s, output_final_state=True)[0]
        return lambda q, k, v: chunk_lightning_attn(q, k, v, 10, 80, output_final_state=True)[0]
    from fla.modules.causal_conv1d import causal_conv1d

    def convolve(x, w):
        y = causal_conv1d(x, w, activation="silu")
        return y[0] if isinstance(y, tuple) else y

    return convolve


def reference(torch, shape, ops):
    """The recurrence in float64, over the first tokens of the first sequence."""
    kind, _, _, _, h, p, n, g, _ = shape
    count = 48
    x = [t.double() for t in ops]
    if kind == "convolution":
        padded = torch.nn.functional.pad(x[0][:1, :count].transpose(1, 2), (n - 1, 0))
        y = torch.nn.functional.conv1d(padded, x[1][:, None], groups=h).transpose(1, 2)
        return torch.nn.functional.silu(y)[0]
    state, out = torch.zeros(h, n, p, device="cuda", dtype=torch.float64), []
    for t in range(count):
        if kind == "ssd":
            v, dt, a = x[0][0, t], x[1][0, t], x[2]
            k, q = (y[0, t].repeat_interleave(h // g, 0) for y in x[3:5])
            state = state * torch.exp(dt * a)[:, None, None] + k[:, :, None] * (dt[:, None] * v)[:, None, :]
        else:
            q, k = (y[0, t].repeat_interleave(h // g, 0) for y in x[:2])
            v, q = x[2][0, t], q / n ** 0.5
            if kind == "delta":
                state = state * torch.exp(x[3][0, t])[:, None, None]
                v = x[4][0, t][:, None] * (v - (state * k[:, :, None]).sum(1))
            else:
                slopes = (8 / h * (1 - 10 / 80)) * torch.arange(h, device="cuda", dtype=torch.float64)
                state = state * torch.exp(-slopes)[:, None, None]
            state = state + k[:, :, None] * v[:, None, :]
        out.append((state * q[:, :, None]).sum(1))
    return torch.stack(out)


def clock(torch):
    try:
        return torch.cuda.clock_rate()
    except Exception:
        return 0


def measure(torch, shape, check):
    call, first = call_of(shape), operands(torch, shape)
    size = sum(t.numel() * t.element_size() for t in first)
    sets = [first] + [operands(torch, shape) for _ in range(min(24, -(-110_000_000 // size)))]
    out = call(*first)
    error = ""
    if check:
        want = reference(torch, shape, first)
        got = out[0, :want.shape[0]].double().reshape(want.shape)
        error = f"{float((got - want).norm() / want.norm()):.5f}"
    for ops in sets[:2]:
        call(*ops)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for ops in sets:
            call(*ops)
    begin, times = time.monotonic(), []
    while len(times) < 12 or (time.monotonic() - begin < 0.25 and len(times) < 60):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e6 / len(sets))
    times = sorted(times[len(times) // 4:])
    row = dict(zip(COLUMNS, shape))
    row.update(measured_ns=f"{statistics.median(times):.0f}", low_ns=f"{times[len(times) // 10]:.0f}",
               high_ns=f"{times[-1 - len(times) // 10]:.0f}", sets=len(sets), error=error, clock_mhz=clock(torch))
    del graph
    torch.cuda.empty_cache()
    return row


def quick_benchmarks(compile_alone):
    """Autotuning with short runs, or one run a configuration."""
    import triton
    from triton.runtime.autotuner import Autotuner

    def once(call, *_, quantiles=None, **__):
        call()
        return [1.0] * len(quantiles) if quantiles else 1.0

    def short(call, *_, quantiles=None, **__):
        return triton.testing.do_bench(call, warmup=2, rep=8, quantiles=quantiles)

    Autotuner.do_bench = property(lambda self: once if compile_alone else short)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="scans.csv")
    parser.add_argument("--kinds", default="ssd,delta,lightning,convolution")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    import torch
    end, checked = time.time() + arguments.seconds, set()
    quick_benchmarks(arguments.compile)
    torch.manual_seed(1)
    with open(arguments.output, "w", newline="") as out:
        import triton
        out.write(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}, {datetime.date.today()}; "
                  "bench/scans_torch.py\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for shape in shapes(arguments.kinds.split(",")):
            if time.time() > end:
                break
            try:
                if arguments.compile:
                    kind, phase, b, s, *rest = shape
                    call_of(shape)(*operands(torch, (kind, phase, min(b, 2), min(s, 512), *rest)))
                    print("compiled", *shape, f"{end - time.time():.0f} s left", flush=True)
                    continue
                row = measure(torch, shape, shape[1] == "prefill" and shape[0] not in checked)
                checked.add(shape[0])
                writer.writerow(row)
                out.flush()
                print(*row.values(), flush=True)
            except Exception:
                print("failed:", shape, traceback.format_exc()[-700:], flush=True)


if __name__ == "__main__":
    main()
