#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the recurrent mixers' kernels that are in use, on a CUDA GPU.

    scans_torch.py --output scans.csv [--kinds selective,rg_lru,ssd,delta,lightning,convolution]
                   [--phases prefill,decode] [--compile]

Mamba-1's selective scan is mamba_ssm's CUDA extension; Mamba-2's chunked scan and the state updates of both are
mamba_ssm's Triton kernels; gated delta nets, lightning attention and the short convolution are
flash-linear-attention's. An RG-LRU has its gates as one kernel of torch.compile and flash-linear-attention's scan of
the same recurrence (chunk_hgrn); in decode all is one kernel of torch.compile.

Operands rotate through more than twice the L2, calls are replayed as CUDA graphs, times are medians. The first shape
of each kind and phase is compared with the recurrence token by token in float64. --compile only compiles the kernels'
configurations.
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
SSD += [(24, 64, 128, 1, 256)]  # Mamba-2 130M
DELTA = [(32, 128, 128, 16, 64), (48, 128, 128, 16, 64), (16, 128, 128, 16, 64)]
LIGHTNING = [(64, 128, 128, 64, 64)]
# channels and state: Mamba 2.8B, 130M, 370M, 790M, 1.4B, Falcon-Mamba 7B and Jamba
SELECTIVE = [(channels, 1, 16, 1, 0) for channels in (5120, 1536, 2048, 3072, 4096, 8192)]
RG_LRU = [(10, 256, 1, 0, 0), (16, 256, 1, 0, 0)]  # RecurrentGemma 2B, 9B
CHANNELS = [10240, 8192, 5376]
TOKENS = [(4, 2048), (1, 2048), (1, 512), (8, 4096), (1, 16384)]
SHORT = [(1, 1024), (16, 256), (1, 100)]
BATCHES = [1, 16, 128]
MORE_BATCHES = [4, 32, 64]
UPDATED = ["selective", "rg_lru", "ssd", "convolution"]  # kinds whose decode is compared with the recurrence


def shapes(kinds, phases):
    lists = {"selective": SELECTIVE, "rg_lru": RG_LRU, "ssd": SSD, "delta": DELTA, "lightning": LIGHTNING,
             "convolution": [(channels, 1, 4, 1, 0) for channels in CHANNELS]}
    for kind in kinds:
        recent = kind in ("selective", "rg_lru")
        for n, sizes in enumerate(lists[kind]):
            all_ = n == 0 or (recent and n == len(lists[kind]) - 1)
            tokens = TOKENS[:5 if all_ else 2] + (SHORT if recent and n == 0 else [])
            for batch, seq in tokens if "prefill" in phases else []:
                yield kind, "prefill", batch, seq, *sizes
            batches = BATCHES + (MORE_BATCHES if kind in UPDATED and n == 0 else [])
            for batch in batches if "decode" in phases and (n == 0 or kind in UPDATED) else []:
                yield kind, "decode", batch, 1, *sizes


