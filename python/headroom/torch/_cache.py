# SPDX-License-Identifier: Apache-2.0
"""The kernels of torch.ops.headroom.decode and kv_append: attention to a KV cache, and new tokens in it. A cache is
[batch, tokens, heads, dim] or, with page numbers, [pages, page size, heads, dim]. Page numbers are a table [batch, n],
or one list with `page_starts`, where in it each sequence's begin."""
from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch

from .. import _problem as problem
from .._library import kernels
from .._problem import Cache, Layout, Softmax
from ..errors import InvalidError
from ._operators import Result
from ._run import Call, Recent, call_of
from ._tensors import (DTYPES, QUANTIZED, READ, Operands, address, copies, expect_no_gradient, needed_vector,
                       same_place, vector)

Tensor = torch.Tensor
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
LEAST_SCALE = 2.0**-126


class Stored(NamedTuple):
    """What a plan depends on beside Q, K and V."""
    pages: Optional[Tuple[int, ...]]
    is_list: bool
    kv_len: Optional[int]
    may_be_latent: bool
    scales: Optional[tuple]


def decode(like: Optional[Recent], return_lse: bool, q: Tensor, k: Tensor, v: Tensor, lengths: Optional[Tensor] = None,
           pages: Optional[Tensor] = None, sinks: Optional[Tensor] = None, scale: Optional[float] = None,
           window: int = 0, softcap: float = 0.0, top_k: int = 0, page_starts: Optional[Tensor] = None,
           k_scales: Optional[Tensor] = None, v_scales: Optional[Tensor] = None,
           max_kv_len: Optional[int] = None) -> Result:
    softmax = True, scale, window, softcap, sinks is not None
    stored = (None if pages is None else table_shape(pages, page_starts), page_starts is not None, max_kv_len,
              same_place(k, v) and (v_scales is None or v_scales is k_scales),
              None if k_scales is None and v_scales is None else scale_facts(k_scales, v_scales))
    call = call_of(like, "decode", (softmax, stored, top_k), q, k, v, plan_decode)
    if call.copies:
        q, k, v = copies(call.copied, q, k, v)
    batch, q_len, heads, _ = q.shape
    starts, table = page_numbers("decode", q, k.shape[1], lengths, pages, page_starts)
    ends = vector("decode", "lengths", lengths, torch.int32, q, (batch,))
    scores = vector("decode", "sinks", sinks, torch.float32, q, (heads,))
    o = call.output(q)
    lse = q.new_empty((batch, q_len, heads), dtype=torch.float32) if return_lse else None
    call.run(problem.decode_arguments(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), address(lse), ends, table,
                                      scores, address(k_scales), address(v_scales), starts))
    return (o, lse) if return_lse else o


def plan_decode(q: Tensor, k: Tensor, v: Tensor, options: tuple, alignment: int) -> Call:
    softmax, stored, top_k = options
    known, operands = Stored(*stored), Operands("decode", 4, q, k, v, cache=True)
    if alignment < q.element_size():
        raise InvalidError(f"decode: k or v begins at an address that is no multiple of {q.element_size()}")
    cache = Cache(known.pages[-1] if known.pages else None, known.kv_len,
                  known.may_be_latent and top_k == 0 and begins_with(*operands.layouts[1:3]),
                  QUANTIZED.get(k.dtype, 0))
    cache = cache._replace(token_scales=token_scales(q, k, v, cache, known.scales))
    found = problem.decode("decode", READ[q.dtype], alignment, *operands.layouts, Softmax(*softmax), cache, top_k)
    return Call(q, kernels().hr_plans_decode, kernels().hr_plan_run_decode, found, operands)


def begins_with(k: Layout, v: Layout) -> bool:
    """Whether V, at K's address, is the first elements of K's one head (latent attention)."""
    return (k.shape[2:3] == (1,) and k.shape[:3] == v.shape[:3] and k.strides == v.strides
            and v.shape[3:] <= k.shape[3:])


# ---- page numbers ----


def table_shape(pages: Tensor, page_starts: Optional[Tensor]) -> Tuple[int, ...]:
    """The sizes of a page table. Of a list, whose length changes, a power of two that is not below it."""
    shape = tuple(pages.shape)
    return shape if page_starts is None or not shape else (1 << max(0, shape[0] - 1).bit_length(),)


