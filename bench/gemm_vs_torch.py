#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's GEMMs on a CUDA GPU with those of PyTorch: torch.nn.functional.linear and torch.bmm.

    gemm_vs_torch.py LIBHEADROOM [--output FILE.csv] [--kernels]

Needs PyTorch and a shared libheadroom (docs/gpu.md says how to get one for a bare machine). Both work on the same
tensors, in one stream of one process, interleaved: A B A B. Each turn is a captured graph of as many GEMMs as take
about 0.4 ms, over sets of tensors that together are twice the L2, into separate outputs, so that all operands are
cold. The ratio, Headroom's time over PyTorch's, is computed per pair; its median is reported with a 95% confidence
interval. Before that a sample of the rows of both results is compared with float64, and the results with each other.

The GEMMs are those of known models: forward and backward; sizes that are multiples of 64, and odd ones; few rows, as in
decoding; score and attention over value of several head sizes. fp8 is left out, as neither linear nor bmm takes it.

Exits with 1 where a result is wrong, the ratio's geometric mean is above 1.02, or one is above 1.10.
"""
import argparse
import csv
import ctypes
import datetime
import math
import os
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from libheadroom import bindings, call, default, load, open_device

L2_BYTES = 2 * 64 * 2**20
TURN_S, SETTLE_S, SAMPLE_S = 4e-4, 0.25, 0.4
PAIRS_LEAST = 30
OUTPUTS_BYTES = 6 * 2**30  # of one turn, at most
GEOMETRIC_MEAN_MOST, RATIO_MOST = 1.02, 1.10
COLUMNS = ["kind", "m", "n", "k", "batch", "transpose_a", "transpose_b", "dtype", "headroom_ns", "torch_ns", "ratio",
           "ratio_low", "ratio_high", "pairs", "headroom_error", "torch_error", "identical", "configuration"]

# Format: hr_dtype, PyTorch's type, an estimated rate, and the allowed error of an element: `unit` times the
# result, and `unit` times `spread` times the typical sum of k products of values in [-1, 1], √k / 3. In 16 bits the
# library may round split-K partial results, which PyTorch allows by default.
FORMATS = {
    "fp32": (bindings.HR_FP32, torch.float32, 40e12, 2.0**-24, lambda k: 8 * math.sqrt(k)),
    "tf32": (bindings.HR_TF32, torch.float32, 300e12, 2.0**-10, lambda k: 8),
    "fp16": (bindings.HR_FP16, torch.float16, 600e12, 2.0**-11, lambda k: 4),
    "bf16": (bindings.HR_BF16, torch.bfloat16, 600e12, 2.0**-8, lambda k: 4),
}


def product(kind, m, n, k, batch=1, transpose_a=0, transpose_b=0, dtype="bf16"):
    return dict(kind=kind, m=m, n=n, k=k, batch=batch, transpose_a=transpose_a, transpose_b=transpose_b, dtype=dtype)


def linear(m, n, k, dtype="bf16"):
    """y = x Wᵀ: m tokens, k inputs, n outputs."""
    return product("linear", m, n, k, transpose_b=1, dtype=dtype)


def dgrad(m, n, k, dtype="bf16"):
    """dgrad: the gradient of linear(m, n, k) with respect to its input."""
    return product("dgrad", m, k, n, dtype=dtype)


def wgrad(m, n, k, dtype="bf16"):
    """wgrad: the gradient of linear(m, n, k) with respect to its weight."""
    return product("wgrad", n, k, m, transpose_a=1, dtype=dtype)


def score(s, d, batch, keys=None, dtype="bf16"):
    return product("score", s, keys or s, d, batch, transpose_b=1, dtype=dtype)


def over_value(s, d, batch, keys=None, dtype="bf16"):
    return product("over_value", s, d, keys or s, batch, dtype=dtype)


def value_grad(s, d, batch, dtype="bf16"):
    return product("value_grad", s, d, s, batch, transpose_a=1, dtype=dtype)


SHAPES = [
    # the layers of GPT-3 2.7B, Llama 2 and 3
    linear(8192, 7680, 2560), linear(8192, 2560, 2560), linear(8192, 10240, 2560), linear(8192, 2560, 10240),
    linear(8192, 14336, 4096), linear(8192, 4096, 14336), linear(2048, 4096, 4096), linear(512, 11008, 4096),
    dgrad(8192, 10240, 2560), dgrad(2048, 4096, 4096), wgrad(8192, 10240, 2560), wgrad(2048, 4096, 4096),
    # vocabularies
    linear(8192, 50257, 2560), linear(8192, 50304, 2560), linear(4096, 128256, 4096), dgrad(8192, 50257, 2560),
    dgrad(8192, 50304, 2560), wgrad(8192, 50257, 2560), wgrad(8192, 50304, 2560),
    # sizes that are multiples of 1, 2, 4 and 8
    linear(4096, 4097, 4096), linear(4096, 4096, 4097), linear(4096, 10922, 4096), linear(4096, 4100, 4096),
    linear(4096, 4096, 4104), linear(1000, 3000, 1000),
    # few rows
    linear(1, 4096, 4096), linear(1, 50257, 2560), linear(8, 4096, 4096), linear(32, 11008, 4096),
    linear(128, 6144, 4096),
    # attention: heads of 80, 128 and 64, and of badly aligned sizes; one query against a cache
    score(2048, 80, 128), score(2048, 128, 80), score(2048, 64, 160), score(2048, 100, 128), over_value(2048, 80, 128),
    over_value(2048, 128, 80), over_value(2048, 127, 80), value_grad(2048, 128, 80), score(1, 128, 256, keys=1001),
    over_value(1, 128, 256, keys=4096),
    # other formats
    linear(8192, 10240, 2560, dtype="fp16"), linear(4096, 4096, 4097, dtype="fp16"), score(2048, 80, 128, dtype="fp16"),
    linear(2048, 4096, 4096, dtype="tf32"), linear(2048, 4096, 4099, dtype="tf32"),
    linear(1024, 4096, 4096, dtype="fp32"),
]


def stream():
    """The stream on which PyTorch works now."""
    return torch.cuda.current_stream().cuda_stream


class Headroom:
    """The functions of libheadroom that are needed, on cuda:0."""

    def __init__(self, path):
        self.library = load(path)
        self.device = open_device(self.library, "cuda:0")
        self.stream = torch.cuda.ExternalStream(self.library.hr_device_stream(self.device))

    def gemm(self, row):
        gemm = default(self.library, bindings.hr_gemm)
        for name in ("m", "n", "k", "batch", "transpose_a", "transpose_b"):
            setattr(gemm, name, row[name])
        gemm.dtype = FORMATS[row["dtype"]][0]
        return gemm

    def plan(self, row):
        return Plan(self, self.gemm(row))


class Plan:
    def __init__(self, headroom, gemm):
        self.headroom, self.handle = headroom, ctypes.c_void_p()
        library = headroom.library
        self.create(library, gemm)
        self.configuration = library.hr_plan_configuration(self.handle).decode()
        bytes_needed = library.hr_plan_workspace_bytes(self.handle)
        self.workspace = torch.zeros(bytes_needed, dtype=torch.uint8, device="cuda") if bytes_needed else None

    def create(self, library, gemm):
        call(library.hr_plan_gemm, self.headroom.device, ctypes.byref(gemm), None, ctypes.byref(self.handle))

    def run(self, a, b, out):
        workspace = self.workspace.data_ptr() if self.workspace is not None else None
        arguments = default(self.headroom.library, bindings.hr_gemm_arguments)
        arguments.a, arguments.b, arguments.c = a.data_ptr(), b.data_ptr(), out.data_ptr()
        call(self.headroom.library.hr_plan_run_gemm, self.handle, ctypes.byref(arguments), workspace, stream())

    def free(self):
        self.headroom.library.hr_plan_free(self.handle)


def uniform(*size, dtype):
    return torch.empty(*size, device="cuda", dtype=dtype).uniform_(-1, 1)


def operands(row):
    """A and B as they are stored: packed, transposed ones with the sizes exchanged."""
    m, n, k, dtype = row["m"], row["n"], row["k"], FORMATS[row["dtype"]][1]
    a = uniform(row["batch"], *((k, m) if row["transpose_a"] else (m, k)), dtype=dtype)
    b = uniform(row["batch"], *((n, k) if row["transpose_b"] else (k, n)), dtype=dtype)
    return (a, b) if row["batch"] > 1 else (a[0], b[0])


def as_multiplied(row, a, b):
    return (a.mT if row["transpose_a"] else a), (b.mT if row["transpose_b"] else b)


def run_torch(row, a, b):
    a, b = as_multiplied(row, a, b)
    return torch.bmm(a, b) if row["batch"] > 1 else F.linear(a, b.mT)


def empty_output(row):
    size = (row["m"], row["n"]) if row["batch"] == 1 else (row["batch"], row["m"], row["n"])
    return torch.empty(*size, device="cuda", dtype=FORMATS[row["dtype"]][1])


def worst_error(row, inputs, out):
    """Largest error of some rows, the last one among them, in units of the allowed error."""
    a, b = as_multiplied(row, *inputs)
    if row["batch"] > 1:
        a, b, out = a[-1], b[-1], out[-1]
    index = torch.randint(0, row["m"], (9,), device="cuda")
    index[0] = row["m"] - 1
    exact = a[index].double() @ b.double()
    _, _, _, unit, spread = FORMATS[row["dtype"]]
    allowed = unit * (exact.abs() + spread(row["k"]) * math.sqrt(row["k"]) / 3)
    error = ((out[index].double() - exact).abs() / allowed).max().item()
    return math.inf if math.isnan(error) else error


def check(row, plan, inputs):
    """Both results against float64; returns both errors and how many elements are bitwise equal."""
    ours = empty_output(row).fill_(math.nan)
    plan.run(*inputs, ours)
    theirs = run_torch(row, *inputs)
    if not torch.isfinite(ours).all():
        raise RuntimeError("Headroom left elements unwritten")
    errors = worst_error(row, inputs, ours), worst_error(row, inputs, theirs)
    if max(errors) > 1:
        raise RuntimeError(f"wrong result: {errors[0]:.3g} (Headroom), {errors[1]:.3g} (PyTorch) in units of the allowed error")
    return *errors, (ours == theirs).float().mean().item()


def capture(run, count, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        kept = [run(i) for i in range(count)]  # keeping the outputs alive makes them separate buffers
    return graph, kept


def turns(row, plan, sets, stream):
    """A graph of Headroom's GEMMs and one of PyTorch's, and the number of GEMMs in each."""
    _, torch_type, rate, _, _ = FORMATS[row["dtype"]]
    out_bytes = row["batch"] * row["m"] * row["n"] * torch_type.itemsize
    in_bytes = sum(t.numel() * t.element_size() for t in sets[0])
    estimate_s = max(2 * row["batch"] * row["m"] * row["n"] * row["k"] / rate, (in_bytes + out_bytes) / 4e12)
    count = max(len(sets), math.ceil(TURN_S / estimate_s))
    count = max(1, min(count, OUTPUTS_BYTES // out_bytes))
    outputs = [empty_output(row) for _ in range(count)]
    ours, _ = capture(lambda i: plan.run(*sets[i % len(sets)], outputs[i]), count, stream)
    theirs, kept = capture(lambda i: run_torch(row, *sets[i % len(sets)]), count, stream)
    return ours, theirs, count, (outputs, kept)


def sample(graphs, pairs):
    """Times of `pairs` pairs of turns in ms. All are submitted at once, so that the GPU never waits for the host; the
    first pair is a warm-up and is dropped."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * pairs + 3)]
    events[0].record()
    for i, event in enumerate(events[1:]):
        graphs[i % 2].replay()
        event.record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in zip(events, events[1:])]
    return list(zip(times[2::2], times[3::2]))


