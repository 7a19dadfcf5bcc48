# SPDX-License-Identifier: Apache-2.0
"""Functions under the names of FlashAttention and of PyTorch, by FlashAttention's documented meaning and PyTorch's
results."""
import unittest
import warnings

import torch
import torch.nn.functional as F

import headroom
import headroom.torch as ht


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


class FlashAttention(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.q, self.k, self.v = torch.randn(2, 5, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)

    def close(self, found, right):
        torch.testing.assert_close(found, right, atol=1e-5, rtol=0)

    def test_masks_and_windows_are_aligned_to_the_bottom_right(self):
        for options, left, right in ((dict(), -1, -1), (dict(causal=True), -1, 0), (dict(window_size=(-1, 0)), -1, 0),
                                     (dict(causal=True, window_size=(3, -1)), 3, 0), (dict(window_size=(3, 0)), 3, 0),
                                     (dict(causal=True, softcap=2.0, softmax_scale=0.5), -1, 0)):
            with self.subTest(**options):
                o, lse, rest = ht.flash_attn_func(self.q, self.k, self.v, return_attn_probs=True, **options)
                expected = masked(self.q, self.k, self.v, hidden(5, 9, left, right),
                                  softcap=options.get("softcap", 0.0), scale=options.get("softmax_scale"))
                self.close(o, expected[0])
                self.close(lse, expected[1])
                self.assertIsNone(rest)

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
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        distance = (torch.arange(5)[:, None] + 4 - torch.arange(9)).abs()
        self.close(ht.flash_attn_func(self.q, self.k, self.v, causal=True, alibi_slopes=slopes),
                   masked(self.q, self.k, self.v, hidden(5, 9, right=0), -slopes[:, None, None] * distance)[0])

    def test_sequences_of_variable_lengths_are_those_alone(self):
        q, k, v = self.q.flatten(0, 1), self.k.flatten(0, 1), self.v.flatten(0, 1)
        starts, ends = (torch.tensor([0, x, 2 * x], dtype=torch.int32) for x in (5, 9))
        self.close(ht.flash_attn_varlen_func(q, k, v, starts, ends, 5, 9, causal=True).view(2, 5, 4, 16),
                   masked(self.q, self.k, self.v, hidden(5, 9, right=0))[0])

    def test_new_tokens_are_written_behind_those_of_the_cache(self):
        lengths = torch.tensor([3, 7], dtype=torch.int32)
        new_k, new_v = torch.randn(2, 2, 2, 16), torch.randn(2, 2, 2, 16)
        caches = [torch.full((6, 4, 2, 16), torch.nan) for _ in range(2)]
        table = torch.tensor([[5, 0, 3], [1, 4, 2]], dtype=torch.int32)
        for cache, x in zip(caches, (self.k, self.v)):
            cache[table.long()] = F.pad(x, (0, 0, 0, 0, 0, 3)).view(2, 3, 4, 2, 16)
        paged = ht.flash_attn_with_kvcache(self.q[:, :2], *caches, new_k, new_v, cache_seqlens=lengths, causal=True,
                                           block_table=table)
        k, v = self.k.clone(), self.v.clone()
        o, lse = ht.flash_attn_with_kvcache(self.q[:, :2], k, v, new_k, new_v, cache_seqlens=lengths, causal=True,
                                            return_softmax_lse=True)
        for b, length in enumerate((3, 7)):
            keys, values = (torch.cat((old[b:b + 1, :length], new[b:b + 1]), 1) for old, new in
                            ((self.k, new_k), (self.v, new_v)))
            expected = masked(self.q[b:b + 1, :2], keys, values, hidden(2, length + 2, right=0))
            self.close(o[b:b + 1], expected[0])
            self.close(lse[b:b + 1], expected[1])
            self.close(paged[b:b + 1], expected[0])
            self.close(k[b:b + 1, :length + 2], keys)

    def test_the_length_of_a_cache_may_be_one_number(self):
        self.close(ht.flash_attn_with_kvcache(self.q[:, :1], self.k, self.v, cache_seqlens=4),
                   masked(self.q[:, :1], self.k[:, :4], self.v[:, :4])[0])

    def test_an_argument_that_is_not_computed_is_refused_by_name(self):
        q, k, v = self.q, self.k, self.v
        some = torch.zeros(2, dtype=torch.int32)
        for words, call in (("dropout_p", lambda: ht.flash_attn_func(q, k, v, 0.1)),
                            ("window_size", lambda: ht.flash_attn_func(q, k, v, window_size=(2, 2))),
                            ("alibi_slopes", lambda: ht.flash_attn_func(q, k, v, alibi_slopes=torch.ones(4))),
                            ("cache_leftpad", lambda: ht.flash_attn_with_kvcache(q, k, v, cache_leftpad=some)),
                            ("rotary_cos", lambda: ht.flash_attn_with_kvcache(q, k, v, rotary_cos=k)),
                            ("causal is False with 5", lambda: ht.flash_attn_with_kvcache(q, k, v)),
                            ("block_table", lambda: ht.flash_attn_varlen_func(q[0], k[0], v[0], some, some, 5, 9,
                                                                              block_table=some))):
            with self.subTest(words), self.assertRaisesRegex(headroom.UnsupportedError, words):
                call()


class Sdpa(unittest.TestCase):
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

    def test_what_is_passed_on_is_said_once(self):
        mask = torch.rand(5, 9) > 0.3
        mask[:, 0] = True
        shapes = ((2, 4, 5, 16), (2, 4, 9, 16), (2, 4, 9, 16))
        self.assertIn("attn_mask is arbitrary", self.check(*shapes, attn_mask=mask)[0])
        self.assertEqual(self.check(*shapes, attn_mask=mask), [])
        self.assertIn("more queries than keys", self.check(shapes[1], shapes[0], shapes[0], is_causal=True)[0])

    def test_a_gradient_is_that_of_pytorch(self):
        q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
        ht.scaled_dot_product_attention(q, k, v).sum().backward()
        self.assertIsNotNone(q.grad)


if __name__ == "__main__":
    unittest.main()
