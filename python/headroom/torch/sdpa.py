# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention(). What Headroom does not compute is passed on to PyTorch's, which is said
once for each reason."""
from __future__ import annotations

import warnings
from typing import List, NamedTuple, Optional, Set, Union

import torch
from torch.compiler import is_compiling
from torch.nn.attention.bias import CausalBias, CausalVariant

from .. import _problem as problem
from .._library import kernels
from ._gradients import missing
from ._registration import CALLS, is_unseen
from ._run import Call, call_of, recent_like
from ._tensors import DTYPES, Operands, requires_gradient

Tensor = torch.Tensor
_attention = CALLS["attention"]
_said: Set[str] = set()
NAME = "scaled_dot_product_attention"
UNFIT = object()


class Mask(NamedTuple):
    """Which keys a query sees: all, or those up to its own, aligned to the bottom right or to the top left."""
    causal: bool = False
    top_left: bool = False
    window: int = 0


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """Tensors [batch, heads, length, dim]. As PyTorch's, `is_causal` is aligned to the top left. A mask that is causal,
    with or without a window, is recognised: a CausalBias, and on a CPU the elements of a tensor."""
    if attn_mask is None and not dropout_p and not is_compiling():
        o = in_place(query, key, value, (is_causal, scale, enable_gqa))
        if o is not None:
            return o
    mask = reason_of(query, key, value, dropout_p, enable_gqa) or seen(query, key, attn_mask, is_causal)
    if isinstance(mask, str):
        say_once(f"{NAME}: {mask}: passed on to PyTorch's")
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                                scale=scale, enable_gqa=enable_gqa)
    o = _attention(*tokens_first(query, key, value, mask), None, mask.causal, scale, mask.window)
    return o.transpose(1, 2)


def tokens_first(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> List[Tensor]:
    """Views [batch, length, heads, dim]. Keys that no query sees are left out."""
    if mask.top_left:
        key, value = key[:, :, :query.shape[2]], value[:, :, :query.shape[2]]
    return [x.transpose(1, 2) for x in (query, key, value)]


# ---- without views, which cost as much as all the rest of a small call ----


def in_place(query: Tensor, key: Tensor, value: Tensor, options: tuple) -> Optional[Tensor]:
    """What a plan for these tensors as they are computes, or None if there is none."""
    like = recent_like(NAME, query, key, value)
    if like is None and (not is_unseen(query, key, value) or requires_gradient(query, key, value)):
        return None
    call = call_of(like, NAME, options, query, key, value, plan)
    if call is UNFIT:
        return None
    o = call.output(query)
    call.run(problem.attention_arguments(query.data_ptr(), key.data_ptr(), value.data_ptr(), o.data_ptr(), None, None))
    return o


def plan(query: Tensor, key: Tensor, value: Tensor, options: tuple, alignment: int) -> Union[Call, object]:
    is_causal, scale, enable_gqa = options
    mask = reason_of(query, key, value, 0.0, enable_gqa) or seen(query, key, None, is_causal)
    if isinstance(mask, str):
        return UNFIT
    q, k, v = tokens_first(query, key, value, mask)
    operands = Operands(NAME, 4, q, k, v)
    if any(operands.copied):
        return UNFIT
    operands.shape = (*query.shape[:3], value.shape[3])
    batch, heads, length, dim = problem.packed(operands.shape)
    operands.layouts[3] = operands.layouts[3]._replace(strides=(batch, length, heads, dim))
    found = problem.attention(NAME, DTYPES[q.dtype], alignment, *operands.layouts,
                              problem.Softmax(mask.causal, scale, 0, 0.0, False))
    return Call(query, kernels().hr_plans_attention, kernels().hr_plan_run_attention, found, operands)


def reason_of(query: Tensor, key: Tensor, value: Tensor, dropout_p: float, enable_gqa: bool) -> Optional[str]:
    """Why PyTorch's function has to compute a call, but for the mask."""
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        return "no tensors"
    if dropout_p > 0:
        return "dropout_p is above 0"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "tensors do not have 4 dimensions"
    if query.dtype not in DTYPES or not (query.is_cpu or query.is_cuda):
        return f"{query.dtype} on {query.device.type}"
    if not query.shape[0] == key.shape[0] == value.shape[0] or 0 in query.shape or 0 in key.shape:
        return "a batch is broadcast or empty"
    if not enable_gqa and not query.shape[1] == key.shape[1] == value.shape[1]:
        return "heads differ without enable_gqa"
    return missing(*(x.transpose(1, 2) for x in (query, key, value))) if requires_gradient(query, key, value) else None


def seen(query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: bool) -> Union[Mask, str]:
    """What a call's mask is, or why it is not computed."""
    q_len, kv_len = query.shape[2], key.shape[2]
    if mask is None and not is_causal:
        return Mask()
    if mask is not None and is_causal:
        return "attn_mask with is_causal"
    if mask is None or isinstance(mask, CausalBias):
        return triangle(mask is None or mask.variant == CausalVariant.UPPER_LEFT, q_len, kv_len)
    if not isinstance(mask, Tensor) or not mask.is_cpu or is_compiling() or type(mask) is not Tensor:
        return "attn_mask is a tensor that is not read"
    hidden = hidden_by(mask)
    if hidden is None or hidden.dim() not in (2, 4) or not fits(hidden, (*query.shape[:2], q_len, kv_len)):
        return "attn_mask is arbitrary"
    return structure(hidden.expand(*hidden.shape[:-2], q_len, kv_len))


def triangle(top_left: bool, q_len: int, kv_len: int) -> Union[Mask, str]:
    if q_len > kv_len:
        return "a causal mask with more queries than keys"
    return Mask(causal=True, top_left=top_left)


def fits(mask: Tensor, sizes) -> bool:
    """Whether PyTorch would broadcast the mask to these sizes."""
    return all(own in (1, size) for own, size in zip(mask.shape[::-1], sizes[::-1]))


def hidden_by(mask: Tensor) -> Optional[Tensor]:
    """The keys that a mask hides, or None if it adds to scores."""
    if mask.dtype == torch.bool:
        return ~mask
    if not mask.is_floating_point():
        return None
    hidden = mask <= torch.finfo(mask.dtype).min
    return hidden if bool((hidden | (mask == 0)).all()) else None


def structure(hidden: Tensor) -> Union[Mask, str]:
    """What a mask is that hides these keys."""
    q_len, kv_len = hidden.shape[-2:]
    if not bool(hidden.any()):
        return Mask()
    row = hidden[(0,) * (hidden.dim() - 2)][-1]
    window = kv_len - int(row.sum())
    if q_len <= kv_len and window > 0 and same(hidden, kv_len - q_len, window):
        return Mask(causal=True, window=window if window < kv_len else 0)
    if q_len <= kv_len and same(hidden, 0, kv_len):
        return Mask(causal=True, top_left=True)
    return "attn_mask is arbitrary"


def same(hidden: Tensor, shift: int, window: int) -> bool:
    """Whether query i sees keys i + shift − window + 1 to i + shift and no others."""
    q_len, kv_len = hidden.shape[-2:]
    after = torch.arange(kv_len) - torch.arange(shift, q_len + shift)[:, None]
    return bool((hidden == ((after > 0) | (after <= -window))).all())


def say_once(line: str) -> None:
    if line not in _said and not is_compiling():
        _said.add(line)
        warnings.warn(line, stacklevel=3)
