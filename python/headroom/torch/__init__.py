# SPDX-License-Identifier: Apache-2.0
"""Attention and decode as operators of PyTorch, on CPUs and NVIDIA GPUs.

Tensors are [batch, length, heads, dim] of float32, float16 or bfloat16. K and V may have fewer heads than Q, each a
number of its own, and V another head size. Any strides are read in place, but heads that are not contiguous are copied.
The operators are torch.ops.headroom.attention, attention_varlen and decode; they work under
torch.compile(fullgraph=True), in CUDA graphs, on any stream, under autocast. There is no backward pass: a tensor that
requires a gradient is refused."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch

from ._operators import expect_no_gradient
from ._run import OPS
from .drop_in import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache, scaled_dot_product_attention

__all__ = ["attention", "attention_varlen", "decode", "flash_attn_func", "flash_attn_varlen_func",
           "flash_attn_with_kvcache", "scaled_dot_product_attention"]
Tensor = torch.Tensor
Result = Union[Tensor, Tuple[Tensor, Tensor]]

_attention, _attention_lse = OPS.attention.default, OPS.attention_lse.default
_attention_varlen, _attention_varlen_lse = OPS.attention_varlen.default, OPS.attention_varlen_lse.default
_decode, _decode_lse = OPS.decode.default, OPS.decode_lse.default


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None, window: int = 0,
              softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None, first_keys: Optional[Tensor] = None,
              return_lse: bool = False) -> Result:
    """softmax(scale · Q Kᵀ) V per query head. `causal` is aligned to the bottom right; `window`: the most keys that a
    query sees, with `causal`; `first_keys` [batch, length] (int32, which does not decrease along a sequence): the first
    key that a query sees, where its document or, behind padding, its sequence begins; `scale` None: 1 / sqrt(head
    dim). With return_lse also the log-sum-exp [batch, heads, length]."""
    expect_no_gradient("attention", q, k, v)
    operator = _attention_lse if return_lse else _attention
    return operator(q, k, v, alibi_slopes, causal, scale, window, softcap, first_keys)


def attention_varlen(q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor, kv_offsets: Tensor, max_q_len: int,
                     max_kv_len: int, *, causal: bool = False, scale: Optional[float] = None, window: int = 0,
                     softcap: float = 0.0, alibi_slopes: Optional[Tensor] = None, return_lse: bool = False) -> Result:
    """attention() of sequences one after another, tensors [rows, heads, dim]: sequence b has rows offsets[b] to
    offsets[b + 1] − 1 (int32, on the same device), and none is longer than max_q_len and max_kv_len. With return_lse
    also the log-sum-exp [heads, rows]."""
    expect_no_gradient("attention_varlen", q, k, v)
    operator = _attention_varlen_lse if return_lse else _attention_varlen
    return operator(q, k, v, q_offsets, kv_offsets, max_q_len, max_kv_len, alibi_slopes, causal, scale, window, softcap)


def decode(q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor] = None, pages: Optional[Tensor] = None, *,
           scale: Optional[float] = None, window: int = 0, softcap: float = 0.0, top_k: int = 0,
           sinks: Optional[Tensor] = None, return_lse: bool = False) -> Result:
    """The queries of the last tokens, at most 16, against a cache that has their K and V. K and V are [batch, tokens,
    heads, dim] or, with the page table `pages` [batch, n] (vLLM's block table, int32), [pages, page size, heads, dim];
    `lengths` [batch] (int32) are the sequences' tokens, None: as many as there is room for. `top_k`: only these many
    keys with the largest scores count (selective V); `sinks` [heads] (float32): a score per head without a V. With
    return_lse also the log-sum-exp [batch, length, heads]."""
    expect_no_gradient("decode", q, k, v)
    operator = _decode_lse if return_lse else _decode
    return operator(q, k, v, lengths, pages, sinks, scale, window, softcap, top_k)
