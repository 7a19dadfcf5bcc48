# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention and attention_varlen: the kernel of torch.ops.headroom.attention_backward, and what autograd
does at a call. An operator that returns O alone is computed with the log-sum-exp where a gradient is required, since
the gradients are made of it."""
from __future__ import annotations

import functools
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch

from .. import _problem as problem
from .._library import kernels
from .._problem import Layout, Softmax
from ..errors import InvalidError, UnsupportedError
from ._run import Call, call_of
from ._tensors import (OPS, READ, Operands, address, copies, expect_like, is_readable, requires_gradient,
                       vector, without_gradient)

Tensor = torch.Tensor
WHAT = "attention_backward"
LEARNED = ("q", "k", "v", "sinks")  # what has a gradient, in the order of results


class Given(NamedTuple):
    """What a plan depends on beside Q, K and V."""
    softmax: tuple
    sequences: Optional[Tuple[int, int, int]]  # of variable lengths: their number, the longest of Q's and of K's
    o: Layout
    d_o: Layout
    alignment: int
    sinks: bool
    deterministic: bool


def attention_backward(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor,
                       alibi_slopes: Optional[Tensor] = None, causal: bool = False, scale: Optional[float] = None,
                       window: int = 0, softcap: float = 0.0, first_keys: Optional[Tensor] = None,
                       sinks: Optional[Tensor] = None, deterministic: bool = False, q_offsets: Optional[Tensor] = None,
                       kv_offsets: Optional[Tensor] = None, max_q_len: int = 0,
                       max_kv_len: int = 0) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """dQ, dK, dV and the sinks' gradient, which has no elements without sinks."""
    sequences = None if q_offsets is None else (q_offsets.numel() - 1, max_q_len, max_kv_len)
    d_o, o = (readable(name, x, q) for name, x in (("d_o", d_o), ("o", o)))
    given = Given((causal, scale, window, softcap, alibi_slopes is not None, first_keys is not None), sequences,
                  layout(o), layout(d_o), problem.alignment_of(1, o.data_ptr(), d_o.data_ptr()), sinks is not None,
                  deterministic or torch.are_deterministic_algorithms_enabled())
    call = call_of(None, WHAT, given, q, k, v, plan)
    q, k, v = copies(call.copied, q, k, v)
    heads, rows = q.shape[-2], q.shape[:-2]
    sums = vector(WHAT, "lse", lse, torch.float32, q, (heads, *rows) if sequences else (rows[0], heads, rows[1]))
    new = torch.zeros_like if sequences else torch.empty_like  # rows of no sequence are not written
    gradients = tuple(new(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    d_sinks = q.new_empty(heads if given.sinks else 0, dtype=torch.float32)
    call.run(problem.attention_backward_arguments(
        (*(x.data_ptr() for x in (q, k, v, o, d_o)), sums), tuple(x.data_ptr() for x in gradients),
        vector(WHAT, "alibi_slopes", alibi_slopes, torch.float32, q, (heads,)),
        vector(WHAT, "sinks", sinks, torch.float32, q, (heads,)), address(d_sinks),
        vector(WHAT, "q_offsets", q_offsets, torch.int32, q, (-1,)),
        vector(WHAT, "kv_offsets", kv_offsets, torch.int32, q, ((sequences or (0,))[0] + 1,)),
        vector(WHAT, "first_keys", first_keys, torch.int32, q, tuple(rows))))
    return (*gradients, d_sinks)


def readable(name: str, x: Tensor, q: Tensor) -> Tensor:
    expect_like(WHAT, name, x, q, cache=False)
    return x if is_readable(layout(x)) else x.contiguous()


def layout(x: Tensor) -> Layout:
    return Layout(tuple(x.shape), x.stride())


def plan(q: Tensor, k: Tensor, v: Tensor, options: tuple, alignment: int) -> Call:
    given = Given(*options)
    operands = Operands(WHAT, 4 if given.sequences is None else 3, q, k, v)
    for name, each in (("o", given.o), ("d_o", given.d_o)):
        if each.shape != operands.shape:
            raise InvalidError(f"{WHAT}: {name} has shape {list(each.shape)}; expected {list(operands.shape)}")
    form = problem.attention if given.sequences is None else problem.attention_varlen
    forward = form(WHAT, READ[q.dtype], min(alignment, given.alignment), *operands.layouts[:3], given.o,
                   Softmax(*given.softmax), *(given.sequences or ()))
    return Call(q, kernels().hr_plans_attention_backward, kernels().hr_plan_run_attention_backward, forward, operands,
                problem.attention_backward(given.d_o, given.sinks, given.deterministic))


def fake_attention_backward(d_o, q, k, v, o, lse, alibi_slopes=None, causal=False, scale=None, window=0, softcap=0.0,
                            first_keys=None, sinks=None, *_, **__):
    heads = 0 if sinks is None else q.shape[-2]
    return (*(x.new_empty(x.shape) for x in (q, k, v)), q.new_empty(heads, dtype=torch.float32))


def missing(q: Tensor, k: Tensor, v: Tensor) -> Optional[str]:
    """Why a call of tensors [batch, length, heads, dim] that requires a gradient has none here, or None. What is
    compiled may run with other lengths."""
    lengths = (1, 1, 1) if torch.compiler.is_compiling() else (q.shape[0], q.shape[1], k.shape[1])
    heads = tuple((x.shape[2], x.shape[3]) for x in (q, k, v))
    found = has_kernel(q.device.type, q.device.index or 0, q.dtype, heads, lengths)
    return None if found else f"there are no gradients of {q.dtype} on {q.device.type} in these sizes"


@torch.compiler.assume_constant_result
def has_kernel(device: str, index: int, dtype: torch.dtype, heads: tuple, lengths: tuple = (1, 1, 1)) -> bool:
    return plans(device, index, dtype, heads, lengths)  # torch.compile would look into a function with a cache


@functools.lru_cache(maxsize=4096)
def plans(device: str, index: int, dtype: torch.dtype, heads: tuple, lengths: tuple) -> bool:
    """Whether a device has a kernel for causal gradients of a batch and lengths of Q and of K, and of heads, (number,
    size) of Q, K and V."""
    batch, q_len, kv_len = lengths
    memory = torch.empty((), dtype=dtype, device=torch.device(device, index) if device == "cuda" else device)
    tensors = [memory.expand(batch, length, *each) for length, each in zip((q_len, kv_len, kv_len), heads)]
    shape = (batch, q_len, heads[0][0], heads[2][1])
    own = Layout(shape, problem.packed(shape))
    try:
        plan(*tensors, Given((True, None, 0, 0.0, False, False), None, own, own, 16, False, False), 16)
    except UnsupportedError:
        return False
    return True


# ---- autograd ----


def register(library: torch.library.Library, name: str) -> None:
    """Autograd of an operator NAME that returns O, and of NAME_lse."""
    operator, with_lse = getattr(OPS, name).default, getattr(OPS, f"{name}_lse").default

    def call(keys, *operands):
        if requires_gradient(*operands):
            return with_lse(*operands)[0]
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *operands)

    library.impl(name, call, "Autograd", with_keyset=True)
    names = [each.name for each in with_lse._schema.arguments]
    torch.library.register_autograd(f"{OPS.name}::{name}_lse", backward_of(name, names),
                                    setup_context=context_of(name, names), lib=library)


def context_of(name: str, names: list) -> Callable:
    def keep(ctx, inputs, output):
        given = dict(zip(names, inputs), o=output[0], lse=output[1])
        if given["alibi_slopes"] is not None and given["alibi_slopes"].requires_grad:
            raise without_gradient(name, "alibi_slopes")
        ctx.set_materialize_grads(False)
        ctx.tensors = [each for each, value in given.items() if isinstance(value, Tensor)]
        ctx.save_for_backward(*(given[each] for each in ctx.tensors))
        ctx.numbers = {each: value for each, value in given.items() if each not in ctx.tensors}
    return keep


def backward_of(name: str, names: list) -> Callable:
    def gradients(ctx, d_o, d_lse):
        if d_lse is not None:
            expect_no_lse_gradient(name, d_lse)
        if d_o is None:
            return (None,) * len(names)
        given: Dict[str, object] = {**ctx.numbers, **dict(zip(ctx.tensors, ctx.saved_tensors))}
        found = dict(zip(LEARNED, OPS.attention_backward(d_o, **given)))
        return tuple(found.get(each) if needed else None for each, needed in zip(names, ctx.needs_input_grad))
    return gradients


def expect_no_lse_gradient(name: str, d_lse: Tensor) -> None:
    """A compiled function that returns the log-sum-exp has a gradient of it, which has to be zero."""
    line = f"{name}: the log-sum-exp has no gradient of its own; use lse.detach()"
    if type(d_lse) is Tensor and torch._C._len_torch_dispatch_stack() == 0:
        raise UnsupportedError(line)
    torch._assert_async((d_lse == 0).all(), line)


def refuse_second(ctx, *_):
    raise UnsupportedError(f"{WHAT}: there is no second derivative of attention")
