#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's decode attention on a CUDA GPU with PyTorch's scaled_dot_product_attention, backends cudnn and flash,
and, where it is installed, with FlashInfer.

    decode_gpu_vs_torch.py LIBHEADROOM [--output FILE.csv] [--quick | --latent | --batches | --groups] [--kernel NAME]

Needs PyTorch and a shared libheadroom (docs/gpu.md says how to get one for a bare machine). One token per sequence against
a cache of bf16, contiguous and in pages of 16 tokens in random order. All run in one stream of one process, interleaved:
A B C D A B C D. Each turn is a captured graph of as many calls as take about 1 ms, over sets of tensors that together are
four times the L2, so that all operands are cold. A contender's ratio, its time over Headroom's with a contiguous cache, is
computed per turn; its median is reported with a 95% confidence interval. Before that, rows of all results are compared with
float64, also those of the recorded calls, and outputs are poisoned first. Where PyTorch and FlashInfer want as many heads of K
as of V, they get them repeated beforehand, outside of the time.

FlashInfer reads the pages of 16 tokens (BatchDecodeWithPagedKVCacheWrapper), with and without Tensor Cores; the faster one is
recorded. Its plan is made outside of the time. nvcc compiles its kernels when they are first needed, which takes minutes.

--latent: latent attention (head sizes 576 and 512, one K head that V is part of) instead, in pages of 64 tokens. No backend of
scaled_dot_product_attention takes it, so the contenders are two batched GEMMs (torch.bmm) with a softmax between, in bf16, and
FlashInfer's BatchMLAPagedAttentionWrapper, backend fa3.

--batches: 40 query and 8 K and V heads of 128, 1 to 160 sequences of 4096 keys. --groups: 5 to 128 query heads of a K head.

