# SPDX-License-Identifier: Apache-2.0
"""Random arguments of the operators of headroom.torch: each call gives what the formula gives, or a Python exception
with a line. HEADROOM_FUZZ_CASES says how many of each operator, HEADROOM_FUZZ_SEED where they begin."""
import os
import random
import unittest

import torch

import headroom
import headroom.torch as ht
from test_torch_drop_in import hidden, masked

CASES, SEED = int(os.environ.get("HEADROOM_FUZZ_CASES", 150)), int(os.environ.get("HEADROOM_FUZZ_SEED", 1))
ALLOWED = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}
EXCEPTIONS = (headroom.Error, RuntimeError, TypeError, ValueError, IndexError)
ODD_NUMBERS = (-1, 0, 1, 2**31, 2**62, 2**63 - 1, -2**63, 2**64, 1.5, float("nan"), float("inf"), -0.0, 1e308, None,
               "1", True, [2], torch.tensor(2))


class Case:
    """One random call. `wrong` says that an argument was changed to one that need not fit."""

    def __init__(self, seed):
        self.random, self.wrong = random.Random(seed), False
        torch.manual_seed(seed)
        self.dtype = self.pick(list(ALLOWED))
        self.batch, self.heads = self.pick((1, 2, 3)), self.pick((1, 2, 6))
        self.dim, self.v_dim = self.pick((1, 8, 16, 40, 64)), self.pick((1, 8, 16, 64))
        self.k_heads, self.v_heads = (self.pick([n for n in (1, 2, 3, 6) if self.heads % n == 0]) for _ in range(2))

    def pick(self, values):
        return self.random.choice(values)

    def often(self, value, other, times=3):
        return value if self.random.randrange(times) else other

    def tensor(self, *shape):
        """Random numbers, with memory of several kinds behind the same sizes."""
        kind = self.pick(("packed", "packed", "heads first", "between", "last first", "repeated"))
        x = torch.randn(*shape).to(self.dtype)
        if kind == "heads first":
            return x.transpose(-2, -3).contiguous().transpose(-2, -3)
        if kind == "between":
            around = torch.full((*shape[:-2], shape[-2] + 1, shape[-1] + 3), torch.nan, dtype=self.dtype)
            around[..., 1:, 2:-1] = x
            return around[..., 1:, 2:-1]
        if kind == "last first":
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        if kind == "repeated" and shape[0]:
            return x[:1].expand(*shape)
        return x

    def softmax(self):
        return dict(scale=self.pick((None, 0.3, -0.5)), window=self.pick((0, 0, 1, 3, 100)),
                    softcap=self.pick((0.0, 0.0, 2.0)))

    def spoil(self, arguments):
        """Changes an argument in one of three calls."""
        if self.random.randrange(3):
            return arguments
        self.wrong = True
        name = self.pick(list(arguments))
        value = arguments[name]
        arguments[name] = self.spoilt(value) if isinstance(value, torch.Tensor) else self.pick(ODD_NUMBERS)
        return arguments

    def spoilt(self, x):
        change = self.pick(("dtype", "device", "rank", "size", "empty", "reversed", "sparse", "none", "number", "grad",
                            "values", "sign", "expanded"))
        if change == "dtype":
            return x.to(self.pick((torch.float64, torch.int64, torch.int32, torch.int8, torch.bool, torch.complex64,
                                   torch.float8_e4m3fn, torch.bfloat16)))
        if change == "values" and not x.is_floating_point():
            return torch.full_like(x, self.pick((-1, 1, 7, 1000, 2**31 - 1, -2**31)))
        if change == "grad" and x.is_floating_point():
            return x.detach().clone().requires_grad_()
        if change == "sign":
            return torch._neg_view(x) if x.is_floating_point() else x.neg()
        changes = {
            "device": lambda: x.to("meta"), "rank": lambda: self.pick((x[None], x.flatten(), x[..., None])),
            "size": lambda: x[..., :-1], "empty": lambda: x[:0], "reversed": lambda: x.flip(0),
            "sparse": lambda: x.float().to_sparse(), "none": lambda: None, "number": lambda: 3,
            "expanded": lambda: x.flatten()[:1].expand(x.shape) if x.numel() else x}
        return changes.get(change, x.contiguous)()


def attention_case(case):
    q_len, kv_len, softmax = case.pick((0, 1, 5, 33)), case.pick((0, 1, 7, 40)), case.softmax()
    q, k, v = (case.tensor(case.batch, *sizes) for sizes in (
        (q_len, case.heads, case.dim), (kv_len, case.k_heads, case.dim), (kv_len, case.v_heads, case.v_dim)))
    softmax["causal"] = case.often(True, False)
    softmax["window"] = softmax["window"] if softmax["causal"] else 0
    slopes, sinks = (case.often(None, torch.rand(case.heads)) for _ in range(2))
    return case.spoil(dict(q=q, k=k, v=v, alibi_slopes=slopes, sinks=sinks, return_lse=case.often(True, False),
                           **softmax))


