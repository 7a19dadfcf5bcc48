# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="headroom" for transformers: importing this module registers the attention and the mask function.

What Headroom does not compute is passed on to transformers' sdpa, and where that has no soft cap or sinks to the
formula in PyTorch; the reason is said once. The mask function builds a mask for these calls alone. For others it
returns None, which is causal or all by the layer, aligned to the bottom right; the lengths of the sequences in a static
cache [batch, 1, 1, 1] (int32); or a tensor [0, 1, window, keys] without elements, whose sizes say how far a query sees
and how many keys are there (0: no limit). generate() hands masks of four dimensions on as they are."""
from __future__ import annotations

import warnings
from typing import Callable, Optional, Set, Tuple

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from . import torch as ht
from .torch._run import DTYPES

Tensor = torch.Tensor
NAME = "headroom"
DECODE_MOST = 16  # queries
CAUSAL, WINDOW = "causal_mask_function", "sliding_window_overlay.<locals>.inner_mask"
ALL = "bidirectional_mask_function"
_said: Set[str] = set()


def use(model: torch.nn.Module) -> torch.nn.Module:
    """Sets the model's attention; the same as attn_implementation="headroom" where it is made."""
    model.set_attn_implementation(NAME)
    return model


# ---- masks ----


def mask(batch_size: int, q_length: int, kv_length: int, q_offset=0, kv_offset=0,
         mask_function: Optional[Callable] = None, attention_mask: Optional[Tensor] = None,
         allow_is_causal_skip: bool = True, device="cpu", **rest) -> Optional[Tensor]:
    parts = parts_of(mask_function)
    may_skip = rest.get("allow_is_bidirectional_skip", False) if parts == {ALL} else allow_is_causal_skip
    needed = parts is None or not (may_skip or q_length == 1)
    if not needed and not hides(attention_mask, parts, q_length, kv_length):
        short = short_form(parts, batch_size, q_length, kv_length, q_offset, kv_offset, rest, device)
        if short is not None:
            return short[0]
    return sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset,
                     kv_offset=kv_offset, mask_function=mask_function, attention_mask=attention_mask,
                     allow_is_causal_skip=False, allow_is_bidirectional_skip=False, device=device,
                     **{name: value for name, value in rest.items() if name != "allow_is_bidirectional_skip"})


def parts_of(function: Optional[Callable]) -> Optional[Set[str]]:
    """The names of the functions that a mask function joins by `and`; None if there is one that Headroom does not
    know."""
    name = getattr(function, "__qualname__", "")
    if name in (CAUSAL, WINDOW, ALL):
        return {name}
    if name != "and_masks.<locals>.and_mask":
        return None
    parts = [parts_of(each) for cell in function.__closure__ for each in cell.cell_contents]
    return None if None in parts else set().union(*parts)


def hides(attention_mask: Optional[Tensor], parts: Set[str], q_length: int, kv_length: int) -> bool:
    """Whether padding hides keys from queries that are no padding. Behind a causal prompt it does not."""
    if attention_mask is None:
        return False
    if torch.compiler.is_compiling():
        return True
    seen = attention_mask[:, -kv_length:].bool()
    if bool(seen.all()):
        return False
    behind = CAUSAL in parts and q_length == seen.shape[1] and bool((seen[:, 1:] <= seen[:, :-1]).all())
    return not behind


def short_form(parts: Set[str], batch: int, q_length: int, kv_length: int, q_offset, kv_offset, rest: dict,
               device) -> Optional[Tuple[Optional[Tensor]]]:
    """What stands for the mask, in a tuple, or None if nothing does."""
    if parts == {ALL}:
        return (None,)
    window = int(rest.get("local_size") or 0) if WINDOW in parts else 0
    if WINDOW in parts and (not window or CAUSAL not in parts):
        return None
    if all(isinstance(x, int) for x in (q_offset, kv_offset)):
        keys = q_offset + q_length - kv_offset
        if keys > kv_length:
            return None
        limit = keys if keys < kv_length else 0
        return (torch.empty(0, 1, window, limit, device=device) if window or limit else None,)
    return static_form(batch, q_length, window, q_offset, kv_offset, device)


def static_form(batch: int, q_length: int, window: int, q_offset, kv_offset, device) -> Optional[Tuple[Tensor]]:
    """Of a cache whose length is a tensor: lengths for a step, their number for a prompt."""
    if window:
        return None
    keys = q_offset + q_length - kv_offset
    if q_length <= DECODE_MOST:
        return (keys.to(device=device, dtype=torch.int32).reshape(1, 1, 1, 1).expand(batch, 1, 1, 1),)
    return None if torch.compiler.is_compiling() else (torch.empty(0, 1, 0, int(keys), device=device),)


# ---- attention ----


def attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
              attention_mask: Optional[Tensor] = None, dropout: float = 0.0,
              scaling: Optional[float] = None, is_causal: Optional[bool] = None, softcap: Optional[float] = None,
              s_aux: Optional[Tensor] = None,
              **rest) -> Tuple[Tensor, None]:
    """The attention of a layer; tensors [batch, heads, length, dim]."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    reason = passed_on(query, key, value, attention_mask, dropout, rest)
    if reason:
        say_once(f"{type(module).__name__}: {reason}: passed on to sdpa")
        full = explicit(attention_mask, query, key, causal)
        return pass_on(module, query, key, value, full, dropout, scaling, softcap, s_aux, rest)
    window, keys, lengths = limits(attention_mask)
    key, value = (key[:, :, :keys], value[:, :, :keys]) if keys else (key, value)
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return computed(q, k, v, causal, scaling, window, softcap or 0.0, s_aux, lengths), None


def limits(short: Optional[Tensor]) -> Tuple[int, int, Optional[Tensor]]:
    """What a short form says: window, keys (0: no limit), and the sequences' lengths."""
    if short is None:
        return 0, 0, None
    return (short.shape[2], short.shape[3], None) if short.shape[0] == 0 else (0, 0, short.reshape(-1))


def is_mask(attention_mask: Optional[Tensor]) -> bool:
    """Whether it is a mask of queries and keys, and no short form."""
    return attention_mask is not None and attention_mask.shape[0] > 0 and attention_mask.dtype != torch.int32


def computed(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: Optional[float], window: int, softcap: float,
             sinks: Optional[Tensor], lengths: Optional[Tensor]) -> Tensor:
    """Few queries as decode, where they see all keys up to their own; others as attention, with sinks by its
    log-sum-exp."""
    queries, keys = q.shape[1], k.shape[1]
    if lengths is not None or (queries == 1 and keys > 1) or (causal and queries <= DECODE_MOST and keys > queries):
        return ht.decode(q, k, v, lengths, scale=scale, window=window, softcap=softcap,
                         sinks=None if sinks is None else sinks.float().contiguous())
    if sinks is None:
        return ht.attention(q, k, v, causal=causal, scale=scale, window=window, softcap=softcap)
    o, lse = ht.attention(q, k, v, causal=causal, scale=scale, window=window, softcap=softcap, return_lse=True)
    share = torch.sigmoid(lse - sinks.float()[:, None]).transpose(1, 2).unsqueeze(3)
    return (o.float() * share).to(o.dtype)


def passed_on(query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], dropout: float,
              rest: dict) -> Optional[str]:
    """Why Headroom does not compute a call, or None."""
    if is_mask(attention_mask):
        return "the mask is neither causal nor a window, or there is padding before tokens"
    if dropout > 0:
        return "dropout"
    if rest.get("position_bias") is not None:
        return "a bias by position"
    if query.dtype not in DTYPES or key.dtype != query.dtype or query.device.type not in ("cpu", "cuda"):
        return f"{query.dtype} on {query.device.type}"
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return "a gradient is required"
    return None


def say_once(line: str) -> None:
    if not torch.compiler.is_compiling() and line not in _said:
        _said.add(line)
        warnings.warn(line, stacklevel=3)


# ---- what is passed on ----


def explicit(attention_mask: Optional[Tensor], query: Tensor, key: Tensor, causal: bool) -> Optional[Tensor]:
    """The boolean mask [batch or 1, 1, queries, keys] that a short form stands for; True: is seen."""
    if is_mask(attention_mask):
        return attention_mask
    if attention_mask is None and not (causal and query.shape[2] > 1):
        return None
    queries, positions = query.shape[2], torch.arange(key.shape[2], device=key.device)
    window, keys, lengths = limits(attention_mask)
    ends = torch.full((1,), keys or key.shape[2], device=key.device) if lengths is None else lengths
    own = ends[:, None, None, None] - queries + torch.arange(queries, device=key.device)[:, None]
    return (positions <= own) & ((positions > own - window) if window else True)


def pass_on(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, full: Optional[Tensor], dropout: float,
            scaling: Optional[float], softcap: Optional[float], s_aux: Optional[Tensor],
            rest: dict) -> Tuple[Tensor, None]:
    if softcap is None and s_aux is None:
        return sdpa_attention_forward(module, query, key, value, full, dropout, scaling, is_causal=False, **rest)
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    scores = (query @ key.transpose(2, 3)).float() * (query.shape[3]**-0.5 if scaling is None else scaling)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    if full is not None:
        scores = scores.masked_fill(~full, -torch.inf) if full.dtype == torch.bool else scores + full
    weights = torch.softmax(scores if s_aux is None else torch.cat((scores, sink_scores(scores, s_aux)), 3), 3)
    weights = torch.nn.functional.dropout(weights[..., :key.shape[2]].nan_to_num(), dropout, module.training)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def sink_scores(scores: Tensor, s_aux: Tensor) -> Tensor:
    return s_aux.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
