# SPDX-License-Identifier: Apache-2.0
"""Problems and arguments as the library's structs, of any arrays: all that is read of them is addresses, shapes and
strides. A problem is checked and packed once; calls like it find it by its sizes."""
from __future__ import annotations

import ctypes
import functools
import numbers
import struct
from typing import NamedTuple, Optional, Tuple

from . import _bindings as c
from .errors import InvalidError

CACHED = 4096  # problems
FP32_MAX = 2.0**128
DTYPES = {"float64": c.HR_FP64, "float32": c.HR_FP32, "float16": c.HR_FP16, "bfloat16": c.HR_BF16}


def packer(structure: type[ctypes.Structure]) -> struct.Struct:
    """Packs the members of a struct, those of structs in it one after another."""
    packed = struct.Struct("@" + codes(structure) + "0q")
    assert packed.size == ctypes.sizeof(structure)
    return packed


def codes(structure: type[ctypes.Structure]) -> str:
    """The members' codes, which ctypes and struct have in common."""
    types = [member[1] for member in structure._fields_]
    return "".join(codes(each) if issubclass(each, ctypes.Structure) else getattr(each, "_type_") for each in types)


ATTENTION, ATTENTION_ARGUMENTS = packer(c.hr_attention), packer(c.hr_attention_arguments)
BACKWARD, BACKWARD_ARGUMENTS = packer(c.hr_attention_backward), packer(c.hr_attention_backward_arguments)
DECODE, DECODE_ARGUMENTS = packer(c.hr_decode), packer(c.hr_decode_arguments)


Sizes = Tuple[int, ...]


class Layout(NamedTuple):
    """The sizes of an array, and its strides in elements."""
    shape: Sizes
    strides: Sizes


def packed(shape: Sizes) -> Sizes:
    """The strides of an array without gaps."""
    strides, elements = [], 1
    for size in reversed(shape):
        strides.append(elements)
        elements *= size
    return tuple(reversed(strides))


class Softmax(NamedTuple):
    """What becomes of the scores."""
    causal: bool
    scale: Optional[float]
    window: int
    softcap: float
    extra: bool  # with ALiBi's slopes, in decode with sinks
    first_keys: bool = False  # of attention


class Cache(NamedTuple):
    """How decode finds and reads K and V."""
    table_pitch: Optional[int] = None  # None: one page a sequence
    kv_len: Optional[int] = None  # the most tokens; None: as many as there is room for
    latent: bool = False  # V is the first elements of K
    format: int = c.HR_KV_UNQUANTIZED
    token_scales: Optional[Sizes] = None  # strides of K's and of V's scales; None: a scale a head


NO_STRIDES = (0,) * 6


def alignment_of(element: int, *addresses: int) -> int:
    """What all addresses are multiples of: 16, or the largest power of two below that."""
    bits = 16
    for address in addresses:
        bits |= address
    return max(bits & -bits, element)


@functools.lru_cache(CACHED)
def attention(what: str, dtype: int, alignment: int, q: Layout, k: Layout, v: Layout, o: Layout,
              softmax: Softmax) -> bytes:
    """An hr_attention of arrays [batch, length, heads, dim]."""
    expect_sizes(what, q, k, v)
    expect_numbers(what, softmax)
    (batch, q_len, q_heads, qk_dim), (k_batch, kv_len, k_heads, _) = q.shape, k.shape
    _, _, v_heads, v_dim = v.shape
    expect_batch(what, batch, k_batch)
    return ATTENTION.pack(
        ATTENTION.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, softmax.causal,
        softmax.window, softmax.scale or 0, softmax.softcap, softmax.extra, False, 0, 0, *q.strides[:3],
        *k.strides[:3], *v.strides[:3], *o.strides[:3], c.HR_OUTPUT_AS_OPERANDS, False, alignment,
        softmax.first_keys)


@functools.lru_cache(CACHED)
def attention_varlen(what: str, dtype: int, alignment: int, q: Layout, k: Layout, v: Layout, o: Layout,
                     softmax: Softmax, batch: int, q_len: int, kv_len: int) -> bytes:
    """An hr_attention of packed sequences, arrays [rows, heads, dim]; q_len and kv_len are the largest lengths."""
    expect_sizes(what, q, k, v)
    expect_numbers(what, softmax)
    (q_rows, q_heads, qk_dim), (kv_rows, k_heads, _), (_, v_heads, v_dim) = q.shape, k.shape, v.shape
    return ATTENTION.pack(
        ATTENTION.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, softmax.causal,
        softmax.window, softmax.scale or 0, softmax.softcap, softmax.extra, True, q_rows, kv_rows,
        0, *q.strides[:2], 0, *k.strides[:2], 0, *v.strides[:2], 0, *o.strides[:2], c.HR_OUTPUT_AS_OPERANDS, False,
        alignment, softmax.first_keys)


