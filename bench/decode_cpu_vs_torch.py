#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Headroom's decode attention on the CPU with PyTorch's scaled_dot_product_attention and with the bandwidth.

    decode_cpu_vs_torch.py LIBHEADROOM [--threads N] [--dtype bf16|fp32] [--pairs N] [--rows 1,2,…] [--output FILE.csv]
                           [--kernel NAME,…] [--layouts torch,paged]

Needs PyTorch (from PyPI) and a shared libheadroom. Both run in one process with the same number of threads, interleaved
(A B A B), each after a pause in which the other's threads stop spinning. Tensors are rotated, so that no call finds its
cache in a processor's: all copies together have at least --cold MiB. PyTorch gets K and V as [batch, heads, tokens, dim],
which is what it is fast with, expanded to the query heads beforehand, untimed, or its own enable_gqa, whichever is
faster; for latent attention enable_gqa, or two GEMMs and a softmax of all query heads. Headroom gets the same tensors (layout torch), or pages of 16 tokens in random order (layout paged).

The bound is the time in which a loop reads K and V: torch.dot() of each with itself, as fp32 and on all threads, which is
at least as fast as the reading loop of `headroom devices --probe`. It is part of each round. `share` is the loop's
time over Headroom's, the median of rounds. Several kernels (--kernel, by commas) are measured in the same rounds. A
result is compared with float64 for some heads. Exits with 1 where one is wrong.
"""
import argparse
import csv
import ctypes
import datetime
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from libheadroom import address_64, bindings, call, default, load, open_device

FORMATS = {"fp32": (bindings.HR_FP32, torch.float32, 2e-5), "bf16": (bindings.HR_BF16, torch.bfloat16, 2e-2)}
PAUSE_S = 0.012
LATENT_V = 512  # the first elements of a K head that are V
SHAPES = [  # batch, tokens, query, K and V heads, dim; no V heads: latent attention, absorbed
    (1, 8192, 32, 8, 8, 128), (1, 32768, 32, 8, 8, 128), (4, 8192, 32, 8, 8, 128), (1, 8192, 32, 32, 32, 128),
    (1, 8192, 32, 16, 16, 64), (1, 8192, 32, 4, 16, 64), (1, 32768, 32, 4, 16, 64), (1, 8192, 64, 8, 8, 128),
    (1, 2048, 32, 8, 8, 128), (16, 1024, 32, 8, 8, 128), (1, 8192, 16, 1, 0, 576), (1, 8192, 128, 1, 0, 576)]
COLUMNS = ["dtype", "threads", "layout", "batch", "tokens", "heads", "dim", "kernel", "headroom_ms", "torch_ms", "ratio",
           "pairs", "gb_per_s", "read_gb_per_s", "share", "error"]


class Headroom:
    def __init__(self, path, threads):
        self.library = load(path)
        self.device = open_device(self.library, "cpu", threads)

    def plan(self, x, dtype, kernel, page):
        """x: q [batch, heads, 1, dim], k and v [batch, heads, tokens, dim] or, with pages, [pages, page, heads, dim]."""
        d = default(self.library, bindings.hr_decode)
        d.batch, d.q_heads, d.q_len, d.qk_dim = x["q"].shape
        d.k_heads, d.v_heads, d.kv_len, d.v_dim, d.dtype = x["k_heads"], x["v_heads"], x["tokens"], x["o"].shape[3], dtype
        d.latent = x["latent"]
        call(self.library.hr_decode_set_pages, ctypes.byref(d), page)
        if not page:
            d.k_strides = bindings.hr_kv_strides(d.k_heads * d.kv_len * d.qk_dim, d.qk_dim, d.kv_len * d.qk_dim)
            if not d.latent:
                d.v_strides = bindings.hr_kv_strides(d.v_heads * d.kv_len * d.v_dim, d.v_dim, d.kv_len * d.v_dim)
        plan = ctypes.c_void_p()
        call(self.library.hr_plan_decode, self.device, ctypes.byref(d), kernel, ctypes.byref(plan))
        work = torch.empty(self.library.hr_plan_workspace_bytes(plan) + 64, dtype=torch.uint8)

        def run(y):
            a = default(self.library, bindings.hr_decode_arguments)
            a.q, a.o = y["q"].data_ptr(), y["o"].data_ptr()
            a.k = y["k_pages" if page else "k"].data_ptr()
            if not y["latent"]:
                a.v = y["v_pages" if page else "v"].data_ptr()
            if page:
                a.pages = y["pages"].data_ptr()
            call(self.library.hr_plan_run_decode, plan, ctypes.byref(a), address_64(work), None)
        return plan, run


def make(shape, dtype, page):
    batch, tokens, q_heads, k_heads, v_heads, dim = shape
    x = dict(q=torch.randn(batch, q_heads, 1, dim).to(dtype), k_heads=k_heads, v_heads=max(1, v_heads), tokens=tokens,
             latent=v_heads == 0)
    x["k"] = torch.randn(batch, k_heads, tokens, dim).to(dtype)
    x["v"] = x["k"][..., :LATENT_V] if x["latent"] else torch.randn(batch, v_heads, tokens, dim).to(dtype)
    x["o"] = torch.full((batch, q_heads, 1, x["v"].shape[3]), math.nan, dtype=dtype)
    if page:
        count = tokens // page
        x["pages"] = torch.randperm(batch * count).to(torch.int32)
        for name, heads in (("k", k_heads), ("v", v_heads))[:1 if x["latent"] else 2]:
            paged = x[name].transpose(1, 2).reshape(batch * count, page, heads, dim)
            x[name + "_pages"] = torch.empty(paged.shape, dtype=dtype)
            x[name + "_pages"][x["pages"].long()] = paged
    return x


def copy_of(x):
    copy = {name: y.clone() if torch.is_tensor(y) else y for name, y in x.items()}
    if x["latent"]:
        copy["v"] = copy["k"][..., :LATENT_V]
    return copy


def error_of(x):
    worst = 0.0
    for head in range(0, x["q"].shape[1], 7):
        k = x["k"][-1, head * x["k_heads"] // x["q"].shape[1]].double()
        v = x["v"][-1, head * x["v_heads"] // x["q"].shape[1]].double()
        weights = torch.softmax(k @ x["q"][-1, head, 0].double() / math.sqrt(k.shape[1]), 0)
        off = (x["o"][-1, head, 0].double() - weights @ v).abs().max() / (weights @ v.abs()).max()
        worst = max(worst, float(off)) if math.isfinite(float(off)) else math.inf
    return worst


def latent_forms():
    """Of all query heads, which share the one K head: as GEMMs, and as grouped queries."""
    def gemms(x):
        scores = x["q"][:, :, 0] @ x["k"][:, 0].transpose(1, 2) * x["q"].shape[3] ** -0.5
        return torch.softmax(scores, -1) @ x["v"][:, 0]
    return [gemms, lambda x: F.scaled_dot_product_attention(x["q"], x["k"], x["v"], enable_gqa=True)]


def torch_forms(sets):
    if sets[0]["latent"]:
        return latent_forms()
    q_heads = sets[0]["q"].shape[1]
    for x in sets:
        x["wide_k"], x["wide_v"] = (x[n].repeat_interleave(q_heads // x[n].shape[1], 1) for n in ("k", "v"))
    forms = [lambda x: F.scaled_dot_product_attention(x["q"], x["wide_k"], x["wide_v"])]
    if sets[0]["k_heads"] == sets[0]["v_heads"] != q_heads:
        forms.append(lambda x: F.scaled_dot_product_attention(x["q"], x["k"], x["v"], enable_gqa=True))
    return forms


def read(x):
    for name in ("k", "v")[:1 if x["latent"] else 2]:
        numbers = x[name].reshape(-1).view(torch.float32)
        torch.dot(numbers, numbers)


def seconds(run, x):
    time.sleep(PAUSE_S)
    start = time.perf_counter()
    run(x)
    return time.perf_counter() - start


def compare(headroom, options, shape, layout):
    number, dtype, allowed = FORMATS[options.dtype]
    page = 16 if layout == "paged" else 0
    batch, tokens, q_heads, k_heads, v_heads, dim = shape
    size = batch * tokens * (k_heads + v_heads) * dim * (2 if options.dtype == "bf16" else 4)  # latent: V is in K
    sets = [make(shape, dtype, page)]
    while len(sets) < max(3, min(64, math.ceil(options.cold * 2 ** 20 / size))):
        sets.append(copy_of(sets[0]))
    plans = [headroom.plan(sets[0], number, kernel, page) for kernel in options.kernel]
    forms = torch_forms(sets)
    theirs = min(forms, key=lambda form: min(seconds(form, sets[i % 2]) for i in range(3)))
    errors, rounds = [], []
    for _, ours in plans:
        for x in sets:
            x["o"].fill_(math.nan)
            ours(x)
        errors.append(max(error_of(x) for x in sets[:2]))
    for i in range(options.pairs):
        runs = [theirs, read] + [ours for _, ours in plans]
        rounds.append([seconds(run, sets[(i + n) % len(sets)]) for n, run in enumerate(runs)])
    other, reading, *own = (statistics.median(times) for times in zip(*rounds))
    rows = []
    for n, (plan, _) in enumerate(plans):
        rows.append(dict(
            dtype=options.dtype, threads=options.threads, layout=layout, batch=batch, tokens=tokens, dim=dim,
            heads=f"{q_heads}/{k_heads}/{v_heads}" if v_heads else f"{q_heads}, latent", kernel=headroom.library.hr_plan_kernel(plan).decode(),
            headroom_ms=own[n] * 1e3, torch_ms=other * 1e3, pairs=len(rounds),
            ratio=statistics.median(times[0] / times[2 + n] for times in rounds), gb_per_s=size / own[n] * 1e-9,
            read_gb_per_s=size / reading * 1e-9, share=statistics.median(times[1] / times[2 + n] for times in rounds),
            error=errors[n]))
        headroom.library.hr_plan_free(plan)
    return rows, max(errors) <= allowed


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--dtype", choices=FORMATS, default="bf16")
    parser.add_argument("--kernel", type=lambda names: [name.encode() for name in names.split(",")], default=[None],
                        help="names of `headroom kernels`; default: the best")
    parser.add_argument("--layouts", default="torch")
    parser.add_argument("--rows", help="numbers of shapes from 1 on; default: all")
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--cold", type=int, default=1536, help="MiB")
    parser.add_argument("--output", help="CSV")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    headroom = Headroom(options.library, options.threads)
    chosen = [int(x) - 1 for x in options.rows.split(",")] if options.rows else range(len(SHAPES))
    rows, right = [], True
    with torch.no_grad():
        for layout in options.layouts.split(","):
            for i in chosen:
                found, good = compare(headroom, options, SHAPES[i], layout)
                rows += found
                if options.output:  # after each call, as a run may be cut off
                    write(options.output, rows)
                right = right and good
                if not good:
                    print(f"wrong: {found}")
    print(f"{options.dtype}, {options.threads} threads, PyTorch {torch.__version__}, {datetime.date.today()}")
    print("| batch × tokens | heads | dim | layout | kernel | ms | GB/s | loop reads, GB/s | share | PyTorch, ms "
          "| times as fast |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['batch']} × {row['tokens']} | {row['heads']} | {row['dim']} | {row['layout']} | {row['kernel']} "
              f"| {row['headroom_ms']:.2f} | {row['gb_per_s']:.1f} | {row['read_gb_per_s']:.1f} | {row['share']:.0%} "
              f"| {row['torch_ms']:.2f} | {row['ratio']:.2f} |")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
