#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the operators of transformers on a CUDA GPU through PyTorch, to compare predictions with.

    operators_torch.py [--seconds N] [--output FILE]

Writes CSV: one row per operator, its median with a 95% confidence interval in ns. Rules as in docs/measuring.md: fresh
uniform data, cold L2 (input sets rotate), medians, short kernels in captured graphs, a sample of every result checked
against float64. The list of shapes is in this file: alignment of n and k, waves, the GEMMs of known models in
forward, dgrad and wgrad, few rows as in decoding, batched GEMMs over head sizes, pointwise kernels, and fused
attention. The order is shuffled by a fixed seed so that drift does not look like a trend.
"""
import argparse
import csv
import datetime
import math
import random
import sys
import time

import torch
import torch.nn.functional as F

DEVICE = "cuda"
L2_BYTES = 2 * 64 * 2**20
SETTLE_S = 0.2
COLUMNS = ["kind", "m", "n", "k", "batch", "transpose_a", "transpose_b", "dtype", "median_ns", "low_ns", "high_ns",
           "samples", "max_error", "sm_clock_mhz"]


def linear(m, n, k):
    """y = x W^T, a framework's linear layer."""
    return dict(kind="gemm", m=m, n=n, k=k, batch=1, transpose_a=0, transpose_b=1)


def dgrad(m, n, k):
    return dict(kind="gemm", m=m, n=k, k=n, batch=1, transpose_a=0, transpose_b=0)


def wgrad(m, n, k):
    return dict(kind="gemm", m=n, n=k, k=m, batch=1, transpose_a=1, transpose_b=0)


def score(s, d, batch, kv=None):
    return dict(kind="bmm", m=s, n=kv or s, k=d, batch=batch, transpose_a=0, transpose_b=1)


def over_value(s, d, batch, kv=None):
    return dict(kind="bmm", m=s, n=d, k=kv or s, batch=batch, transpose_a=0, transpose_b=0)


