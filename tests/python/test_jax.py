# SPDX-License-Identifier: Apache-2.0
"""headroom.jax on JAX's default device."""
import ctypes
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest
import unittest.mock

import jax
import jax.numpy as jnp
import numpy

import formulas
import headroom
import headroom.jax as hj
from headroom.device import default_device

RANDOM = numpy.random.default_rng(1)
ALLOWED = {jnp.float32: 1e-5, jnp.float16: 2e-2, jnp.bfloat16: 6e-2}
HEAD = "struct_size=struct_size extension_start=extension "
LAYOUTS = {  # a struct of the header, ours, and members of both that are used
    "Api_Version": (hj.ApiVersion, HEAD + "major_version=major minor_version=minor"),
    "Metadata": (hj.Metadata, "struct_size=struct_size api_version=version traits=traits"),
    "Metadata_Extension": (hj.MetadataExtension, "extension_base=struct_size metadata=metadata"),
    "Buffer": (hj.Buffer, HEAD + "dtype=dtype data=data rank=rank dims=dims"),
    "Args": (hj.Values, HEAD + "size=size types=types args=buffers"),
    "Rets": (hj.Values, HEAD + "size=size types=types rets=buffers"),
    "Attrs": (hj.Attributes, HEAD + "size=size types=types names=names attrs=arrays"),
    "CallFrame": (hj.CallFrame, HEAD + "api=api ctx=context stage=stage args=arguments rets=results attrs=attributes"),
    "Error_Create_Args": (hj.ErrorArguments, HEAD + "message=message errc=code"),
    "Error_Destroy_Args": (hj.FreeError, HEAD + "error=error"),
    "Stream_Get_Args": (hj.StreamArguments, HEAD + "ctx=context stream=stream"),
    "DeviceOrdinal_Get_Args": (hj.OrdinalArguments, HEAD + "ctx=context device_ordinal=ordinal"),
    "DeviceMemory_Allocate_Args": (hj.AllocateArguments, HEAD + "ctx=context size=size alignment=alignment data=data"),
    "DeviceMemory_Free_Args": (hj.FreeArguments, HEAD + "ctx=context size=size data=data"),
    "Api": (hj.Api, HEAD + "api_version=version XLA_FFI_Error_Create=error_create XLA_FFI_Error_Destroy=error_destroy "
            "XLA_FFI_Stream_Get=stream_get XLA_FFI_DeviceMemory_Allocate=memory_allocate "
            "XLA_FFI_DeviceMemory_Free=memory_free XLA_FFI_DeviceOrdinal_Get=device_ordinal_get")}


def operands(dtype=jnp.float32, batch=2, q_len=5, kv_len=7, heads=(4, 2, 1), dims=(16, 8)):
    shapes = ((batch, q_len, heads[0], dims[0]), (batch, kv_len, heads[1], dims[0]), (batch, kv_len, heads[2], dims[1]))
    return [jnp.asarray(RANDOM.standard_normal(shape), dtype) for shape in shapes]


def expected(q, k, v, **options):
    return formulas.attention(*(numpy.asarray(x, numpy.float32) for x in (q, k, v)), **options)