@functools.lru_cache(CACHED)
def decode(what: str, dtype: int, alignment: int, q: Layout, k: Layout, v: Layout, o: Layout, softmax: Softmax,
           cache: Cache, top_k: int) -> bytes:
    """An hr_decode of Q [batch, q_len, heads, dim] and a cache [pages, page size, heads, dim]; a contiguous one has no
    page table."""
    expect_sizes(what, q, k, v)
    expect_numbers(what, softmax)
    expect_counts(what, top_k=top_k, max_kv_len=0 if cache.kv_len is None else cache.kv_len)
    (batch, q_len, q_heads, qk_dim), (pages, page_size, k_heads, _) = q.shape, k.shape
    _, _, v_heads, v_dim = v.shape
    if cache.table_pitch is None:
        expect_batch(what, batch, pages)
    pitch = 1 if cache.table_pitch is None else cache.table_pitch
    kv_len = pitch * page_size if cache.kv_len is None else cache.kv_len
    scales = c.HR_KV_SCALE_TOKEN if cache.token_scales else c.HR_KV_SCALE_HEAD
    return DECODE.pack(
        DECODE.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, max(page_size, 1), pages,
        pitch, softmax.window, top_k, softmax.scale or 0, softmax.softcap, softmax.extra, cache.latent, False,
        *q.strides[:3], *o.strides[:3], *k.strides[:3], *v.strides[:3], cache.format, scales,
        *(cache.token_scales or NO_STRIDES), alignment, False)


def attention_arguments(q: int, k: int, v: int, o: int, lse: Optional[int], slopes: Optional[int],
                        q_offsets: Optional[int] = None, kv_offsets: Optional[int] = None,
                        first_keys: Optional[int] = None) -> bytes:
    return ATTENTION_ARGUMENTS.pack(ATTENTION_ARGUMENTS.size, q, k, v, o, lse or 0, slopes or 0, q_offsets or 0,
                                    kv_offsets or 0, 0, 0, 0, 0, 0, 0, first_keys or 0)


def attention_backward(d_o: Layout, sinks: bool, deterministic: bool) -> bytes:
    """An hr_attention_backward of packed gradients, and of dO [batch, length, heads, dim] or [rows, heads, dim]."""
    batch, row, head = d_o.strides[:3] if len(d_o.shape) == 4 else (0, *d_o.strides[:2])
    return BACKWARD.pack(BACKWARD.size, batch, row, head, *(0,) * 9, sinks, deterministic)


def attention_backward_arguments(operands: Tuple[int, ...], gradients: Tuple[int, ...], slopes: Optional[int],
                                 sinks: Optional[int], d_sinks: Optional[int], q_offsets: Optional[int],
                                 kv_offsets: Optional[int], first_keys: Optional[int]) -> bytes:
    """`operands`: Q, K, V, O, dO and the log-sum-exp; `gradients`: dQ, dK and dV."""
    return BACKWARD_ARGUMENTS.pack(BACKWARD_ARGUMENTS.size, *operands, *gradients, slopes or 0, sinks or 0,
                                   d_sinks or 0, q_offsets or 0, kv_offsets or 0, first_keys or 0, 0, 0, 0)


def decode_arguments(q: int, k: int, v: int, o: int, lse: Optional[int], lengths: Optional[int], pages: Optional[int],
                     sinks: Optional[int], k_scales: Optional[int] = None, v_scales: Optional[int] = None,
                     page_starts: Optional[int] = None) -> bytes:
    return DECODE_ARGUMENTS.pack(DECODE_ARGUMENTS.size, q, k, v, o, lse or 0, lengths or 0, pages or 0, sinks or 0,
                                 k_scales or 0, v_scales or 0, page_starts or 0, 0, 0)


def expect_numbers(what: str, softmax: Softmax) -> None:
    """Names the option that the struct cannot hold. The library takes a scale of 0 as 1 / sqrt(dim)."""
    if softmax.scale == 0:
        raise InvalidError(f"{what}: scale is 0; None is 1 / sqrt(head dim)")
    for name, value in (("scale", softmax.scale or 0), ("softcap", softmax.softcap)):
        if not isinstance(value, numbers.Real) or not abs(value) < FP32_MAX:
            raise InvalidError(f"{what}: {name} is {value!r}; expected a finite number")
    if not isinstance(softmax.causal, numbers.Integral) or softmax.causal not in (0, 1):
        raise InvalidError(f"{what}: causal is {softmax.causal!r}; expected True or False")
    if not isinstance(softmax.window, numbers.Integral) or abs(softmax.window) >= 2**63:
        raise InvalidError(f"{what}: window is {softmax.window!r}; expected a whole number")


def expect_counts(what: str, **counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, numbers.Integral) or not 0 <= count < 2**63:
            raise InvalidError(f"{what}: {name} is {count!r}; expected a whole number of at least 0")


def expect_sizes(what: str, q: Layout, k: Layout, v: Layout) -> None:
    """Names the operand whose sizes do not fit the others'."""
    for name, operand in (("k", k), ("v", v)):
        if len(operand.shape) != len(q.shape):
            raise InvalidError(f"{what}: {name} has {len(operand.shape)} dimensions, and q has {len(q.shape)}")
    if k.shape[-1] != q.shape[-1]:
        raise InvalidError(f"{what}: k has heads of {k.shape[-1]}, and q of {q.shape[-1]}")
    if v.shape[:-2] != k.shape[:-2]:
        raise InvalidError(f"{what}: v has shape {list(v.shape)}, which does not fit k's {list(k.shape)}")
    for name, operand in (("k", k), ("v", v)):
        if operand.shape[-2] < 1 or q.shape[-2] % operand.shape[-2]:
            raise InvalidError(f"{what}: {name} has {operand.shape[-2]} heads, which do not divide q's {q.shape[-2]}")


def expect_batch(what: str, q: int, k: int) -> None:
    if k != q:
        raise InvalidError(f"{what}: k has a batch of {k}, and q of {q}")