def shapes():
    rows = []
    for offset in (1, 2, 4, 6, 8, 16, 24, 32, 64, 96, 128, 192):
        rows += [linear(8192, 4096 + offset, 4096), linear(8192, 4096, 4096 + offset),
                 dgrad(8192, 4096 + offset, 4096), wgrad(8192, 4096 + offset, 4096)]
    for n in range(1024, 9217, 512):
        rows += [linear(4096, n, 4096)]
    layers = {  # hidden: [(n, k) of qkv, projection, up, down, logit]
        "gpt2": [(2304, 768), (768, 768), (3072, 768), (768, 3072), (50257, 768), (50304, 768)],
        "pythia-410m": [(3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096), (50304, 1024)],
        "2.7b": [(7680, 2560), (2560, 2560), (10240, 2560), (2560, 10240), (50257, 2560), (50304, 2560)],
        "llama-2-7b": [(12288, 4096), (4096, 4096), (11008, 4096), (4096, 11008), (32000, 4096)],
        "llama-3-8b": [(6144, 4096), (14336, 4096), (4096, 14336), (128256, 4096)],
        "sigma-1.5b": [(3072, 2048), (2048, 3072), (256, 2048), (1024, 2048), (6144, 2048), (2048, 6144)],
    }
    for products in layers.values():
        for n, k in products:
            for m in (512, 2048, 8192):
                rows.append(linear(m, n, k))
            for m in (1, 8, 32, 128):
                rows.append(linear(m, n, k))
            rows += [dgrad(8192, n, k), wgrad(8192, n, k)]
    for d in (16, 24, 32, 40, 48, 52, 56, 64, 72, 80, 88, 96, 100, 104, 112, 120, 127, 128, 144, 160, 192, 200, 224, 256):
        rows += [score(2048, d, 128), over_value(2048, d, 128)]
        if d % 8 == 0:
            rows += [score(1024, d, 256), over_value(1024, d, 256), score(4096, d, 20), over_value(4096, d, 20)]
    for kv in (1024, 1000, 1001, 4096):  # decode, and caches of odd length
        rows += [score(1, 128, 256, kv), over_value(1, 128, 256, kv), score(1024, 128, 64, kv), over_value(1024, 128, 64, kv)]
    for d in (64, 80, 96, 128, 192, 256):
        for s, b in ((512, 32), (2048, 8), (4096, 4), (8192, 2)):
            rows.append(dict(kind="attention", m=s, n=s, k=d, batch=b * (2048 // d), transpose_a=0, transpose_b=0))
    for kind in ("softmax", "layer_norm", "rms_norm", "gelu", "residual"):
        for m, n in ((256, 1024), (2048, 2560), (8192, 2560), (8192, 4096), (16384, 8192), (262144, 2048)):
            rows.append(dict(kind=kind, m=m, n=n, k=0, batch=1, transpose_a=0, transpose_b=0))
    rows.append(linear(16, 16, 16))
    unique = {tuple(row.items()): row for row in rows}
    return list(unique.values())


def uniform(*size, dtype=torch.bfloat16):
    return torch.empty(*size, device=DEVICE, dtype=dtype).uniform_(-1, 1)


def operands(row, dtype):
    """One set of inputs and the function that runs the operator on them."""
    m, n, k, batch, kind = row["m"], row["n"], row["k"], row["batch"], row["kind"]
    if kind == "gemm":
        a = uniform(k, m, dtype=dtype).t() if row["transpose_a"] else uniform(m, k, dtype=dtype)
        b = uniform(n, k, dtype=dtype).t() if row["transpose_b"] else uniform(k, n, dtype=dtype)
        return (a, b), torch.matmul
    if kind == "bmm":
        a = uniform(batch, m, k, dtype=dtype)
        b = uniform(batch, n, k, dtype=dtype).transpose(1, 2) if row["transpose_b"] else uniform(batch, k, n, dtype=dtype)
        return (a, b), torch.bmm
    if kind == "attention":
        heads = 2048 // k
        size = (batch // heads, heads, m, k)
        return tuple(uniform(*size, dtype=dtype) for _ in range(3)), lambda q, k_, v: F.scaled_dot_product_attention(
            q, k_, v, is_causal=True)
    x = uniform(m, n, dtype=dtype)
    w, y = uniform(n, dtype=dtype), uniform(m, n, dtype=dtype)
    run = {
        "softmax": lambda x, w, y: torch.softmax(x, -1),
        "layer_norm": lambda x, w, y: F.layer_norm(x, (n,), w, w),
        "rms_norm": lambda x, w, y: F.rms_norm(x, (n,), w),
        "gelu": lambda x, w, y: F.gelu(x),
        "residual": lambda x, w, y: x + y,
    }[kind]
    return (x, w, y), run


def worst_error(row, inputs, run):
    """Largest error of a sample of rows against float64, relative to the error that the format allows; GEMMs only."""
    if row["kind"] not in ("gemm", "bmm"):
        return math.nan
    a, b = inputs
    out = run(a, b)
    index = torch.randint(0, row["m"], (8,), device=DEVICE)
    if row["kind"] == "bmm":
        a, b, out = a[-1], b[-1], out[-1]
    exact = a[index].double() @ b.double()
    bound = 2.0**-8 * exact.abs() + 2.0**-8 * math.sqrt(row["k"])
    return ((out[index].double() - exact).abs() / bound).max().item()


def graph_of(run, sets, count):
    for inputs in sets[:2]:
        run(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            out = run(*sets[i % len(sets)])
    del out
    return graph


def sample(graph, count, limit_s):
    """Times of one launch in ns, until the median's interval is within 0.5% or the limit is over.

    Each shape first runs for SETTLE_S, so that the clock has settled for its power draw."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin = time.monotonic()
    while time.monotonic() - begin < SETTLE_S:
        graph.replay()
        torch.cuda.synchronize()
    times, begin = [], time.monotonic()
    while True:
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e6 / count)
        if len(times) >= 10:
            low, median, high = interval(times)
            if (high - low) / 2 <= 0.005 * median or time.monotonic() - begin > limit_s or len(times) >= 500:
                return low, median, high, len(times)


def interval(times):
    ordered, n = sorted(times), len(times)
    half = 0.98 * math.sqrt(n)
    return ordered[max(0, int(n / 2 - half))], ordered[n // 2], ordered[min(n - 1, int(n / 2 + half))]


def measure(row, dtype, limit_s):
    inputs, run = operands(row, dtype)
    error = worst_error(row, inputs, run)
    if error > 1:
        raise RuntimeError(f"wrong result: {row}: {error} times the bound")
    size = sum(t.numel() * t.element_size() for t in inputs)
    out_bytes = run(*inputs).numel() * 2
    sets = [inputs] + [operands(row, dtype)[0] for _ in range(min(63, L2_BYTES // max(size + out_bytes, 1)))]
    flops = 2 * max(row["m"], 1) * max(row["n"], 1) * max(row["k"], 1) * row["batch"]
    count = max(1, min(50, int(200e-6 / max(flops / 600e12, size / 4e12))))
    count = max(count, min(len(sets), 32))
    low, median, high, samples = sample(graph_of(run, sets, count), count, limit_s)
    return dict(row, dtype="bf16", median_ns=f"{median:.0f}", low_ns=f"{low:.0f}", high_ns=f"{high:.0f}",
                samples=samples, max_error=f"{error:.3g}", sm_clock_mhz=torch.cuda.clock_rate())


def provenance():
    return (f"# {torch.cuda.get_device_name()}, driver {driver()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, "
            f"cuBLAS through torch.matmul and torch.bmm, {datetime.date.today()}; medians, cold L2, bench/operators_torch.py")


def driver():
    import subprocess
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.25, help="sampling limit of one shape (default 0.25)")
    parser.add_argument("--output", default="-", help="CSV file (default: standard output)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("operators_torch.py: no CUDA GPU here")
    rows = shapes()
    random.Random(1).shuffle(rows)
    hot = uniform(8192, 8192)
    begin = time.monotonic()
    while time.monotonic() - begin < 3:  # until the clock has settled
        hot @ hot
        torch.cuda.synchronize()
    out = sys.stdout if arguments.output == "-" else open(arguments.output, "w", newline="")
    out.write(provenance() + "\n")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for number, row in enumerate(rows):
        try:
            writer.writerow(measure(row, torch.bfloat16, arguments.seconds))
        except (RuntimeError, torch.OutOfMemoryError) as problem:
            print(f"{row}: {problem}", file=sys.stderr)
        out.flush()
        if number % 50 == 0:
            print(f"{number} of {len(rows)}, {time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
