# SPDX-License-Identifier: Apache-2.0
"""headroom.torch.all_reduce_rmsnorm over processes: gloo groups on the CPU, and GPUs where there are enough."""
import datetime
import os
import pathlib
import tempfile
import traceback
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F

import headroom
import headroom.torch as ht
from headroom.torch import _ranks

ALLOWED = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}  # of the largest element
SHAPES = ((1, 8), (3, 5, 64), (7, 33), (2, 4096))
EPS = 1e-5


def operand(seed, shape, dtype, device):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).to(device)


def operands(shape, dtype, device, rank):
    """x of a rank; residual and weight of all."""
    return [operand(rank, shape, dtype, device), operand(50, shape, dtype, device),
            operand(51, shape[-1:], dtype, device)]


def expected(shape, dtype, size):
    """In float64, with the sum over ranks rounded to the format."""
    x = sum(operand(rank, shape, dtype, "cpu").double() for rank in range(size)).to(dtype).double()
    _, residual, weight = (each.double() for each in operands(shape, dtype, "cpu", 0))
    total = x + residual
    return total * (total.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight, total


def is_close(found, right, dtype):
    for each, other in zip(found, right):
        allowed = ALLOWED[dtype] * float(other.abs().max())
        torch.testing.assert_close(each.double().cpu(), other, atol=allowed, rtol=0)


# ---- what the processes do ----


def formula(rank, size, device):
    for dtype in ALLOWED:
        for shape in SHAPES:
            found = ht.all_reduce_rmsnorm(*operands(shape, dtype, device, rank), eps=EPS)
            is_close(found, expected(shape, dtype, size), dtype)
            for each in found:
                everyone = [torch.empty_like(each) for _ in range(size)]
                dist.all_gather(everyone, each)
                assert all(torch.equal(each, other) for other in everyone), "ranks have other bits"


def pytorch(rank, size, device):
    """Operands of any strides, at any address; and they stay as they are."""
    wide = operand(rank, (6, 130), torch.float32, device)
    x, residual = wide[:, 1:65], operand(60, (64, 6), torch.float32, device).t()
    weight = operand(61, (64,), torch.float32, device)
    kept = [each.clone() for each in (x, residual, weight)]
    y, total = ht.all_reduce_rmsnorm(x, residual, weight, eps=EPS)
    for each, before in zip((x, residual, weight), kept):
        assert torch.equal(each, before), "an operand has changed"
    summed = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed)
    torch.testing.assert_close(total, summed + residual, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(y, F.rms_norm(summed + residual, (64,), weight, EPS), atol=1e-5, rtol=1e-5)


def compiled(rank, size, device):
    class Layer(torch.nn.Module):
        def forward(self, x, residual, weight):
            y, total = ht.all_reduce_rmsnorm(x * 2, residual, weight, eps=EPS, group=dist.group.WORLD)
            return y + 1, total * 3
    x = operands((4, 16), torch.float32, device, rank)
    for model in (Layer(), torch.compile(Layer(), fullgraph=True, backend="aot_eager")):
        y, total = model(*x)
        right = ht.all_reduce_rmsnorm(x[0] * 2, *x[1:], eps=EPS)
        assert torch.equal(y, right[0] + 1) and torch.equal(total, right[1] * 3)
    torch.library.opcheck(torch.ops.headroom.all_reduce_rmsnorm.default, (*x, EPS, ""),
                          test_utils=("test_schema", "test_faketensor"))


def groups(rank, size, device):
    """A group of some ranks; a group that takes the place of another; a call by name."""
    pair = dist.new_group([1, 2])
    x = operands((2, 8), torch.float32, device, rank)
    if rank == 0:
        for given in (pair, 7):
            expect("a process group that this rank is in", *x, group=given)
    else:
        y, total = ht.all_reduce_rmsnorm(*x, group=pair)
        assert torch.allclose(total, operand(1, (2, 8), torch.float32, device) +
                              operand(2, (2, 8), torch.float32, device) + x[1])
        assert torch.equal(y, ht.all_reduce_rmsnorm(*x, group=pair.group_name)[0])
        assert len(_ranks._ranks) == 1, "a group has joined twice"
    first = ht.all_reduce_rmsnorm(*x)
    again = ht.all_reduce_rmsnorm(*x, group=dist.group.WORLD)
    assert torch.equal(first[0], again[0])


def expect(line, *given, **options):
    try:
        ht.all_reduce_rmsnorm(*given, **options)
    except headroom.Error as error:
        assert line in str(error) and "\n" not in str(error), f"{error}, not {line}"
        return
    raise AssertionError(f"nothing was said about {line}")


def refusals(rank, size, device):
    x, residual, weight = operands((2, 8), torch.float32, device, rank)
    expect("x is torch.float64", x.double(), residual, weight)
    expect("residual is torch.float16, and x is torch.float32", x, residual.half(), weight)
    expect("residual has shape [1, 8]; expected [2, 8]", x, residual[:1], weight)
    expect("weight has shape [4]; expected [8]", x, residual, weight[:4])
    if device != "cpu":
        expect("residual is on cpu, and x is on cuda", x, residual.cpu(), weight)
    expect("x has shape []", x[0, 0], residual, weight)
    expect("eps is 0", x, residual, weight, eps=0.0)
    expect("all_reduce_rmsnorm: ", x, residual, weight, group="no such group")
    expect("weight requires a gradient", x, residual, weight.clone().requires_grad_())
    y, total = ht.all_reduce_rmsnorm(x[:0], residual[:0], weight)
    assert y.shape == total.shape == (0, 8)
    wrong = 8 if rank == 0 else 16
    expect("rank 1 asks for an all_reduce of 32 fp32, rank 0 for an all_reduce of 16 fp32",
           *operands((2, wrong), torch.float32, device, rank))


def captured(rank, size, device):
    x = operands((4, 4096), torch.bfloat16, device, rank)
    right = ht.all_reduce_rmsnorm(*x, eps=EPS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, total = ht.all_reduce_rmsnorm(*x, eps=EPS)
    for each in (y, total):
        each.zero_()
    for _ in range(20):
        graph.replay()
    assert torch.equal(y, right[0]) and torch.equal(total, right[1])
    large = operands((300, 8192), torch.bfloat16, device, rank)  # 4.7 MiB: an all-reduce and a norm
    is_close(ht.all_reduce_rmsnorm(*large, eps=EPS), expected((300, 8192), torch.bfloat16, size), torch.bfloat16)


def again(rank, size, device):
    """Another group of the same name; and nothing is left in the store of the first."""
    for turn in ("first", "second"):
        if turn == "second":
            dist.destroy_process_group()
            assert len(_ranks._ranks) == 0, "a group has left its ranks"
            start(rank, size, device, turn)
        is_close(ht.all_reduce_rmsnorm(*operands((2, 8), torch.float32, device, rank), eps=EPS),
                 expected((2, 8), torch.float32, size), torch.float32)
    wait_for_all(rank, size, "both")
    kept = dist.PrefixStore("headroom/cpu", dist.distributed_c10d._get_process_group_store(dist.group.WORLD))
    assert not any(kept.check([name]) for name in ("at", "host0", "host1")), "the store still has an address"


# ---- processes ----


def start(rank, size, device, turn):
    backend, store = "gloo" if device == "cpu" else "nccl", dist.PrefixStore(turn, process.store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def wait_for_all(rank, size, what):
    """Not by a collective: who leaves one first ends the connections that others still need."""
    process.store.set(f"{what}{rank}", "here")
    process.store.wait([f"{what}{each}" for each in range(size)])


def process(rank, size, name, kind, folder):
    torch.set_num_threads(1)
    device = "cpu" if kind == "cpu" else f"cuda:{rank}"
    if kind == "cuda":
        torch.cuda.set_device(rank)
    process.store = dist.FileStore(os.path.join(folder, "store"), size)
    process.store.set_timeout(datetime.timedelta(seconds=120))
    start(rank, size, device, "first")
    try:
        globals()[name](rank, size, device)
        wait_for_all(rank, size, "done")
        dist.destroy_process_group()
    except BaseException:
        with open(os.path.join(folder, f"rank{rank}"), "w") as file:
            traceback.print_exc(file=file)
        os._exit(1)  # what others wait for does not come


class Ranks(unittest.TestCase):
    def run_in_processes(self, name, size, kind="cpu"):
        with tempfile.TemporaryDirectory() as folder:
            context = torch.multiprocessing.start_processes(process, (size, name, kind, folder), size, join=False,
                                                            start_method="spawn")
            try:
                while not context.join():
                    pass
            except torch.multiprocessing.ProcessExitedException:
                pass
            paths = [pathlib.Path(folder, f"rank{rank}") for rank in range(size)]
            self.assertEqual([f"{path.name}: {path.read_text()}" for path in paths if path.exists()], [])
            self.assertEqual([each.exitcode for each in context.processes], [0] * size)

    def kinds(self, size):
        return ["cpu"] + (["cuda"] if torch.cuda.is_available() and torch.cuda.device_count() >= size else [])

    def test_sum_and_norm_are_those_of_the_formula_with_the_same_bits_on_each_rank(self):
        for size in (2, 3):
            for kind in self.kinds(size):
                with self.subTest(size=size, kind=kind):
                    self.run_in_processes("formula", size, kind)

    def test_they_are_those_of_pytorch_for_any_strides(self):
        for kind in self.kinds(2):
            self.run_in_processes("pytorch", 2, kind)

    def test_it_is_one_operator_of_a_compiled_graph(self):
        for kind in self.kinds(2):
            self.run_in_processes("compiled", 2, kind)

    def test_groups_are_parts_of_the_world_and_may_follow_each_other(self):
        self.run_in_processes("groups", 3)
        self.run_in_processes("again", 2)

    def test_wrong_operands_are_refused_by_one_line(self):
        for kind in self.kinds(2):
            self.run_in_processes("refusals", 2, kind)

    @unittest.skipUnless(torch.cuda.is_available() and torch.cuda.device_count() >= 2, "needs two GPUs")
    def test_a_cuda_graph_repeats_its_bits(self):
        self.run_in_processes("captured", 2, "cuda")

    def test_without_a_group_there_is_one_line(self):
        with self.assertRaisesRegex(headroom.UnavailableError, "all_reduce_rmsnorm: .*group has not been initialized"):
            ht.all_reduce_rmsnorm(*operands((2, 8), torch.float32, "cpu", 0))


if __name__ == "__main__":
    unittest.main()