def operands(torch, shape):
    kind, phase, b, s, h, p, n, g, _ = shape
    fp32 = torch.float32
    u = lambda *size, dtype=torch.bfloat16: torch.empty(size, device="cuda", dtype=dtype).uniform_(-1, 1)
    decays = lambda *size: -4 * torch.rand(size, device="cuda")
    if kind == "convolution":
        return (u(b, s, h), u(h, n)) + ((u(b, h, n),) if phase == "decode" else ())
    if kind == "selective" and phase == "decode":
        return (u(b, h, n, dtype=fp32), u(b, h), u(b, h) - 2, decays(h, n), u(b, n), u(b, n), u(h, dtype=fp32), u(b, h),
                u(h, dtype=fp32))
    if kind == "selective":
        return (u(b, h, s), u(b, h, s) - 2, decays(h, n), u(b, 1, n, s), u(b, 1, n, s), u(h, dtype=fp32), u(b, h, s),
                u(h, dtype=fp32))
    if kind == "rg_lru":
        tokens = (b,) if phase == "decode" else (b, s)
        state = (u(b, h * p, dtype=fp32),) if phase == "decode" else ()
        return tuple(u(*tokens, h * p) for _ in range(3)) + (u(h * p, dtype=fp32),) + state
    if kind == "ssd" and phase == "decode":
        wide = lambda t, *size: t.reshape(t.shape + (1,) * len(size)).expand(t.shape + size)
        return (u(b, h, p, n, dtype=fp32), u(b, h, p), wide(u(b, h) - 2, p), wide(decays(h), p, n), u(b, g, n),
                u(b, g, n), wide(u(h, dtype=fp32), p), wide(u(h, dtype=fp32), p))
    if kind == "ssd":
        return u(b, s, h, p), u(b, s, h).abs() * 0.1, -torch.rand(h, device="cuda"), u(b, s, g, n), u(b, s, g, n)
    norm = lambda t: torch.nn.functional.normalize(t.float(), dim=-1).to(t.dtype)
    q, k, v = norm(u(b, s, g, n)), norm(u(b, s, g, n)), u(b, s, h, p)
    state = [u(b, h, n, p, dtype=torch.float32)] if phase == "decode" else []
    if kind == "lightning":
        return [q, k, v] + state
    return [q, k, v, -torch.rand(b, s, h, device="cuda") * 0.1, torch.rand(b, s, h, device="cuda").to(torch.bfloat16)] + state


def gated(torch, x, gate, decay_gate, parameter):
    """An RG-LRU's input and the logarithm of its decay. Source: De et al. 2024 (arXiv 2402.19427), section 2.4."""
    log = -8 * torch.sigmoid(decay_gate.float()) * torch.nn.functional.softplus(parameter)
    return x.float() * torch.sigmoid(gate.float()) * torch.sqrt(1 - torch.exp(2 * log)), log


def rg_lru(phase):
    import torch

    def update(x, gate, decay_gate, parameter, state):
        scaled, log = gated(torch, x, gate, decay_gate, parameter)
        state.copy_(torch.exp(log) * state + scaled)
        return state.to(x.dtype)

    def inputs(x, gate, decay_gate, parameter):
        scaled, log = gated(torch, x, gate, decay_gate, parameter)
        return scaled.to(x.dtype), log

    torch._dynamo.config.recompile_limit = 64
    torch.compiler.reset()
    compiled = torch.compile(update if phase == "decode" else inputs, dynamic=False, fullgraph=True)
    if phase == "decode":
        return compiled
    from fla.ops.hgrn import chunk_hgrn
    return lambda *ops: chunk_hgrn(*compiled(*ops), output_final_state=True)[0]


def call_of(shape):
    kind, phase, _, _, h, _, _, _, chunk = shape
    if kind == "rg_lru":
        return rg_lru(phase)
    if kind == "selective" and phase == "prefill":
        import selective_scan_cuda
        return lambda *ops: selective_scan_cuda.fwd(*ops, True)[2].transpose(1, 2)
    if phase == "decode" and kind in ("ssd", "selective"):
        from mamba_ssm.ops.triton.selective_state_update import selective_state_update
        if kind == "ssd":  # a norm behind it multiplies by the gate
            return lambda *ops: selective_state_update(*ops[:7], None, ops[7], True)
        return lambda *ops: selective_state_update(*ops, True)
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
    if phase == "decode":
        from fla.modules.causal_conv1d.ops import causal_conv1d_update
        return lambda x, w, cache: causal_conv1d_update(x, cache, weight=w, activation="silu")[0]
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
    if kind == "selective":
        state, step = state[:, :, 0], torch.nn.functional.softplus(x[1][0, :, :count] + x[7][:, None])
    if kind == "rg_lru":
        scaled, log = recurrence_inputs(torch, *(y[0, :count] for y in ops[:3]), ops[3])
        state = state.reshape(-1)
    for t in range(count):
        if kind == "selective":
            v = x[0][0, :, t]
            state = state * torch.exp(step[:, t, None] * x[2]) + (step[:, t] * v)[:, None] * x[3][0, 0, :, t]
            out.append(((state * x[4][0, 0, :, t]).sum(1) + x[5] * v) * torch.nn.functional.silu(x[6][0, :, t]))
            continue
        if kind == "rg_lru":
            state = torch.exp(log[t]) * state + scaled[t]
            out.append(state)
            continue
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