The bound is the bytes of K, V, Q and O at the rate at which this GPU reads 4 GiB in the same run, or for latent attention the
FLOPs at the rate of a GEMM of 8192^3 in the same run, whichever takes longer. Exits with 1 where a result is wrong.
"""
import argparse
import concurrent.futures
import csv
import ctypes
import datetime
import math
import os
import sys
import time

import torch
import torch.nn.functional as F

import attention_gpu_peers as attention
from attention_gpu_vs_torch import sample
import gemm_vs_torch as common
from libheadroom import call as call_library
from libheadroom import bindings, default

TURN_S, SETTLE_S, SAMPLE_S, TURNS_LEAST = 1e-3, 0.1, 0.3, 12
PAGE = 16
LATENT_PAGE = 64
CONTENDERS = ("paged", "cudnn", "flash", "flashinfer", "bmm")
COLUMNS = ["batch", "keys", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim", "kernel", "bound_us", "contiguous_us",
           "contiguous_error"] + [f"{name}_{column}" for name in CONTENDERS
                                  for column in ("us", "ratio", "low", "high", "error")] + ["turns", "configuration"]


def call(batch, keys, heads, dim, v_dim=None):
    return dict(batch=batch, keys=keys, q_heads=heads[0], k_heads=heads[1], v_heads=heads[2], qk_dim=dim,
                v_dim=v_dim or dim)


def latent_call(batch, keys, heads):
    return dict(call(batch, keys, (heads, 1, 1), 576, 512), latent=True)


def is_latent(row):
    return row.get("latent", False)


def grid(quick, latent):
    if latent:
        calls = [latent_call(128, 4096, 128), latent_call(32, 8192, 128), latent_call(128, 8192, 16)]
        others = [latent_call(32, 4096, 128), latent_call(32, 8192, 16), latent_call(128, 4096, 64), latent_call(1, 32768, 128)]
        return calls if quick else calls + others
    peers = [call(1, 2048, (32, 16, 16), 128), call(1, 2048, (32, 4, 4), 128), call(8, 4096, (32, 8, 8), 128),
             call(16, 8192, (32, 8, 8), 128), call(64, 4096, (64, 8, 8), 128), call(1, 65536, (32, 8, 8), 128),
             call(16, 32768, (32, 4, 16), 64)]
    if quick:
        return peers
    sigma = [call(b, s, heads, 64) for b in (1, 16) for s in (2048, 4096, 16384, 32768)
             for heads in ((32, 16, 16), (32, 4, 16))]
    # many query heads over one K head, and lengths that are no multiple of the page
    shared = [call(8, 10000, (71, 1, 1), 64), call(64, 4096, (71, 1, 1), 64), call(32, 4096, (48, 1, 1), 128),
              call(7, 10001, (71, 1, 1), 64), call(16, 5003, (32, 8, 8), 128)]
    others = [call(16, 8192, (32, 32, 32), 128), call(16, 8192, (32, 1, 1), 128), call(16, 8192, (32, 8, 8), 64),
              call(8, 8192, (16, 8, 8), 256), call(16, 8192, (32, 4, 16), 128), call(16, 32768, (32, 4, 16), 32, 64)]
    return peers + sigma + others + shared


def batches():
    """Every number of sequences from 1 to 160, of which whole waves of thread blocks have some."""
    return [call(batch, 4096, (40, 8, 8), 128) for batch in range(1, 161)]


def groups():
    """Query heads of a K head, and K and V heads whose groups divide one another."""
    heads = [(n, 1, 1) for n in (5, 7, 16, 17, 24, 32, 33, 48, 64, 71, 80, 96, 112, 127, 128)] + \
        [(48, 1, 3), (64, 1, 8), (71, 1, 71), (96, 2, 6), (36, 1, 6), (128, 4, 16)]
    return [call(32, 8192, h, dim) for dim in (64, 128) for h in heads]


class Headroom(common.Headroom):
    def __init__(self, path, kernel):
        super().__init__(path)
        self.kernel = kernel.encode() if kernel else None

    def plan(self, row, page_size):
        problem = default(self.library, bindings.hr_decode)
        for name in ("batch", "q_heads", "k_heads", "v_heads", "qk_dim", "v_dim"):
            setattr(problem, name, row[name])
        problem.kv_len, problem.latent = row["keys"], is_latent(row)
        call_library(self.library.hr_decode_set_pages, ctypes.byref(problem), page_size)
        return Plan(self, problem)


def row_pairs(problem):
    """Pairs of a query and a key, of all heads."""
    return problem.batch * problem.q_heads * problem.kv_len


class Plan(common.Plan):
    def __init__(self, headroom, problem):
        self.headroom, self.handle, self.workspace = headroom, ctypes.c_void_p(), None
        library, size = headroom.library, ctypes.c_int64()
        call_library(library.hr_plan_decode, headroom.device, ctypes.byref(problem), headroom.kernel, ctypes.byref(self.handle))
        library.hr_decode_bytes(ctypes.byref(problem), ctypes.byref(size))
        self.bytes = size.value
        self.flops = 2 * row_pairs(problem) * (problem.qk_dim + problem.v_dim)
        self.kernel = library.hr_plan_kernel(self.handle).decode()
        self.configuration = library.hr_plan_configuration(self.handle).decode()
        needed = library.hr_plan_workspace_bytes(self.handle)
        if needed:
            self.workspace = torch.zeros(needed, dtype=torch.uint8, device="cuda")

    def run(self, operands, o):
        arguments = default(self.headroom.library, bindings.hr_decode_arguments)
        arguments.q, arguments.k, arguments.v, arguments.o = (t.data_ptr() for t in (*operands[:3], o))
        if len(operands) > 3:
            arguments.pages = operands[3].data_ptr()
        workspace = self.workspace.data_ptr() if self.workspace is not None else None
        call_library(self.headroom.library.hr_plan_run_decode, self.handle, ctypes.byref(arguments), workspace, common.stream())
        return o


def operands(row):
    """Q of one token; K and V [batch, keys, heads, dim], V part of K for latent attention."""
    sizes = ((1, row["q_heads"], row["qk_dim"]), (row["keys"], row["k_heads"], row["qk_dim"]),
             (row["keys"], row["v_heads"], row["v_dim"]))
    tensors = tuple(common.uniform(row["batch"], *size, dtype=torch.bfloat16) for size in sizes[:2 if is_latent(row) else 3])
    return tensors if len(tensors) == 3 else (*tensors, tensors[1][..., :row["v_dim"]])


def page_of(row):
    return LATENT_PAGE if is_latent(row) else PAGE


def pages_of(row):
    """Pages of a sequence, the last of which may have room left."""
    return -(-row["keys"] // page_of(row))


def paged(row, inputs):
    """The same K and V in pages in random order, and the page table. What is behind a sequence's end is NaN."""
    q, k, v = inputs
    page, per_sequence = page_of(row), pages_of(row)
    order = torch.randperm(row["batch"] * per_sequence, device="cuda")
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device="cuda")
    behind = (0, 0) * 2 + (0, per_sequence * page - row["keys"])
    pages = [F.pad(t, behind, value=math.nan).view(-1, page, *t.shape[2:])[order].contiguous()
             for t in ((k,) if is_latent(row) else (k, v))]
    return q, pages[0], pages[-1], places.to(torch.int32)


