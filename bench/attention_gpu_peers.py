# SPDX-License-Identifier: Apache-2.0
"""Attention calls on a CUDA GPU and who computes them: Headroom, PyTorch's backends, FlashInfer's FlashAttention-3,
FlashAttention-4.

Used by attention_gpu_vs_torch.py, attention_gpu_backward.py, attention_gpu_sustained.py and decode_gpu_vs_torch.py. All work on the same tensors,
[batch, length, heads, dim] in memory.
"""
import concurrent.futures
import ctypes
import datetime
import importlib.metadata
import math
import os
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gemm_vs_torch as common
from libheadroom import bindings, call as call_library, default

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 2048, 8192, 16384)
TURN_S = 4e-4
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
DTYPES = {"bf16": (bindings.HR_BF16, torch.bfloat16, 2.0**-8), "fp16": (bindings.HR_FP16, torch.float16, 2.0**-11)}


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


def named(quick):
    """Twelve calls, each a kind of work; their names are their tiers."""
    calls = [call("long128", 16384, (16,) * 3, 128, 0), call("long128c", 16384, (16,) * 3, 128, 1),
             call("train128c", 2048, (16,) * 3, 128, 1), call("long64", 16384, (32,) * 3, 64, 0),
             call("train64c", 2048, (32,) * 3, 64, 1), call("long256", 16384, (8,) * 3, 256, 0),
             call("train192c", 2048, (128,) * 3, 192, 1, batch=4), call("gqa128c", 8192, (32, 8, 8), 128, 1),
             call("short128c", 512, (16,) * 3, 128, 1), call("short256c", 512, (8,) * 3, 256, 1),
             call("bert", 128, (16,) * 3, 64, 0, batch=64), call("vit", 197, (12,) * 3, 64, 0, batch=64)]
    return calls[:3] + calls[-2:] if quick else calls


def short(quick):
    """Lengths of 64 to 512, also such that fill no tile; 0.2 to 31 Q tiles for each multiprocessor. Tiers are names."""
    shapes = [(64, 128, 16, 64, 0), (64, 128, 16, 64, 1), (64, 197, 12, 64, 0), (256, 64, 16, 64, 0), (32, 512, 32, 64, 0),
              (32, 512, 32, 64, 1), (16, 384, 16, 64, 0), (4, 512, 16, 64, 1), (16, 100, 16, 64, 1), (32, 257, 16, 80, 0),
              (16, 300, 32, 80, 1), (32, 512, 16, 128, 1), (32, 512, 16, 128, 0), (64, 256, 16, 128, 1), (64, 197, 12, 128, 0),
              (4, 512, 32, 128, 1), (1, 512, 32, 128, 1), (4, 300, 32, 128, 1), (16, 128, 32, 128, 1), (32, 512, 8, 256, 1),
              (32, 512, 8, 256, 0), (64, 197, 8, 256, 0), (4, 512, 16, 256, 1), (16, 128, 16, 256, 1)]
    return [call(f"{batch}x{length}x{heads}x{dim}{'c' if causal else ''}", length, (heads,) * 3, dim, causal, batch=batch)
            for batch, length, heads, dim, causal in (shapes[::3] if quick else shapes)]


GRIDS = {"peers": grid, "fig12": figure_12, "named": named, "short": short}


def label(row):
    return (f"{row['tier']:9} {row['batch']:>3} x {row['length']:>5}  {row['q_heads']:>2}/{row['k_heads']}/{row['v_heads']}"
            f" d {row['qk_dim']}/{row['v_dim']} {'causal' if row['causal'] else '      '} {row['dtype']}")


# ---- Headroom ----


