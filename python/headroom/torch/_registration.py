# SPDX-License-Identifier: Apache-2.0
"""torch.ops.headroom: each operator's schema, its kernel for CPUs and GPUs, its fake kernel, and what autocast does. An
operator NAME returns O; NAME_lse also the log-sum-exp. CALLS has the operators without PyTorch's dispatcher, which
costs some microseconds: where nothing has to see a call, its kernel is called directly."""
from __future__ import annotations

import functools
from typing import Callable, Dict

import torch
from torch.compiler import is_compiling

from . import _gradients
from ._cache import decode, kv_append
from ._operators import Result, attention, attention_varlen
from ._ranks import all_reduce_rmsnorm, fake_all_reduce_rmsnorm
from ._run import recent_like
from ._tensors import DTYPES, OPS, expect_no_gradient, requires_gradient

Tensor = torch.Tensor
SOFTMAX = "float? scale=None, int window=0, float softcap=0.0"
SCHEMAS = {
    "attention": f"(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes=None, bool causal=False, {SOFTMAX}, "
                 "Tensor? first_keys=None, Tensor? sinks=None, bool deterministic=False)",
    "attention_varlen": "(Tensor q, Tensor k, Tensor v, Tensor q_offsets, Tensor kv_offsets, SymInt max_q_len, "
                        f"SymInt max_kv_len, Tensor? alibi_slopes=None, bool causal=False, {SOFTMAX}, "
                        "Tensor? sinks=None, bool deterministic=False)",
    "attention_backward": "(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? alibi_slopes=None, "
                          f"bool causal=False, {SOFTMAX}, Tensor? first_keys=None, Tensor? sinks=None, "
                          "bool deterministic=False, Tensor? q_offsets=None, Tensor? kv_offsets=None, "
                          "SymInt max_q_len=0, SymInt max_kv_len=0) -> (Tensor, Tensor, Tensor, Tensor)",
    "decode": "(Tensor q, Tensor k, Tensor v, Tensor? lengths=None, Tensor? pages=None, Tensor? sinks=None, "
              f"{SOFTMAX}, int top_k=0, Tensor? page_starts=None, Tensor? k_scales=None, Tensor? v_scales=None, "
              "SymInt? max_kv_len=None)",
    "kv_append": "(Tensor(a!) k_cache, Tensor(b!)? v_cache, Tensor k, Tensor? v, Tensor lengths, Tensor? pages=None, "
                 "Tensor? page_starts=None, Tensor(c!)? k_scales=None, Tensor(d!)? v_scales=None) -> ()",
    "all_reduce_rmsnorm": "(Tensor x, Tensor residual, Tensor weight, float eps, str group) -> (Tensor, Tensor)",
}


def fake_attention(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:3], v.shape[3]), (q.shape[0], q.shape[2], q.shape[1]))


def fake_attention_varlen(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:2], v.shape[2]), (q.shape[1], q.shape[0]))


def fake_decode(return_lse, q, k, v, *_, **__):
    return faked(return_lse, q, (*q.shape[:3], v.shape[3]), q.shape[:3])


def faked(return_lse: bool, q: Tensor, shape, lse_shape) -> Result:
    return (q.new_empty(shape), q.new_empty(lse_shape, dtype=torch.float32)) if return_lse else q.new_empty(shape)


# ---- autocast ----


def cast_operands(device: str, *operands, count: int = 3) -> tuple:
    """The first ones, Q, K and V, in autocast's number format, but for a quantized cache."""
    dtype = torch.get_autocast_dtype(device)
    return (*(x.to(dtype) if x.dtype in DTYPES else x for x in operands[:count]), *operands[count:])


def cast_tokens(_: str, k_cache: Tensor, v_cache, k: Tensor, v, *rest) -> tuple:
    """New tokens in the number format of their cache."""
    def cast(new, cache):
        return new.to(cache.dtype) if cache is not None and cache.dtype in DTYPES else new
    return (k_cache, v_cache, cast(k, k_cache), v if v is None else cast(v, v_cache), *rest)


