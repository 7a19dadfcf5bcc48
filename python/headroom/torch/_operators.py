# SPDX-License-Identifier: Apache-2.0
"""The kernels of torch.ops.headroom.attention and attention_varlen."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch

from .. import _problem as problem
from .._library import kernels
from .._problem import Softmax
from ..errors import InvalidError
from ._run import Call, Recent, call_of
from ._tensors import READ, Operands, address, copies, needed_vector, vector

Tensor = torch.Tensor
Result = Union[Tensor, Tuple[Tensor, Tensor]]


def attention(like: Optional[Recent], return_lse: bool, q: Tensor, k: Tensor, v: Tensor,
              alibi_slopes: Optional[Tensor] = None, causal: bool = False, scale: Optional[float] = None,
              window: int = 0, softcap: float = 0.0, first_keys: Optional[Tensor] = None,
              sinks: Optional[Tensor] = None, deterministic: bool = False) -> Result:
    """`deterministic`: of the gradients; results are."""
    softmax = (causal, scale, window, softcap, alibi_slopes is not None, first_keys is not None)
    call = call_of(like, "attention", softmax, q, k, v, plan_attention)
    if call.copies:
        q, k, v = copies(call.copied, q, k, v)
    batch, q_len, heads, _ = q.shape
    o, lse, slopes, firsts = call.output(q), None, None, None
    if alibi_slopes is not None:
        slopes = vector("attention", "alibi_slopes", alibi_slopes, torch.float32, q, (heads,))
    if first_keys is not None:
        firsts = vector("attention", "first_keys", first_keys, torch.int32, q, (batch, q_len))
    if sinks is not None:
        vector("attention", "sinks", sinks, torch.float32, q, (heads,))
    if return_lse or sinks is not None:
        lse = q.new_empty((batch, heads, q_len), dtype=torch.float32)
    call.run(problem.attention_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), slopes,
                                         None, None, firsts))
    if sinks is not None:
        lse = with_sinks(o, lse, sinks[:, None])
    return (o, lse) if return_lse else o


def plan_attention(q: Tensor, k: Tensor, v: Tensor, softmax: tuple, alignment: int) -> Call:
    operands = Operands("attention", 4, q, k, v)
    found = problem.attention("attention", READ[q.dtype], alignment, *operands.layouts, Softmax(*softmax))
    return Call(q, kernels().hr_plans_attention, kernels().hr_plan_run_attention, found, operands)


def attention_varlen(like: Optional[Recent], return_lse: bool, q: Tensor, k: Tensor, v: Tensor,
                     q_offsets: Tensor, kv_offsets: Tensor, max_q_len: int, max_kv_len: int,
                     alibi_slopes: Optional[Tensor] = None, causal: bool = False, scale: Optional[float] = None,
                     window: int = 0, softcap: float = 0.0, sinks: Optional[Tensor] = None,
                     deterministic: bool = False) -> Result:
    what = "attention_varlen"
    batch = -1 if q_offsets is None else q_offsets.numel() - 1
    options = ((causal, scale, window, softcap, alibi_slopes is not None), batch, max_q_len, max_kv_len)
    call = call_of(like, what, options, q, k, v, plan_varlen)
    q_starts = needed_vector(what, "q_offsets", q_offsets, torch.int32, q, (-1,))
    kv_starts = needed_vector(what, "kv_offsets", kv_offsets, torch.int32, q, (batch + 1,))
    if call.copies:
        q, k, v = copies(call.copied, q, k, v)
    heads = q.shape[1]
    slopes = vector(what, "alibi_slopes", alibi_slopes, torch.float32, q, (heads,))
    vector(what, "sinks", sinks, torch.float32, q, (heads,))
    o, lse = call.output(q), None
    if return_lse or sinks is not None:
        lse = q.new_empty((heads, q.shape[0]), dtype=torch.float32)
    call.run(problem.attention_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), slopes,
                                         q_starts, kv_starts))
    if sinks is not None:
        lse = with_sinks(o, lse, sinks[:, None])
    return (o, lse) if return_lse else o


def plan_varlen(q: Tensor, k: Tensor, v: Tensor, options: tuple, alignment: int) -> Call:
    what, (softmax, batch, q_len, kv_len) = "attention_varlen", options
    if batch < 1:
        raise InvalidError(f"{what}: q_offsets has {batch + 1} elements, and one sequence takes 2")
    problem.expect_counts(what, max_q_len=q_len, max_kv_len=kv_len)
    operands = Operands(what, 3, q, k, v)
    found = problem.attention_varlen(what, READ[q.dtype], alignment, *operands.layouts, Softmax(*softmax), batch,
                                     q_len, kv_len)
    return Call(q, kernels().hr_plans_attention, kernels().hr_plan_run_attention, found, operands)


def with_sinks(o: Tensor, lse: Tensor, sinks: Tensor) -> Tensor:
    """Scales O, in place, to weights that make 1 together with the sink's, and adds the sink to the log-sum-exp."""
    o.mul_(torch.sigmoid(lse - sinks).transpose(-1, -2).unsqueeze(-1))
    return torch.logaddexp(lse, sinks)
