#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which library has the fastest GEMM on this CPU: builds of oneDNN, PyTorch (with its oneDNN), and the MKL in PyTorch.

    cpu_libraries.py --onednn /usr/lib/x86_64-linux-gnu/libdnnl.so.2 --onednn ./libdnnl.so.3 [--threads N]

Each GEMM C[M,N] = A[M,K] B, with B stored as [N,K] as a linear layer's weights are, runs in all libraries, interleaved.
Each library has its own process, because two in one process disturb each other, and its own threads, which sleep while
others run; operands and results are in shared memory. A turn is as many runs as take 20 ms, the first of them not
timed. The script prints the median rate, and the median of the pairwise ratios of the first library's time to each
one's. Samples of the rows of every result are checked against float64 first.

Needs PyTorch (pip install torch). An oneDNN of API 2 is Debian 12's libdnnl2; one of API 3 with OpenMP is in PyPI's
onednn-cpu-gomp.
"""
import argparse
import ctypes
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

# M, N, K, batch: cubes, then a layer of GPT-3 2.7B at 2048 tokens as the co-design paper has it: QKV, projection, both
# parts of the MLP, the scores of 32 heads of 80 and of 20 of 128, and few rows.
SHAPES = [
    (1024, 1024, 1024, 1), (2048, 2048, 2048, 1), (4096, 4096, 4096, 1),
    (2048, 7680, 2560, 1), (2048, 2560, 2560, 1), (2048, 10240, 2560, 1), (2048, 2560, 10240, 1),
    (2048, 2048, 80, 32), (2048, 2048, 128, 20), (16, 10240, 2560, 1),
]
FORMATS = {"fp32": (4, 3), "bf16": (2, 2)}  # bytes of an element, oneDNN's dnnl_data_type_t
TURN_S = 0.02


# ---- workers: one library each ----

class OneDNN:
    """A build of oneDNN, loaded from its file. API 2 fills descriptors of the caller, API 3 allocates its own."""

    def __init__(self, path, threads):
        self.library = ctypes.CDLL(path)
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
        self.library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int)
        version = self.library.dnnl_version()
        self.major = version[0]
        self.name = "oneDNN %d.%d.%d" % (version[0], version[1], version[2])
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dnnl_engine_create", ctypes.byref(self.engine), 1, ctypes.c_size_t(0))
        self.call("dnnl_stream_create", ctypes.byref(self.stream), self.engine, 1)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError("%s: status %d" % (name, status))

    def describe(self, sizes, strides, kind):
        twelve = ctypes.c_int64 * 12
        arguments = (len(sizes), twelve(*sizes), kind, twelve(*strides))
        if self.major >= 3:
            description = ctypes.c_void_p()
            self.call("dnnl_memory_desc_create_with_strides", ctypes.byref(description), arguments[0], arguments[1],
                      arguments[2], arguments[3])
            return description
        description = ctypes.create_string_buffer(8192)  # larger than the structure
        self.call("dnnl_memory_desc_init_by_strides", description, *arguments)
        return description

    def make_primitive(self, a, b, c):
        made, primitive = ctypes.c_void_p(), ctypes.c_void_p()
        if self.major >= 3:
            self.call("dnnl_matmul_primitive_desc_create", ctypes.byref(made), self.engine, a, b, None, c, None)
        else:
            operation = ctypes.create_string_buffer(65536)
            self.call("dnnl_matmul_desc_init", operation, a, b, None, c)
            self.call("dnnl_primitive_desc_create", ctypes.byref(made), operation, None, self.engine, None)
        self.call("dnnl_primitive_create", ctypes.byref(primitive), made)
        return primitive

    def prepare(self, shape, dtype, memory):
        class Argument(ctypes.Structure):
            _fields_ = [("index", ctypes.c_int), ("memory", ctypes.c_void_p)]

        m, n, k, batch = shape
        operands = [((m, k), (k, 1), m * k), ((k, n), (1, k), k * n), ((m, n), (n, 1), m * n)]
        if batch > 1:
            operands = [((batch,) + s, (step,) + t, step) for s, t, step in operands]
        self.descriptions = [self.describe(s, t, FORMATS[dtype][1]) for s, t, _ in operands]
        primitive = self.make_primitive(*self.descriptions)
        self.arguments = (Argument * 3)()
        for i, index in enumerate((1, 33, 17)):
            holder = ctypes.c_void_p()
            self.call("dnnl_memory_create", ctypes.byref(holder), self.descriptions[i], self.engine,
                      ctypes.c_void_p(memory.address(i)))
            self.arguments[i] = Argument(index, holder.value)

        def run():
            self.call("dnnl_primitive_execute", primitive, self.stream, 3, self.arguments)
            self.call("dnnl_stream_wait", self.stream)

        return run


class PyTorch:
    def __init__(self, _, threads):
        import torch
        self.torch = torch
        torch.set_num_threads(threads)
        inside = [w for w in torch.__config__.show().split("\n") if "MKL-DNN" in w]
        version = inside[0].split("MKL-DNN ")[1].split(" ")[0].lstrip("v") if inside else "none"
        self.name = "PyTorch %s, oneDNN %s" % (torch.__version__.split("+")[0], version)

    def prepare(self, shape, dtype, memory):
        a, b, c = memory.tensors(self.torch)
        multiply, weights = (self.torch.mm, b.t()) if a.dim() == 2 else (self.torch.bmm, b.transpose(1, 2))
        return lambda: multiply(a, weights, out=c)


class MKL:
    """MKL in PyTorch's wheel, which exports the bf16 GEMM; its result is fp32. (PyTorch's fp32 GEMMs are MKL's.)"""

    def __init__(self, _, threads):
        import torch
        torch.set_num_threads(threads)
        path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
        self.multiply = ctypes.CDLL(path).cblas_gemm_bf16bf16f32
        self.name = "MKL in PyTorch, to fp32"

    def prepare(self, shape, dtype, memory):
        m, n, k, batch = shape
        if dtype != "bf16" or batch > 1:
            raise RuntimeError("for plain bf16 products alone")
        arguments = (101, 111, 112, m, n, k, ctypes.c_float(1), ctypes.c_void_p(memory.address(0)), k,
                     ctypes.c_void_p(memory.address(1)), k, ctypes.c_float(0), ctypes.c_void_p(memory.address(2)), n)
        return lambda: self.multiply(*arguments)