def updated(torch, shape, ops):
    """One step of the recurrence in float64, from the states before it."""
    kind, _, _, _, h, p, n, g, _ = shape
    silu, softplus = torch.nn.functional.silu, torch.nn.functional.softplus
    if kind == "convolution":
        x, w, cache = (t.double() for t in ops)
        return silu((torch.cat([cache[:, :, 1:], x[:, 0, :, None]], 2) * w).sum(2))[:, None]
    if kind == "rg_lru":
        scaled, log = recurrence_inputs(torch, *ops[:4])
        return torch.exp(log) * ops[4].double() + scaled
    state, x, dt, a, b, c, d = (t.double() for t in ops[:7])
    if kind == "selective":
        state, x, dt, a, b, c, d = state[:, None], x[:, None], dt[:, None], a[None], b[:, None], c[:, None], d[None]
    step = softplus(dt + ops[-1].double())
    b, c = (t.repeat_interleave(state.shape[1] // t.shape[1], 1) for t in (b, c))
    state = state * torch.exp(step[..., None] * a) + (step * x)[..., None] * b[:, :, None]
    out = (state * c[:, :, None]).sum(-1) + d * x
    return out[:, 0] * silu(ops[7].double()) if kind == "selective" else out


def recurrence_inputs(torch, x, gate, decay_gate, parameter):
    """gated() in float64."""
    log = -8 * torch.sigmoid(decay_gate.double()) * torch.nn.functional.softplus(parameter.double())
    return x.double() * torch.sigmoid(gate.double()) * torch.sqrt(1 - torch.exp(2 * log)), log


def clock(torch):
    try:
        return torch.cuda.clock_rate()
    except Exception:
        return 0


def measure(torch, shape, check):
    call, first = call_of(shape), operands(torch, shape)
    size = sum(t.untyped_storage().nbytes() for t in first)
    sets = [first] + [operands(torch, shape) for _ in range(min(24, -(-110_000_000 // size)))]
    call(*sets[-1])  # compiles; an autotuned state update runs several times
    error = ""
    if check:
        decodes = shape[1] == "decode"
        want = updated(torch, shape, first) if decodes else reference(torch, shape, first)
        out = call(*first)
        got = (out if decodes else out[0, :want.shape[0]]).double().reshape(want.shape)
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
    parser.add_argument("--kinds", default="selective,rg_lru,ssd,delta,lightning,convolution")
    parser.add_argument("--phases", default="prefill,decode")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    import torch
    end, checked = time.time() + arguments.seconds, set()
    quick_benchmarks(arguments.compile)
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    with open(arguments.output, "w", newline="") as out:
        import triton
        out.write(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}, {datetime.date.today()}; "
                  "bench/scans_torch.py\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for shape in shapes(arguments.kinds.split(","), arguments.phases.split(",")):
            if time.time() > end:
                break
            try:
                if arguments.compile:
                    kind, phase, b, s, *rest = shape
                    small = shape if kind == "rg_lru" else (kind, phase, min(b, 2), min(s, 512), *rest)
                    call_of(shape)(*operands(torch, small))
                    print("compiled", *shape, f"{end - time.time():.0f} s left", flush=True)
                    continue
                first = shape[:2] not in checked and (shape[1] == "prefill" or shape[0] in UPDATED)
                row = measure(torch, shape, first)
                checked.add(shape[:2])
                writer.writerow(row)
                out.flush()
                print(*row.values(), flush=True)
            except Exception:
                print("failed:", shape, traceback.format_exc()[-700:], flush=True)


if __name__ == "__main__":
    main()