def empty_output(row):
    return torch.empty(row["batch"], 1, row["q_heads"], row["v_dim"], device="cuda", dtype=torch.bfloat16)


def run_torch(backend, row, q, k, v):
    return attention.run_torch(attention.BACKENDS[backend], dict(row, causal=False), q, k, v)


def run_bmm(row, q, k, v):
    scores = torch.bmm(q[:, 0], k[:, :, 0].mT) / math.sqrt(row["qk_dim"])
    return torch.bmm(scores.softmax(-1), v[:, :, 0])[:, None]


class FlashInfer:
    """FlashInfer's decode of pages. Raises ImportError where it is not installed."""

    SIZES = (64, 128, 256)  # of a head: those whose kernels are compiled
    WORKSPACE_BYTES = 256 * 2**20

    def __init__(self, rows):
        os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
        import flashinfer
        self.library = flashinfer
        self.workspace = torch.zeros(self.WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda module: module.build_and_load(), self.modules(rows)))

    def takes(self, row):
        return is_latent(row) or row["qk_dim"] == row["v_dim"] and row["qk_dim"] in self.SIZES

    def modules(self, rows):
        from flashinfer.jit import attention as jit
        types = (torch.bfloat16,) * 3 + (torch.int32,)
        found = []
        for size in sorted({row["qk_dim"] for row in rows if self.takes(row)}):
            if size in self.SIZES:
                found.append(jit.gen_batch_decode_module(*types, size, size, 0, False, False))
                found.append(jit.gen_batch_prefill_module("fa2", *types, size, size, 0, False, False, False))
            else:
                found.append(jit.gen_batch_mla_module("fa3", *types, 512, size - 512, False))
        return found

    def table(self, row):
        """The first pages of all sequences, on the CPU."""
        return torch.arange(row["batch"] + 1, dtype=torch.int32) * pages_of(row)

    def latent(self, row, sets, outputs):
        wrapper = self.library.mla.BatchMLAPagedAttentionWrapper(self.workspace, backend="fa3")
        starts = self.table(row)
        lengths = torch.full((row["batch"],), row["keys"], dtype=torch.int32)
        wrapper.plan(torch.arange(row["batch"] + 1, dtype=torch.int32), starts, sets[0][3].flatten(), lengths, row["q_heads"], 512,
                     row["qk_dim"] - 512, LATENT_PAGE, False, 1 / math.sqrt(row["qk_dim"]), torch.bfloat16, torch.bfloat16)

        def run(i):
            q, k, _, table = sets[i]
            wrapper._kv_indices_buf = table
            wrapper.run(q[:, 0, :, :512], q[:, 0, :, 512:], k[:, :, 0, :512], k[:, :, 0, 512:], out=outputs[i][:, 0])
            return outputs[i]
        return run

    def split(self, row, heads, sets, outputs, tensor_cores):
        wrapper = self.library.BatchDecodeWithPagedKVCacheWrapper(self.workspace, "NHD", use_tensor_cores=tensor_cores)
        in_last = torch.full((row["batch"],), row["keys"] - (pages_of(row) - 1) * PAGE, dtype=torch.int32)
        wrapper.plan(self.table(row), sets[0][3].flatten(), in_last, row["q_heads"], heads, row["qk_dim"], PAGE,
                     q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)

        def run(i):
            q, k, v, table = sets[i]
            wrapper._paged_kv_indices_buf = table
            wrapper.run(q[:, 0], (k, v), out=outputs[i][:, 0])
            return outputs[i]
        return run

    def fastest(self, row, sets, in_pages):
        """The call for set i, or None where FlashInfer refuses. `in_pages`: the sets in pages; a table belongs to each of them, so
        it is exchanged in the wrapper, whose plan depends on lengths only."""
        outputs = [empty_output(row) for _ in sets]
        if is_latent(row):
            return self.latent(row, in_pages, outputs)
        heads = max(row["k_heads"], row["v_heads"])
        if row["k_heads"] != row["v_heads"]:
            in_pages = [paged(row, attention.expressed(row, inputs, heads)) for inputs in sets]
        ways = []
        for tensor_cores in (False, True):
            try:
                run = self.split(row, heads, in_pages, outputs, tensor_cores)
                ways.append((time_of(run, len(sets)), run))
            except Exception as refused:  # of FlashInfer's libraries, by many classes
                print(f"FlashInfer {'with' if tensor_cores else 'without'} Tensor Cores: {str(refused).splitlines()[0][:120]}")
        return min(ways, key=lambda way: way[0])[1] if ways else None


