# SPDX-License-Identifier: Apache-2.0
"""KV caches of headroom.torch: page numbers of both kinds, formats, latent and selective V, and new tokens."""
import types
import unittest
import unittest.mock

import torch

import headroom
import headroom.torch as ht
from headroom.torch import _run
from test_torch import DEVICES, expected, int32

FORMATS = (torch.int8, torch.float8_e4m3fn)
STARTS, PAGES, LENGTHS = [0, 3, 5], [5, 0, 3, 1, 4], [10, 5]


def caches(device, heads=(2, 1), dims=(16, 8), pages=6, size=4):
    return [torch.randn(pages, size, h, d, device=device) for h, d in zip(heads, dims)]


def of_sequence(cache, b, length):
    """The tokens of sequence b, which PAGES and STARTS find, [1, length, heads, dim]."""
    pages = torch.tensor(PAGES[STARTS[b]:STARTS[b + 1]], device=cache.device)
    return cache[pages].flatten(0, 1)[None, :length]


class Decode(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def close(self, found, right, allowed=1e-5):
        torch.testing.assert_close(found.float().cpu(), right, atol=allowed, rtol=0)

    def check(self, o, q, k, v, allowed=1e-5, **options):
        for b, length in enumerate(LENGTHS):
            keys, values = (of_sequence(x, b, length) for x in (k, v))
            self.close(o[b:b + 1], expected(q[b:b + 1], keys, values, causal=True, **options)[0], allowed)

    def test_a_list_of_page_numbers_is_read_from_where_each_sequence_begins(self):
        for device in DEVICES:
            q, (k, v) = torch.randn(2, 3, 4, 16, device=device), caches(device)
            pages, lengths = int32(PAGES, device), int32(LENGTHS, device)
            for starts, most in ((STARTS, None), (STARTS[:2], 12)):
                o = ht.decode(q, k, v, lengths, pages, page_starts=int32(starts, device), max_kv_len=most)
                self.check(o, q, k, v)

    def test_a_longer_list_of_page_numbers_keeps_the_plan(self):
        q, (k, v) = torch.randn(2, 1, 4, 16), caches("cpu")
        plans = set()
        for more in ([2], [2, 2], [2, 2, 2]):
            ht.decode(q, k, v, int32(LENGTHS), int32(PAGES + more), page_starts=int32(STARTS))
            plans.add(_run.device_of(q).counts()[1])
        self.assertEqual(len(plans), 1)

    def test_the_most_tokens_of_a_sequence_may_be_less_than_there_is_room_for(self):
        q, k, v = torch.randn(2, 1, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 1, 8)
        self.close(ht.decode(q, k, v, max_kv_len=7), expected(q, k[:, :7], v[:, :7])[0])
        with self.assertRaisesRegex(headroom.InvalidError, "lengths"):
            ht.decode(q, k, v, int32([7, 8]), max_kv_len=7)

    def test_a_quantized_cache_is_its_elements_times_their_scales(self):
        for device in DEVICES:
            for dtype in FORMATS:
                for shape in ((2,), (6, 4, 2)):
                    with self.subTest(device=device, dtype=dtype, shape=shape):
                        self.check_quantized(device, dtype, shape)

    def check_quantized(self, device, dtype, shape):
        q, (k, v) = torch.randn(2, 1, 4, 16, device=device), caches(device, (2, 2))
        k, v = ((x * 40).round().to(dtype) for x in (k, v))
        scales = [torch.rand(shape, device=device) / 40 + 0.01 for _ in range(2)]
        o = ht.decode(q, k, v, int32(LENGTHS, device), int32(PAGES, device), page_starts=int32(STARTS, device),
                      k_scales=scales[0], v_scales=scales[1])
        self.check(o, q, *(x.float() * scale[..., None] for x, scale in zip((k, v), scales)), allowed=1e-4)

    def test_scales_behind_the_elements_of_their_head_are_read_in_place(self):
        memory = torch.zeros(2, 9, 2, 20, dtype=torch.int8).random_(-9, 9)
        scales = memory.view(torch.float32)[..., 4]
        scales.copy_(torch.rand(2, 9, 2))
        q, k = torch.randn(2, 1, 4, 16), memory[..., :16]
        dense = k.float() * scales[..., None]
        self.close(ht.decode(q, k, k[..., :8], k_scales=scales, v_scales=scales.clone()),
                   expected(q, dense, dense[..., :8])[0], 1e-4)

    def test_v_may_be_the_first_elements_of_k(self):
        for device in DEVICES:
            q, k = torch.randn(2, 2, 4, 24, device=device), torch.randn(2, 9, 1, 24, device=device)
            self.close(ht.decode(q, k, k[..., :16]), expected(q, k, k[..., :16], causal=True)[0])
            self.close(ht.decode(q, k, k[..., :16], top_k=9), expected(q, k, k[..., :16], causal=True)[0])
            elements, scales = (k * 30).round().to(torch.int8), torch.rand(2, 9, 1, device=device) / 30
            dense = elements.float() * scales[..., None]
            self.close(ht.decode(q, elements, elements[..., :16], k_scales=scales),
                       expected(q, dense, dense[..., :16], causal=True)[0], 1e-4)

    def test_selective_v_keeps_the_keys_with_the_largest_scores(self):
        for device in DEVICES:
            dtype = torch.float32 if device == "cpu" else torch.float16  # which GPUs' kernels take
            q, k, v = (torch.randn(1, n, 1, 16, device=device).to(dtype) for n in (1, 9, 9))
            best = (k[0, :, 0] @ q[0, 0, 0]).topk(3).indices
            right = expected(q, k[:, best], v[:, best])[0]
            self.close(ht.decode(q, k, v, top_k=3), right, 1e-5 if device == "cpu" else 2e-3)

    def test_autocast_leaves_a_quantized_cache_as_it_is(self):
        q, k = torch.randn(2, 1, 4, 16), torch.ones(2, 9, 2, 16, dtype=torch.int8)
        scales = torch.full((2,), 0.5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = ht.decode(q, k, k, k_scales=scales, v_scales=scales)
        self.assertEqual(o.dtype, torch.bfloat16)
        self.close(o, torch.full((2, 1, 4, 16), 0.5), 1e-2)

    def test_an_argument_that_does_not_fit_is_named(self):
        q, k, v = torch.randn(2, 1, 4, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)
        k8, ones, sequence = k.to(torch.int8), torch.ones(2), int32([0, 1])
        for words, call in (
                ("page_starts without pages", lambda: ht.decode(q, k, v, sequence, page_starts=sequence)),
                ("page_starts without lengths", lambda: ht.decode(q, k, v, None, sequence, page_starts=sequence)),
                ("ask for 2 pages", lambda: ht.decode(q, k, v, int32([3, 10]), int32([1]), page_starts=int32([0, 0]))),
                ("page_starts has shape", lambda: ht.decode(q, k, v, sequence, sequence, page_starts=int32([0]))),
                ("k_scales is missing", lambda: ht.decode(q, k8, k8)),
                ("v_scales is missing", lambda: ht.decode(q, k8, k8.clone(), k_scales=ones)),
                ("k_scales of a cache", lambda: ht.decode(q, k, v, k_scales=ones)),
                ("k_scales has shape", lambda: ht.decode(q, k8, k8, k_scales=torch.ones(3), v_scales=ones)),
                ("k_scales has strides", lambda: ht.decode(q, k8, k8, k_scales=torch.ones(4)[::2], v_scales=ones)),
                ("k_scales is torch.float16", lambda: ht.decode(q, k8, k8, k_scales=ones.half(), v_scales=ones)),
                ("v_scales are per head", lambda: ht.decode(q, k8, k8, k_scales=torch.ones(2, 9, 2), v_scales=ones)),
                ("v is torch.float32, and k is", lambda: ht.decode(q, k8, v, k_scales=ones, v_scales=ones)),
                ("k or v begins at", lambda: ht.decode(q[..., 1:], k8[..., 1:], k8, k_scales=ones, v_scales=ones)),
                ("max_kv_len is -0.0", lambda: ht.decode(q, k, v, max_kv_len=-0.0)),
                ("max_kv_len is -1", lambda: ht.decode(q, k, v, max_kv_len=-1)),
                ("table_pitch", lambda: ht.decode(q, k, v, max_kv_len=10)),
                ("top_k is -1", lambda: ht.decode(q, k, v, top_k=-1)),
                ("lengths", lambda: ht.decode(q, k, v, [3, 7]))):
            with self.subTest(words), self.assertRaisesRegex((headroom.Error, RuntimeError), words):
                call()


class Append(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_new_tokens_follow_those_of_the_cache(self):
        for device in DEVICES:
            for pages, starts in (([[5, 0, 3], [1, 4, 2]], None), (PAGES + [2], STARTS)):
                k, v = caches(device)
                before = [k.clone(), v.clone()]
                new = [torch.randn(2, 3, *x.shape[2:], device=device) for x in (k, v)]
                old = int32([6, 2], device)
                ht.kv_append(k, v, *new, old, int32(pages, device),
                             page_starts=None if starts is None else int32(starts, device))
                for cache, x, was in zip((k, v), new, before):
                    for b, length in enumerate((6, 2)):
                        torch.testing.assert_close(of_sequence(cache, b, length + 3)[0, length:], x[b])
                        torch.testing.assert_close(of_sequence(cache, b, length), of_sequence(was, b, length))
                    self.assertEqual(int((cache != was).any(-1).any(-1).sum()), 6)

    def test_a_contiguous_cache_and_one_without_v_take_tokens(self):
        k = torch.zeros(2, 9, 1, 4)
        new = torch.randn(2, 2, 1, 4)
        ht.kv_append(k, None, new, None, int32([0, 7]))
        torch.testing.assert_close(k[0, :2], new[0])
        torch.testing.assert_close(k[1, 7:], new[1])
        self.assertEqual(int((k != 0).any(-1).sum()), 4)

    def test_scales_of_tokens_are_those_of_the_librarys_cache(self):
        for dtype, largest in ((torch.int8, 127), (torch.float8_e4m3fn, 448)):
            k, scales = torch.zeros(1, 4, 2, 8, dtype=dtype), torch.zeros(1, 4, 2)
            new = torch.randn(1, 3, 2, 8, dtype=torch.bfloat16)
            new[0, 1] = 0
            new[0, 2, 1, 3] = torch.inf
            ht.kv_append(k, None, new, None, int32([1]), k_scales=scales)
            right = new[0].float().abs().amax(-1) / largest
            right[1], right[2, 1] = 1, torch.nan
            torch.testing.assert_close(scales[0, 1:], right, equal_nan=True)
            finite = new[0, 0].float()
            step = finite.abs().amax(-1, keepdim=True) / (largest if dtype == torch.int8 else 16)
            self.assertTrue(((k[0, 1].float() * scales[0, 1, :, None] - finite).abs() <= step / 2 + 1e-6).all())
            self.assertTrue((k[0, 2].float() == 0).all())

    def test_scales_of_heads_are_taken_and_larger_values_saturate(self):
        new = torch.tensor([3.0, 1000.0, -1000.0, torch.nan, torch.inf]).view(1, 1, 1, 5)
        right = {torch.int8: [6, 127, -127, 0, 127], torch.float8_e4m3fn: [6, 448, -448, torch.nan, torch.nan]}
        for dtype, elements in right.items():
            k = torch.zeros(1, 2, 1, 5, dtype=dtype)
            ht.kv_append(k, None, new, None, int32([1]), k_scales=torch.tensor([0.5]))
            torch.testing.assert_close(k[0, 1, 0].float(), torch.tensor(elements, dtype=torch.float), equal_nan=True)

    def test_a_compiled_step_appends_and_decodes_as_an_eager_one(self):
        def step(q, k, v, new_k, new_v, lengths):
            ht.kv_append(k, v, new_k, new_v, lengths)
            return ht.decode(q, k, v, lengths + 1)

        x = [torch.randn(2, n, 2, 16) for n in (1, 9, 9, 1, 1)]
        cache = [y.clone() for y in x[1:3]]
        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*x, int32([3, 8])), step(x[0], *cache, *x[3:], int32([3, 8])))
        torch.testing.assert_close(x[1], cache[0])

    def test_the_schema_says_what_is_written(self):
        k, v = caches("cpu")
        new = [torch.randn(2, 3, *x.shape[2:]) for x in (k, v)]
        table = int32([[5, 0, 3], [1, 4, 2]])
        torch.library.opcheck(torch.ops.headroom.kv_append.default, (k, v, *new, int32([6, 2]), table),
                              test_utils=("test_schema", "test_faketensor"))

    def test_autocast_gives_new_tokens_the_caches_format(self):
        k, v = caches("cpu")
        new = [torch.ones(2, 1, *x.shape[2:], dtype=torch.bfloat16) for x in (k, v)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ht.kv_append(k, v, *new, int32([0, 0]), int32([[1], [2]]))
        self.assertTrue((k[1:3, 0] == 1).all())

    def test_an_argument_that_does_not_fit_is_named(self):
        k, v, new = torch.zeros(2, 9, 2, 16), torch.zeros(2, 9, 2, 16), torch.zeros(2, 1, 2, 16)
        k8, lengths = k.to(torch.int8), int32([0, 1])
        for words, call in (
                ("v is missing", lambda: ht.kv_append(k, v, new, None, lengths)),
                ("v_cache is missing", lambda: ht.kv_append(k, None, new, new, lengths)),
                ("k_cache has 3 dimensions", lambda: ht.kv_append(k[0], None, new, None, lengths)),
                ("k_cache has strides", lambda: ht.kv_append(k[:1, :1].expand(2, 9, 2, 16), v, new, new, lengths)),
                ("k has shape", lambda: ht.kv_append(k, v, new[..., :8], new, lengths)),
                ("v has shape", lambda: ht.kv_append(k, v, new, new[:1], lengths)),
                ("v_cache has shape", lambda: ht.kv_append(k, v[:, :8], new, new, lengths)),
                ("k is torch.float16, and k_cache", lambda: ht.kv_append(k, v, new.half(), new, lengths)),
                ("k_scales is missing", lambda: ht.kv_append(k8, k8, new, new, lengths)),
                ("k_scales has shape", lambda: ht.kv_append(k8, None, new, None, lengths, k_scales=torch.ones(3))),
                ("k_scales is torch.int32", lambda: ht.kv_append(k8, None, new, None, lengths, k_scales=lengths)),
                ("lengths is torch.int64", lambda: ht.kv_append(k, v, new, new, lengths.long())),
                ("lengths ask for number 9", lambda: ht.kv_append(k, v, new, new, int32([0, 9]))),
                ("lengths ask for number -1", lambda: ht.kv_append(k, v, new, new, int32([0, -1]))),
                ("pages ask for number 2", lambda: ht.kv_append(k, v, new, new, lengths, int32([[1], [2]]))),
                ("pages ask for number -1", lambda: ht.kv_append(k, v, new, new, lengths, int32([[1], [-1]]))),
                ("page_starts without pages", lambda: ht.kv_append(k, v, new, new, lengths, page_starts=lengths)),
                ("page_starts and lengths ask for 6 pages",
                 lambda: ht.kv_append(k, v, new, new, lengths, lengths, page_starts=int32([0, 5]))),
                ("k_cache has a batch of 2", lambda: ht.kv_append(k, v, new[:1], new[:1], lengths[:1])),
                ("requires a gradient", lambda: ht.kv_append(k, None, new.clone().requires_grad_(), None, lengths))):
            with self.subTest(words), self.assertRaisesRegex(headroom.Error, words):
                call()


class Fork(unittest.TestCase):
    def test_a_gpu_in_a_child_of_fork_is_refused(self):
        tensor = types.SimpleNamespace(is_cuda=True, device=torch.device("cuda:7"))
        with unittest.mock.patch("torch.cuda._is_in_bad_fork", return_value=True):
            with self.assertRaisesRegex(headroom.UnavailableError, "q is on cuda:7, .* fork"):
                _run.device_of(tensor)


if __name__ == "__main__":
    unittest.main()