def page_numbers(what: str, q: Tensor, page_size: int, lengths: Optional[Tensor], pages: Optional[Tensor],
                 page_starts: Optional[Tensor]) -> Tuple[Optional[int], Optional[int]]:
    """The addresses of `page_starts` and `pages`. On a CPU all of a sequence's page numbers are in the list."""
    batch = q.shape[0]
    if page_starts is None:
        return None, vector(what, "pages", pages, torch.int32, q, (batch, -1))
    for name, tensor in (("pages", pages), ("lengths", lengths)):
        if tensor is None:
            raise InvalidError(f"{what}: page_starts without {name}")
    table = needed_vector(what, "pages", pages, torch.int32, q, (-1,))
    with_end = page_starts.dim() == 1 and page_starts.shape[0] == batch + 1
    starts = vector(what, "page_starts", page_starts, torch.int32, q, (batch + with_end,))
    needed_vector(what, "lengths", lengths, torch.int32, q, (batch,))
    if q.is_cpu and batch:
        ends = page_starts[:batch].long() + (lengths.long() + max(page_size, 1) - 1) // max(page_size, 1)
        if int(ends.max()) > pages.shape[0]:
            raise InvalidError(f"{what}: page_starts and lengths ask for {int(ends.max())} pages, and pages has "
                               f"{pages.shape[0]}")
    return starts, table


# ---- scales of a quantized cache ----


def scale_facts(k_scales: Optional[Tensor], v_scales: Optional[Tensor]) -> tuple:
    expect_no_gradient("decode", k_scales=k_scales, v_scales=v_scales)
    return tuple(None if x is None else (tuple(x.shape), x.stride(), x.dtype, x.device, x.is_neg())
                 for x in (k_scales, v_scales))


def token_scales(q: Tensor, k: Tensor, v: Tensor, cache: Cache, scales: Optional[tuple]) -> Optional[Tuple[int, ...]]:
    """The strides of scales per token, or None if there is one per head, or none."""
    if not cache.format:
        for name, own in zip(("k_scales", "v_scales"), scales or ()):
            if own is not None:
                raise InvalidError(f"decode: {name} of a cache that is {k.dtype}")
        return None
    k_scales, v_scales = scales or (None, None)
    if cache.latent:
        v_scales = k_scales
    strides = [scale_strides(name, own, q, tuple(x.shape[:3]))
               for name, own, x in (("k_scales", k_scales, k), ("v_scales", v_scales, v))]
    if (strides[0] is None) != (strides[1] is None):
        raise InvalidError("decode: v_scales are per head or per token, and k_scales are not")
    return None if strides[0] is None else (*strides[0], *strides[1])


def scale_strides(name: str, scales: Optional[tuple], q: Tensor, sizes: Tuple[int, ...]) -> Optional[Tuple[int, ...]]:
    """Of float32 [heads], contiguous: None; of [pages, page size, heads]: the strides."""
    if scales is None:
        raise InvalidError(f"decode: {name} is missing, and the cache is quantized")
    shape, strides, dtype, device, is_neg = scales
    if dtype != torch.float32 or device != q.device:
        raise InvalidError(f"decode: {name} is {dtype} on {device}; expected torch.float32 on {q.device}")
    if shape not in (sizes[2:], sizes):
        raise InvalidError(f"decode: {name} has shape {list(shape)}; expected {list(sizes[2:])} or {list(sizes)}")
    has_gaps = len(shape) == 1 and strides != (1,)
    if max(shape) > 1 and (has_gaps or not any(strides)) or is_neg:
        raise InvalidError(f"decode: {name} has strides {list(strides)}; pass a copy")
    return None if len(shape) == 1 else strides


# ---- new tokens ----


def kv_append(k_cache: Tensor, v_cache: Optional[Tensor], k: Tensor, v: Optional[Tensor], lengths: Tensor,
              pages: Optional[Tensor] = None, page_starts: Optional[Tensor] = None, k_scales: Optional[Tensor] = None,
              v_scales: Optional[Tensor] = None) -> None:
    """Writes token i of sequence b to place lengths[b] + i."""
    what = "kv_append"
    for name, tensor, other in (("k_cache", k_cache, k), ("k", k, k_cache), ("v", v, v_cache), ("v_cache", v_cache, v)):
        if tensor is None and (other is not None or name[0] == "k"):
            raise InvalidError(f"{what}: {name} is missing")
    expect_no_gradient(what, k_cache=k_cache, k=k, v=v, k_scales=k_scales, v_scales=v_scales)
    written = [("k", k_cache, k, k_scales)] + ([] if v_cache is None else [("v", v_cache, v, v_scales)])
    for name, cache, new, scales in written:
        expect_new(what, name, cache, new, k_cache, k, scales)
    if k.shape[0] == 0 or k.shape[1] == 0:
        return
    place = places(what, k_cache, k, lengths, pages, page_starts)
    for name, cache, new, scales in written:
        if cache.dtype in QUANTIZED:
            new = quantized(what, name, cache, new, scales, place)
            cache, new = cache.view(torch.int8), new.view(torch.int8)
        cache[place] = new


