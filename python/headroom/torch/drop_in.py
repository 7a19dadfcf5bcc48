# SPDX-License-Identifier: Apache-2.0
"""Functions under the names, with the arguments and the meaning of FlashAttention 2; the arguments that
FlashAttention 3 adds are taken by name. An argument that asks for what Headroom does not compute is refused by its
name. Rows that see no key have a log-sum-exp of −inf."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

import torch

from .. import _bindings as c
from ..errors import InvalidError, UnsupportedError
from ._registration import CALLS
from ._tensors import OPS, expect_no_gradient, requires_gradient

Tensor = torch.Tensor
Window = Tuple[int, int]
FLASH3_REFUSED = ("qv", "q_descale", "k_descale", "v_descale", "attention_chunk", "seqused_q", "seqused_k",
                  "cu_seqlens_q", "cu_seqlens_k_new", "rotary_seqlens")
FLASH3_SPEED = ("num_splits", "pack_gqa", "sm_margin", "scheduler_metadata", "max_seqlen_q")


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                    return_attn_probs: bool = False, s_aux: Optional[Tensor] = None, **flash3):
    """Tensors [batch, length, heads, dim]. With return_attn_probs (O, log-sum-exp, None). `s_aux` [heads]: scores
    without a V (sinks). Results repeat their bits, and with `deterministic` gradients do."""
    what = "flash_attn_func"
    expect_tensors(what, 4, q=q, k=k, v=v)
    refuse(what, dropout_p=dropout_p, **of_flash3(what, flash3))
    causal, window = masked(what, causal, window_size, q.shape[1], k.shape[1])
    slopes, sinks, softmax = one_per_head(what, alibi_slopes, causal), as_sinks(what, s_aux, q), (window, softcap)
    if slopes is None and q.shape[1] <= c.HR_DECODE_Q_LEN_MAX and q.shape[1] < k.shape[1] and (
            causal or q.shape[1] == 1) and not requires_gradient(q, k, v, sinks):
        o, lse = CALLS["decode_lse"](q, k, v, None, None, sinks, softmax_scale, *softmax)
        return (o, lse.transpose(1, 2), None) if return_attn_probs else o
    return results("attention", return_attn_probs, q, k, v, slopes, causal, softmax_scale, *softmax, None, sinks,
                   deterministic)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                           max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False,
                           window_size: Window = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Optional[Tensor] = None,
                           s_aux: Optional[Tensor] = None, **flash3):
    """Tensors [rows, heads, dim] of sequences one after another. With a block table all have max_seqlen_q queries, at
    most 16, and K and V are [pages, page size, heads, dim]."""
    what = "flash_attn_varlen_func"
    expect_tensors(what, 3, q=q)
    expect_tensors(what, 3 if block_table is None else 4, k=k, v=v)
    refuse(what, dropout_p=dropout_p, **of_flash3(what, flash3))
    expect_int32(what, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, block_table=block_table)
    causal, window = masked(what, causal, window_size, max_seqlen_q, max_seqlen_k)
    if block_table is not None:
        refuse(what, alibi_slopes=alibi_slopes)
        if return_attn_probs:
            raise UnsupportedError(f"{what}: return_attn_probs is not supported with block_table")
        lengths = cu_seqlens_k[1:] - cu_seqlens_k[:-1]
        return paged_rows(what, q, k, v, lengths, max_seqlen_q, block_table, causal,
                          (as_sinks(what, s_aux, q), softmax_scale, window, softcap))
    slopes = one_per_head(what, alibi_slopes, causal)
    return results("attention_varlen", return_attn_probs, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                   max_seqlen_k, slopes, causal, softmax_scale, window, softcap, as_sinks(what, s_aux, q),
                   deterministic)


def as_sinks(what: str, s_aux: Optional[Tensor], q: Tensor) -> Optional[Tensor]:
    if s_aux is None:
        return None
    if tuple(s_aux.shape) != (q.shape[-2],):
        raise InvalidError(f"{what}: s_aux has shape {list(s_aux.shape)}; expected {[q.shape[-2]]}")
    return s_aux.float().contiguous()


def paged_rows(what: str, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, q_len: int, block_table: Tensor,
               causal: bool, softmax: tuple) -> Tensor:
    """Sequences of q_len queries each, against pages."""
    batch = block_table.shape[0]
    if not 0 < q_len <= c.HR_DECODE_Q_LEN_MAX or q.shape[0] != batch * q_len or not (causal or q_len == 1):
        raise UnsupportedError(f"{what}: block_table is not supported with sequences of different lengths, of more "
                               f"than {c.HR_DECODE_Q_LEN_MAX} queries, or of several without causal")
    return CALLS["decode"](q.unflatten(0, (batch, q_len)), k, v, lengths, block_table, *softmax).flatten(0, 1)


def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos: Optional[Tensor] = None,
                            rotary_sin: Optional[Tensor] = None, cache_seqlens: Union[int, Tensor, None] = None,
                            cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
                            block_table: Optional[Tensor] = None, softmax_scale: Optional[float] = None,
                            causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None, num_splits: int = 0,
                            return_softmax_lse: bool = False, **flash3):
    """Queries of the last tokens against a cache, contiguous or paged. New K and V are written into the cache behind
    cache_seqlens tokens first, with the rotary embedding if there is one. `num_splits` is Headroom's choice."""
    what = "flash_attn_with_kvcache"
    expect_tensors(what, 4, q=q, k_cache=k_cache, v_cache=v_cache)
    if torch.is_grad_enabled():
        expect_no_gradient(what, q=q, k_cache=k_cache, v_cache=v_cache, k=k, v=v)
    block_table = of_flash3(what, flash3).pop("page_table", block_table)
    refuse(what, cache_leftpad=cache_leftpad, alibi_slopes=alibi_slopes,
           **{name: value for name, value in flash3.items() if name in FLASH3_REFUSED})
    lengths = cache_seqlens
    if isinstance(cache_seqlens, int):
        lengths = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    expect_int32(what, cache_seqlens=lengths, block_table=block_table, cache_batch_idx=cache_batch_idx)
    pages = page_table(what, block_table, cache_batch_idx)
    if k is not None or v is not None or rotary_cos is not None or rotary_sin is not None:
        for name, value in (("k", k), ("v", v), ("cache_seqlens", lengths)):
            if value is None:
                raise InvalidError(f"{what}: {name} is missing")
        expect_tensors(what, 4, k=k, v=v)
        moving = causal or tuple(window_size) != (-1, -1)
        q, k = rotated(what, q, k, lengths, rotary_cos, rotary_sin, rotary_interleaved, moving)
        OPS.kv_append(k_cache, v_cache, k, v, lengths, pages)
        lengths = lengths + k.shape[1]
    keys = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    causal, window = masked(what, causal or q.shape[1] == 1, window_size, q.shape[1], keys)
    o, lse = steps(q, k_cache, v_cache, lengths, pages, causal, (softmax_scale, window, softcap))
    return (o, lse) if return_softmax_lse else o


