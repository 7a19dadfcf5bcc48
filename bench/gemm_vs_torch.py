#!/usr/bin/env python3
"""Headroom's products on a GPU against PyTorch's, in one process, by turns.

    gemm_vs_torch.py LIBHEADROOM [ROUNDS]

LIBHEADROOM is the path of libheadroom.so. Both compute the same operands in the same memory: torch.nn.functional.linear
and torch.bmm on one side, hr_plan_run_gemm() on the other. A round times a batch of runs of one, then of the other, and
forms the ratio; printed is the median of the ratios per shape (ours / theirs), then their geometric mean and the largest.
Runs of a batch follow each other without a wait, so that the host's share does not count where a run takes longer than
its launch.
"""
import ctypes
import math
import statistics
import sys
import time

import torch

BATCH_S = 0.02
DTYPES = {torch.bfloat16: 4, torch.float16: 3}  # as in <headroom/dtype.h>


class Gemm(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
                ("batch", ctypes.c_int64), ("dtype", ctypes.c_int), ("transpose_a", ctypes.c_bool),
                ("transpose_b", ctypes.c_bool)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class Headroom:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.hr_gemm_default.restype = Gemm
        self.library.hr_plan_workspace_bytes.restype = ctypes.c_size_t
        self.library.hr_plan_workspace_bytes.argtypes = [ctypes.c_void_p]
        self.library.hr_plan_configuration.restype = ctypes.c_char_p
        self.library.hr_plan_configuration.argtypes = [ctypes.c_void_p]
        self.library.hr_plan_run_gemm.argtypes = [ctypes.c_void_p] * 6
        self.library.hr_plan_free.argtypes = [ctypes.c_void_p]
        self.device = ctypes.c_void_p()
        self.error = Error()
        self.check(self.library.hr_device_open(b"cuda:0", 0, ctypes.byref(self.device), ctypes.byref(self.error)))

    def check(self, status):
        if status != 0:
            sys.exit(self.error.message.decode())

    def plan(self, m, n, k, batch, dtype, transpose_b):
        gemm = self.library.hr_gemm_default()
        gemm.m, gemm.n, gemm.k, gemm.batch = m, n, k, batch
        gemm.dtype, gemm.transpose_b = DTYPES[dtype], transpose_b
        plan = ctypes.c_void_p()
        self.check(self.library.hr_plan_gemm(self.device, ctypes.byref(gemm), None, ctypes.byref(plan),
                                             ctypes.byref(self.error)))
        return plan


def shapes():
    """Linear layers (m, n, k) and attention's batched products (batch, m, n, k, B transposed), aligned and not."""
    linear = [(8192, 7680, 2560), (8192, 2560, 2560), (8192, 10240, 2560), (8192, 2560, 10240), (8192, 50257, 2560),
              (8192, 50304, 2560), (4096, 12288, 4096), (4096, 4096, 4096), (4096, 10922, 4096), (4096, 10928, 4096),
              (4096, 11008, 4096), (4096, 4096, 11008), (2304, 1000, 4096), (2304, 1001, 4096), (8192, 6144, 2048),
              (8192, 2048, 8192), (16384, 4096, 1024), (4100, 4100, 4100), (4097, 4096, 4096), (4096, 4096, 4090),
              (1024, 16384, 5120), (512, 32000, 4096), (2048, 14336, 4096), (3000, 3000, 3000)]
    batched = [(80, 2048, 2048, 64, True), (80, 2048, 2048, 80, True), (80, 2048, 2048, 100, True),
               (80, 2048, 2048, 128, True), (80, 2048, 64, 2048, False), (80, 2048, 80, 2048, False),
               (80, 2048, 100, 2048, False), (80, 2048, 128, 2048, False), (128, 1024, 1024, 96, True),
               (128, 1024, 96, 1024, False), (48, 2048, 2048, 72, True), (48, 2048, 72, 2048, False),
               (160, 1000, 1000, 64, True), (160, 1000, 64, 1000, False), (64, 2047, 2047, 128, True),
               (64, 2047, 128, 2047, False)]
    return [(1, *shape, True) for shape in linear] + batched


def pair(headroom, batch, m, n, k, transpose_b, dtype):
    """Two functions that compute the same product into tensors of their own, and those tensors."""
    b_shape = (n, k) if transpose_b else (k, n)
    if batch == 1:
        a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(*b_shape, device="cuda", dtype=dtype)
        ours = torch.empty(m, n, device="cuda", dtype=dtype)
        theirs = lambda: torch.nn.functional.linear(a, b)
    else:
        a = torch.randn(batch, m, k, device="cuda", dtype=dtype)
        b = torch.randn(batch, *b_shape, device="cuda", dtype=dtype)
        ours = torch.empty(batch, m, n, device="cuda", dtype=dtype)
        second = b.transpose(1, 2) if transpose_b else b
        theirs = lambda: torch.bmm(a, second)
    plan = headroom.plan(m, n, k, batch, dtype, transpose_b)
    size = headroom.library.hr_plan_workspace_bytes(plan)
    workspace = torch.empty(max(size, 1), device="cuda", dtype=torch.uint8)
    run = headroom.library.hr_plan_run_gemm
    arguments = (plan, a.data_ptr(), b.data_ptr(), ours.data_ptr(), workspace.data_ptr(), ctypes.byref(headroom.error))

    def compute():
        if run(*arguments) != 0:
            sys.exit(headroom.error.message.decode())

    return compute, theirs, ours, plan, (a, b, workspace)


def batch_s(function, runs):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / runs


def main():
    headroom = Headroom(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, time.strftime("%Y-%m-%d"))
    ratios = []
    for batch, m, n, k, transpose_b in shapes():
        ours, theirs, result, plan, kept = pair(headroom, batch, m, n, k, transpose_b, torch.bfloat16)
        torch.cuda.synchronize()  # the operands are there: Headroom has a stream of its own
        ours()
        expected = theirs()
        torch.cuda.synchronize()
        off = ((result.float() - expected.float()).norm() / expected.float().norm()).item()
        if not off < 1e-2:
            sys.exit(f"{batch} x {m} x {n} x {k}: results differ by {off}")
        del expected
        runs = max(3, int(BATCH_S / batch_s(ours, 5)))
        batch_s(ours, runs), batch_s(theirs, runs)
        here = []
        for i in range(rounds):
            first, second = (ours, theirs) if i % 2 == 0 else (theirs, ours)
            a, b = batch_s(first, runs), batch_s(second, runs)
            here.append(a / b if i % 2 == 0 else b / a)
        ratio = statistics.median(here)
        ratios.append(ratio)
        text = headroom.library.hr_plan_configuration(plan).decode()
        print(f"{batch:4} x {m:5} {n:5} {k:5} {batch_s(ours, runs) * 1e6:9.1f} us  ratio {ratio:6.3f}  {text}", flush=True)
        headroom.library.hr_plan_free(plan)
    geometric = math.exp(statistics.fmean(math.log(r) for r in ratios))
    print(f"{len(ratios)} shapes: geometric mean {geometric:.4f}, largest {max(ratios):.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