def expect_new(what: str, name: str, cache: Tensor, new: Tensor, k_cache: Tensor, k: Tensor,
               scales: Optional[Tensor]) -> None:
    if cache.dim() != 4:
        raise InvalidError(f"{what}: {name}_cache has {cache.dim()} dimensions; expected 4")
    if any(stride == 0 and size > 1 for size, stride in zip(cache.shape, cache.stride())):
        raise InvalidError(f"{what}: {name}_cache has strides {list(cache.stride())}; elements share their place")
    if new.dim() != 4 or new.shape[:2] != k.shape[:2] or new.shape[2:] != cache.shape[2:]:
        expected = [*k.shape[:2], *cache.shape[2:]]
        raise InvalidError(f"{what}: {name} has shape {list(new.shape)}; expected {expected}")
    if cache.shape[:2] != k_cache.shape[:2]:
        raise InvalidError(f"{what}: {name}_cache has shape {list(cache.shape)}, which does not fit k_cache's "
                           f"{list(k_cache.shape)}")
    if cache.dtype not in QUANTIZED and (new.dtype not in DTYPES or new.dtype != cache.dtype):
        raise InvalidError(f"{what}: {name} is {new.dtype}, and {name}_cache is {cache.dtype}")
    if cache.dtype in QUANTIZED and (new.dtype not in DTYPES or scales is None):
        wrong = f"{name} is {new.dtype}" if scales is not None else f"{name}_scales is missing"
        raise InvalidError(f"{what}: {wrong}, and {name}_cache is {cache.dtype}")
    for part, tensor in ((f"{name}_cache", cache), (name, new)):
        if tensor.device != k_cache.device:
            raise InvalidError(f"{what}: {part} is on {tensor.device}, and k_cache is on {k_cache.device}")


def places(what: str, cache: Tensor, k: Tensor, lengths: Tensor, pages: Optional[Tensor],
           page_starts: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """The page and the place in it of each new token, [batch, tokens] both. On a CPU all are in the cache."""
    batch, count = k.shape[:2]
    needed_vector(what, "lengths", lengths, torch.int32, cache, (batch,))
    tokens = lengths[:, None].long() + torch.arange(count, device=cache.device)
    if pages is None:
        if page_starts is not None:
            raise InvalidError(f"{what}: page_starts without pages")
        if cache.shape[0] != batch:
            raise InvalidError(f"{what}: k_cache has a batch of {cache.shape[0]}, and k of {batch}")
        expect_below(what, "lengths", tokens, cache.shape[1])
        return torch.arange(batch, device=cache.device)[:, None].expand(batch, count), tokens
    page_numbers(what, k, cache.shape[1], lengths, pages, page_starts)
    size = max(cache.shape[1], 1)
    if page_starts is None:
        expect_below(what, "lengths", tokens, pages.shape[1] * cache.shape[1])
        found = pages.long().gather(1, tokens // size)
    else:
        index = page_starts[:batch, None].long() + tokens // size
        expect_below(what, "page_starts", index, pages.shape[0])
        found = pages.long()[index]
    expect_below(what, "pages", found, cache.shape[0])
    return found, tokens % size


def expect_below(what: str, name: str, numbers: Tensor, limit: int) -> None:
    """Numbers from 0 to below a limit, where the host can read them."""
    if numbers.is_cpu and numbers.numel():
        least, most = (int(x) for x in torch.aminmax(numbers))
        if least < 0 or most >= limit:
            wrong = least if least < 0 else most
            raise InvalidError(f"{what}: {name} ask for number {wrong}, expected 0 to {limit - 1}")


def quantized(what: str, name: str, cache: Tensor, new: Tensor, scales: Tensor, place: Tuple[Tensor, Tensor]) -> Tensor:
    """New tokens in the cache's format. Scales per token, [pages, page size, heads], are written."""
    if scales.dtype != torch.float32 or scales.device != cache.device:
        raise InvalidError(f"{what}: {name}_scales is {scales.dtype} on {scales.device}; expected torch.float32 on "
                           f"{cache.device}")
    sizes = [list(cache.shape[2:3]), list(cache.shape[:3])]
    if list(scales.shape) not in sizes:
        raise InvalidError(f"{what}: {name}_scales has shape {list(scales.shape)}; expected {sizes[0]} or {sizes[1]}")
    values, largest = new.float(), LARGEST[cache.dtype]
    if scales.dim() == 1:
        own = scales
    else:
        own = scales_of(values, largest)
        scales[place] = own
    values = values / own.unsqueeze(-1)
    if cache.dtype == torch.int8:
        return values.nan_to_num(0.0).round().clamp(-largest, largest).to(torch.int8)
    return torch.where(values.isinf(), torch.nan, values.clamp(-largest, largest)).to(cache.dtype)


def scales_of(values: Tensor, largest: float) -> Tensor:
    """The scale of each token's head, as <headroom/kv_cache.h> says."""
    scales = values.abs().amax(-1) / largest
    scales = torch.where(scales < LEAST_SCALE, 1.0, scales)
    return torch.where(scales.isinf(), torch.nan, scales)