def attention_right(q, k, v, causal, scale, window, softcap, alibi_slopes=None, sinks=None, return_lse=True):
    q_len, kv_len = q.shape[1], k.shape[1]
    unseen = hidden(q_len, kv_len, window - 1 if window else -1, 0) if causal else None
    distance = torch.arange(kv_len) - (torch.arange(q_len)[:, None] + kv_len - q_len)
    bias = 0.0 if alibi_slopes is None else alibi_slopes.double()[:, None, None] * distance
    o, lse = masked(q, k, v, unseen, bias, float(softcap), None if scale is None else float(scale))
    if sinks is not None:
        with_sink = torch.logaddexp(lse, sinks[:, None].float())
        o, lse = o * torch.exp(lse - with_sink).transpose(1, 2)[..., None], with_sink
    return (o, lse) if return_lse else o


def varlen_case(case):
    softmax, lengths = case.softmax(), [[case.pick((0, 1, 5, 20)) for _ in range(case.batch)] for _ in range(2)]
    offsets = [torch.tensor([0, *torch.tensor(x).cumsum(0)], dtype=torch.int32) for x in lengths]
    q, k, v = (case.tensor(rows, heads, dim) for rows, heads, dim in (
        (sum(lengths[0]), case.heads, case.dim), (sum(lengths[1]), case.k_heads, case.dim),
        (sum(lengths[1]), case.v_heads, case.v_dim)))
    return case.spoil(dict(q=q, k=k, v=v, q_offsets=offsets[0], kv_offsets=offsets[1], max_q_len=20, max_kv_len=20,
                           causal=True, **softmax))


def varlen_right(q, k, v, q_offsets, kv_offsets, max_q_len, max_kv_len, **softmax):
    o = torch.full((*q.shape[:2], v.shape[2]), torch.nan)  # rows of no sequence are not written
    for b in range(len(q_offsets) - 1):
        rows, keys = slice(*q_offsets[b:b + 2].tolist()), slice(*kv_offsets[b:b + 2].tolist())
        o[rows] = attention_right(q[None, rows], k[None, keys], v[None, keys], return_lse=False, **softmax)[0]
    return o


def decode_case(case):
    q_len, size, n, softmax = case.pick((1, 1, 4, 16)), case.pick((1, 8, 16)), case.pick((1, 3)), case.softmax()
    pages = torch.randperm(case.batch * n + 2)[:case.batch * n].int()
    k, v = (case.tensor(len(pages) + 2, size, heads, dim) for heads, dim in ((case.k_heads, case.dim),
                                                                            (case.v_heads, case.v_dim)))
    arguments = dict(q=case.tensor(case.batch, q_len, case.heads, case.dim), k=k, v=v,
                     lengths=torch.randint(0, size * n + 1, (case.batch,), dtype=torch.int32),
                     pages=pages.view(case.batch, n), page_starts=None, k_scales=None, v_scales=None,
                     max_kv_len=case.often(None, size * n), sinks=case.often(None, torch.rand(case.heads)), **softmax)
    if case.random.randrange(2):
        arguments.update(pages=pages, page_starts=torch.arange(case.batch, dtype=torch.int32) * n)
    if case.random.randrange(3) == 0:
        quantize(case, arguments)
    return case.spoil(arguments)


def quantize(case, arguments):
    token, dtype = case.random.randrange(2), case.pick((torch.int8, torch.float8_e4m3fn))
    for name in ("k", "v"):
        x = (arguments[name].float().nan_to_num() * 20).round().to(dtype)
        arguments.update({name: x, f"{name}_scales": torch.rand(x.shape[:3] if token else x.shape[2:3]) / 20 + 0.01})


