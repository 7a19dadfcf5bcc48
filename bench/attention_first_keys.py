#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what first keys cost and save in headroom.torch.attention: causal calls, with first keys of 0, with those of
documents of 512 tokens, with a window of 512 keys, and PyTorch's scaled_dot_product_attention.

    attention_first_keys.py [--calls BATCH:TOKENS:Q_HEADS:KV_HEADS:DIM,…] [--device cuda|cpu] [--dtype bf16|fp32]
                            [--rounds N] [--csv FILE]

Calls take turns; a turn is 20 calls on the same tensors, on a GPU a captured graph. A time is the median of the rounds,
in microseconds a call. The results of documents are compared with a masked call in fp32 first (up to 4096 tokens); exits
with 1 where one is wrong. --csv writes the rows to a file. HEADROOM_LIBRARY_FOLDER names the folder of the libraries."""
import argparse
import csv
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import headroom.torch as ht  # noqa: E402

CALLS = "1:4096:32:8:128,4:2048:32:32:80,16:2048:9:3:64,1:16384:16:16:128,2:4096:8:4:256"
SPAN, CALLS_OF_TURN, CHECKED_TOKENS = 512, 20, 4096
ALLOWED = {"bf16": 0.02, "fp32": 1e-4}
COLUMNS = ["batch", "tokens", "q_heads", "kv_heads", "head_dim", "causal_us", "first_keys_0_us", "documents_us", "window_us",
           "sdpa_us"]


def operands(batch, tokens, q_heads, kv_heads, dim, options):
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    return [torch.randn(batch, tokens, heads, dim, device=options.device, dtype=dtype)
            for heads in (q_heads, kv_heads, kv_heads)]


def documents(q):
    """The first key of each query's document."""
    return (torch.arange(q.shape[1], device=q.device, dtype=torch.int32) // SPAN * SPAN).expand(q.shape[:2]).contiguous()


def error_of_documents(q, k, v):
    """The largest difference to a masked call in fp32, of the first sequence."""
    at, first = torch.arange(q.shape[1], device=q.device), documents(q)[0][:, None]
    mask = (at[None] <= at[:, None]) & (at[None] >= first)
    right = F.scaled_dot_product_attention(*(x[:1].transpose(1, 2).float() for x in (q, k, v)), mask, enable_gqa=True)
    found = ht.attention(q[:1], k[:1], v[:1], causal=True, first_keys=documents(q)[:1])
    return float((found.transpose(1, 2).float() - right).abs().max())


def contenders(q, k, v):
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    zeros, firsts = torch.zeros_like(documents(q)), documents(q)
    grouped = q.shape[2] != k.shape[2]
    return [lambda: ht.attention(q, k, v, causal=True),
            lambda: ht.attention(q, k, v, causal=True, first_keys=zeros),
            lambda: ht.attention(q, k, v, causal=True, first_keys=firsts),
            lambda: ht.attention(q, k, v, causal=True, window=SPAN),
            lambda: F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=grouped)]


def turn_on_cpu(call):
    def microseconds():
        start = time.perf_counter()
        for _ in range(CALLS_OF_TURN):
            call()
        return (time.perf_counter() - start) * 1e6
    return microseconds


def turn_on_gpu(call):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_OF_TURN):
            call()

    def microseconds():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3
    return microseconds


def times(calls, options):
    turns = [(turn_on_cpu if options.device == "cpu" else turn_on_gpu)(call) for call in calls]
    rounds = [[turn() for turn in turns] for _ in range(options.rounds + 2)][2:]
    return [statistics.median(column) / CALLS_OF_TURN for column in zip(*rounds)]


def measure(sizes, options):
    q, k, v = operands(*sizes, options)
    if sizes[1] <= CHECKED_TOKENS and not (error := error_of_documents(q, k, v)) <= ALLOWED[options.dtype]:
        sys.exit(f"attention_first_keys.py: {sizes}: documents are off by {error:.1e}")
    row = [*sizes, *(f"{each:.1f}" for each in times(contenders(q, k, v), options))]
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default=CALLS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=ALLOWED, default="bf16")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    with torch.inference_mode():
        rows = [measure([int(size) for size in call.split(":")], options) for call in options.calls.split(",")]
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