class Attention(unittest.TestCase):
    def close(self, found, right, allowed=1e-5):
        numpy.testing.assert_allclose(numpy.asarray(found, numpy.float32), right, atol=allowed)

    def test_attention_is_that_of_the_formula_in_each_format(self):
        for dtype, allowed in ALLOWED.items():
            for options in ({}, dict(causal=True), dict(causal=True, window=3, scale=0.3), dict(softcap=2.0)):
                with self.subTest(dtype=dtype, **options):
                    x = operands(dtype)
                    right = expected(*x, **options)
                    o, lse = hj.attention(*x, return_lse=True, **options)
                    self.close(o, right[0], allowed)
                    self.close(lse, right[1], allowed)
                    self.close(jax.jit(lambda *x: hj.attention(*x, **options))(*x), right[0], allowed)

    def test_compiled_functions_use_it_between_other_operations(self):
        q, k, v = operands()
        layer = jax.jit(lambda q, k, v: hj.attention(q * 2, jnp.flip(k, 1), v + 1, causal=True).sum(3))
        self.close(layer(q, k, v), expected(q * 2, k[:, ::-1], v + 1, causal=True)[0].sum(3), 1e-4)

    def test_a_mapped_axis_is_one_call_after_another(self):
        x = [jnp.stack((a, b)) for a, b in zip(operands(), operands())]
        found = jax.vmap(lambda *x: hj.attention(*x, causal=True))(*x)
        for i in range(2):
            self.close(found[i], expected(*(each[i] for each in x), causal=True)[0])

    def test_queries_without_keys_get_zeros(self):
        o, lse = hj.attention(*operands(kv_len=0), return_lse=True)
        self.assertTrue((o == 0).all() and (lse == -jnp.inf).all())

    def test_threads_get_their_own_results(self):
        calls = [operands(kv_len=20 + i) for i in range(4)]
        right, found = [expected(*x)[0] for x in calls], [0] * 4

        def run(i):
            for _ in range(20):
                found[i] += numpy.allclose(hj.attention(*calls[i]), right[i], atol=1e-5)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [20] * 4)

    def test_an_argument_that_does_not_fit_is_named(self):
        q, k, v = operands()
        for words, call in (("k is float16, and q is float32", lambda: hj.attention(q, k.astype(jnp.float16), v)),
                            ("q has 3 dimensions", lambda: hj.attention(q[0], k[0], v[0])),
                            ("k has heads of 15", lambda: hj.attention(q, k[..., :15], v)),
                            ("scale is 0", lambda: hj.attention(q, k, v, scale=0.0))):
            with self.subTest(words), self.assertRaisesRegex(headroom.InvalidError, words):
                call()

    def test_a_failure_of_the_library_is_an_exception_with_its_line(self):
        for words, call in (("window", lambda x: hj.attention(*x, window=3)),
                            ("float32, float16 or bfloat16",
                             lambda x: hj.attention(*(each.astype(jnp.int32) for each in x)))):
            with self.subTest(words), self.assertRaisesRegex(Exception, words):
                jax.block_until_ready(call(operands()))

    def test_gradients_are_those_of_the_formula(self):
        def formula(q, k, v, causal=False, softcap=0.0):
            k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") * q.shape[3]**-0.5
            scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
            own = jnp.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
            scores = jnp.where(causal & (jnp.arange(k.shape[1]) > own), -jnp.inf, scores)
            return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v, precision="highest")

        x = operands()

        def gradients(function, **options):
            return jax.grad(lambda *each: jnp.sin(function(*each, **options)).sum(), (0, 1, 2))(*x)

        for options in ({}, dict(causal=True), dict(softcap=2.0)):
            for function in (hj.attention, jax.jit(hj.attention, static_argnames=("causal", "softcap")),
                             lambda *each, **named: hj.attention(*each, return_lse=True, **named)[0]):
                for found, right in zip(gradients(function, **options), gradients(formula, **options)):
                    numpy.testing.assert_allclose(found, right, atol=1e-5)

    def test_what_has_no_gradient_is_refused(self):
        q, k, v = operands()
        with self.assertRaisesRegex(headroom.UnsupportedError, "the log-sum-exp has no gradient"):
            jax.grad(lambda q: hj.attention(q, k, v, return_lse=True)[1].sum())(q)
        first = jax.grad(lambda q: jnp.square(hj.attention(q, k, v)).sum())
        with self.assertRaisesRegex(ValueError, "differentiat"):
            jax.grad(lambda q: first(q).sum())(q)


