# SPDX-License-Identifier: Apache-2.0
"""torch.ops.headroom: each operator's schema, its kernel for CPUs and GPUs, its fake kernel, and what autocast and
tensors that require a gradient do. An operator NAME returns O; NAME_lse also the log-sum-exp."""
from __future__ import annotations

import functools
from typing import Optional, Tuple, Union

import torch

from .. import _problem as problem
from .._library import kernels
from .._problem import Layout, Softmax
from ..errors import InvalidError, UnsupportedError
from ._run import DTYPES, OPS, Call, facts, prepared, vector

Tensor = torch.Tensor
Result = Union[Tensor, Tuple[Tensor, Tensor]]

SCHEMAS = {
    "attention": "(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes=None, bool causal=False, float? scale=None, "
                 "int window=0, float softcap=0.0, Tensor? first_keys=None)",
    "attention_varlen": "(Tensor q, Tensor k, Tensor v, Tensor q_offsets, Tensor kv_offsets, SymInt max_q_len, "
                        "SymInt max_kv_len, Tensor? alibi_slopes=None, bool causal=False, float? scale=None, "
                        "int window=0, float softcap=0.0)",
    "decode": "(Tensor q, Tensor k, Tensor v, Tensor? lengths=None, Tensor? pages=None, Tensor? sinks=None, "
              "float? scale=None, int window=0, float softcap=0.0, int top_k=0)",
}


def attention(return_lse: bool, q: Tensor, k: Tensor, v: Tensor, alibi_slopes: Optional[Tensor] = None,
              causal: bool = False, scale: Optional[float] = None, window: int = 0, softcap: float = 0.0,
              first_keys: Optional[Tensor] = None) -> Result:
    expect_no_gradient("attention", q, k, v)
    softmax = (causal, scale, window, softcap, alibi_slopes is not None, first_keys is not None)
    known = facts(q, k, v)
    call = prepared(("attention", softmax, known), plan_attention, q, k, v, softmax, known[-1])
    if call.copies:
        q, k, v = copies(call, q, k, v)
    o, slopes, firsts = call.output(q), None, None
    if alibi_slopes is not None:
        slopes = vector("attention", "alibi_slopes", alibi_slopes, torch.float32, q, (q.shape[2],))
    if first_keys is not None:
        firsts = vector("attention", "first_keys", first_keys, torch.int32, q, tuple(q.shape[:2]))
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32) if return_lse else None
    call.run(problem.attention_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), slopes,
                                         first_keys=firsts))
    return (o, lse) if return_lse else o


def plan_attention(q: Tensor, k: Tensor, v: Tensor, softmax: tuple, alignment: int) -> Call:
    layouts, shape, copied = operands("attention", 4, q, k, v)
    found = problem.attention("attention", DTYPES[q.dtype], alignment, *layouts, Softmax(*softmax))
    return Call(q, kernels().hr_plans_attention, kernels().hr_plan_run_attention, found, shape, copied)


def attention_varlen(return_lse: bool, q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor, kv_offsets: Tensor,
                     max_q_len: int, max_kv_len: int, alibi_slopes: Optional[Tensor] = None, causal: bool = False,
                     scale: Optional[float] = None, window: int = 0, softcap: float = 0.0) -> Result:
    what = "attention_varlen"
    expect_no_gradient(what, q, k, v)
    softmax, known = (causal, scale, window, softcap, alibi_slopes is not None), facts(q, k, v)
    batch = q_offsets.numel() - 1
    call = prepared((what, softmax, batch, max_q_len, max_kv_len, known), plan_varlen, q, k, v, softmax,
                    known[-1], batch, max_q_len, max_kv_len)
    if call.copies:
        q, k, v = copies(call, q, k, v)
    q_starts = vector(what, "q_offsets", q_offsets, torch.int32, q, (-1,))
    kv_starts = vector(what, "kv_offsets", kv_offsets, torch.int32, q, (batch + 1,))
    slopes = vector(what, "alibi_slopes", alibi_slopes, torch.float32, q, (q.shape[1],))
    o = call.output(q)
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_lse else None
    call.run(problem.attention_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), slopes,
                                         q_starts, kv_starts))
    return (o, lse) if return_lse else o


def plan_varlen(q: Tensor, k: Tensor, v: Tensor, softmax: tuple, alignment: int, batch: int, q_len: int,
                kv_len: int) -> Call:
    what = "attention_varlen"
    if batch < 1:
        raise InvalidError(f"{what}: q_offsets has {batch + 1} elements, and one sequence takes 2")
    layouts, shape, copied = operands(what, 3, q, k, v)
    found = problem.attention_varlen(what, DTYPES[q.dtype], alignment, *layouts, Softmax(*softmax), batch, q_len,
                                     kv_len)
    return Call(q, kernels().hr_plans_attention, kernels().hr_plan_run_attention, found, shape, copied)


