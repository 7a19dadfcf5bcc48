# SPDX-License-Identifier: Apache-2.0
"""Attention and decode as operators of PyTorch, on CPUs and NVIDIA GPUs.

Tensors are [batch, length, heads, dim] of float32, float16 or bfloat16. K and V may have fewer heads than Q, each a
number of its own, and V another head size. Any strides are read in place, but heads that are not contiguous are copied.
The operators are torch.ops.headroom.attention, attention_varlen, decode, kv_append and all_reduce_rmsnorm; they work
under torch.compile(fullgraph=True), in CUDA graphs, on any stream, under autocast. attention and attention_varlen have
gradients of Q, K, V and the sinks, once; the log-sum-exp, ALiBi's slopes and the other operators have none, and
refuse tensors that require one."""
from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch

from ._ranks import name_of
from ._registration import CALLS
from ._tensors import OPS
from .drop_in import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from .sdpa import scaled_dot_product_attention

__all__ = ["all_reduce_rmsnorm", "attention", "attention_varlen", "decode", "flash_attn_func", "flash_attn_varlen_func",
           "flash_attn_with_kvcache", "kv_append", "scaled_dot_product_attention"]
Tensor = torch.Tensor
Result = Union[Tensor, Tuple[Tensor, Tensor]]

_attention, _attention_lse = CALLS["attention"], CALLS["attention_lse"]
_attention_varlen, _attention_varlen_lse = CALLS["attention_varlen"], CALLS["attention_varlen_lse"]
_decode, _decode_lse = CALLS["decode"], CALLS["decode_lse"]


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None, window: int = 0,
              softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None, first_keys: Optional[Tensor] = None,
              sinks: Optional[Tensor] = None, deterministic: bool = False, return_lse: bool = False) -> Result:
    """softmax(scale · Q Kᵀ) V per query head. `causal` is aligned to the bottom right; `window`: the most keys that a
    query sees, with `causal`; `first_keys` [batch, length] (int32, which does not decrease along a sequence): the first
    key that a query sees, where its document or, behind padding, its sequence begins; `scale` None: 1 / sqrt(head
    dim); `sinks` [heads] (float32): a score per head without a V, which takes another pass over O; `deterministic`:
    gradients that repeat their bits, as results do. With return_lse also the log-sum-exp [batch, heads, length]."""
    operator = _attention_lse if return_lse else _attention
    return operator(q, k, v, alibi_slopes, causal, scale, window, softcap, first_keys, sinks, deterministic)


def attention_varlen(q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor, kv_offsets: Tensor, max_q_len: int,
                     max_kv_len: int, *, causal: bool = False, scale: Optional[float] = None, window: int = 0,
                     softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
                     deterministic: bool = False, return_lse: bool = False) -> Result:
    """attention() of sequences one after another, tensors [rows, heads, dim]: sequence b has rows offsets[b] to
    offsets[b + 1] − 1 (int32, on the same device), and none is longer than max_q_len and max_kv_len. With return_lse
    also the log-sum-exp [heads, rows]."""
    operator = _attention_varlen_lse if return_lse else _attention_varlen
    return operator(q, k, v, q_offsets, kv_offsets, max_q_len, max_kv_len, alibi_slopes, causal, scale, window, softcap,
                    sinks, deterministic)


def decode(q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor] = None, pages: Optional[Tensor] = None, *,
           page_starts: Optional[Tensor] = None, k_scales: Optional[Tensor] = None, v_scales: Optional[Tensor] = None,
           max_kv_len: Optional[int] = None, scale: Optional[float] = None, window: int = 0, softcap: float = 0.0,
           top_k: int = 0, sinks: Optional[Tensor] = None, return_lse: bool = False) -> Result:
    """The queries of the last tokens, at most 16, against a cache that has their K and V. `lengths` [batch] (int32) are
    the sequences' tokens, None: as many as there is room for, or max_kv_len, the most of any.

    K and V are [batch, tokens, heads, dim] or, with page numbers (int32), [pages, page size, heads, dim]. `pages` is
    a table [batch, n], as vLLM's, or one list with `page_starts` [batch] or [batch + 1], as FlashInfer's indices and
    indptr. A cache of int8 or float8_e4m3fn has `k_scales` and `v_scales` (float32), [heads] or [pages, page size,
    heads]. If V is the first elements of K's one head, a view of it, it is read once (latent attention).

    `top_k`: only these many keys with the largest scores count (selective V); `sinks` [heads] (float32): a score per
    head without a V. With return_lse also the log-sum-exp [batch, length, heads]."""
    operator = _decode_lse if return_lse else _decode
    return operator(q, k, v, lengths, pages, sinks, scale, window, softcap, top_k, page_starts, k_scales, v_scales,
                    max_kv_len)


def kv_append(k_cache: Tensor, v_cache: Optional[Tensor], k: Tensor, v: Optional[Tensor], lengths: Tensor,
              pages: Optional[Tensor] = None, *, page_starts: Optional[Tensor] = None,
              k_scales: Optional[Tensor] = None, v_scales: Optional[Tensor] = None) -> None:
    """Writes new tokens, K and V [batch, length, heads, dim], into a cache as decode() reads it: token i of sequence b
    to place lengths[b] + i. Scales [pages, page size, heads] of a quantized cache are written, those [heads] are taken.
    A latent cache has no V."""
    OPS.kv_append(k_cache, v_cache, k, v, lengths, pages, page_starts, k_scales, v_scales)


def all_reduce_rmsnorm(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float = 1e-5,
                       group: Union[None, str, Any] = None) -> Tuple[Tensor, Tensor]:
    """RMSNorm(s) · weight and s, where s is the sum of x over the ranks of a process group, plus `residual`. x and
    residual are [..., columns], `weight` [columns], in one format on one device; each rank has the same shapes, and all
    have the same residual and weight. `group`: a ProcessGroup or its name, None: the default one.

    On GPUs that see each other's memory rows of up to 16 KiB, together up to a MiB, take one kernel; larger messages an
    all-reduce and a norm. The first call of a shape waits for all ranks on the host, so it comes before a capture. Calls
    of a group follow one another: those of two streams do not overlap."""
    return OPS.all_reduce_rmsnorm(x, residual, weight, eps, name_of(group))
