# SPDX-License-Identifier: Apache-2.0
"""The package on numpy arrays."""
import ctypes
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import numpy

import formulas
import headroom
from headroom import _bindings, _library

RANDOM = numpy.random.default_rng(1)


def normal(*shape, dtype=numpy.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def operands(batch=2, q_len=5, kv_len=7, heads=(4, 2, 1), dims=(16, 8)):
    return (normal(batch, q_len, heads[0], dims[0]), normal(batch, kv_len, heads[1], dims[0]),
            normal(batch, kv_len, heads[2], dims[1]))


class Attention(unittest.TestCase):
    def check(self, q, k, v, allowed=1e-5, device=None, **options):
        o, lse = headroom.attention(q, k, v, return_lse=True, device=device, **options)
        expected = formulas.attention(q, k, v, options.get("causal", False), options.get("scale"),
                                      options.get("window", 0), options.get("softcap", 0.0),
                                      options.get("alibi_slopes"))
        numpy.testing.assert_allclose(o, expected[0], atol=allowed)
        numpy.testing.assert_allclose(lse, expected[1], atol=allowed)

    def test_heads_of_q_k_and_v_and_both_head_sizes_may_differ(self):
        self.check(*operands())

    def test_each_option_is_that_of_the_formula(self):
        slopes = numpy.array([0.5, 0.25, 0.125, 0.0625], numpy.float32)
        for options in (dict(causal=True), dict(causal=True, window=3), dict(scale=0.3), dict(softcap=2.0),
                        dict(causal=True, alibi_slopes=slopes)):
            with self.subTest(**options):
                self.check(*operands(), **options)

    def test_half_precision_and_the_reference_device_take_their_formats(self):
        self.check(*(x.astype(numpy.float16) for x in operands()), allowed=2e-2)
        with headroom.Device("reference") as reference:
            self.check(*(x.astype(numpy.float64) for x in operands()), allowed=1e-6, device=reference)

    def test_heads_before_tokens_and_other_strides_are_read_in_place(self):
        q, k, v = (numpy.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in operands())
        self.check(q, k, v)
        self.check(normal(2, 5, 4, 32)[..., 3:19], normal(2, 14, 2, 16)[:, ::2], normal(2, 7, 3, 8)[:, :, 1:2])

    def test_queries_without_keys_get_zeros(self):
        q, k, v = operands(kv_len=0)
        o, lse = headroom.attention(q, k, v, return_lse=True)
        self.assertTrue((o == 0).all() and (lse == -numpy.inf).all())
        self.assertTrue((headroom.decode(q, k, v) == 0).all())
        self.assertEqual(headroom.attention(*operands(q_len=0)).shape, (2, 0, 4, 8))

    def test_an_output_of_the_callers_is_written_in_place(self):
        q, k, v = operands()
        out = numpy.full((2, 4, 5, 8), numpy.nan, numpy.float32).swapaxes(1, 2)
        self.assertIs(headroom.attention(q, k, v, out=out), out)
        numpy.testing.assert_allclose(out, formulas.attention(q, k, v)[0], atol=1e-5)

    def test_a_problem_is_planned_once(self):
        with headroom.Device("cpu", 1) as device:
            for _ in range(3):
                headroom.attention(*operands(), device=device)
            self.assertEqual(device.counts(), (2, 1))

    def test_threads_that_share_a_device_get_their_own_results(self):
        calls = [operands(kv_len=20 + i) for i in range(4)]
        expected, right = [formulas.attention(*x)[0] for x in calls], [0] * 4

        def run(i):
            for _ in range(50):
                right[i] += numpy.allclose(headroom.attention(*calls[i]), expected[i], atol=1e-5)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(right, [50] * 4)

    def test_sequences_of_variable_lengths_are_those_alone(self):
        q, k, v = normal(9, 4, 16), normal(11, 2, 16), normal(11, 1, 8)
        q_offsets, kv_offsets = numpy.array([0, 4, 4, 9], numpy.int32), numpy.array([0, 4, 5, 11], numpy.int32)
        o, lse = headroom.attention_varlen(q, k, v, q_offsets, kv_offsets, causal=True, return_lse=True)
        for b in (0, 2):
            rows, keys = slice(*q_offsets[b:b + 2]), slice(*kv_offsets[b:b + 2])
            expected = formulas.attention(q[None, rows], k[None, keys], v[None, keys], True)
            numpy.testing.assert_allclose(o[rows], expected[0][0], atol=1e-5)
            numpy.testing.assert_allclose(lse[:, rows], expected[1][0], atol=1e-5)


class Decode(unittest.TestCase):
    def test_lengths_end_a_contiguous_cache(self):
        q, k, v = operands(q_len=1)
        o = headroom.decode(q, k, v, numpy.array([3, 7], numpy.int32))
        for b, length in enumerate((3, 7)):
            expected = formulas.attention(q[b:b + 1], k[b:b + 1, :length], v[b:b + 1, :length])[0]
            numpy.testing.assert_allclose(o[b:b + 1], expected, atol=1e-5)

    def test_pages_are_found_through_the_table(self):
        q, k, v = operands(q_len=2, kv_len=12)
        table = numpy.array([[5, 0, 3], [1, 4, 2]], numpy.int32)
        pages = [numpy.empty((6, 4, *x.shape[2:]), numpy.float32) for x in (k, v)]
        for cache, x in zip(pages, (k, v)):
            cache[table.reshape(-1)] = x.reshape(6, 4, *x.shape[2:])
        o, lse = headroom.decode(q, *pages, pages=table, return_lse=True)
        expected = formulas.attention(q, k, v, True)
        numpy.testing.assert_allclose(o, expected[0], atol=1e-5)
        numpy.testing.assert_allclose(lse, expected[1].swapaxes(1, 2), atol=1e-5)

    def test_a_sink_takes_its_share_of_the_softmax(self):
        q, k, v = operands(batch=1, q_len=1)
        sinks = normal(4)
        o, without = headroom.decode(q, k, v, sinks=sinks), headroom.decode(q, k, v, return_lse=True)
        share = numpy.exp(without[1] - numpy.logaddexp(without[1], sinks))
        numpy.testing.assert_allclose(o, without[0] * share[..., None], atol=1e-5)

    def test_selective_v_keeps_the_keys_with_the_largest_scores(self):
        q, k, v = operands(batch=1, q_len=1, heads=(1, 1, 1))
        best = numpy.sort(numpy.argsort(-(k[0, :, 0] @ q[0, 0, 0]))[:3])
        numpy.testing.assert_allclose(headroom.decode(q, k, v, top_k=3),
                                      formulas.attention(q, k[:, best], v[:, best])[0], atol=1e-5)


class Refusals(unittest.TestCase):
    def refused(self, words, call, error=headroom.InvalidError):
        with self.assertRaisesRegex(error, words):
            call()

    def test_an_array_that_the_library_cannot_read_is_named(self):
        q, k, v = operands()
        misaligned = numpy.frombuffer(bytearray(4 * k.size + 1), numpy.float32, k.size, 1).reshape(k.shape)
        for words, arguments in (
                ("k is float64, and q is float32", (q, k.astype(numpy.float64), v)),
                ("q is int32; expected", (q.astype(numpy.int32), k.astype(numpy.int32), v.astype(numpy.int32))),
                ("k is not aligned", (q, misaligned, v)),
                ("v has heads that are not contiguous", (q, k, normal(2, 7, 1, 16)[..., ::2])),
                ("k has strides", (q, k[:, ::-1], v)),
                ("q has 3 dimensions", (q[0], k, v)),
                ("k is a list", (q, k.tolist(), v)),
                ("k has heads of 15", (q, k[..., :15], v)),
                ("v has shape", (q, k, v[:, :6])),
                ("k has 3 heads", (q, normal(2, 7, 3, 16), v)),
                ("k has a batch of 1", (q, k[:1], v[:1]))):
            with self.subTest(words):
                self.refused(words, lambda: headroom.attention(*arguments))

    def test_an_option_that_does_not_fit_is_named(self):
        q, k, v = operands()
        for words, options in (("scale is 0", dict(scale=0.0)), ("window", dict(window=3)),
                               ("softcap", dict(softcap=float("nan"))), ("out is not", dict(out=q)),
                               ("alibi_slopes is not", dict(alibi_slopes=numpy.ones(3, numpy.float32)))):
            with self.subTest(words):
                self.refused(words, lambda: headroom.attention(q, k, v, **options))
        self.refused("lengths is not", lambda: headroom.decode(q, k, v, numpy.array([3, 7])))
        self.refused("17|queries|q_len", lambda: headroom.decode(*operands(q_len=17, kv_len=20)), headroom.Error)

    def test_offsets_and_pages_out_of_range_are_refused(self):
        q, k, v = (x[0] for x in operands())
        offsets = numpy.array([0, 99], numpy.int32)
        self.refused("offsets", lambda: headroom.attention_varlen(q, k, v, offsets, offsets))
        q, k, v = operands(q_len=1)
        self.refused("page", lambda: headroom.decode(q, k, v, pages=numpy.array([[0], [9]], numpy.int32)))

    def test_a_closed_device_says_so(self):
        device = headroom.Device("cpu", 1)
        device.close()
        device.close()
        self.assertIn("closed", repr(device))
        self.refused("device cpu is closed", lambda: headroom.attention(*operands(), device=device))

    def test_a_status_is_an_exception_with_the_librarys_line(self):
        self.refused('"gpu" is not a device', lambda: headroom.Device("gpu"), headroom.NotFoundError)
        self.refused('"gpu"', lambda: headroom.Device("gpu"), LookupError)
        statuses = {value for name, value in vars(_bindings).items() if name.startswith("HR_ERROR_")}
        self.assertEqual(statuses, set(_library.ERRORS))

    def test_a_library_of_another_place_is_named(self):
        path = "/nowhere/libheadroom.so"
        self.refused(path, lambda: _library.load(path), headroom.UnavailableError)


class Process(unittest.TestCase):
    def test_structs_have_the_librarys_sizes(self):
        for name in ("hr_attention_arguments", "hr_attention", "hr_decode", "hr_kv_cache_options", "hr_device_options"):
            struct = _library.default(_library.kernels(), getattr(_bindings, name))
            self.assertEqual(struct.struct_size, ctypes.sizeof(struct), name)

    def test_the_advisor_is_loaded_on_demand(self):
        self.assertEqual(_library.advice().hr_version().decode(), headroom.__version__)

    def test_calls_release_the_interpreters_lock(self):
        self.assertNotIsInstance(_library.kernels(), ctypes.PyDLL)

    def test_a_child_of_fork_opens_the_device_itself(self):
        q, k, v = operands()
        expected = headroom.attention(q, k, v)
        child = os.fork()
        if child == 0:
            os._exit(0 if numpy.array_equal(headroom.attention(q, k, v), expected) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_importing_the_package_imports_no_framework(self):
        script = "import headroom, sys; print('torch' in sys.modules)"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(pathlib.Path(headroom.__file__).parents[1])])}
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment,
                               check=True)
        self.assertEqual(found.stdout, "False\n")


if __name__ == "__main__":
    unittest.main()
