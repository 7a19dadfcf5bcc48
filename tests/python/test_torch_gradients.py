# SPDX-License-Identifier: Apache-2.0
"""Gradients of headroom.torch: beside finite differences in float64, and beside autograd of the formula."""
import contextlib
import os
import tempfile
import unittest
import unittest.mock
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd import gradcheck
from torch.utils.checkpoint import checkpoint

import headroom
import headroom.torch as ht
from headroom import _problem
from headroom.torch import _gradients
from headroom.torch._gradients import has_kernel

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
ALLOWED = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
CASES = [(device, dtype) for device in DEVICES for dtype in ALLOWED
         if has_kernel(device, 0, dtype, ((4, 8), (2, 8), (1, 6)))]
FP32_DEVICES = [device for device, dtype in CASES if dtype == torch.float32]
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
FIRST = torch.tensor([[0, 0, 2, 2, 4], [0, 1, 1, 1, 1]], dtype=torch.int32)
OPTIONS = {"all keys": {}, "causal": dict(causal=True), "a window": dict(causal=True, window=3, scale=0.3),
           "a soft cap": dict(softcap=1.5), "a soft cap and ALiBi": dict(causal=True, softcap=1.5, alibi_slopes=SLOPES),
           "documents": dict(causal=True, first_keys=FIRST), "a negative scale": dict(scale=-0.5)}


def operands(device="cpu", dtype=torch.float64, batch=2, q_len=5, kv_len=7, heads=(4, 2, 1), dims=(8, 6)):
    shapes = ((batch, q_len, heads[0], dims[0]), (batch, kv_len, heads[1], dims[0]), (batch, kv_len, heads[2], dims[1]))
    return [torch.randn(*shape).to(device, dtype).requires_grad_() for shape in shapes]


