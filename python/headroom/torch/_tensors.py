# SPDX-License-Identifier: Apache-2.0
"""Tensors as operands: which ones the library reads where they are, and the lines about those that it cannot."""
from __future__ import annotations

from typing import Optional, Sequence, Tuple

import torch

from .. import _bindings as c
from .. import _problem as problem
from .._problem import Layout
from ..errors import InvalidError, UnsupportedError

Tensor = torch.Tensor
OPS = getattr(torch.ops, __name__.partition(".")[0])  # of the package: copies of it may be loaded beside each other
DTYPES = {torch.float32: c.HR_FP32, torch.float16: c.HR_FP16, torch.bfloat16: c.HR_BF16}
READ = {**DTYPES, torch.float64: c.HR_FP64}  # float64 on CPUs alone, by the reference
QUANTIZED = {torch.int8: c.HR_KV_INT8, torch.float8_e4m3fn: c.HR_KV_FP8}


def facts(what: str, q: Tensor, k: Tensor, v: Tensor) -> tuple:
    """All of three tensors that a plan depends on, or that makes them unfit for one; last their common alignment."""
    try:
        bits = q.data_ptr() | k.data_ptr() | v.data_ptr() | 16
        return (q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, k.dtype, v.dtype, q.device,
                k.device, v.device, torch.get_num_threads(), bits & -bits)
    except (RuntimeError, AttributeError):
        raise without_memory(what, q=q, k=k, v=v) from None


def without_memory(what: str, **tensors: Tensor) -> InvalidError:
    """The line about tensors one of which is not elements at strides, or missing."""
    missing = [name for name, tensor in tensors.items() if tensor is None]
    if missing:
        return InvalidError(f"{what}: {missing[0]} is missing")
    layouts = (f"{name} is {tensor.layout} on {tensor.device}" for name, tensor in tensors.items()
               if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type not in ("cpu", "cuda"))
    return InvalidError(f"{what}: {next(layouts, 'a tensor has no memory')}; expected elements at strides")


def same_place(a: Tensor, b: Tensor) -> bool:
    try:
        return a.data_ptr() == b.data_ptr()
    except (RuntimeError, AttributeError):
        return False


class Operands:
    """The layouts of Q, K, V and O, the sizes of O, and which of Q, K and V have to be copied."""

    def __init__(self, what: str, rank: int, q: Tensor, k: Tensor, v: Tensor, cache: bool = False) -> None:
        expect_query(what, rank, q)
        for name, tensor in (("k", k), ("v", v)):
            expect_like(what, name, tensor, q, cache)
        if k.dtype != v.dtype:
            raise InvalidError(f"{what}: v is {v.dtype}, and k is {k.dtype}")
        layouts = [Layout(tuple(x.shape), x.stride()) for x in (q, k, v)]
        self.copied = tuple(not is_readable(each) for each in layouts)
        self.shape = (*q.shape[:-1], v.shape[-1] if v.dim() else 0)
        self.layouts = [Layout(each.shape, problem.packed(each.shape)) if copy else each
                        for each, copy in zip(layouts, self.copied)]
        self.layouts.append(Layout(self.shape, problem.packed(self.shape)))


def expect_query(what: str, rank: int, q: Tensor) -> None:
    if q.dtype not in (DTYPES if q.is_cuda else READ):
        raise InvalidError(f"{what}: q is {q.dtype}; expected {', '.join(map(str, DTYPES))}, on CPUs also float64")
    if q.device.type not in ("cpu", "cuda"):
        raise InvalidError(f"{what}: q is on {q.device}; expected a CPU or a CUDA GPU")
    if q.dim() != rank:
        raise InvalidError(f"{what}: q has {q.dim()} dimensions; expected {rank}")


def expect_like(what: str, name: str, tensor: Tensor, q: Tensor, cache: bool) -> None:
    """Of Q's format or, in a cache, a quantized one, and on its device."""
    if tensor.dtype != q.dtype and not (cache and tensor.dtype in QUANTIZED):
        raise InvalidError(f"{what}: {name} is {tensor.dtype}, and q is {q.dtype}")
    if tensor.device != q.device:
        raise InvalidError(f"{what}: {name} is on {tensor.device}, and q is on {q.device}")


def is_readable(layout: Layout) -> bool:
    """Heads are contiguous. All strides 0 are not all heads in one, but packed, to the library."""
    heads = layout.strides[:-1]
    return layout.strides[-1:] == (1,) and (any(heads) or max(layout.shape[:-1], default=1) <= 1)


def copies(copied: Sequence[bool], *tensors: Tensor) -> Tuple[Tensor, ...]:
    return tuple(x.contiguous() if copy else x for x, copy in zip(tensors, copied))


def vector(what: str, name: str, tensor: Optional[Tensor], dtype: torch.dtype, q: Tensor,
           sizes: Tuple[int, ...]) -> Optional[int]:
    """The address of a contiguous tensor of these sizes (−1: any), or None."""
    return None if tensor is None else needed_vector(what, name, tensor, dtype, q, sizes)


def needed_vector(what: str, name: str, tensor: Tensor, dtype: torch.dtype, q: Tensor, sizes: Tuple[int, ...]) -> int:
    if tensor is None:
        raise InvalidError(f"{what}: {name} is missing")
    if not isinstance(tensor, Tensor):
        raise InvalidError(f"{what}: {name} is a {type(tensor).__name__}; expected a tensor")
    if requires_gradient(tensor):
        raise without_gradient(what, name)
    if tensor.dtype != dtype or tensor.device != q.device:
        raise InvalidError(f"{what}: {name} is {tensor.dtype} on {tensor.device}; expected {dtype} on {q.device}")
    shape = tensor.shape
    fits = len(shape) == len(sizes) and all(size in (-1, own) for size, own in zip(sizes, shape))
    if not fits or tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.is_neg():
        expected = f"expected a contiguous tensor of {list(sizes)}"
        raise InvalidError(f"{what}: {name} has shape {list(shape)}; {expected}")
    return tensor.data_ptr()


def address(tensor: Optional[Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.data_ptr()


def requires_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in tensors)


def expect_no_gradient(what: str, **tensors: Optional[Tensor]) -> None:
    for name, tensor in tensors.items():
        if requires_gradient(tensor):
            raise without_gradient(what, name)


def without_gradient(what: str, name: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: {name} requires a gradient, and {what} has none for it: use torch.no_grad()")