def steps(q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor], pages: Optional[Tensor], causal: bool,
          softmax: tuple) -> Tuple[Tensor, Tensor]:
    """O and the log-sum-exp [batch, heads, queries], as decode() of a few queries, or attention of many."""
    if not causal:
        return each_alone(q, k, v, lengths, pages, softmax)
    if q.shape[1] <= c.HR_DECODE_Q_LEN_MAX:
        o, lse = CALLS["decode_lse"](q, k, v, lengths, pages, None, *softmax)
        return o, lse.transpose(1, 2)
    if pages is None and lengths is None:
        return CALLS["attention_lse"](q, k, v, None, True, *softmax)
    if pages is None and k.is_contiguous() and v.is_contiguous():
        return among_gaps(q, k, v, lengths, softmax)
    return by_parts(q, k, v, lengths, pages, softmax)


def each_alone(q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor], pages: Optional[Tensor],
               softmax: tuple) -> Tuple[Tensor, Tensor]:
    """Queries that all see all keys: each is a sequence of its own, of the same pages."""
    batch, count, heads, _ = q.shape
    if pages is None:
        pages = torch.arange(batch, dtype=torch.int32, device=q.device)[:, None]
    ends = None if lengths is None else lengths.repeat_interleave(count)
    o, lse = CALLS["decode_lse"](q.reshape(batch * count, 1, heads, -1), k, v, ends, pages.repeat_interleave(count, 0),
                                 None, *softmax)
    return o.view(batch, count, heads, -1), lse.view(batch, count, heads).transpose(1, 2)