def time_of(run, sets):
    """Of a few calls, after warming up."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for i in range(5):
        if i == 2:
            events[0].record()
        run(i % sets)
    events[1].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1])


def worst_error(row, inputs, out):
    """Largest error of the last sequence, in units of the allowed error: two roundings of the result's magnitude."""
    q, k, v, out = (t[-1].double() for t in (*inputs[:3], out))
    if is_latent(row):  # some of the heads
        q, out = q[:, ::8], out[:, ::8]
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    weights = (torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(row["qk_dim"])).softmax(-1)
    exact, size = (torch.einsum("hqk,khd->qhd", weights, t) for t in (v, v.abs()))
    error = ((out - exact).abs() / (2 * 2.0**-8 * size)).max().item()
    return math.inf if math.isnan(error) else error


def read_rate():
    """Bytes per second at which the GPU reads 4 GiB."""
    data = torch.zeros(1 << 30, device="cuda", dtype=torch.int32)
    best = math.inf
    for _ in range(8):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        data.amax()
        events[1].record()
        torch.cuda.synchronize()
        best = min(best, events[0].elapsed_time(events[1]))
    return data.numel() * 4 / best * 1e3


def gemm_rate():
    """FLOP/s of a GEMM of 8192^3 in bf16."""
    a, b = (common.uniform(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for _ in range(3):
        a @ b
    events[0].record()
    for _ in range(20):
        a @ b
    events[1].record()
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / events[0].elapsed_time(events[1]) * 1e3


def contenders(row, plans, sets, flashinfer):
    """Name, and the call for set i; what PyTorch and FlashInfer refuse is left out."""
    outputs = [empty_output(row) for _ in sets]
    in_pages = [paged(row, inputs) for inputs in sets]
    found = {"contiguous": lambda i: plans[0].run(sets[i], outputs[i]),
             "paged": lambda i: plans[1].run(in_pages[i], outputs[i])}
    theirs = flashinfer.fastest(row, sets, in_pages) if flashinfer and flashinfer.takes(row) else None
    if theirs:
        found["flashinfer"] = theirs
    if is_latent(row):
        return found | {"bmm": lambda i: run_bmm(row, *sets[i])}
    heads = max(row["k_heads"], row["v_heads"])
    tensors = [attention.expressed(row, inputs, heads) for inputs in sets]
    for name in attention.BACKENDS:
        try:
            run_torch(name, row, *tensors[0])
            found[name] = lambda i, name=name: run_torch(name, row, *tensors[i])
        except RuntimeError:
            pass
    return found


def check(row, calls, inputs):
    errors = {}
    for name, run in calls.items():
        out = run(0)
        if name in ("contiguous", "paged", "flashinfer"):
            out.fill_(math.nan)
            out = run(0)
        errors[name] = worst_error(row, inputs, out)
    if max(errors.values()) > 1:
        raise RuntimeError(f"wrong result, in units of the allowed error: {errors}")
    return errors


def check_graph(row, inputs, name, graph, results):
    """A contender that records on another stream leaves a graph without its calls, whose time says nothing."""
    results[0].fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    error = worst_error(row, inputs, results[0])
    if error > 1:
        raise RuntimeError(f"{name}'s recorded calls left a wrong result: {error:.3g} in units of the allowed error")


def compare(row, headroom, flashinfer, rate, gemm):
    plans, inputs = [headroom.plan(row, page) for page in (0, page_of(row))], operands(row)
    set_bytes = sum(t.numel() * t.element_size() for t in inputs[:2 if is_latent(row) else 3])
    bound = max(plans[0].bytes / rate, plans[0].flops / gemm)
    sets = [inputs] + [operands(row) for _ in range(4 * common.L2_BYTES // set_bytes)]
    calls = contenders(row, plans, sets, flashinfer)
    errors = check(row, calls, inputs)
    count = max(len(sets), min(64, math.ceil(TURN_S / (bound + 3e-6))))
    graphs = [common.capture(lambda i: run(i % len(sets)), count, headroom.stream) for run in calls.values()]
    for name, graph in zip(calls, graphs):
        check_graph(row, inputs, name, *graph)
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample(graphs, 2)
    rounds, per_call, begin = [], max(2, min(50, int(30 / sum(settled[-1])))), time.monotonic()
    while len(rounds) < TURNS_LEAST or time.monotonic() - begin < SAMPLE_S:
        rounds += sample(graphs, per_call)
    result = dict({name: row[name] for name in COLUMNS if name in row}, kernel=plans[0].kernel, configuration=plans[0].configuration, turns=len(rounds),
                  bound_us=f"{bound * 1e6:.2f}", contiguous_error=f"{errors['contiguous']:.3g}")
    for i, name in enumerate(calls):
        result[f"{name}_us"] = f"{common.median_interval([t[i] for t in rounds])[1] * 1e3 / count:.2f}"
        if i > 0:
            low, ratio, high = common.median_interval([t[i] / t[0] for t in rounds])
            result |= {f"{name}_ratio": f"{ratio:.4f}", f"{name}_low": f"{low:.4f}", f"{name}_high": f"{high:.4f}",
                       f"{name}_error": f"{errors[name]:.3g}"}
    for plan in plans:
        plan.free()
    return result


def label(row):
    return (f"{row['batch']:>3} x {row['keys']:>5}  {row['q_heads']:>3}/{row['k_heads']}/{row['v_heads']} "
            f"d {row['qk_dim']}/{row['v_dim']}")


def provenance(flashinfer, rate, gemm):
    return (f"# {torch.cuda.get_device_name()}, driver {common.driver()}, CUDA {torch.version.cuda}, PyTorch "
            f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
            f"{f'FlashInfer {flashinfer.library.__version__}, ' if flashinfer else ''}{datetime.date.today()}; interleaved turns, cold "
            f"L2, bench/decode_gpu_vs_torch.py; reads {rate * 1e-12:.3f} TB/s"
            f"{'' if math.isinf(gemm) else f', GEMM {gemm * 1e-12:.0f} TFLOP/s'}\n"
            "# errors are in units of the allowed error; ratios are a contender's time over Headroom's, contiguous\n")


def find_flashinfer(rows):
    """None where it is not installed."""
    if torch.cuda.get_device_capability() != (9, 0):
        return None
    try:
        return FlashInfer(rows)
    except ImportError as missing:
        print(f"without FlashInfer: {missing}", flush=True)
        return None


def measure(arguments, headroom, file):
    rows = batches() if arguments.batches else groups() if arguments.groups else grid(arguments.quick, arguments.latent)
    wrong = 0
    rate, gemm, flashinfer = read_rate(), gemm_rate() if arguments.latent else math.inf, find_flashinfer(rows)
    file.write(provenance(flashinfer, rate, gemm))
    print(provenance(flashinfer, rate, gemm), end="")
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        try:
            r = compare(row, headroom, flashinfer, rate, gemm)
            writer.writerow(r)
            file.flush()  # keeps the rows so far if the run is stopped
            print(f"{label(row):28} bound {r['bound_us']:>8} us, contiguous {r['contiguous_us']:>8}",
                  *(f" {name} {r[name + '_us']:>8} ({r[name + '_ratio']})" for name in CONTENDERS if name + "_us" in r),
                  f" {r['configuration']}", flush=True)
        except (RuntimeError, torch.OutOfMemoryError) as problem:
            wrong += 1
            print(label(row), "FAILED:", problem, flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--output", default=os.devnull, help="CSV file")
    parser.add_argument("--quick", action="store_true", help="part of the grid")
    parser.add_argument("--latent", action="store_true", help="latent attention instead")
    parser.add_argument("--batches", action="store_true", help="1 to 160 sequences of 4096 keys instead")
    parser.add_argument("--groups", action="store_true", help="5 to 128 query heads of a K head instead")
    parser.add_argument("--kernel", help="a kernel by name rather than the one that dispatch takes")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("decode_gpu_vs_torch.py: no CUDA GPU here")
    torch.cuda.init()
    headroom = Headroom(arguments.library, arguments.kernel)
    with open(arguments.output, "w", newline="") as file, torch.cuda.stream(headroom.stream):
        wrong = measure(arguments, headroom, file)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