def cast_nothing(_: str, *operands) -> tuple:
    return operands


def autocast(operator, device: str, cast: Callable):
    """The operator with operands of other formats."""
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))

    def call(*operands, **named):
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*cast(device, *operands), **named)
    return call


def register(name: str, schema: str, kernel: Callable, fake: Callable, cast: Callable) -> None:
    LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(OPS, name).default
    for device in ("cpu", "cuda"):
        LIBRARY.impl(name, kernel, device.upper())
        LIBRARY.impl(name, autocast(operator, device, cast), f"Autocast{device.upper()}")
    torch.library.register_fake(f"{OPS.name}::{name}", fake, lib=LIBRARY)


# ---- without the dispatcher ----


def is_unseen(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether no mode, transform, trace, profiler or subclass of tensors has to see a call."""
    return (type(q) is type(k) is type(v) is Tensor
            and (q.is_cpu or q.is_cuda)
            and not _dispatch_modes() and not _function_mode() and _transform() is None and not _autocast()
            and _trace() is None and not _profiler() and not (q.is_neg() or k.is_neg() or v.is_neg()))


_dispatch_modes, _function_mode = torch._C._len_torch_dispatch_stack, torch._C._is_torch_function_mode_enabled
_transform, _autocast = torch._C._functorch.peek_interpreter_stack, torch._C._is_any_autocast_enabled
_trace, _profiler = torch._C._get_tracing_state, torch._C._autograd._profiler_enabled


def direct(what: str, return_lse: bool, kernel: Callable, operator: Callable) -> Callable:
    """The operator, by its kernel alone where that is enough: tensors like those of the last call require no gradient.
    The dispatcher names an argument of another type."""
    has_gradient, sinks = what in DIFFERENTIABLE, [each.name for each in operator._schema.arguments].index("sinks") - 3

    def call(q: Tensor, k: Tensor, v: Tensor, *rest):
        if not is_compiling():
            like = recent_like(what, q, k, v)
            learns = len(rest) > sinks and rest[sinks] is not None and requires_gradient(rest[sinks])
            if not learns and (like is not None or (is_unseen(q, k, v) and not requires_gradient(q, k, v))):
                try:
                    return kernel(like, return_lse, q, k, v, *rest)
                except (TypeError, AttributeError):
                    return operator(q, k, v, *rest)
        if not has_gradient:
            expect_no_gradient(what, q=q, k=k, v=v)
        return operator(q, k, v, *rest)
    return call


LIBRARY = torch.library.Library(OPS.name, "DEF")
CALLS: Dict[str, Callable] = {}
DIFFERENTIABLE = ("attention", "attention_varlen")
for _kernel, _fake in ((attention, fake_attention), (attention_varlen, fake_attention_varlen), (decode, fake_decode)):
    for _suffix, _result in (("", " -> Tensor"), ("_lse", " -> (Tensor, Tensor)")):
        _what, _with_lse = _kernel.__name__, bool(_suffix)
        register(_what + _suffix, SCHEMAS[_what] + _result, functools.partial(_kernel, None, _with_lse),
                 functools.partial(_fake, _with_lse), cast_operands)
        CALLS[_what + _suffix] = direct(_what, _with_lse, _kernel, getattr(OPS, _what + _suffix).default)
for _what in DIFFERENTIABLE:
    _gradients.register(LIBRARY, _what)
register("attention_backward", SCHEMAS["attention_backward"], _gradients.attention_backward,
         _gradients.fake_attention_backward, functools.partial(cast_operands, count=5))
torch.library.register_autograd(f"{OPS.name}::attention_backward", _gradients.refuse_second, lib=LIBRARY)
register("kv_append", SCHEMAS["kv_append"], kv_append, lambda *_, **__: None, cast_tokens)
register("all_reduce_rmsnorm", SCHEMAS["all_reduce_rmsnorm"], all_reduce_rmsnorm, fake_all_reduce_rmsnorm, cast_nothing)
