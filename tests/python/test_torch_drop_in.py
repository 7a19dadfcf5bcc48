# SPDX-License-Identifier: Apache-2.0
"""Functions under the names of FlashAttention and of PyTorch, by FlashAttention's documented meaning and PyTorch's
results."""
import itertools
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import headroom
import headroom.torch as ht
from headroom.torch import sdpa


def masked(q, k, v, hidden=None, bias=0.0, softcap=0.0, scale=None):
    """Attention in float64 of [batch, length, heads, dim], with the log-sum-exp; `hidden` [queries, keys]."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2).double() for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q.double(), k) * (scale or q.shape[3]**-0.5)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = (scores + bias).masked_fill(torch.zeros(1, dtype=torch.bool) if hidden is None else hidden, -torch.inf)
    weights = torch.softmax(scores, 3).nan_to_num()
    return torch.einsum("bhij,bjhd->bihd", weights, v).float(), torch.logsumexp(scores, 3).float()


def hidden(queries, keys, left=-1, right=-1):
    """Of a window around the query's position, aligned to the bottom right."""
    distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    behind = distance > right if right >= 0 else torch.zeros(1, dtype=torch.bool)
    return behind | (distance < -left if left >= 0 else False)


ALLOWED = {torch.float32: dict(atol=2e-5, rtol=1e-5), torch.bfloat16: dict(atol=2e-2, rtol=2e-2)}
DIMS = (32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256)
LENGTHS = ((1, 1), (1, 37), (3, 5), (17, 17), (33, 65), (65, 33), (113, 203), (128, 217), (108, 256))
HEADS = ((4, 4), (6, 2), (4, 1))  # MHA, GQA, MQA
MASKS = (dict(), dict(causal=True), dict(window_size=(-1, 0)), dict(causal=True, window_size=(7, -1)),
         dict(window_size=(29, 0)), dict(causal=True, window_size=(3, 5)), dict(window_size=(1000, 1000)))


def edges(causal=False, window_size=(-1, -1)):
    """How far a query sees to the left and to the right, −1: to the end."""
    return window_size[0], 0 if causal else window_size[1]


def int32(values):
    return torch.tensor(values, dtype=torch.int32)


