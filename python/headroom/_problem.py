# SPDX-License-Identifier: Apache-2.0
"""Problems and arguments as the library's structs, of any arrays: all that is read of them is addresses, shapes and
strides. A struct is packed in one step, since filling a ctypes.Structure member by member takes longer than finding the
plan."""
from __future__ import annotations

import ctypes
import struct
from typing import NamedTuple, Optional, Sequence

from . import _bindings as c
from .errors import InvalidError

DTYPES = {"float64": c.HR_FP64, "float32": c.HR_FP32, "float16": c.HR_FP16, "bfloat16": c.HR_BF16}


def packer(structure: type[ctypes.Structure]) -> struct.Struct:
    """Packs the members of a struct, those of structs in it one after another."""
    packed = struct.Struct("@" + codes(structure) + "0q")
    assert packed.size == ctypes.sizeof(structure)
    return packed


def codes(structure: type[ctypes.Structure]) -> str:
    """The members' codes, which ctypes and struct have in common."""
    types = [member[1] for member in structure._fields_]
    return "".join(codes(each) if issubclass(each, ctypes.Structure) else each._type_ for each in types)


ATTENTION, ATTENTION_ARGUMENTS = packer(c.hr_attention), packer(c.hr_attention_arguments)
DECODE, DECODE_ARGUMENTS = packer(c.hr_decode), packer(c.hr_decode_arguments)


class Operand(NamedTuple):
    """What is read of an array: its address (None: not passed), sizes, and strides in elements."""
    address: Optional[int]
    shape: Sequence[int]
    strides: Sequence[int]


def alignment_of(addresses: Sequence[int], element: int) -> int:
    """What all addresses are multiples of: 16, or the largest power of two below that."""
    bits = 16
    for address in addresses:
        bits |= address
    return max(bits & -bits, element)


def attention(dtype: int, q: Operand, k: Operand, v: Operand, o: Operand, element: int, causal: bool, window: int,
              scale: float, softcap: float, alibi: bool) -> bytes:
    """An hr_attention of arrays [batch, length, heads, dim]."""
    (batch, q_len, q_heads, qk_dim), (_, kv_len, k_heads, _) = q.shape, k.shape
    _, _, v_heads, v_dim = v.shape
    return ATTENTION.pack(
        ATTENTION.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, causal, window, scale,
        softcap, alibi, False, 0, 0, *q.strides[:3], *k.strides[:3], *v.strides[:3], *o.strides[:3],
        c.HR_OUTPUT_AS_OPERANDS, False, alignment_of((q.address, k.address, v.address, o.address), element))


def attention_varlen(dtype: int, q: Operand, k: Operand, v: Operand, o: Operand, element: int, batch: int, q_len: int,
                     kv_len: int, causal: bool, window: int, scale: float, softcap: float, alibi: bool) -> bytes:
    """An hr_attention of packed sequences, arrays [rows, heads, dim]; q_len and kv_len are the largest lengths."""
    (q_rows, q_heads, qk_dim), (kv_rows, k_heads, _), (_, v_heads, v_dim) = q.shape, k.shape, v.shape
    return ATTENTION.pack(
        ATTENTION.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, causal, window, scale,
        softcap, alibi, True, q_rows, kv_rows, 0, *q.strides[:2], 0, *k.strides[:2], 0, *v.strides[:2], 0, *o.strides[:2],
        c.HR_OUTPUT_AS_OPERANDS, False, alignment_of((q.address, k.address, v.address, o.address), element))


def attention_arguments(q: int, k: int, v: int, o: int, lse: Optional[int], slopes: Optional[int],
                        q_offsets: Optional[int] = None, kv_offsets: Optional[int] = None) -> bytes:
    return ATTENTION_ARGUMENTS.pack(ATTENTION_ARGUMENTS.size, q, k, v, o, lse or 0, slopes or 0, q_offsets or 0,
                                    kv_offsets or 0, 0, 0, 0, 0, 0, 0)


def decode(dtype: int, q: Operand, k: Operand, v: Operand, o: Operand, element: int, kv_len: int, page_size: int,
           page_count: int, table_pitch: int, window: int, top_k: int, scale: float, softcap: float, sinks: bool) -> bytes:
    """An hr_decode of Q [batch, q_len, heads, dim] and a cache [pages, page size, heads, dim]."""
    (batch, q_len, q_heads, qk_dim), k_heads = q.shape, k.shape[2]
    _, _, v_heads, v_dim = v.shape
    return DECODE.pack(
        DECODE.size, batch, q_len, kv_len, q_heads, k_heads, v_heads, qk_dim, v_dim, dtype, page_size, page_count,
        table_pitch, window, top_k, scale, softcap, sinks, False, False, *q.strides[:3], *o.strides[:3], *k.strides[:3],
        *v.strides[:3], c.HR_KV_UNQUANTIZED, c.HR_KV_SCALE_HEAD, 0, 0, 0, 0, 0, 0,
        alignment_of((q.address, k.address, v.address, o.address), element))


def decode_arguments(q: int, k: int, v: int, o: int, lse: Optional[int], lengths: Optional[int], pages: Optional[int],
                     sinks: Optional[int], page_starts: Optional[int] = None) -> bytes:
    return DECODE_ARGUMENTS.pack(DECODE_ARGUMENTS.size, q, k, v, o, lse or 0, lengths or 0, pages or 0, sinks or 0, 0, 0,
                                 page_starts or 0, 0)


def scale_of(what: str, scale: Optional[float]) -> float:
    """The library takes 0 as 1 / sqrt(dim), so that no caller can mean 0."""
    if scale == 0:
        raise InvalidError(f"{what}: scale is 0; None is 1 / sqrt(head dim)")
    return scale or 0.0


def expect_sizes(what: str, q: Operand, k: Operand, v: Operand) -> None:
    """Names the operand whose sizes do not fit the others'."""
    if k.shape[-1] != q.shape[-1]:
        raise InvalidError(f"{what}: k has heads of {k.shape[-1]}, and q of {q.shape[-1]}")
    if list(v.shape[:-2]) != list(k.shape[:-2]):
        raise InvalidError(f"{what}: v has shape {list(v.shape)}, which does not fit k's {list(k.shape)}")
    for name, operand in (("k", k), ("v", v)):
        if operand.shape[-2] < 1 or q.shape[-2] % operand.shape[-2]:
            raise InvalidError(f"{what}: {name} has {operand.shape[-2]} heads, which do not divide q's {q.shape[-2]}")
