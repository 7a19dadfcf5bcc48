# SPDX-License-Identifier: Apache-2.0
"""Functions under the names, with the arguments and the meaning of FlashAttention 2 and of PyTorch. An argument that
asks for what Headroom does not compute is refused by its name; scaled_dot_product_attention() passes such calls on to
PyTorch's and says so once for each reason."""
from __future__ import annotations

import warnings
from typing import Optional, Tuple, Union

import torch

from ..errors import UnsupportedError
from ._tensors import DTYPES

Tensor = torch.Tensor
Window = Tuple[int, int]
_ops = torch.ops.headroom
_said = set()


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                    return_attn_probs: bool = False):
    """Tensors [batch, length, heads, dim]. With return_attn_probs (O, log-sum-exp, None). Results repeat their bits,
    whatever `deterministic` says."""
    what = "flash_attn_func"
    refuse(what, "dropout_p", dropout_p)
    causal, window = masked(what, causal, window_size, alibi_slopes)
    arguments = (q, k, v, alibi_slopes, causal, softmax_scale, window, softcap)
    return (*_ops.attention_lse(*arguments), None) if return_attn_probs else _ops.attention(*arguments)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                           max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False,
                           window_size: Window = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Optional[Tensor] = None):
    """Tensors [rows, heads, dim] of sequences one after another."""
    what = "flash_attn_varlen_func"
    refuse(what, "dropout_p", dropout_p)
    refuse(what, "block_table", block_table)
    causal, window = masked(what, causal, window_size, alibi_slopes)
    arguments = (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, alibi_slopes, causal, softmax_scale,
                 window, softcap)
    return (*_ops.attention_varlen_lse(*arguments), None) if return_attn_probs else _ops.attention_varlen(*arguments)


def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos: Optional[Tensor] = None,
                            rotary_sin: Optional[Tensor] = None, cache_seqlens: Union[int, Tensor, None] = None,
                            cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
                            block_table: Optional[Tensor] = None, softmax_scale: Optional[float] = None,
                            causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None, num_splits: int = 0,
                            return_softmax_lse: bool = False):
    """At most 16 queries of the last tokens against a cache, contiguous or paged. New K and V are written into the
    cache behind cache_seqlens tokens first. `num_splits` is Headroom's choice."""
    what = "flash_attn_with_kvcache"
    for name, value in (("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin), ("cache_batch_idx", cache_batch_idx),
                        ("cache_leftpad", cache_leftpad), ("alibi_slopes", alibi_slopes)):
        refuse(what, name, value)
    causal, window = masked(what, causal or q.shape[1] == 1, window_size, None)
    if not causal:
        raise UnsupportedError(f"{what}: causal is False with {q.shape[1]} queries")
    lengths = cache_seqlens
    if isinstance(cache_seqlens, int):
        lengths = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    if k is not None and v is not None:
        lengths = append(lengths, k_cache, v_cache, k, v, block_table)
    arguments = (q, k_cache, v_cache, lengths, block_table, None, softmax_scale, window, softcap)
    if not return_softmax_lse:
        return _ops.decode(*arguments)
    o, lse = _ops.decode_lse(*arguments)
    return o, lse.transpose(1, 2)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:
    """Tensors [batch, heads, length, dim]. As PyTorch's, `is_causal` is aligned to the top left."""
    reason = passed_on(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if reason:
        say_once(f"scaled_dot_product_attention: {reason}: passed on to PyTorch's")
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                                scale=scale, enable_gqa=enable_gqa)
    if is_causal and key.shape[2] > query.shape[2]:
        key, value = key[:, :, :query.shape[2]], value[:, :, :query.shape[2]]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return _ops.attention(q, k, v, None, is_causal, scale).transpose(1, 2)


def passed_on(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], dropout_p: float, is_causal: bool,
              enable_gqa: bool) -> Optional[str]:
    """Why PyTorch's function has to compute a call, or None."""
    if mask is not None:
        return "attn_mask is arbitrary"
    if dropout_p > 0:
        return "dropout_p is above 0"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "tensors do not have 4 dimensions"
    if query.dtype not in DTYPES or query.device.type not in ("cpu", "cuda"):
        return f"{query.dtype} on {query.device.type}"
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return "a gradient is required"
    if is_causal and query.shape[2] > key.shape[2]:
        return "is_causal with more queries than keys"
    if not enable_gqa and not query.shape[1] == key.shape[1] == value.shape[1]:
        return "heads differ without enable_gqa"
    return None


def say_once(line: str) -> None:
    if line not in _said and not torch.compiler.is_compiling():
        _said.add(line)
        warnings.warn(line, stacklevel=3)


def refuse(what: str, name: str, value) -> None:
    """Raises unless an argument is left as it is by default."""
    if value is not None and (isinstance(value, Tensor) or value != 0):
        raise UnsupportedError(f"{what}: {name} is not supported")


def masked(what: str, causal: bool, window_size: Window, alibi_slopes: Optional[Tensor]) -> Tuple[bool, int]:
    """Whether keys after a query are hidden, and the most keys that it sees (0: all)."""
    left, right = window_size
    causal = causal or right == 0
    if not causal and (left >= 0 or right > 0):
        raise UnsupportedError(f"{what}: window_size is {window_size}; it ends after a query")
    if alibi_slopes is not None and not causal:
        raise UnsupportedError(f"{what}: alibi_slopes is not supported without causal")
    return causal, left + 1 if left >= 0 else 0


def append(lengths: Optional[Tensor], k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor,
           block_table: Optional[Tensor]) -> Tensor:
    """Writes new tokens into the cache; the sequences' lengths with them."""
    if lengths is None:
        raise UnsupportedError("flash_attn_with_kvcache: k without cache_seqlens")
    places = lengths[:, None].long() + torch.arange(k.shape[1], device=k.device)
    if block_table is None:
        index = (torch.arange(k.shape[0], device=k.device)[:, None], places)
    else:
        size = k_cache.shape[1]
        index = (block_table.long().gather(1, places // size), places % size)
    k_cache[index] = k
    v_cache[index] = v
    return lengths + k.shape[1]