class Memory:
    """A, B and C one after another in a file that all processes map; C is large enough for fp32."""

    def __init__(self, path, shape, dtype):
        self.shape, self.dtype = shape, dtype
        m, n, k, batch = shape
        each = FORMATS[dtype][0]
        self.offsets = [0, batch * m * k * each, batch * (m * k + k * n) * each]
        self.bytes = self.offsets[2] + batch * m * n * 4
        file = os.open(path, os.O_RDWR)
        os.ftruncate(file, self.bytes)
        self.map = mmap.mmap(file, self.bytes)
        os.close(file)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def address(self, index):
        return self.base + self.offsets[index]

    def tensors(self, torch, wide=False):
        m, n, k, batch = self.shape
        kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[self.dtype]
        front = (batch,) if batch > 1 else ()
        sizes = ((m, k), (n, k), (m, n))
        kinds = (kind, kind, torch.float32 if wide else kind)
        return [torch.frombuffer(self.map, dtype=t, count=batch * s[0] * s[1], offset=o).view(*front, *s)
                for s, t, o in zip(sizes, kinds, self.offsets)]


def work(kind, path, threads):
    """Reads commands: a GEMM and its file, then "turn"s. Answers each with one line."""
    try:
        library = {"onednn": OneDNN, "torch": PyTorch, "mkl": MKL}[kind](path, threads)
    except (AttributeError, OSError) as error:
        print("missing", error, flush=True)
        return
    print(library.name, flush=True)
    run, runs = None, 1
    for line in sys.stdin:
        words = line.split()
        if words[0] == "turn":
            run()
            start = time.perf_counter()
            for _ in range(runs):
                run()
            took = (time.perf_counter() - start) / runs
            runs = max(1, int(TURN_S / took))
            print(took, flush=True)
            continue
        try:
            shape = tuple(int(w) for w in words[2:])
            memory = Memory(words[0], shape, words[1])  # mapped until the next
            run, runs = library.prepare(shape, words[1], memory), 1
            run()
            print("ready", flush=True)
        except RuntimeError as error:
            print("cannot", error, flush=True)


