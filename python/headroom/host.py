# SPDX-License-Identifier: Apache-2.0
"""Attention and decode of numpy arrays. Arrays are [batch, length, heads, dim] of float32, float16, bfloat16 (of the
package ml_dtypes) or, on the device "reference", float64. Heads are contiguous; other strides may be any that are not
negative. Nothing is copied. K and V may have fewer heads than Q, each a number of its own, and V another head size."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import numpy

from . import _problem as problem
from ._library import kernels
from ._problem import Layout
from .device import Device, default_device
from .errors import InvalidError

Result = Union[numpy.ndarray, Tuple[numpy.ndarray, numpy.ndarray]]


def attention(q: numpy.ndarray, k: numpy.ndarray, v: numpy.ndarray, *, causal: bool = False,
              scale: Optional[float] = None, window: int = 0, softcap: float = 0.0,
              alibi_slopes: Optional[numpy.ndarray] = None, return_lse: bool = False,
              out: Optional[numpy.ndarray] = None, device: Optional[Device] = None) -> Result:
    """softmax(scale · Q Kᵀ) V per query head. `causal` is aligned to the bottom right; `window`: the most keys that a
    query sees, with `causal`; `scale` None: 1 / sqrt(head dim). With return_lse also the log-sum-exp [batch, heads,
    length]."""
    device, operands = open_host(device, "attention"), operands_of("attention", q, k, v, 4)
    o = output("attention", out, q, (*q.shape[:3], v.shape[3]))
    lse = numpy.empty((q.shape[0], q.shape[2], q.shape[1]), numpy.float32) if return_lse else None
    slopes = vector("attention", "alibi_slopes", alibi_slopes, numpy.float32, q.shape[2])
    found = problem.attention("attention", dtype_of("attention", q), alignment_of(q, k, v, o), *operands,
                              layout("attention", "out", o, 4),
                              problem.Softmax(bool(causal), scale, window, softcap, slopes is not None))
    arguments = problem.attention_arguments(*addresses(q, k, v, o), address(lse), address(slopes))
    device.run(kernels().hr_plans_attention, found, kernels().hr_plan_run_attention, arguments)
    return o if lse is None else (o, lse)


def attention_varlen(q: numpy.ndarray, k: numpy.ndarray, v: numpy.ndarray, q_offsets: numpy.ndarray,
                     kv_offsets: numpy.ndarray, *, causal: bool = False, scale: Optional[float] = None, window: int = 0,
                     softcap: float = 0.0, alibi_slopes: Optional[numpy.ndarray] = None, return_lse: bool = False,
                     out: Optional[numpy.ndarray] = None, device: Optional[Device] = None) -> Result:
    """attention() of sequences one after another, arrays [rows, heads, dim]: sequence b has rows offsets[b] to
    offsets[b + 1] − 1 (int32). With return_lse also the log-sum-exp [heads, rows]."""
    what = "attention_varlen"
    device, operands = open_host(device, what), operands_of(what, q, k, v, 3)
    q_offsets = vector(what, "q_offsets", q_offsets, numpy.int32)
    kv_offsets = vector(what, "kv_offsets", kv_offsets, numpy.int32, q_offsets.size)
    if q_offsets.size < 2:
        raise InvalidError(f"{what}: q_offsets has {q_offsets.size} elements, and one sequence takes 2")
    o = output(what, out, q, (*q.shape[:2], v.shape[2]))
    lse = numpy.empty((q.shape[1], q.shape[0]), numpy.float32) if return_lse else None
    slopes = vector(what, "alibi_slopes", alibi_slopes, numpy.float32, q.shape[1])
    longest = [max(0, int(numpy.diff(offsets).max())) for offsets in (q_offsets, kv_offsets)]
    found = problem.attention_varlen(what, dtype_of(what, q), alignment_of(q, k, v, o), *operands,
                                     layout(what, "out", o, 3),
                                     problem.Softmax(bool(causal), scale, window, softcap, slopes is not None),
                                     q_offsets.size - 1, *longest)
    arguments = problem.attention_arguments(*addresses(q, k, v, o), address(lse), address(slopes),
                                            address(q_offsets), address(kv_offsets))
    device.run(kernels().hr_plans_attention, found, kernels().hr_plan_run_attention, arguments)
    return o if lse is None else (o, lse)


def decode(q: numpy.ndarray, k: numpy.ndarray, v: numpy.ndarray, lengths: Optional[numpy.ndarray] = None,
           pages: Optional[numpy.ndarray] = None, *, scale: Optional[float] = None, window: int = 0,
           softcap: float = 0.0, top_k: int = 0, sinks: Optional[numpy.ndarray] = None, return_lse: bool = False,
           out: Optional[numpy.ndarray] = None, device: Optional[Device] = None) -> Result:
    """The queries of the last tokens, at most 16, against a cache that has their K and V. K and V are [batch, tokens,
    heads, dim] or, with the page table `pages` [batch, n] (int32), [pages, page size, heads, dim]; `lengths` [batch]
    (int32) are the sequences' tokens, None: as many as there is room for. `top_k`: only these many keys with the
    largest scores count (selective V); `sinks` [heads] (float32): a score per head without a V. With return_lse also
    the log-sum-exp [batch, length, heads]."""
    device, operands = open_host(device, "decode"), operands_of("decode", q, k, v, 4)
    table = matrix("decode", "pages", pages, numpy.int32, q.shape[0])
    lengths = vector("decode", "lengths", lengths, numpy.int32, q.shape[0])
    sinks = vector("decode", "sinks", sinks, numpy.float32, q.shape[2])
    o = output("decode", out, q, (*q.shape[:3], v.shape[3]))
    lse = numpy.empty(q.shape[:3], numpy.float32) if return_lse else None
    found = problem.decode("decode", dtype_of("decode", q), alignment_of(q, k, v, o), *operands,
                           layout("decode", "out", o, 4),
                           problem.Softmax(True, scale, window, softcap, sinks is not None),
                           problem.Cache(None if table is None else table.shape[1]), top_k)
    arguments = problem.decode_arguments(*addresses(q, k, v, o), address(lse), address(lengths), address(table),
                                         address(sinks))
    device.run(kernels().hr_plans_decode, found, kernels().hr_plan_run_decode, arguments)
    return o if lse is None else (o, lse)


# ---- arrays ----


def open_host(device: Optional[Device], what: str) -> Device:
    device = device or default_device()
    if device.name.startswith("cuda"):
        raise InvalidError(f"{what}: device {device.name} cannot read numpy arrays; headroom.torch takes tensors")
    return device


def dtype_of(what: str, q: numpy.ndarray) -> int:
    if q.dtype.name not in problem.DTYPES:
        raise InvalidError(f"{what}: q is {q.dtype.name}; expected {', '.join(problem.DTYPES)}")
    return problem.DTYPES[q.dtype.name]


def operands_of(what: str, q: numpy.ndarray, k: numpy.ndarray, v: numpy.ndarray, rank: int) -> list[Layout]:
    operands = [layout(what, name, array, rank) for name, array in (("q", q), ("k", k), ("v", v))]
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise InvalidError(f"{what}: {name} is {array.dtype.name}, and q is {q.dtype.name}")
    return operands


def layout(what: str, name: str, array: numpy.ndarray, rank: int) -> Layout:
    """An array of heads, refused by name if the library could not read it where it is."""
    if not isinstance(array, numpy.ndarray):
        raise InvalidError(f"{what}: {name} is a {type(array).__name__}; expected a numpy array")
    if array.ndim != rank:
        raise InvalidError(f"{what}: {name} has {array.ndim} dimensions; expected {rank}")
    if not array.flags.aligned:
        raise InvalidError(f"{what}: {name} is not aligned to its elements of {array.itemsize} bytes")
    if array.size == 0:
        return Layout(array.shape, problem.packed(array.shape))
    strides = [stride // array.itemsize for stride in array.strides]
    if array.shape[-1] > 1 and strides[-1] != 1:
        raise InvalidError(f"{what}: {name} has heads that are not contiguous (strides {strides}); pass a copy")
    if min(strides) < 0 or any(stride % array.itemsize for stride in array.strides) or repeats(array.shape, strides):
        raise InvalidError(f"{what}: {name} has strides {strides}, which no kernel takes; pass a copy")
    return Layout(array.shape, tuple(strides))


def repeats(shape: tuple[int, ...], strides: list[int]) -> bool:
    """Whether all strides are 0, which means packed to the library, though there are several heads."""
    return not any(strides[:-1]) and max(shape[:-1]) > 1


def output(what: str, out: Optional[numpy.ndarray], q: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    if out is None:
        return numpy.empty(shape, q.dtype)
    if not isinstance(out, numpy.ndarray) or out.shape != shape or out.dtype != q.dtype or not out.flags.writeable:
        raise InvalidError(f"{what}: out is not a writeable {q.dtype.name} array of shape {list(shape)}")
    return out


def vector(what: str, name: str, array: Optional[numpy.ndarray], dtype: type, size: Optional[int] = None):
    """A contiguous array of one dimension, or None."""
    if array is None:
        return None
    if (not isinstance(array, numpy.ndarray) or array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous
            or not array.flags.aligned or size not in (None, array.size)):
        expected = "" if size is None else f" of {size} elements"
        raise InvalidError(f"{what}: {name} is not a contiguous {numpy.dtype(dtype).name} array{expected}")
    return array


def matrix(what: str, name: str, array: Optional[numpy.ndarray], dtype: type, rows: int):
    if array is None:
        return None
    if not isinstance(array, numpy.ndarray) or array.ndim != 2 or len(array) != rows:
        raise InvalidError(f"{what}: {name} is not an array of {rows} rows")
    vector(what, name, array.reshape(-1) if array.flags.c_contiguous else array, dtype)
    return array


def alignment_of(*operands: numpy.ndarray) -> int:
    return problem.alignment_of(operands[0].itemsize, *(array.ctypes.data for array in operands))


def addresses(*arrays: numpy.ndarray) -> list[int]:
    return [array.ctypes.data for array in arrays]


def address(array: Optional[numpy.ndarray]) -> Optional[int]:
    return None if array is None else array.ctypes.data