def decode(return_lse: bool, q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor] = None,
           pages: Optional[Tensor] = None, sinks: Optional[Tensor] = None, scale: Optional[float] = None,
           window: int = 0, softcap: float = 0.0, top_k: int = 0) -> Result:
    expect_no_gradient("decode", q, k, v)
    pitch, softmax = None if pages is None else pages.shape[-1], (True, scale, window, softcap, sinks is not None)
    known = facts(q, k, v)
    call = prepared(("decode", softmax, pitch, top_k, known), plan_decode, q, k, v, softmax, known[-1], pitch,
                    top_k)
    if call.copies:
        q, k, v = copies(call, q, k, v)
    batch, q_len, heads, _ = q.shape
    table = vector("decode", "pages", pages, torch.int32, q, (batch, -1))
    ends = vector("decode", "lengths", lengths, torch.int32, q, (batch,))
    scores = vector("decode", "sinks", sinks, torch.float32, q, (heads,))
    o = call.output(q)
    lse = q.new_empty((batch, q_len, heads), dtype=torch.float32) if return_lse else None
    call.run(problem.decode_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), ends, table,
                                      scores))
    return (o, lse) if return_lse else o


def plan_decode(q: Tensor, k: Tensor, v: Tensor, softmax: tuple, alignment: int, pitch: Optional[int],
                top_k: int) -> Call:
    layouts, shape, copied = operands("decode", 4, q, k, v)
    found = problem.decode("decode", DTYPES[q.dtype], alignment, *layouts, Softmax(*softmax), pitch, top_k)
    return Call(q, kernels().hr_plans_decode, kernels().hr_plan_run_decode, found, shape, copied)


# ---- tensors ----


def operands(what: str, rank: int, q: Tensor, k: Tensor, v: Tensor):
    """The layouts of Q, K, V and O, the sizes of O, and which of Q, K and V have to be copied."""
    if q.dtype not in DTYPES:
        raise InvalidError(f"{what}: q is {q.dtype}; expected {', '.join(map(str, DTYPES))}")
    if q.device.type not in ("cpu", "cuda"):
        raise InvalidError(f"{what}: q is on {q.device}; expected a CPU or a CUDA GPU")
    if q.dim() != rank:
        raise InvalidError(f"{what}: q has {q.dim()} dimensions; expected {rank}")
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise InvalidError(f"{what}: {name} is {tensor.dtype}, and q is {q.dtype}")
        if tensor.device != q.device:
            raise InvalidError(f"{what}: {name} is on {tensor.device}, and q is on {q.device}")
    layouts = [Layout(tuple(x.shape), x.stride()) for x in (q, k, v)]
    copied = tuple(not is_readable(each) for each in layouts)
    layouts = [Layout(each.shape, problem.packed(each.shape)) if copy else each for each, copy in zip(layouts, copied)]
    shape = (*q.shape[:-1], v.shape[-1] if v.dim() else 0)
    return (*layouts, Layout(shape, problem.packed(shape))), shape, copied


def is_readable(layout: Layout) -> bool:
    """Heads are contiguous. All strides 0 are not all heads in one, but packed, to the library."""
    heads = layout.strides[:-1]
    return layout.strides[-1:] == (1,) and (any(heads) or max(layout.shape[:-1], default=1) <= 1)


def copies(call: Call, *tensors: Tensor) -> Tuple[Tensor, ...]:
    return tuple(x.contiguous() if copy else x for x, copy in zip(tensors, call.copied))


def address(tensor: Optional[Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.data_ptr()


def expect_no_gradient(what: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise UnsupportedError(f"{what}: a tensor requires a gradient; there is no backward pass, use torch.no_grad()")


# ---- registration ----


def fake_attention(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:3], v.shape[3]), (q.shape[0], q.shape[2], q.shape[1]))


def fake_attention_varlen(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:2], v.shape[2]), (q.shape[1], q.shape[0]))


def fake_decode(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:3], v.shape[3]), q.shape[:3])


def faked(return_lse: bool, q: Tensor, shape, lse_shape) -> Result:
    return (q.new_empty(shape), q.new_empty(lse_shape, dtype=torch.float32)) if return_lse else q.new_empty(shape)


def autocast(operator, device: str):
    """The operator with Q, K and V in autocast's number format."""
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))

    def cast(q, k, v, *rest, **named):
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*(x.to(torch.get_autocast_dtype(device)) for x in (q, k, v)), *rest, **named)
    return cast


def register(library: torch.library.Library, name: str, schema: str, kernel, fake) -> None:
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(OPS, name).default
    for device in ("cpu", "cuda"):
        library.impl(name, kernel, device.upper())
        library.impl(name, autocast(operator, device), f"Autocast{device.upper()}")
    torch.library.register_fake(f"{OPS.name}::{name}", fake, lib=library)


LIBRARY = torch.library.Library(OPS.name, "DEF")
for _kernel, _fake in ((attention, fake_attention), (attention_varlen, fake_attention_varlen), (decode, fake_decode)):
    for _suffix, _result in (("", " -> Tensor"), ("_lse", " -> (Tensor, Tensor)")):
        register(LIBRARY, _kernel.__name__ + _suffix, SCHEMAS[_kernel.__name__] + _result,
                 functools.partial(_kernel, bool(_suffix)), functools.partial(_fake, bool(_suffix)))
