#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one call of headroom.torch costs beside its kernel: microseconds of the processor for calls on tiny tensors, one
thread, the least of several rounds. "C run" is hr_plan_run_…() called by ctypes, which the calls above it contain.

    HEADROOM_LIBRARY_FOLDER=build/release PYTHONPATH=python bench/python_overhead.py"""
import time

import torch
import torch.nn.functional as F

import headroom.torch as ht
from headroom import _problem as problem
from headroom.torch import _run

ROUNDS, CALLS = 30, 1000
SHAPES = ((1, 1, 1, 64), (1, 8, 4, 64))  # batch, heads, length, dim


def microseconds(functions):
    """The least time of each function, measured in turns."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            began = time.thread_time()
            for _ in range(CALLS):
                function()
            least[i] = min(least[i], (time.thread_time() - began) / CALLS * 1e6)
    return least


def c_run(name, pack, q, k, v):
    """The C run of the last call of an operator."""
    call, o = _run._recent[name].call, torch.empty_like(q)
    arguments = pack(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), None, None, None, None)
    return lambda: (call.run(arguments), o)


def calls(batch, heads, length, dim):
    q, k, v = (torch.randn(batch, length, heads, dim) for _ in range(3))
    first = [x.transpose(1, 2) for x in (q, k, v)]
    ht.attention(q, k, v)
    ht.decode(q, k, v)
    return {"PyTorch's scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(*first),
            "scaled_dot_product_attention": lambda: ht.scaled_dot_product_attention(*first),
            "attention": lambda: ht.attention(q, k, v),
            "torch.ops.headroom.attention": lambda: torch.ops.headroom.attention(q, k, v),
            "its C run": c_run("attention", problem.attention_arguments, q, k, v),
            "decode": lambda: ht.decode(q, k, v),
            "torch.ops.headroom.decode": lambda: torch.ops.headroom.decode(q, k, v),
            "its C run ": c_run("decode", problem.decode_arguments, q, k, v)}


def main():
    torch.set_num_threads(1)
    with torch.inference_mode():
        for shape in SHAPES:
            measured = calls(*shape)
            print(f"batch {shape[0]}, heads {shape[1]}, length {shape[2]}, dim {shape[3]}, fp32: µs a call")
            for name, least in zip(measured, microseconds(list(measured.values()))):
                print(f"  {name:40s} {least:6.2f}")


if __name__ == "__main__":
    main()