def among_gaps(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, softmax: tuple) -> Tuple[Tensor, Tensor]:
    """Packed sequences, each of which has one without queries behind it: the cache's places without tokens."""
    (batch, count, heads, _), room = q.shape, k.shape[1]
    edges = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    q_starts, rooms = (edges * count).repeat_interleave(2)[1:].contiguous(), edges * room
    kv_starts = torch.cat((torch.stack((rooms[:-1], rooms[:-1] + lengths), 1).flatten(), rooms[-1:]))
    rows = [x.flatten(0, 1) for x in (q, k, v)]
    o, lse = CALLS["attention_varlen_lse"](*rows, q_starts, kv_starts, count, room, None, True, *softmax)
    return o.unflatten(0, (batch, count)), lse.view(heads, batch, count).transpose(0, 1)


def by_parts(q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor], pages: Optional[Tensor],
             softmax: tuple) -> Tuple[Tensor, Tensor]:
    """Queries by as many as decode() takes. Those of a part see no more keys than the last of them."""
    count, parts = q.shape[1], []
    if lengths is None:
        room = k.shape[1] * (1 if pages is None else pages.shape[1])
        lengths = torch.full((q.shape[0],), room, dtype=torch.int32, device=q.device)
    for first in range(0, count, c.HR_DECODE_Q_LEN_MAX):
        part = q[:, first:first + c.HR_DECODE_Q_LEN_MAX]
        behind = count - first - part.shape[1]
        ends = (lengths - behind).clamp(min=0) if behind else lengths
        parts.append(CALLS["decode_lse"](part, k, v, ends, pages, None, *softmax))
    return torch.cat([o for o, _ in parts], 1), torch.cat([lse for _, lse in parts], 1).transpose(1, 2)


# ---- the rotary embedding ----