def median_interval(values):
    ordered, n = sorted(values), len(values)
    half = 0.98 * math.sqrt(n)
    return ordered[max(0, int(n / 2 - half))], ordered[n // 2], ordered[min(n - 1, int(n / 2 + half))]


def compare(row, headroom):
    torch.backends.cuda.matmul.allow_tf32 = row["dtype"] == "tf32"
    plan, inputs = headroom.plan(row), operands(row)
    ours_error, theirs_error, identical = check(row, plan, inputs)
    set_bytes = sum(t.numel() * t.element_size() for t in inputs)
    sets = [inputs] + [operands(row) for _ in range(min(63, L2_BYTES // set_bytes))]
    ours, theirs, count, kept = turns(row, plan, sets, headroom.stream)
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        settled = sample((ours, theirs), 4)
    per_call = max(4, min(100, int(30 / sum(settled[-1]))))  # about 30 ms
    pairs, begin = [], time.monotonic()
    while len(pairs) < PAIRS_LEAST or time.monotonic() - begin < SAMPLE_S:
        pairs += sample((ours, theirs), per_call)
    low, ratio, high = median_interval([a / b for a, b in pairs])
    nanoseconds = [median_interval(side)[1] * 1e6 / count for side in zip(*pairs)]
    del kept
    plan.free()
    return dict(row, headroom_ns=round(nanoseconds[0]), torch_ns=round(nanoseconds[1]), ratio=f"{ratio:.4f}",
                ratio_low=f"{low:.4f}", ratio_high=f"{high:.4f}", pairs=len(pairs), headroom_error=f"{ours_error:.3g}",
                torch_error=f"{theirs_error:.3g}", identical=f"{identical:.4f}", configuration=plan.configuration)


def print_kernels(row, headroom):
    """The kernels that both launch, as PyTorch's profiler names them."""
    plan, inputs, out = headroom.plan(row), operands(row), empty_output(row)
    torch.backends.cuda.matmul.allow_tf32 = row["dtype"] == "tf32"
    for name, run in (("headroom", lambda: plan.run(*inputs, out)), ("torch", lambda: run_torch(row, *inputs))):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            run()
            torch.cuda.synchronize()
        print(f"  {name}: {', '.join(event.key for event in profile.key_averages())}"[:400])
    plan.free()


def driver():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]


def provenance():
    return (f"# {torch.cuda.get_device_name()}, driver {driver()}, CUDA {torch.version.cuda}, PyTorch "
            f"{torch.__version__}, both through the cuBLAS of PyTorch, {datetime.date.today()}; interleaved pairs, cold "
            "L2, bench/gemm_vs_torch.py\n"
            "# errors are in units of the allowed error; ratio is Headroom's time over PyTorch's\n")


def label(row):
    transposes = ("T" if row["transpose_a"] else "N") + ("T" if row["transpose_b"] else "N")
    batch = f" x{row['batch']}" if row["batch"] > 1 else ""
    return f"{row['kind']:10} {row['m']:>6} x {row['n']:>6} x {row['k']:>6}{batch:5} {transposes} {row['dtype']}"


def place(row):
    return SHAPES.index({name: row[name] for name in SHAPES[0]})


def summarize(rows, wrong):
    ratios = [float(row["ratio"]) for row in rows]
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    print(f"{len(rows)} products: Headroom's time over PyTorch's is {mean:.4f} in the geometric mean, "
          f"{min(ratios):.3f} to {max(ratios):.3f}; {wrong} failed")
    return wrong == 0 and mean <= GEOMETRIC_MEAN_MOST and max(ratios) <= RATIO_MOST


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", metavar="LIBHEADROOM", help="path of libheadroom.so")
    parser.add_argument("--output", default=os.devnull, help="CSV file")
    parser.add_argument("--kernels", action="store_true", help="name the kernels where the ratio is not near 1")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gemm_vs_torch.py: no CUDA GPU here")
    torch.cuda.init()
    headroom = Headroom(arguments.library)
    order = SHAPES[:]
    random.Random(1).shuffle(order)
    rows, wrong = [], 0
    with torch.cuda.stream(headroom.stream):
        hot, begin = uniform(8192, 8192, dtype=torch.bfloat16), time.monotonic()
        while time.monotonic() - begin < 3:  # until the clock has settled
            hot @ hot
            torch.cuda.synchronize()
        for row in order:
            try:
                rows.append(compare(row, headroom))
                print(label(row), "{headroom_ns:>9} {torch_ns:>9} ns  {ratio} [{ratio_low}, {ratio_high}]  same "
                      "{identical}  {configuration}".format(**rows[-1]), flush=True)
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                wrong += 1
                print(label(row), "FAILED:", problem, flush=True)
        if arguments.kernels:
            for row in [row for row in rows if abs(float(row["ratio"]) - 1) > 0.02]:
                print(label(row), row["ratio"])
                print_kernels(row, headroom)
    with open(arguments.output, "w", newline="") as file:
        file.write(provenance())
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=place))
    sys.exit(0 if summarize(rows, wrong) else 1)


if __name__ == "__main__":
    main()