def int32(values, device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


def formula(q, k, v, causal=False, scale=None, window=0, softcap=0.0, alibi_slopes=None, first_keys=None, sinks=None):
    """Attention by operations that PyTorch differentiates, in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (scale or q.shape[3]**-0.5)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    keys, own = torch.arange(k.shape[2]), torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    keys, own = keys.to(q.device), own.to(q.device)
    scores = scores if alibi_slopes is None else scores + alibi_slopes[:, None, None] * (keys - own)
    hidden = (keys > own if causal else keys < 0) | (keys <= own - (window or 2**30))
    hidden = hidden if first_keys is None else hidden | (keys < first_keys[:, None, :, None])
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double().view(-1, 1, 1).expand(*scores.shape[:3], 1)), 3)
    return (torch.softmax(scores, 3)[..., :k.shape[2]] @ v).transpose(1, 2)


def gradients(o, inputs):
    """Of a sum whose terms differ in weight."""
    weights = torch.cos(torch.arange(o.numel(), device=o.device)).view(o.shape).to(o.dtype)
    return torch.autograd.grad((o * weights).sum(), inputs)


@contextlib.contextmanager
def passed_on():
    """The lines about calls that are passed on."""
    lines = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield lines
    lines += [str(each.message) for each in said if "passed on" in str(each.message)]


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def same(self, found, right, allowed=1e-4):
        for each, expected in zip(found, right):
            torch.testing.assert_close(each.double(), expected.double(), atol=allowed, rtol=allowed)

    def test_they_are_finite_differences_in_float64(self):
        for name, options in OPTIONS.items():
            with self.subTest(name):
                kv_len = 5 if "first_keys" in options else 7
                self.assertTrue(gradcheck(lambda *x: ht.attention(*x, **options), operands(kv_len=kv_len)))

    def test_a_sink_has_a_gradient_of_its_own(self):
        sinks = torch.randn(4, dtype=torch.float64, requires_grad=True)  # fp32 in the call, as the log-sum-exp is

        def call(*x):
            return ht.attention(*x[:3], causal=True, softcap=2.0, sinks=x[3].float())

        self.assertTrue(gradcheck(call, (*operands(), sinks), eps=1e-3, atol=1e-3))
        for device, dtype in CASES:
            x = (*operands(device, dtype), torch.randn(4, device=device, requires_grad=True))
            self.same(gradients(ht.attention(*x[:3], causal=True, sinks=x[3]), x),
                      gradients(formula(*x[:3], causal=True, sinks=x[3]), x), ALLOWED[dtype])

    def test_a_sink_alone_may_require_a_gradient(self):
        q, k, v = (x.detach() for x in operands(dtype=torch.float32))
        sinks = torch.randn(4, requires_grad=True)
        with torch.no_grad():
            for _ in range(3):
                ht.attention(q, k, v, sinks=sinks)
        for _ in range(3):
            self.same(gradients(ht.attention(q, k, v, sinks=sinks), (sinks,)),
                      gradients(formula(q, k, v, sinks=sinks), (sinks,)))

    def test_packed_sequences_have_those_of_each(self):
        starts, ends = [0, 2, 2, 5, 5], [0, 3, 4, 7, 9]
        for sinks in (None, torch.randn(4)):
            q, k, v = (x[0].detach().requires_grad_() for x in operands(q_len=6, kv_len=10))
            found = gradients(ht.attention_varlen(q, k, v, int32(starts), int32(ends), 3, 3, causal=True,
                                                  sinks=sinks)[:5], (q, k, v))
            parts = [formula(q[None, a:b], k[None, c:d], v[None, c:d], causal=True, sinks=sinks)[0]
                     for a, b, c, d in zip(starts, starts[1:], ends, ends[1:])]
            self.same(found, gradients(torch.cat(parts), (q, k, v)), 1e-5)
            self.assertTrue((found[0][5:] == 0).all() and (found[1][9:] == 0).all() and (found[2][9:] == 0).all())

    def test_they_are_those_of_the_formula_in_each_format(self):
        for device, dtype in CASES:
            for name, options in OPTIONS.items():
                with self.subTest(device=device, dtype=dtype, options=name):
                    options = {key: value.to(device) if isinstance(value, torch.Tensor) else value
                               for key, value in options.items()}
                    x = operands(device, dtype, kv_len=5 if "first_keys" in options else 7)
                    self.same(gradients(ht.attention(*x, **options), x), gradients(formula(*x, **options), x),
                              ALLOWED[dtype])

    def test_strides_and_gradients_without_memory_are_read_right(self):
        for device in FP32_DEVICES:
            packed = torch.randn(2, 7, 4 * 8 + 2 * 8 + 6, device=device, requires_grad=True)
            q, k, v = packed.split((32, 16, 6), 2)
            x = q.unflatten(2, (4, 8)), k.unflatten(2, (2, 8)), v.unflatten(2, (1, 6))
            self.same(gradients(ht.attention(*x, causal=True), (packed,)),
                      gradients(formula(*x, causal=True), (packed,)))
            q, k, v = operands(device, torch.float32)
            turned = [y.transpose(1, 2).contiguous().transpose(1, 2) for y in (q, k, v)]
            last = [y.transpose(1, 3).contiguous().transpose(1, 3) for y in (q, k, v)]
            same = k[:, :1].expand(2, 7, 2, 8)
            for y in (turned, last, (q, same, v), (q[:, :, 1:3, 1:], k[..., 1:], v)):
                for end in (lambda o: o.sum(), lambda o: o.transpose(1, 2).square().sum(), lambda o: o[:, 2:4].sum(),
                            lambda o: o[..., 1:].square().sum()):
                    found, right = (torch.autograd.grad(end(f(*y)), (q, k, v)) for f in (ht.attention, formula))
                    self.same(found, right)

    def test_queries_and_keys_that_see_nothing_have_zeros(self):
        q, k, v = operands(dtype=torch.float32, q_len=5, kv_len=5)
        first = int32([[0, 0, 5, 5, 5], [5] * 5])
        found = gradients(ht.attention(q, k, v, causal=True, first_keys=first), (q, k, v))
        self.assertTrue(all((x[1] == 0).all() for x in found) and (found[0][0, 2:] == 0).all())
        for sizes in (dict(kv_len=0), dict(q_len=0)):
            x = operands(dtype=torch.float32, **sizes)
            self.assertTrue(all((each == 0).all() for each in gradients(ht.attention(*x), x)))

    def test_each_call_requires_them_or_not_whatever_came_before(self):
        x = operands(dtype=torch.float32)
        plain = [each.detach() for each in x]
        for _ in range(3):
            for required, call in ((True, lambda: ht.attention(*x)), (False, lambda: ht.attention(*plain)),
                                   (True, lambda: ht.attention(plain[0], x[1], plain[2])),
                                   (True, lambda: torch.ops.headroom.attention(*x)),
                                   (True, lambda: ht.attention(*x, return_lse=True)[0])):
                for _ in range(3):
                    self.assertEqual(call().requires_grad, required)
                    with torch.no_grad():
                        self.assertFalse(call().requires_grad)
                    with torch.inference_mode():
                        self.assertFalse(call().requires_grad)

    def test_only_those_that_are_required_are_given(self):
        q, k, v = operands(dtype=torch.float32)
        ht.attention(q, k.detach(), v).sum().backward()
        self.assertTrue(q.grad is not None and k.grad is None and v.grad is not None)

    def test_autocast_gives_them_in_the_format_of_the_tensors(self):
        x = operands(dtype=torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = ht.attention(*x, causal=True)
        self.assertEqual(o.dtype, torch.bfloat16)
        found = gradients(o, x)
        self.assertEqual({each.dtype for each in found}, {torch.float32})
        self.same(found, gradients(formula(*x, causal=True), x), ALLOWED[torch.bfloat16])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, o = [each.detach() for each in x], torch.randn(2, 5, 4, 6)
            found = torch.ops.headroom.attention_backward(o, *y, o, torch.rand(2, 4, 5))
        self.assertEqual({each.dtype for each in found[:3]}, {torch.bfloat16})

    def test_drop_ins_have_them(self):
        for device in FP32_DEVICES:
            for q_len in (1, 5, 20):
                x = (*operands(device, torch.float32, q_len=q_len, kv_len=20), torch.randn(4, device=device,
                                                                                          requires_grad=True))
                self.same(gradients(ht.flash_attn_func(*x[:3], causal=True, s_aux=x[3], deterministic=True), x),
                          gradients(formula(*x[:3], causal=True, sinks=x[3]), x))
                rows = [y.detach().flatten(0, 1).requires_grad_() for y in x[:3]]
                starts, ends = (int32([0, n, 2 * n], device) for n in (q_len, 20))
                o = ht.flash_attn_varlen_func(*rows, starts, ends, q_len, 20, causal=True)
                self.same(gradients(o.view(2, q_len, 4, 6), rows),
                          [y.flatten(0, 1) for y in gradients(formula(*x[:3], causal=True), x[:3])])
            x = [y.transpose(1, 2).detach().requires_grad_() for y in operands(device, torch.float32, heads=(4, 2, 2),
                                                                               dims=(8, 8))]
            for options in ({}, dict(is_causal=True), dict(scale=0.3)):
                options["enable_gqa"] = True
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", message=".*passed on")
                    found = gradients(ht.scaled_dot_product_attention(*x, **options), x)
                self.same(found, gradients(F.scaled_dot_product_attention(*x, **options), x))

    def test_a_call_without_a_kernel_for_its_gradients_is_passed_on_to_pytorch(self):
        x = [torch.randn(1, 2, 37, 8, requires_grad=True) for _ in range(3)]
        refusal = headroom.UnsupportedError("too large")
        with unittest.mock.patch.object(_gradients, "plan", side_effect=refusal) as plan, passed_on() as lines:
            found = gradients(ht.scaled_dot_product_attention(*x), x)
        self.same(found, gradients(F.scaled_dot_product_attention(*x), x))
        self.assertEqual([tuple(each.shape) for each in plan.call_args.args[:3]], [(1, 37, 2, 8)] * 3)
        self.assertEqual(lines, ["scaled_dot_product_attention: there are no gradients of torch.float32 on cpu in "
                                 "these sizes: passed on to PyTorch's"])

    def test_compiled_functions_have_no_break_and_the_same_gradients(self):
        starts, sinks = int32([0, 3, 7]), torch.randn(4, requires_grad=True)

        def layer(q, k, v, s):
            o = ht.attention(q * 2, k, v, causal=True, sinks=s) + ht.flash_attn_func(q, k, v, causal=True)
            o, lse = o + ht.attention(q, k, v, return_lse=True)[0], ht.attention(q, k, v, return_lse=True)[1]
            return o + ht.attention_varlen(q[0], k[0], v[0], starts, starts, 4, 4, causal=True)[None], lse

        for dynamic in (False, True):
            torch.compiler.reset()
            compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
            for batch in (2, 3):
                x = (*operands(dtype=torch.float32, batch=batch, q_len=7), sinks)
                found = compiled(*x)
                self.same(gradients(found[0], x), gradients(layer(*x)[0], x))
                with self.assertRaisesRegex(RuntimeError, "the log-sum-exp has no gradient of its own"):
                    gradients(compiled(*x)[1], x[:2])

    def test_checkpoints_compute_the_same_again(self):
        x = operands(dtype=torch.float32)

        def layer(q, k, v):
            return ht.attention(q * 2, k, v, causal=True)

        for reentrant in (False, True):
            found = []
            for each in x:
                each.grad = None
            checkpoint(layer, *x, use_reentrant=reentrant).square().sum().backward()
            found = [each.grad for each in x]
            self.same(found, torch.autograd.grad(layer(*x).square().sum(), x), 0)

    def test_deterministic_ones_are_asked_for(self):
        x = operands(dtype=torch.float32)
        with unittest.mock.patch.object(_problem, "attention_backward", wraps=_problem.attention_backward) as made:
            for call, enabled in ((lambda: ht.attention(*x, deterministic=True), False),
                                  (lambda: ht.flash_attn_func(*x, window_size=(-1, 0), deterministic=True), False),
                                  (lambda: ht.attention(*x, scale=0.7), True)):
                torch.use_deterministic_algorithms(enabled)
                self.addCleanup(torch.use_deterministic_algorithms, False)
                gradients(call(), x)
                self.assertIs(made.call_args.args[2], True)
            torch.use_deterministic_algorithms(False)
            gradients(ht.attention(*x, scale=0.7), x)
            self.assertIs(made.call_args.args[2], False)

    def test_what_has_none_is_refused_by_name(self):
        q, k, v = operands(dtype=torch.float32)
        plain, scales = [x.detach() for x in (q, k, v)], torch.ones(2, requires_grad=True)
        lengths, slopes = int32([1, 1]), SLOPES.clone().requires_grad_()
        for words, call in (
                ("^decode: k requires a gradient", lambda: ht.decode(plain[0], k, plain[2])),
                ("^decode: q requires a gradient", lambda: torch.ops.headroom.decode(q, k, v)),
                ("^decode: sinks requires a gradient", lambda: ht.decode(*plain, sinks=slopes)),
                ("^decode: k_scales requires a gradient",
                 lambda: ht.decode(plain[0], plain[1].to(torch.int8), plain[2][..., :1, :], k_scales=scales)),
                ("^kv_append: k requires a gradient",
                 lambda: ht.kv_append(plain[1].clone(), None, k[:, :1], None, lengths)),
                ("^flash_attn_with_kvcache: v_cache requires", lambda: ht.flash_attn_with_kvcache(*plain[:2], v)),
                ("^attention: alibi_slopes requires", lambda: ht.attention(q, k, v, causal=True, alibi_slopes=slopes)),
                ("^attention: alibi_slopes requires", lambda: ht.attention(*plain, causal=True, alibi_slopes=slopes)),
                ("^attention: the log-sum-exp has no gradient",
                 lambda: sum(x.sum() for x in ht.attention(q, k, v, return_lse=True)).backward()),
                ("^attention_varlen: the log-sum-exp has no gradient",
                 lambda: ht.attention_varlen(q[0], k[0], v[0], int32([0, 5]), int32([0, 7]), 5, 7,
                                             return_lse=True)[1].sum().backward()),
                ("^attention_backward: there is no second derivative", lambda: torch.autograd.grad(
                    torch.autograd.grad(ht.attention(q, k, v).square().sum(), q, create_graph=True)[0].sum(), q)),
                ("^attention_backward: d_o has shape", lambda: torch.ops.headroom.attention_backward(
                    *plain[:1], *plain, torch.randn(2, 5, 4, 6), torch.rand(2, 4, 5))),
                ("^attention_backward: lse has shape", lambda: torch.ops.headroom.attention_backward(
                    torch.randn(2, 5, 4, 6), *plain, torch.randn(2, 5, 4, 6), torch.rand(2, 5, 4)))):
            with self.subTest(words), self.assertRaisesRegex(headroom.Error, words):
                call()

    def test_operators_are_registered_as_pytorch_wants_them(self):
        q, k, v = operands(dtype=torch.float32)
        o, lse, ends = torch.randn(2, 5, 4, 6), torch.rand(2, 4, 5), int32([0, 3, 5])
        rows = [x.detach()[0].requires_grad_() for x in (q, k, v)]
        torch.library.opcheck(torch.ops.headroom.attention.default, (q, k, v), dict(causal=True))
        torch.library.opcheck(torch.ops.headroom.attention_varlen.default, (*rows, ends, ends, 3, 3))
        for sinks in (None, torch.randn(4)):
            torch.library.opcheck(torch.ops.headroom.attention_backward.default, (o, q, k, v, o, lse),
                                  dict(causal=True, sinks=sinks),
                                  test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


# ---- several processes ----


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 4 * 8 + 2 * 8 + 8)
        self.outer = torch.nn.Linear(4 * 8, 16)

    def forward(self, x):
        q, k, v = self.inner(x).split((32, 16, 8), 2)
        o = ht.attention(q.unflatten(2, (4, 8)), k.unflatten(2, (2, 8)), v.unflatten(2, (1, 8)), causal=True)
        return self.outer(o.flatten(2))


def sharded(model):
    from torch.distributed.fsdp import fully_shard
    return fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))


def train(rank, file, failures):
    """A process of two, each with half of a batch."""
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    torch.manual_seed(1)
    alone, x = Layer(), torch.randn(4, 6, 16)
    alone(x).square().mean().backward()
    for wrap in (torch.nn.parallel.DistributedDataParallel, sharded):
        model = Layer()
        model.load_state_dict(alone.state_dict())
        model = wrap(model)
        model(x[2 * rank:2 * rank + 2]).square().mean().backward()
        for right, found in zip(alone.parameters(), model.parameters()):
            grad = found.grad.full_tensor() if hasattr(found.grad, "full_tensor") else found.grad
            if not torch.allclose(grad, right.grad, atol=1e-5):
                failures.put(f"{wrap.__name__} on rank {rank}")
    dist.destroy_process_group()
    # Gloo's threads may outlive the group, and a process whose interpreter ends under one of them aborts.
    os._exit(0)


@unittest.skipUnless(dist.is_available() and dist.is_gloo_available(), "PyTorch has no gloo here")
class Distributed(unittest.TestCase):
    def test_ddp_and_fsdp_reduce_them(self):
        context = torch.multiprocessing.get_context("spawn")
        failures = context.SimpleQueue()
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            processes = [context.Process(target=train, args=(rank, f"{folder}/store", failures)) for rank in range(2)]
            for each in processes:
                each.start()
                stack.callback(each.join)
            for each in processes:
                each.join()
        self.assertTrue(failures.empty(), None if failures.empty() else failures.get())
        self.assertEqual([each.exitcode for each in processes], [0, 0])


if __name__ == "__main__":
    unittest.main()