# ---- the comparison ----

class Worker:
    def __init__(self, kind, path, threads):
        command = [sys.executable, "-W", "ignore", __file__, "--worker", kind, path, str(threads)]
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.wide = kind == "mkl"
        self.name = self.process.stdout.readline().strip()

    def ask(self, words):
        print(words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise SystemExit("%s ended with %s" % (self.name, self.process.wait()))
        return answer


def check(torch, worker, memory):
    """Checks random whole rows: allows for fp32 accumulation and the rounding of a bf16 result."""
    a, b, c = memory.tensors(torch, worker.wide)
    for _ in range(8):
        at = tuple(random.randrange(s) for s in a.shape[:-1])
        weights = b[at[0]] if b.dim() == 3 else b
        expected = weights.double() @ a[at].double()
        bound = 1e-5 * a.shape[-1] ** 0.5 + (0 if c.dtype == torch.float32 else expected.abs() * 2 ** -8)
        if not ((c[at].double() - expected).abs() <= bound).all():
            raise SystemExit("%s: wrong result in row %s of %s" % (worker.name, at, memory.shape))


def compare(torch, workers, shape, dtype, path, seconds):
    memory = Memory(path, shape, dtype)
    a, b, _ = memory.tensors(torch)
    a.copy_(torch.empty(a.shape).uniform_(-1, 1))
    b.copy_(torch.empty(b.shape).uniform_(-1, 1))
    able = []
    for worker in workers:
        memory.tensors(torch, worker.wide)[2].fill_(float("nan"))
        if worker.ask(" ".join([path, dtype] + [str(s) for s in shape])) == "ready":
            check(torch, worker, memory)
            able.append((worker, []))
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(able[0][1]) < 7:
        for worker, times in able:
            times.append(float(worker.ask("turn")))
    work_done = 2e-9 * shape[0] * shape[1] * shape[2] * shape[3]
    for worker, times in able:
        ratios = [x / y for x, y in zip(able[0][1], times)]
        yield worker.name, work_done / statistics.median(times), statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onednn", action="append", default=[], help="a libdnnl.so; several are compared")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2.0, help="for each shape and format")
    parser.add_argument("--formats", default="fp32,bf16")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="only the first so many")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], options.worker[1], int(options.worker[2]))
        return
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
    asked = [("onednn", path) for path in options.onednn] + [("torch", "-"), ("mkl", "-")]
    workers = [Worker(kind, path, options.threads) for kind, path in asked]
    workers = [w for w in workers if not w.name.startswith("missing")]
    print("%d threads: GFLOP/s, and times the first library's speed" % options.threads)
    gains = {}
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        for dtype in options.formats.split(","):
            for shape in SHAPES[:options.shapes]:
                for name, rate, gain in compare(torch, workers, shape, dtype, file.name, options.seconds):
                    print("%s %5d x %5d x %5d x %2d  %-32s %8.0f  %5.2f" % (dtype, *shape, name, rate, gain), flush=True)
                    gains.setdefault((dtype, name), []).append(gain)
    for (dtype, name), list_of_gains in gains.items():
        print("%s, geometric mean of %2d shapes  %-32s %5.2f" % (dtype, len(list_of_gains), name,
                                                               statistics.geometric_mean(list_of_gains)))


if __name__ == "__main__":
    main()