def decode_right(q, k, v, lengths, pages, page_starts, k_scales, v_scales, max_kv_len, sinks, **softmax):
    k, v = (x.float() * (1 if s is None else s[..., None]) for x, s in ((k, k_scales), (v, v_scales)))
    o = torch.zeros(*q.shape[:3], v.shape[3])
    for b in range(len(q)):
        length = (max_kv_len or k.shape[1]) if lengths is None else int(lengths[b])
        if pages is None:
            keys, values = k[b:b + 1, :length], v[b:b + 1, :length]
        else:
            own = (pages[b] if page_starts is None else pages[int(page_starts[b]):]).long()[:-(-length // k.shape[1])]
            keys, values = (x[own].flatten(0, 1)[None, :length] for x in (k, v))
        o[b] = attention_right(q[b:b + 1], keys, values, causal=True, sinks=sinks, return_lse=False, **softmax)[0]
    return o


def append_case(case):
    count, size, n = case.pick((0, 1, 5)), case.pick((1, 8)), case.pick((5, 6))
    pages = torch.randperm(case.batch * n + 2)[:case.batch * n].int()
    k, v = (torch.zeros(len(pages) + 2, size, heads, dim, dtype=case.dtype)
            for heads, dim in ((case.k_heads, case.dim), (case.v_heads, case.v_dim)))
    new = [case.tensor(case.batch, count, *x.shape[2:]) for x in (k, v)]
    lengths = torch.randint(0, size * n - count + 1, (case.batch,), dtype=torch.int32)
    return case.spoil(dict(k_cache=k, v_cache=v, k=new[0], v=new[1], lengths=lengths, pages=pages.view(case.batch, n),
                           page_starts=None, k_scales=None, v_scales=None))


def appended(k_cache, v_cache, k, v, lengths, pages, page_starts=None, k_scales=None, v_scales=None):
    ht.kv_append(k_cache, v_cache, k, v, lengths, pages, page_starts=page_starts, k_scales=k_scales, v_scales=v_scales)
    return k_cache


def append_right(k_cache, v_cache, k, v, lengths, pages, **_):
    right = torch.zeros(k_cache.shape, dtype=k_cache.dtype)
    for b in range(len(k)):
        for i in range(k.shape[1]):
            token = int(lengths[b]) + i
            right[int(pages[b, token // k_cache.shape[1]]), token % k_cache.shape[1]] = k[b, i]
    return right


def cache_case(case):
    q_len, size = case.pick((1, 3, 20)), 40
    k, v = (case.tensor(case.batch, size, case.k_heads, dim) for dim in (case.dim, case.v_dim))
    return case.spoil(dict(q=case.tensor(case.batch, q_len, case.heads, case.dim), k_cache=k, v_cache=v,
                           cache_seqlens=torch.randint(0, size + 1, (case.batch,), dtype=torch.int32), causal=True,
                           softmax_scale=case.pick((None, 0.3)), softcap=case.pick((0.0, 2.0)), rotary_cos=None))


def cache_right(q, k_cache, v_cache, cache_seqlens, causal, softmax_scale, softcap, rotary_cos):
    lengths = [cache_seqlens] * len(q) if isinstance(cache_seqlens, int) else cache_seqlens
    lengths = [k_cache.shape[1]] * len(q) if lengths is None else [int(x) for x in lengths]
    return torch.cat([attention_right(q[b:b + 1], k_cache[b:b + 1, :n], v_cache[b:b + 1, :n], causal, softmax_scale, 0,
                                      softcap, return_lse=False) for b, n in enumerate(lengths)])


class Fuzz(unittest.TestCase):
    def run_cases(self, make, call, formula):
        """Most calls have arguments that fit, and have to give a result."""
        results = 0
        for seed in range(SEED, SEED + CASES):
            case = Case(seed)
            arguments = make(case)
            with self.subTest(seed=seed, arguments=described(arguments)):
                try:
                    found = call(**arguments)
                except EXCEPTIONS as error:
                    self.assertTrue(str(error))
                    self.assertTrue(case.wrong or "supported" in str(error) or "batch" in str(error) or
                                    "q_len" in str(error), error)
                    continue
                results += 1
                self.same(found, arguments, case, formula)
        self.assertGreater(results, CASES // 3)

    def same(self, found, arguments, case, formula):
        found = found[0] if isinstance(found, tuple) else found
        if any(isinstance(x, torch.Tensor) and x.is_meta for x in arguments.values()):
            return
        right = formula(**arguments)
        right = right[0] if isinstance(right, tuple) else right
        found = torch.where(right.isnan(), torch.nan, found.float())
        torch.testing.assert_close(found, right.float(), atol=ALLOWED[case.dtype], rtol=ALLOWED[case.dtype],
                                   equal_nan=True)

    def test_attention(self):
        self.run_cases(attention_case, ht.attention, attention_right)

    def test_attention_varlen(self):
        self.run_cases(varlen_case, ht.attention_varlen, varlen_right)

    def test_decode(self):
        self.run_cases(decode_case, ht.decode, decode_right)

    def test_kv_append(self):
        self.run_cases(append_case, appended, append_right)

    def test_flash_attn_with_kvcache(self):
        self.run_cases(cache_case, ht.flash_attn_with_kvcache, cache_right)


def described(arguments):
    return {name: (tuple(x.shape), x.stride() if x.layout == torch.strided else x.layout, x.dtype)
            if isinstance(x, torch.Tensor) else x for name, x in arguments.items()}


if __name__ == "__main__":
    unittest.main()
