# SPDX-License-Identifier: Apache-2.0
"""headroom.torch on the CPU, and on a GPU where PyTorch has one."""
import importlib.util
import os
import sys
import threading
import unittest

import numpy
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import formulas
import headroom
import headroom.torch as ht
from headroom.torch import _run

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
ALLOWED = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 6e-2}


def operands(device="cpu", dtype=torch.float32, batch=2, q_len=5, kv_len=7, heads=(4, 2, 1), dims=(16, 8)):
    shapes = ((batch, q_len, heads[0], dims[0]), (batch, kv_len, heads[1], dims[0]), (batch, kv_len, heads[2], dims[1]))
    return [torch.randn(*shape).to(device, dtype) for shape in shapes]


def expected(q, k, v, **options):
    arrays = (x.float().cpu().numpy() for x in (q, k, v))
    return [torch.from_numpy(x).float() for x in formulas.attention(*arrays, **options)]


def int32(values, device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def close(self, found, right, allowed=1e-5):
        torch.testing.assert_close(found.float().cpu(), right, atol=allowed, rtol=0)

    def test_attention_is_that_of_the_formula_in_each_format(self):
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        for device in DEVICES:
            for dtype, allowed in ALLOWED.items():
                for options in ({}, dict(causal=True), dict(causal=True, window=3, scale=0.3), dict(softcap=2.0)):
                    with self.subTest(device=device, dtype=dtype, **options):
                        x = operands(device, dtype)
                        o, lse = ht.attention(*x, return_lse=True, **options)
                        right = expected(*x, **options)
                        self.close(o, right[0], allowed)
                        self.close(lse, right[1], allowed)
            x = operands(device)
            self.close(ht.attention(*x, causal=True, alibi_slopes=slopes.to(device)),
                       expected(*x, causal=True, slopes=slopes.numpy())[0])

    def test_a_sink_takes_its_share_of_the_softmax(self):
        for device in DEVICES:
            q, k, v = operands(device)
            sinks, starts = torch.randn(4), int32([0, 5, 10], device)
            o, lse = ht.attention(q, k, v, causal=True, sinks=sinks.to(device), return_lse=True)
            alone = expected(q, k, v, causal=True)
            lse_right = torch.logaddexp(alone[1], sinks[:, None])
            right = alone[0] * torch.exp(alone[1] - lse_right).transpose(1, 2)[..., None]
            self.close(o, right)
            self.close(lse, lse_right)
            rows = [x.flatten(0, 1) for x in (q, k, v)]
            packed, lse = ht.attention_varlen(*rows, starts, int32([0, 7, 14], device), 5, 7, causal=True,
                                              sinks=sinks.to(device), return_lse=True)
            self.close(packed.view(o.shape), right)
            self.close(lse.view(4, 2, 5).transpose(0, 1), lse_right)

    def test_documents_one_after_another_do_not_see_each_other(self):
        for device in DEVICES:
            q, k, v = operands(device, q_len=7)
            first = int32([[0, 0, 2, 2, 2, 5, 6], [0, 0, 0, 0, 4, 4, 4]], device)
            found = ht.attention(q, k, v, causal=True, first_keys=first)
            for b, documents in enumerate(((0, 2, 5, 6, 7), (0, 4, 7))):
                for start, end in zip(documents, documents[1:]):
                    part = [x[b:b + 1, start:end] for x in (q, k, v)]
                    self.close(found[b:b + 1, start:end], expected(*part, causal=True)[0])
        q, k, v = operands(q_len=7)
        with self.assertRaisesRegex(headroom.InvalidError, "first_keys: query 2 of sequence 1 begins with key 0"):
            ht.attention(q, k, v, causal=True, first_keys=int32([[0] * 7, [0, 2, 0, 0, 0, 0, 0]]))

    def test_strides_are_read_in_place_and_other_heads_are_copied(self):
        for device in DEVICES:
            q, k, v = operands(device)
            views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
            self.close(ht.attention(*views), expected(q, k, v)[0])
            turned = [x.transpose(1, 3).contiguous().transpose(1, 3) for x in (q, k, v)]
            self.close(ht.attention(*turned), expected(q, k, v)[0])
            same = k[:1, :1, :1].expand(2, 7, 2, 16)
            self.close(ht.attention(q, same, v), expected(q, same, v)[0])
            packed = torch.randn(2, 7, 4 * 16 + 2 * 16 + 8, device=device)
            q, k, v = packed.split((64, 32, 8), 2)
            q, k, v = q.unflatten(2, (4, 16)), k.unflatten(2, (2, 16)), v.unflatten(2, (1, 8))
            self.close(ht.attention(q, k, v, causal=True), expected(q, k, v, causal=True)[0])
            self.close(ht.attention(q[:, :, 1:3, 1:], k[..., 1:], v), expected(q[:, :, 1:3, 1:], k[..., 1:], v)[0])

    def test_queries_without_keys_get_zeros(self):
        for device in DEVICES:
            x = operands(device, kv_len=0)
            self.assertTrue((ht.attention(*x) == 0).all() and (ht.decode(*x) == 0).all())
            self.assertEqual(ht.attention(*operands(device, q_len=0)).shape, (2, 0, 4, 8))

    def test_sequences_of_variable_lengths_are_those_alone(self):
        for device in DEVICES:
            q, k, v = (x[0] for x in operands(device, q_len=9, kv_len=11))
            starts, ends = [0, 4, 4, 9], [0, 4, 5, 11]
            o, lse = ht.attention_varlen(q, k, v, int32(starts, device), int32(ends, device), 5, 6, causal=True,
                                         return_lse=True)
            for b in (0, 2):
                rows, keys = slice(*starts[b:b + 2]), slice(*ends[b:b + 2])
                right = expected(q[None, rows], k[None, keys], v[None, keys], causal=True)
                self.close(o[rows], right[0][0])
                self.close(lse[:, rows], right[1][0])

    def test_decode_finds_pages_through_a_block_table(self):
        for device in DEVICES:
            q, k, v = operands(device, q_len=1, kv_len=48)
            table = int32([[5, 0, 3], [1, 4, 2]], device)
            caches = [torch.empty(6, 16, *x.shape[2:], device=device) for x in (k, v)]
            for cache, x in zip(caches, (k, v)):
                cache[table.flatten().long()] = x.reshape(6, 16, *x.shape[2:])
            o, lse = ht.decode(q, *caches, int32([40, 17], device), table, return_lse=True)
            contiguous = ht.decode(q, k, v, int32([40, 17], device))
            for b, length in enumerate((40, 17)):
                right = expected(q[b:b + 1], k[b:b + 1, :length], v[b:b + 1, :length])
                self.close(o[b:b + 1], right[0])
                self.close(contiguous[b:b + 1], right[0])
                self.close(lse[b:b + 1], right[1].transpose(1, 2))

    def test_compiled_functions_have_no_break_and_the_same_result(self):
        def layer(q, k, v):
            return ht.attention(q * 2, k, v, causal=True) + ht.decode(q[:, -1:], k, v)

        for device in DEVICES:
            x = operands(device)
            for dynamic in (False, True):
                compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
                self.close(compiled(*x), layer(*x).cpu())
                self.close(compiled(*operands(device, q_len=6)), torch.zeros(2, 6, 4, 8), 100)

    def test_fake_kernels_give_the_shapes_and_strides_of_results(self):
        q, k, v = operands()
        rows = [x[0] for x in (q, k, v)]
        for name, arguments in (("attention", (q, k, v)), ("attention_lse", (q, k, v)), ("decode", (q, k, v)),
                                ("decode_lse", (q, k, v)),
                                ("attention_varlen_lse", (*rows, int32([0, 5]), int32([0, 7]), 5, 7))):
            with self.subTest(name):
                torch.library.opcheck(getattr(torch.ops.headroom, name).default, arguments,
                                      test_utils=("test_schema", "test_faketensor"))

    def test_autocast_chooses_the_format(self):
        for device in DEVICES:
            with torch.autocast(device, dtype=torch.bfloat16):
                self.assertEqual(ht.attention(*operands(device)).dtype, torch.bfloat16)

    def test_a_tensor_that_does_not_fit_is_named(self):
        q, k, v = operands()
        for words, call in (
                ("k is torch.float16, and q is torch.float32", lambda: ht.attention(q, k.half(), v)),
                ("q is torch.int32", lambda: ht.attention(q.int(), k.int(), v.int())),
                ("q has 3 dimensions", lambda: ht.attention(q[0], k[0], v[0])),
                ("v has 3 dimensions", lambda: ht.attention(q, k, v[0])),
                ("k has heads of 15", lambda: ht.attention(q, k[..., :15], v)),
                ("k has a batch of 1", lambda: ht.attention(q, k[:1], v[:1])),
                ("scale is 0", lambda: ht.attention(q, k, v, scale=0.0)),
                ("softcap is nan", lambda: ht.attention(q, k, v, softcap=float("nan"))),
                ("window", lambda: ht.attention(q, k, v, window=3)),
                ("first_keys has shape", lambda: ht.attention(q, k, v, first_keys=int32([0]))),
                ("alibi_slopes has shape", lambda: ht.attention(q, k, v, alibi_slopes=torch.ones(3))),
                ("causal is 'yes'|causal", lambda: ht.attention(q, k, v, causal="yes")),
                ("argument 'k'", lambda: ht.attention(q, [1], v)),
                ("argument 'window'", lambda: ht.attention(q, k, v, window=[1])),
                ("sinks has shape", lambda: ht.attention(q, k, v, sinks=torch.ones(3))),
                ("k is torch.sparse_coo", lambda: ht.attention(q, k.to_sparse(), v)),
                ("k is on meta", lambda: headroom.torch._operators.attention(None, False, q, k.to("meta"), v)),
                ("q_offsets has 1 elements", lambda: ht.attention_varlen(q[0], k[0], v[0], int32(3), int32(3), 5, 7)),
                ("max_q_len is -1",
                 lambda: ht.attention_varlen(q[0], k[0], v[0], int32([0, 5]), int32([0, 7]), -1, 7)),
                ("lengths is torch.int64", lambda: ht.decode(q, k, v, torch.tensor([3, 7]))),
                ("pages has shape", lambda: ht.decode(q, k, v, pages=int32([1, 2]))),
                ("offsets", lambda: ht.attention_varlen(q[0], k[0], v[0], int32([0, 99]), int32([0, 7]), 99, 7))):
            with self.subTest(words), self.assertRaisesRegex((headroom.Error, RuntimeError), words):
                call()

    def test_threads_get_their_own_results(self):
        calls = [operands(kv_len=20 + i) for i in range(4)]
        right, found = [expected(*x)[0] for x in calls], [0] * 4

        def run(i):
            for _ in range(50):
                found[i] += torch.allclose(ht.attention(*calls[i]), right[i], atol=1e-5)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [50] * 4)

    def test_a_child_of_fork_opens_the_device_itself(self):
        x = operands()
        before = ht.attention(*x)
        child = os.fork()
        if child == 0:
            os._exit(0 if numpy.array_equal(ht.attention(*x).numpy(), before.numpy()) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_copy_of_the_package_has_operators_of_its_own(self):
        spec = importlib.util.spec_from_file_location("another_headroom", headroom.__file__)
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
        another, x = importlib.import_module(f"{spec.name}.torch"), operands()
        self.assertTrue(torch.equal(another.attention(*x), ht.attention(*x)))
        self.assertTrue(torch.equal(torch.ops.another_headroom.attention(*x), torch.ops.headroom.attention(*x)))

    def test_results_are_those_of_pytorch(self):
        for device in DEVICES:
            q, k, v = operands(device, torch.bfloat16, q_len=64, kv_len=64, heads=(8, 8, 8), dims=(64, 64))
            theirs = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
            self.close(ht.attention(q, k, v, causal=True), theirs.transpose(1, 2).float().cpu(), 3e-2)


class Seen(unittest.TestCase):
    """Calls go past PyTorch's dispatcher only where nothing has to see them."""

    def setUp(self):
        torch.manual_seed(1)
        self.x = operands()
        for _ in range(3):  # so that the tensors are known
            self.right = ht.attention(*self.x)
        self.assertIsNotNone(_run.recent_like("attention", *self.x))

    def test_a_mode_sees_a_call(self):
        names = []

        class Dispatch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                names.append(str(function))
                return function(*arguments, **(named or {}))

        class Function(TorchFunctionMode):
            def __torch_function__(self, function, types, arguments=(), named=None):
                names.append(str(function))
                return function(*arguments, **(named or {}))

        for mode in (Dispatch, Function):
            names.clear()
            with mode():
                torch.testing.assert_close(ht.attention(*self.x), self.right)
            self.assertIn("headroom.attention.default", names)

    def test_tensors_that_differ_from_those_before_are_read_anew(self):
        q, k, v = self.x
        k_turned = k.transpose(1, 2).contiguous().transpose(1, 2)
        memory = torch.zeros(k.numel() + 1)
        shifted = memory[1:].view(k.shape).copy_(k)
        for other in (k[:, :6], k[:, ::2], k_turned, shifted):
            self.assertIsNone(None if other is shifted else _run.recent_like("attention", q, other, v))
            values = v[:, :other.shape[1]]
            for _ in range(3):
                torch.testing.assert_close(ht.attention(q, other, values),
                                           expected(q, other, values)[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(ht.attention(q, k, v, causal=True), expected(q, k, v, causal=True)[0], atol=1e-5,
                                       rtol=0)
        for other in (k.half(), k.to("meta"), k.clone().requires_grad_(), torch.nn.Parameter(k), torch._neg_view(k)):
            ht.attention(q, k, v)
            self.assertIsNone(_run.recent_like("attention", q, other, v))

    def test_fake_tensors_stay_fake(self):
        with FakeTensorMode() as mode:
            self.assertIsNone(_run.recent_like("attention", *self.x))
            x = [mode.from_tensor(each) for each in self.x]
            self.assertIsInstance(ht.attention(*x), FakeTensor)
        self.assertIsInstance(ht.attention(*x), FakeTensor)
        self.assertEqual(ht.attention(*(each.to("meta") for each in self.x)).device.type, "meta")

    def test_a_subclass_sees_a_call(self):
        class Named(torch.Tensor):
            pass

        self.assertIsInstance(ht.attention(self.x[0].as_subclass(Named), *self.x[1:]), Named)

    def test_a_transform_is_never_passed_over(self):
        batched = torch.vmap(ht.attention)(*(torch.stack((each, each * 2)) for each in self.x))
        torch.testing.assert_close(batched[0], self.right)
        torch.testing.assert_close(batched[1], ht.attention(*(each * 2 for each in self.x)))
        torch.testing.assert_close(torch.func.functionalize(ht.attention)(*self.x), self.right)

    def test_traces_and_profiles_have_the_operator(self):
        traced = torch.jit.trace(lambda q, k, v: ht.attention(q, k, v), self.x)
        self.assertIn("headroom::attention", str(traced.graph))
        self.assertIn("headroom.attention", make_fx(lambda *x: ht.attention(*x))(*self.x).code)
        with torch.profiler.profile() as profile:
            ht.attention(*self.x)
        self.assertIn("headroom::attention", [event.key for event in profile.key_averages()])

    def test_a_view_with_the_sign_bit_is_read_with_its_sign(self):
        q, k, v = self.x
        turned = torch._neg_view(k.neg())
        torch.testing.assert_close(ht.attention(q, turned, v), self.right)
        with self.assertRaisesRegex(headroom.InvalidError, "sinks"):
            ht.decode(q, k, v, sinks=torch._neg_view(torch.ones(4)))


@unittest.skipUnless(torch.cuda.is_available(), "PyTorch has no GPU here")
class Gpu(unittest.TestCase):
    def test_a_tensor_on_another_device_is_named(self):
        q, k, v = operands("cuda")
        with self.assertRaisesRegex(headroom.InvalidError, "v is on cpu, and q is on cuda:0"):
            ht.attention(q, k, v.cpu())

    def test_a_captured_graph_reads_new_operands_at_each_replay(self):
        x = operands("cuda", torch.bfloat16, q_len=128, kv_len=128, heads=(8, 8, 8), dims=(64, 64))
        ht.attention(*x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, last = ht.attention(*x, causal=True), ht.decode(x[0][:, -1:], *x[1:])
        for _ in range(3):
            for tensor in x:
                tensor.normal_()
            graph.replay()
            torch.testing.assert_close(o, ht.attention(*x, causal=True))
            torch.testing.assert_close(last, ht.decode(x[0][:, -1:], *x[1:]))

    def test_calls_on_two_streams_do_not_disturb_each_other(self):
        calls = [operands("cuda", torch.bfloat16, batch=4, q_len=1, kv_len=4096, heads=(8, 2, 2), dims=(128, 128))
                 for _ in range(2)]
        right = [ht.decode(*x) for x in calls]
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in calls]
        found = [[], []]
        for _ in range(50):
            for i, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    found[i].append(ht.decode(*calls[i]))
        torch.cuda.synchronize()
        for i in range(2):
            for each in found[i]:
                torch.testing.assert_close(each, right[i])


if __name__ == "__main__":
    unittest.main()