class Headroom(common.Headroom):
    def __init__(self, path, kernel):
        super().__init__(path)
        self.kernel = kernel.encode() if kernel else None

    def plan(self, row):
        problem = default(self.library, bindings.hr_attention)
        for name in ("batch", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim"):
            setattr(problem, name, row[name])
        problem.q_len = problem.kv_len = row["length"]
        problem.dtype = bindings.HR_FP8_E4M3 if row["dtype"] == "fp8" else DTYPES[row["dtype"]][0]
        problem.mask = row["causal"]
        if row["dtype"] == "fp8":
            problem.output, problem.head_scales = bindings.HR_OUTPUT_BF16, True
        return Plan(self, problem)


class Plan(common.Plan):
    def __init__(self, headroom, problem):
        self.headroom, self.handle, self.workspace = headroom, ctypes.c_void_p(), None
        library, flops = headroom.library, ctypes.c_int64()
        begin = time.monotonic()
        call_library(library.hr_plan_attention, headroom.device, ctypes.byref(problem), headroom.kernel,
                     ctypes.byref(self.handle))
        self.seconds = time.monotonic() - begin
        library.hr_attention_flops(ctypes.byref(problem), ctypes.byref(flops))
        self.flops = flops.value
        self.kernel = library.hr_plan_kernel(self.handle).decode()
        self.configuration = library.hr_plan_configuration(self.handle).decode()
        bytes_needed = library.hr_plan_workspace_bytes(self.handle)
        if bytes_needed:
            self.workspace = torch.zeros(bytes_needed, dtype=torch.uint8, device="cuda")

    def run(self, q, k, v, o, scales=()):
        """`scales`: of the heads of Q, K and V, of fp8."""
        arguments = default(self.headroom.library, bindings.hr_attention_arguments)
        arguments.q, arguments.k, arguments.v, arguments.o = (t.data_ptr() for t in (q, k, v, o))
        if scales:
            arguments.q_scales, arguments.k_scales, arguments.v_scales = (t.data_ptr() for t in scales)
        workspace = self.workspace.data_ptr() if self.workspace is not None else None
        call_library(self.headroom.library.hr_plan_run_attention, self.handle, ctypes.byref(arguments), workspace,
                     common.stream())
        return o


# ---- operands ----


def operands(row):
    dtype = DTYPES[row["dtype"]][1]
    sizes = ((row["q_heads"], row["qk_dim"]), (row["k_heads"], row["qk_dim"]), (row["v_heads"], row["v_dim"]))
    return tuple(common.uniform(row["batch"], row["length"], *size, dtype=dtype) for size in sizes)


def cold_sets(row, inputs):
    """Sets of operands that together are twice the L2."""
    set_bytes = sum(t.numel() * t.element_size() for t in inputs)
    return [inputs] + [operands(row) for _ in range(common.L2_BYTES // set_bytes)]


def empty_output(row):
    return torch.empty(row["batch"], row["length"], row["q_heads"], row["v_dim"], device="cuda",
                       dtype=DTYPES[row["dtype"]][1])


def expressed(row, inputs, heads):
    q, k, v = inputs
    return q, *(t.repeat_interleave(heads // t.shape[2], 2) if t.shape[2] < heads else t for t in (k, v))


# ---- peers: run(row, q, k, v) returns O, and raises RuntimeError for what the peer refuses ----


def run_torch(backend, row, q, k, v):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                              is_causal=bool(row["causal"]),
                                              enable_gqa=k.shape[2] < q.shape[2]).transpose(1, 2)


class Torch:
    """A backend of scaled_dot_product_attention."""

    def __init__(self, backend):
        self.backend = backend

    def prepare(self, rows):
        pass

    def run(self, row, q, k, v):
        return run_torch(self.backend, row, q, k, v)


class FlashInfer:
    """FlashAttention-3 as FlashInfer has it: BatchPrefillWithRaggedKVCacheWrapper, backend fa3. Raises ImportError where
    it is not installed. nvcc compiles a kernel for each head size."""

    SIZES = ((64, 64), (128, 128), (192, 128), (256, 256))  # of Q and K, of V
    WORKSPACE_BYTES = 128 * 2**20

    def __init__(self):
        os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
        import flashinfer
        self.library, self.workspace, self.wrapped = flashinfer, None, (None, None)

    def prepare(self, rows):
        """Compiles the kernels of all rows at once."""
        from flashinfer.jit.attention import gen_batch_prefill_module
        kinds = {(DTYPES[row["dtype"]][1], row["qk_dim"], row["v_dim"]) for row in rows}
        modules = [gen_batch_prefill_module("fa3", dtype, dtype, dtype, torch.int32, qk_dim, v_dim, 0, False, False, False)
                   for dtype, qk_dim, v_dim in kinds if (qk_dim, v_dim) in self.SIZES]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda module: module.build_and_load(), modules))

    def wrapper(self, row, kv_heads):
        key = (tuple(row.values()), kv_heads)
        if self.wrapped[0] == key:
            return self.wrapped[1]
        if self.workspace is None:
            self.workspace = torch.empty(self.WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        wrapper = self.library.BatchPrefillWithRaggedKVCacheWrapper(self.workspace, "NHD", backend="fa3")
        offsets = torch.arange(row["batch"] + 1, dtype=torch.int32) * row["length"]
        dtype = DTYPES[row["dtype"]][1]
        wrapper.plan(offsets.cuda(), offsets.cuda(), row["q_heads"], kv_heads, row["qk_dim"], head_dim_vo=row["v_dim"],
                     causal=bool(row["causal"]), q_data_type=dtype, kv_data_type=dtype)
        torch.cuda.synchronize()
        self.wrapped = key, wrapper
        return wrapper

    def run(self, row, q, k, v):
        if (row["qk_dim"], row["v_dim"]) not in self.SIZES:
            raise RuntimeError("FlashInfer has no FlashAttention-3 for these head sizes")
        return self.wrapper(row, k.shape[2]).run(*(t.flatten(0, 1) for t in (q, k, v))).view(
            row["batch"], row["length"], row["q_heads"], row["v_dim"])


class FlashAttention4:
    """FlashAttention-4 (flash-attn-4), whose first call of a kind compiles for 10 to 20 s. Raises ImportError where it is
    not installed."""

    def __init__(self):
        from flash_attn.cute.interface import flash_attn_func
        self.function = flash_attn_func

    def prepare(self, rows):
        pass

    def run(self, row, q, k, v):
        out = self.function(q, k, v, causal=bool(row["causal"]))
        return out[0] if isinstance(out, tuple) else out


INSTALLED = {"fa3": FlashInfer, "fa4": FlashAttention4}
PEERS = [*BACKENDS, *INSTALLED]


def peers(names, rows):
    """The peers of these names that are installed, with the kernels that `rows` need."""
    found = {name: Torch(backend) for name, backend in BACKENDS.items() if name in names}
    for name, kind in INSTALLED.items():
        if name not in names or torch.cuda.get_device_capability() != (9, 0):
            continue
        try:
            found[name] = kind()
        except Exception as missing:  # noqa: BLE001 what their imports raise is of many kinds
            print(f"without {name}: {str(missing)[:200]}", flush=True)
    for name, peer in list(found.items()):
        begin = time.monotonic()
        peer.prepare(rows)
        if time.monotonic() - begin > 1:
            print(f"{name}: {time.monotonic() - begin:.0f} s to compile", flush=True)
    return found


def ways(row):
    """Numbers of heads that K and V may be repeated to for a peer; fewer than Q's need grouped queries."""
    most = max(row["k_heads"], row["v_heads"])
    return sorted({most, row["q_heads"]})


def quickest(peer, row, inputs):
    """The number of heads of K and V that is fastest, or None if the peer refuses all."""
    best, best_ms = None, math.inf
    for heads in ways(row):
        tensors = expressed(row, inputs, heads)
        try:
            peer.run(row, *tensors)
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(3):
                peer.run(row, *tensors)
            events[1].record()
            torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 compilers of kernels raise much
            continue
        if events[0].elapsed_time(events[1]) < best_ms:
            best, best_ms = heads, events[0].elapsed_time(events[1])
    return best


def able(found, row, inputs):
    """The peers that compute this call, with the heads of K and V that they want: {name: (peer, heads)}."""
    heads = {name: quickest(peer, row, inputs) for name, peer in found.items()}
    return {name: (found[name], heads[name]) for name in found if heads[name]}


# ---- correctness ----


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
    for name, (peer, heads) in theirs.items():
        errors[name] = worst_error(row, inputs, peer.run(row, *expressed(row, inputs, heads)))
    if max(errors.values()) > 1:
        raise RuntimeError(f"wrong result, in units of the allowed error: {errors}")
    return errors


def record(row, plan, theirs, sets, stream, turn_s=TURN_S, most=16):
    """A graph of each contender's calls, Headroom's first, and the number of calls in a graph."""
    count = max(len(sets), min(most, math.ceil(turn_s / (plan.flops / 500e12))))
    outputs = [empty_output(row) for _ in sets]
    graphs = [common.capture(lambda i: plan.run(*sets[i % len(sets)], outputs[i % len(sets)]), count, stream)]
    for name, (peer, heads) in theirs.items():
        tensors = [expressed(row, inputs, heads) for inputs in sets]
        graphs.append(common.capture(lambda i: peer.run(row, *tensors[i % len(sets)]), count, stream))
        outputs.append(tensors)
        check_graph(row, sets[0], name, *graphs[-1])
    return graphs, count, outputs


def check_graph(row, inputs, name, graph, results):
    """A peer that records on another stream leaves a graph without its calls, whose time says nothing."""
    results[0].fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    error = worst_error(row, inputs, results[0])
    if error > 1:
        raise RuntimeError(f"{name}'s recorded calls left a wrong result: {error:.3g} in units of the allowed error")


def provenance(how):
    versions = [f"{torch.cuda.get_device_name()}, driver {common.driver()}, CUDA {torch.version.cuda}, PyTorch "
                f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}"]
    for package, words in (("flashinfer-python", "FlashInfer {} (fa3)"), ("flash-attn-4", "FlashAttention-4 {} (fa4)")):
        try:
            versions.append(words.format(importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"# {', '.join(versions)}, {datetime.date.today()}; {how}\n"


def settle(seconds=3):
    """Works until the clock has settled."""
    hot, begin = common.uniform(8192, 8192, dtype=torch.bfloat16), time.monotonic()
    while time.monotonic() - begin < seconds:
        hot @ hot
        torch.cuda.synchronize()


def mean_of(ratios):
    """Geometric mean and least; NAN of nothing."""
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)) if ratios else (math.nan, math.nan)