class Interface(unittest.TestCase):
    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_structs_are_those_of_jaxlibs_header(self):
        members = [(name, struct, *each.split("=")) for name, (struct, both) in LAYOUTS.items()
                   for each in both.split()]
        program = "".join(f'printf("%zu\\n", offsetof(struct XLA_FFI_{name}, {theirs}));\n'
                          for name, _, theirs, _ in members)
        program = ('#include <stdbool.h>\n#include <stdio.h>\n#include "xla/ffi/api/c_api.h"\n'
                   f"int main(void) {{\n{program}return 0; }}\n")
        with tempfile.TemporaryDirectory() as folder:
            source, command = pathlib.Path(folder, "offsets.c"), pathlib.Path(folder, "offsets")
            source.write_text(program, encoding="utf-8")
            subprocess.run(["cc", "-w", f"-I{jax.ffi.include_dir()}", source, "-o", command], check=True)
            offsets = subprocess.run([command], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual([(name, theirs, int(offset)) for (name, _, theirs, _), offset in zip(members, offsets)],
                         [(name, theirs, getattr(struct, own).offset) for name, struct, theirs, own in members])

    def test_a_gpus_run_takes_its_stream_and_workspace_from_xla(self):
        asked, memory = [], numpy.zeros(1 << 23, numpy.uint8)
        place = (memory.ctypes.data + 255) // 256 * 256

        def ordinal(address):
            asked.append("ordinal")
            hj.OrdinalArguments.from_address(address).ordinal = 3

        def stream(address):
            asked.append("stream")
            hj.StreamArguments.from_address(address).stream = None

        def allocate(address):
            arguments = hj.AllocateArguments.from_address(address)
            asked.append(("allocate", arguments.size))
            arguments.data = place

        def free(address):
            arguments = hj.FreeArguments.from_address(address)
            asked.append(("free", arguments.size))
            self.assertEqual(arguments.data, place)

        x = [numpy.array(each) for each in operands(q_len=40, kv_len=60)]
        o = numpy.zeros((2, 40, 4, 8), numpy.float32)
        frame, kept = call_frame(x, o, device_ordinal_get=ordinal, stream_get=stream, memory_allocate=allocate,
                                 memory_free=free)
        with unittest.mock.patch.object(hj, "gpu", return_value=default_device()) as gpu:
            self.assertIsNone(hj.HANDLERS["CUDA"](ctypes.addressof(frame)))
        gpu.assert_called_once_with(3)
        self.assertEqual([each[0] if isinstance(each, tuple) else each for each in asked],
                         ["ordinal", "stream", "allocate", "free"])
        self.assertEqual(asked[2][1], asked[3][1])
        numpy.testing.assert_allclose(o, expected(*x)[0], atol=1e-5)
        self.assertTrue(kept)

    def test_an_interface_without_a_function_is_an_error_with_its_name(self):
        said = []
        zeros = numpy.zeros((1, 1, 1, 8), numpy.float32)
        frame, kept = call_frame([zeros] * 3, zeros.copy(), error_create=lambda address: said.append(
            hj.ErrorArguments.from_address(address).message.decode()))
        frame.api.contents.struct_size = hj.Api.device_ordinal_get.offset
        hj.HANDLERS["CUDA"](ctypes.addressof(frame))
        self.assertEqual(said, ["attention: this jaxlib has no device_ordinal_get"])
        self.assertTrue(kept)


def call_frame(operands, o, **functions):
    """A frame as XLA makes it, whose interface has these functions, and what has to live as long as it."""
    kept = [hj.FUNCTION(each) for each in functions.values()]
    api = hj.Api(struct_size=ctypes.sizeof(hj.Api), **dict(zip(functions, kept)))
    softmax = numpy.array([0, 0, 0, 0], numpy.float64)
    array = hj.Array(hj.ARRAY_F64, 4, softmax.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
    frame = hj.CallFrame(api=ctypes.pointer(api), stage=hj.EXECUTE)
    frame.arguments, frame.results = values_of(operands), values_of([o])
    frame.attributes = hj.Attributes(size=1, arrays=(ctypes.POINTER(hj.Array) * 1)(ctypes.pointer(array)))
    return frame, (kept, api, softmax, array)


def values_of(arrays):
    buffers = [hj.Buffer(dtype=11, data=x.ctypes.data, rank=x.ndim, dims=(ctypes.c_int64 * x.ndim)(*x.shape))
               for x in arrays]
    pointers = (ctypes.POINTER(hj.Buffer) * len(buffers))(*map(ctypes.pointer, buffers))
    return hj.Values(size=len(buffers), buffers=pointers)


if __name__ == "__main__":
    unittest.main()