def rotated(what: str, q: Tensor, k: Tensor, lengths: Tensor, cos: Optional[Tensor], sin: Optional[Tensor],
            interleaved: bool, moving: bool) -> Tuple[Tensor, Tensor]:
    """Q and the new K, turned by their places; without `moving` all queries are at the first new place."""
    if cos is None and sin is None:
        return q, k
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        if table is None or table.dim() != 2 or 2 * table.shape[1] > min(q.shape[3], k.shape[3]):
            shape = "missing" if table is None else f"of shape {list(table.shape)}"
            raise InvalidError(f"{what}: {name} is {shape}; expected [positions, at most half of the head dim]")
    if cos.shape != sin.shape:
        raise InvalidError(f"{what}: rotary_sin has shape {list(sin.shape)}, and rotary_cos {list(cos.shape)}")
    first = lengths[:, None].long()
    places = [first + torch.arange(x.shape[1], device=q.device) for x in (q, k)]
    if not moving:
        places[0] = first.expand(-1, q.shape[1])
    if q.is_cpu and any(len(x) and x.numel() and int(x.max()) >= len(cos) for x in places):
        raise InvalidError(f"{what}: rotary_cos has {len(cos)} positions, which are less than cache_seqlens need")
    return tuple(turned(x, cos[at].float(), sin[at].float(), interleaved) for x, at in zip((q, k), places))


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The first elements of heads turned by pairs, i and i + n or 2i and 2i + 1; cos and sin [batch, length, n]."""
    turns = 2 * cos.shape[-1]
    pairs = x[..., :turns].float().unflatten(-1, (-1, 2) if interleaved else (2, -1))
    a, b = pairs.unbind(-1 if interleaved else -2)
    cos, sin = cos[:, :, None], sin[:, :, None]
    together = torch.stack((a * cos - b * sin, b * cos + a * sin), -1 if interleaved else -2).flatten(-2)
    return torch.cat((together.to(x.dtype), x[..., turns:]), -1)


# ---- arguments ----


def results(name: str, with_lse: bool, *arguments):
    return (*CALLS[f"{name}_lse"](*arguments), None) if with_lse else CALLS[name](*arguments)


def of_flash3(what: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """FlashAttention 3's arguments but for those that choose how to compute. Others are no arguments."""
    known = {*FLASH3_REFUSED, *FLASH3_SPEED, *(("page_table",) if what == "flash_attn_with_kvcache" else ())}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{what}() got an unexpected keyword argument '{unknown[0]}'")
    return {name: value for name, value in given.items() if name not in FLASH3_SPEED}


def refuse(what: str, **values) -> None:
    """Raises unless arguments are left as they are by default."""
    for name, value in values.items():
        if value is not None and (isinstance(value, Tensor) or value != 0):
            raise UnsupportedError(f"{what}: {name} is not supported")


def expect_tensors(what: str, rank: int, **tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InvalidError(f"{what}: {name} is a {type(tensor).__name__}; expected a tensor")
        if tensor.dim() != rank:
            raise InvalidError(f"{what}: {name} has {tensor.dim()} dimensions; expected {rank}")


def expect_int32(what: str, **tensors: Optional[Tensor]) -> None:
    for name, tensor in tensors.items():
        found = None if tensor is None else getattr(tensor, "dtype", type(tensor).__name__)
        if found not in (None, torch.int32):
            raise InvalidError(f"{what}: {name} is {found}; expected a tensor of torch.int32")


def page_table(what: str, block_table: Optional[Tensor], cache_batch_idx: Optional[Tensor]) -> Optional[Tensor]:
    """The page numbers: those of the table, or of a contiguous cache, one page per sequence."""
    if cache_batch_idx is None:
        return block_table
    if block_table is not None:
        raise UnsupportedError(f"{what}: cache_batch_idx is not supported with block_table")
    return cache_batch_idx[:, None]


def masked(what: str, causal: bool, window_size: Window, queries: int, keys: int) -> Tuple[bool, int]:
    """Whether keys after a query are hidden, and the most keys that it sees (0: all)."""
    if not isinstance(window_size, (tuple, list)) or [type(x) for x in window_size] != [int, int]:
        raise InvalidError(f"{what}: window_size is {window_size!r}; expected two whole numbers")
    left, right = window_size
    left = -1 if left >= keys - 1 else left
    causal = causal or right == 0
    if not causal and (left >= 0 or 0 < right < queries - 1):
        raise UnsupportedError(f"{what}: window_size is {tuple(window_size)}; a window ends at its query's own key")
    return causal, left + 1 if left >= 0 else 0


def one_per_head(what: str, slopes: Optional[Tensor], causal: bool) -> Optional[Tensor]:
    """ALiBi's slopes. A distance to a later key would count, but not to Headroom."""
    if slopes is None:
        return None
    if not causal:
        raise UnsupportedError(f"{what}: alibi_slopes is not supported without causal")
    if slopes.dim() == 2 and slopes.shape[0] == 1:
        return slopes[0]
    if slopes.dim() == 2:
        raise UnsupportedError(f"{what}: alibi_slopes of shape [batch, heads] is not supported; expected [heads]")
    return slopes