class Close(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.q, self.k, self.v = torch.randn(2, 5, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)

    def close(self, found, right, dtype=torch.float32):
        torch.testing.assert_close(found.float(), right, **ALLOWED[dtype])


class FlashAttention(Close):
    """The grid of FlashAttention's documented arguments."""

    def test_masks_lengths_heads_and_options_are_those_of_the_formula(self):
        for i, (dim, (q_len, kv_len), mask) in enumerate(itertools.product(DIMS, LENGTHS, MASKS)):
            (heads, kv_heads), softcap = HEADS[i % 3], (0.0, 15.0)[i // 7 % 2]
            scale, dtype = (None, 0.3)[i // 5 % 2], list(ALLOWED)[i // 2 % 2]
            with self.subTest(dim=dim, lengths=(q_len, kv_len), heads=(heads, kv_heads), dtype=dtype, **mask):
                q = torch.randn(2, q_len, heads, dim).to(dtype)
                k, v = (torch.randn(2, kv_len, kv_heads, dim).to(dtype) for _ in range(2))
                o, lse, rest = ht.flash_attn_func(q, k, v, softmax_scale=scale, softcap=softcap,
                                                  return_attn_probs=True, **mask)
                right = masked(q, k, v, hidden(q_len, kv_len, *edges(**mask)), softcap=softcap, scale=scale)
                self.close(o, right[0], dtype)
                self.close(lse, right[1], dtype)
                self.assertIsNone(rest)
                torch.testing.assert_close(ht.flash_attn_func(q, k, v, 0.0, scale, softcap=softcap, **mask), o)

    def test_few_queries_of_many_keys_are_those_of_all(self):
        for options, left in ((dict(causal=True), -1), (dict(causal=True, window_size=(3, 0), softcap=2.0), 3)):
            for queries in (1, 3, 5):
                with self.subTest(queries=queries, **options):
                    x = self.q[:, -queries:], self.k, self.v
                    o, lse, _ = ht.flash_attn_func(*x, return_attn_probs=True, **options)
                    expected = masked(*x, hidden(queries, 9, left, 0), softcap=options.get("softcap", 0.0))
                    self.close(o, expected[0])
                    self.close(lse, expected[1])

    def test_sinks_take_their_share_of_each_row(self):
        sinks, starts, ends = torch.randn(4), *(torch.tensor([0, x, 2 * x], dtype=torch.int32) for x in (5, 9))
        packed = [x.flatten(0, 1) for x in (self.q, self.k, self.v)]
        for causal in (False, True):
            hides = hidden(5, 9, right=0 if causal else -1)
            o, lse = masked(self.q, self.k, self.v, hides)
            whole = torch.logaddexp(lse, sinks[:, None])
            o = o * torch.exp(lse - whole).transpose(1, 2)[..., None]
            found = ht.flash_attn_func(self.q, self.k, self.v, causal=causal, return_attn_probs=True, s_aux=sinks)
            self.close(found[0], o)
            self.close(found[1], whole)
            found = ht.flash_attn_varlen_func(*packed, starts, ends, 5, 9, causal=causal, s_aux=sinks)
            self.close(found.view_as(o), o)
        with self.assertRaisesRegex(headroom.InvalidError, r"s_aux has shape \[3\]; expected \[4\]"):
            ht.flash_attn_func(self.q, self.k, self.v, s_aux=sinks[:3])

    def test_alibi_is_a_slope_times_the_distance(self):
        for (q_len, kv_len), dtype in itertools.product(LENGTHS, ALLOWED):
            q, k, v = (torch.randn(2, n, 4, 64).to(dtype) for n in (q_len, kv_len, kv_len))
            slopes = torch.rand(4)
            distance = (torch.arange(q_len)[:, None] + kv_len - q_len - torch.arange(kv_len)).abs()
            right = masked(q, k, v, hidden(q_len, kv_len, right=0), -slopes[:, None, None] * distance)[0]
            for given in (slopes, slopes[None]):
                self.close(ht.flash_attn_func(q, k, v, causal=True, alibi_slopes=given), right, dtype)

    def test_sequences_of_variable_lengths_are_those_alone(self):
        q_lens, kv_lens = (5, 0, 33, 1, 17), (9, 4, 0, 64, 17)
        starts, ends = (int32([0, *itertools.accumulate(x)]) for x in (q_lens, kv_lens))
        for dim, (heads, kv_heads), mask, dtype in itertools.product((32, 59, 128), HEADS, MASKS[:5], ALLOWED):
            q = torch.randn(sum(q_lens), heads, dim).to(dtype)
            k, v = (torch.randn(sum(kv_lens), kv_heads, dim).to(dtype) for _ in range(2))
            o, lse, _ = ht.flash_attn_varlen_func(q, k, v, starts, ends, 33, 64, return_attn_probs=True, **mask)
            for b, (q_len, kv_len) in enumerate(zip(q_lens, kv_lens)):
                rows, keys = slice(*starts[b:b + 2]), slice(*ends[b:b + 2])
                right = masked(q[None, rows], k[None, keys], v[None, keys], hidden(q_len, kv_len, *edges(**mask)))
                self.close(o[None, rows], right[0], dtype)
                self.close(lse[None, :, rows], right[1], dtype)

    def test_packed_queries_of_one_length_find_pages(self):
        k, v, table = (*(torch.randn(6, 16, 2, 32) for _ in range(2)), int32([[5, 0], [1, 4]]))
        for q_len, causal, sinks in ((1, False, None), (5, True, torch.randn(4)), (16, True, None)):
            q, starts = torch.randn(2 * q_len, 4, 32), int32([0, q_len, 2 * q_len])
            o = ht.flash_attn_varlen_func(q, k, v, starts, int32([0, 20, 51]), q_len, 31, causal=causal,
                                          block_table=table, s_aux=sinks)
            for b, length in enumerate((20, 31)):
                keys, values = (x[table[b].long()].flatten(0, 1)[None, :length] for x in (k, v))
                right, lse = masked(q[None, b * q_len:(b + 1) * q_len], keys, values, hidden(q_len, length, right=0))
                if sinks is not None:
                    right = right * torch.sigmoid(lse - sinks[:, None]).transpose(1, 2)[..., None]
                self.close(o[None, b * q_len:(b + 1) * q_len], right)

    def test_arguments_of_flash_attention_3_are_taken_where_they_mean_the_same(self):
        q, k, v = (torch.randn(2, 5, 4, 16) for _ in range(3))
        o = ht.flash_attn_func(q, k, v, causal=True)
        torch.testing.assert_close(ht.flash_attn_func(q, k, v, causal=True, qv=None, attention_chunk=0, num_splits=1,
                                                      pack_gqa=True, sm_margin=2), o)
        for name in ("qv", "q_descale", "k_descale", "v_descale"):
            with self.assertRaisesRegex(headroom.UnsupportedError, name):
                ht.flash_attn_func(q, k, v, **{name: q})
        with self.assertRaisesRegex(headroom.UnsupportedError, "attention_chunk"):
            ht.flash_attn_with_kvcache(q, k, v, attention_chunk=128)
        with self.assertRaisesRegex(TypeError, "'softmax_scal'"):
            ht.flash_attn_func(q, k, v, softmax_scal=1.0)

    def test_an_argument_that_is_not_computed_is_refused_by_name(self):
        q, k, v = torch.randn(2, 5, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)
        some, new = int32([0, 0]), torch.randn(2, 1, 2, 16)
        cache = ht.flash_attn_with_kvcache
        rotate = dict(k=new, v=new, cache_seqlens=3)
        for words, call in (
                ("dropout_p", lambda: ht.flash_attn_func(q, k, v, 0.1)),
                ("window_size", lambda: ht.flash_attn_func(q, k, v, window_size=(2, 2))),
                ("window_size", lambda: ht.flash_attn_func(q, k, v, window_size=(2, -1))),
                ("alibi_slopes is not", lambda: ht.flash_attn_func(q, k, v, alibi_slopes=torch.ones(4))),
                (r"alibi_slopes of shape \[batch", lambda: ht.flash_attn_func(q, k, v, causal=True,
                                                                             alibi_slopes=torch.ones(2, 4))),
                ("cache_leftpad", lambda: cache(q, k, v, cache_leftpad=some)),
                ("alibi_slopes", lambda: cache(q, k, v, alibi_slopes=torch.ones(4))),
                ("k is missing", lambda: cache(q, k, v, rotary_cos=k)),
                ("v is missing", lambda: cache(q, k, v, k=new)),
                ("cache_seqlens is missing", lambda: cache(q, k, v, k=new, v=new)),
                ("lengths: sequence 0 has -1", lambda: cache(q[:, :1].expand(2, 20, 4, 16), k, v, causal=True,
                                                             cache_seqlens=some - 1, cache_batch_idx=some)),
                ("cache_seqlens is torch.int64", lambda: cache(q, k, v, cache_seqlens=some.long())),
                ("cache_batch_idx is torch.int64", lambda: cache(q, k, v, cache_batch_idx=some.long())),
                ("cache_batch_idx is not supported", lambda: cache(q, k, v, cache_batch_idx=some, block_table=some)),
                ("rotary_sin is missing", lambda: cache(q, k, v, rotary_cos=torch.ones(9, 8), **rotate)),
                ("rotary_cos is of shape", lambda: cache(q, k, v, rotary_cos=torch.ones(9, 9),
                                                         rotary_sin=torch.ones(9, 9), **rotate)),
                ("rotary_cos has 3 pos", lambda: cache(q, k, v, rotary_cos=torch.ones(3, 8),
                                                       rotary_sin=torch.ones(3, 8), **rotate)),
                ("cu_seqlens_q is torch.int64",
                 lambda: ht.flash_attn_varlen_func(q[0], k[0], v[0], some.long(), some, 5, 9)),
                ("block_table", lambda: ht.flash_attn_varlen_func(q[0], k, v, some, some, 5, 9,
                                                                  block_table=int32([[0], [1]])))):
            with self.subTest(words), self.assertRaisesRegex(headroom.Error, words):
                call()


class Cache(Close):
    """flash_attn_with_kvcache()."""

    def test_each_kind_of_cache_and_number_of_queries_is_that_of_the_formula(self):
        lengths, kinds = (37, 300, 0), ("contiguous", "indexed", 16, 64, 256)
        for kind, q_len, mask in itertools.product(kinds, (1, 3, 16, 21, 64), MASKS[:4]):
            (heads, kv_heads), dtype = HEADS[q_len % 3], list(ALLOWED)[q_len // 2 % 2]
            with self.subTest(kind=kind, q_len=q_len, dtype=dtype, **mask):
                q = torch.randn(3, q_len, heads, 64).to(dtype)
                k, v = (torch.randn(3, 512, kv_heads, 64).to(dtype) for _ in range(2))
                caches, places = stored(kind, k, v)
                o, lse = ht.flash_attn_with_kvcache(q, *caches, cache_seqlens=int32(lengths), return_softmax_lse=True,
                                                    **places, **mask)
                for b, length in enumerate(lengths):
                    right = masked(q[b:b + 1], k[b:b + 1, :length], v[b:b + 1, :length],
                                   hidden(q_len, length, *edges(**mask)))
                    self.close(o[b:b + 1], right[0], dtype)
                    self.close(lse[b:b + 1], right[1], dtype)

    def test_the_length_of_a_cache_may_be_one_number_or_all_there_is(self):
        for q_len, causal in ((1, False), (3, False), (20, True), (20, False)):
            q, k, v = (torch.randn(2, n, 2, 16) for n in (q_len, 25, 25))
            for given, length in ((24, 24), (None, 25)):
                right = masked(q, k[:, :length], v[:, :length], hidden(q_len, length, right=0 if causal else -1))[0]
                self.close(ht.flash_attn_with_kvcache(q, k, v, cache_seqlens=given, causal=causal), right)

    def test_new_tokens_are_turned_and_written_behind_those_of_the_cache(self):
        lengths = (3, 250)
        angles = torch.randn(300, 12)
        turn = dict(rotary_cos=angles.cos(), rotary_sin=angles.sin())
        for kind, new_len, rotary, interleaved, causal in itertools.product(
                ("contiguous", "indexed", 16, 256), (1, 5, 18), (False, True), (False, True), (False, True)):
            with self.subTest(kind=kind, new=new_len, rotary=rotary, interleaved=interleaved, causal=causal):
                q = torch.randn(2, new_len, 4, 32)
                k, v = (torch.randn(2, 512, 2, 32) for _ in range(2))
                new_k, new_v = (torch.randn(2, new_len, 2, 32) for _ in range(2))
                caches, places = stored(kind, k, v)
                o = ht.flash_attn_with_kvcache(q, *caches, new_k, new_v, cache_seqlens=int32(lengths), causal=causal,
                                               rotary_interleaved=interleaved, **places, **(turn if rotary else {}))
                for b, length in enumerate(lengths):
                    at = torch.arange(length, length + new_len)
                    own_q, own_k = q[b], new_k[b]
                    if rotary:
                        own_q = rotate(own_q, angles[at if causal else at[:1].expand(new_len)], interleaved)
                        own_k = rotate(own_k, angles[at], interleaved)
                    keys, values = (torch.cat((old[b, :length], new)) for old, new in ((k, own_k), (v, new_v[b])))
                    right = masked(own_q[None], keys[None], values[None],
                                   hidden(new_len, length + new_len, right=0 if causal else -1))[0]
                    self.close(o[b:b + 1], right)
                    self.close(tokens_of(kind, caches[0], places, b)[:length + new_len], keys)


def stored(kind, k, v):
    """K and V as a cache of this kind, and the arguments that find them in it; what is around them is NaN."""
    batch, tokens = k.shape[:2]
    if kind == "contiguous":
        return [k.clone(), v.clone()], {}
    size = tokens if kind == "indexed" else kind
    order = torch.randperm(batch * tokens // size + 3)[:batch * tokens // size]
    caches = [torch.full((len(order) + 3, size, *x.shape[2:]), torch.nan, dtype=x.dtype) for x in (k, v)]
    for cache, x in zip(caches, (k, v)):
        cache[order] = x.reshape(-1, size, *x.shape[2:])
    if kind == "indexed":
        return caches, dict(cache_batch_idx=order.int())
    return caches, dict(block_table=order.int().view(batch, -1))


def tokens_of(kind, cache, places, b):
    if kind == "contiguous":
        return cache[b]
    return cache[next(iter(places.values()))[b].long()].reshape(-1, *cache.shape[2:])


def rotate(x, angles, interleaved):
    """Pairs of a head's first elements as complex numbers, turned; x [tokens, heads, dim], angles [tokens, pairs]."""
    n = angles.shape[1]
    pairs = x[..., :2 * n].double().unflatten(-1, (n, 2) if interleaved else (2, n))
    pairs = pairs if interleaved else pairs.transpose(-1, -2)
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.exp(1j * angles.double())[:, None])
    turned = turned if interleaved else turned.transpose(-1, -2)
    return torch.cat((turned.flatten(-2).float(), x[..., 2 * n:]), -1)


class Sdpa(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        sdpa._said.clear()

    def check(self, *shapes, **options):
        q, k, v = (torch.randn(shape) for shape in shapes)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = ht.scaled_dot_product_attention(q, k, v, **options)
        torch.testing.assert_close(found, F.scaled_dot_product_attention(q, k, v, **options), atol=1e-5, rtol=0)
        return [str(each.message) for each in said]

    def test_results_are_those_of_pytorch(self):
        same = ((2, 4, 5, 16),) * 3
        self.assertEqual(self.check(*same), [])
        self.assertEqual(self.check(*same, is_causal=True, scale=0.3), [])
        self.assertEqual(self.check((2, 4, 5, 16), (2, 4, 9, 16), (2, 4, 9, 8), is_causal=True), [])
        self.assertEqual(self.check((2, 4, 5, 16), (2, 2, 9, 16), (2, 2, 9, 16), enable_gqa=True), [])

    def test_views_are_read_as_they_are(self):
        q = torch.randn(2, 5, 4, 16).transpose(1, 2)
        packed = torch.randn(2, 9, 2, 4, 16)
        k, v = packed[:, :, 0].transpose(1, 2), packed[:, :, 1].transpose(1, 2)
        turned = torch.randn(2, 4, 16, 9).transpose(2, 3)
        for values in (v, turned, v[..., :8]):
            for causal in (False, True):
                found = ht.scaled_dot_product_attention(q, k, values, is_causal=causal)
                right = F.scaled_dot_product_attention(q, k, values, is_causal=causal)
                torch.testing.assert_close(found, right, atol=1e-5, rtol=0)

    def test_what_is_passed_on_is_said_once(self):
        mask = torch.rand(5, 9) > 0.3
        mask[:, 0] = True
        shapes = ((2, 4, 5, 16), (2, 4, 9, 16), (2, 4, 9, 16))
        self.assertIn("attn_mask is arbitrary", self.check(*shapes, attn_mask=mask)[0])
        self.assertEqual(self.check(*shapes, attn_mask=mask), [])
        self.assertIn("more queries than keys", self.check(shapes[1], shapes[0], shapes[0], is_causal=True)[0])
        self.assertIn("heads differ", self.check((2, 4, 5, 16), (2, 1, 9, 16), (2, 1, 9, 16))[0])

    def test_masks_with_structure_are_computed(self):
        q, k = (2, 4, 5, 16), (2, 4, 9, 16)
        for name, mask, keys in (("all", torch.ones(5, 9, dtype=torch.bool), k),
                                 ("lower right", torch.ones(5, 9, dtype=torch.bool).tril(4), k),
                                 ("upper left", torch.ones(5, 9, dtype=torch.bool).tril(), k),
                                 ("square", torch.ones(1, 1, 5, 5, dtype=torch.bool).tril(), q),
                                 ("window", torch.ones(5, 9, dtype=torch.bool).tril(4).triu(2), k),
                                 ("of a batch", torch.ones(2, 1, 5, 9, dtype=torch.bool).tril(4), k),
                                 ("scores", torch.zeros(5, 9).masked_fill(
                                     ~torch.ones(5, 9, dtype=torch.bool).tril(4), -torch.inf), k),
                                 ("least scores", torch.zeros(5, 9).masked_fill(
                                     ~torch.ones(5, 9, dtype=torch.bool).tril(4), torch.finfo(torch.float).min), k)):
            with self.subTest(name):
                self.assertEqual(self.check(q, keys, keys, attn_mask=mask), [])
        for bias in (causal_upper_left(5, 9), causal_lower_right(5, 9)):
            x = [torch.randn(shape) for shape in (q, k, k)]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = ht.scaled_dot_product_attention(*x, attn_mask=bias)
            materialized = torch.ones(5, 9, dtype=torch.bool).tril(4 if bias.variant == 2 else 0)
            torch.testing.assert_close(found, F.scaled_dot_product_attention(*x, attn_mask=materialized), atol=1e-5,
                                       rtol=0)

    def test_a_mask_that_is_nearly_causal_is_arbitrary(self):
        q, k = (2, 4, 5, 16), (2, 4, 9, 16)
        causal = torch.ones(5, 9, dtype=torch.bool).tril(4)
        for row, column in ((0, 5), (4, 3), (2, 0), (3, 8)):
            other = causal.clone()
            other[row, column] = not other[row, column]
            self.check(q, k, k, attn_mask=other)
        self.check(q, k, k, attn_mask=torch.zeros(5, 9).masked_fill(~causal, -torch.inf) + 0.5)
        self.check(q, k, k, attn_mask=torch.stack((causal, causal.flip(0)))[:, None])
        self.check(q, k, k, attn_mask=torch.ones(1, 9, dtype=torch.bool))
        self.check(k, q, q, attn_mask=torch.ones(9, 5, dtype=torch.bool).tril())


if __name__ == "__main__":
    unittest.main()
