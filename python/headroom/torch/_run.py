# SPDX-License-Identifier: Apache-2.0
"""Calls: plans of problems on the devices of tensors, the CPU or a GPU in PyTorch's current stream. A call is prepared
once for tensors of the same sizes, strides and formats; what is left for each run is what a run costs."""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch

from .. import _bindings as c
from .._library import call, error_address, fail, kernels
from ..device import Device, Workspace
from ..errors import UnavailableError
from ._tensors import Operands, expect_no_gradient, facts, requires_gradient

Tensor = torch.Tensor
CALLS_MOST = 4096

_devices: Dict[Tuple[str, int], Device] = {}
_calls: Dict[tuple, "Call"] = {}
_recent: Dict[str, "Recent"] = {}
_stream_workspaces: Dict[Tuple[int, int], "DeviceWorkspace"] = {}  # of a GPU and a stream


class Here(Workspace):
    """What runs of this thread need: a workspace on the CPU, and where the library writes its line."""

    def __init__(self) -> None:
        super().__init__()
        self.error = error_address()


_here = Here()


class Call:
    """The plan of a problem, a share of the cache's. `find` is an hr_plans_…, `start` an hr_plan_run_…; `options`: the
    structs that it takes behind the problem's."""

    def __init__(self, q: Tensor, find: Callable, start: Callable, problem: bytes, operands: Operands,
                 *options: bytes) -> None:
        device, plan = device_of(q), ctypes.c_void_p()
        call(find, device.plans, problem, *options, ctypes.byref(plan))
        self.plan, self.start, self.device = plan, start, device
        self.shape, self.copied, self.copies = operands.shape, operands.copied, any(operands.copied)
        self.like_q = self.shape == tuple(q.shape) and q.is_contiguous()
        self.index = q.get_device()
        self.workspace_bytes = kernels().hr_plan_workspace_bytes(plan)
        self.forget = weakref.finalize(self, kernels().hr_plan_free, plan).detach

    def output(self, q: Tensor) -> Tensor:
        """Memory for O, packed; empty_like() takes half a microsecond less."""
        return torch.empty_like(q) if self.like_q else q.new_empty(self.shape)

    def run(self, arguments: bytes) -> None:
        if self.index >= 0:
            status = self._run_cuda(arguments)
        else:
            if self.workspace_bytes > _here.size:
                _here.at_least(self.workspace_bytes)
            workspace = _here.address if self.workspace_bytes else None
            status = self.start(self.plan, arguments, workspace, None, _here.error)
        if status:
            fail(status)

    def _run_cuda(self, arguments: bytes) -> int:
        """A graph that is being captured gets its own workspace, since it may run in any stream."""
        stream, address = torch._C._cuda_getCurrentRawStream(self.index), None
        if self.workspace_bytes and torch.cuda.is_current_stream_capturing():
            workspace = self._cleared(stream)
            address = workspace.data_ptr()
        elif self.workspace_bytes:
            address = self._stream_workspace(stream)
        return self.start(self.plan, arguments, address, stream, error_address())

    def _stream_workspace(self, stream: int) -> int:
        """Memory that stays, whose counters stay 0. Not PyTorch's: its pools for graphs allow none that they do not
        know, in the runs before a capture either."""
        workspace = _stream_workspaces.get((self.index, stream))
        if workspace is None or workspace.size < self.workspace_bytes:
            size = max(self.workspace_bytes, c.HR_WORKSPACE_COUNTER_BYTES)
            workspace = _stream_workspaces[self.index, stream] = DeviceWorkspace(self.device, size)
        return workspace.address

    def _cleared(self, stream: int) -> Tensor:
        size = max(self.workspace_bytes, c.HR_WORKSPACE_COUNTER_BYTES)
        workspace = torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", self.index))
        call(kernels().hr_workspace_clear, self.device.handle, workspace.data_ptr(), stream)
        return workspace


class DeviceWorkspace:
    """An hr_buffer. Freeing one waits for the runs that use it."""

    def __init__(self, device: Device, size: int) -> None:
        buffer = ctypes.c_void_p()
        call(kernels().hr_buffer_create, device.handle, size, ctypes.byref(buffer))
        self.size, self.address = size, kernels().hr_buffer_data(buffer)
        ending = weakref.finalize(self, kernels().hr_buffer_free, buffer)
        ending.atexit, self.forget = False, ending.detach


class Recent(NamedTuple):
    """The last call of an operator: its name, its options, facts of its tensors; and, once it has come twice, a check
    of whether tensors are like them, and whether one of them requires a gradient where those are enabled."""
    key: tuple
    call: Call
    alignment: int
    threads: int
    same: Optional[Callable[..., bool]] = None
    learned: bool = False


def recent_like(what: str, q: Tensor, k: Tensor, v: Tensor) -> Optional[Recent]:
    """An operator's last call if these tensors are like its own, and nothing of PyTorch's has to see a call. The layers
    of a model make the same call one after another."""
    recent = _recent.get(what)
    if (recent is None or recent.same is None or not recent.same(q, k, v) or _dispatch_modes() or _function_mode()
            or _profiler() or recent.threads != _threads() or (recent.learned and _grad_enabled())):
        return None
    return recent


_threads, _grad_enabled = torch.get_num_threads, torch.is_grad_enabled
_dispatch_modes, _function_mode = torch._C._len_torch_dispatch_stack, torch._C._is_torch_function_mode_enabled
_profiler = torch._C._autograd._profiler_enabled


def call_of(like: Optional[Recent], what: str, options: tuple, q: Tensor, k: Tensor, v: Tensor,
            plan: Callable[[Tensor, Tensor, Tensor, tuple, int], Call]) -> Call:
    """The call of an operator with these options, which is planned if it is new. With too many the cache begins anew.
    `like`: what recent_like() says of the tensors."""
    if like is not None and like.key[1] == options:
        bits = q.data_ptr() | k.data_ptr() | v.data_ptr() | 16
        if bits & -bits == like.alignment:
            return like.call
    if requires_gradient(q, k, v):
        expect_no_gradient(what, q=q, k=k, v=v)
    known = facts(what, q, k, v)
    key = what, options, known
    recent = _recent.get(what)
    if recent is not None and recent.key == key:
        if recent.same is None:
            learned = q.requires_grad or k.requires_grad or v.requires_grad
            _recent[what] = recent._replace(same=likeness(q, k, v), learned=learned)
        return recent.call
    found = _calls.get(key)
    if found is None:
        if len(_calls) >= CALLS_MOST:
            _calls.clear()
        found = _calls[key] = plan(q, k, v, options, known[-1])
    _recent[what] = Recent(key, found, known[-1], known[-2])
    return found


def likeness(*tensors: Tensor) -> Callable[..., bool]:
    """The check by which torch.compile knows tensors again: kind, format, device, sizes, strides, gradient, and with
    which modes and transforms they are met."""
    try:
        same = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=[list(x.shape) for x in tensors],
                                                    dynamic_dims_strides=[list(x.stride()) for x in tensors]).check
        return same if same(*tensors) else _never
    except (AttributeError, TypeError, SystemError):
        return _never


def _never(*_) -> bool:
    return False


def device_of(tensor: Tensor) -> Device:
    """The CPU with as many threads as PyTorch uses, or a GPU in its primary context, which is PyTorch's; the reference
    for float64. Never closed."""
    kind = "cuda" if tensor.is_cuda else "reference" if tensor.dtype == torch.float64 else "cpu"
    number = tensor.device.index if tensor.is_cuda else torch.get_num_threads()
    key = (kind, number)
    if key not in _devices:
        if tensor.is_cuda and torch.cuda._is_in_bad_fork():
            raise UnavailableError(f"q is on {tensor.device}, which a child of fork() cannot use: start it by spawn")
        device = Device(f"cuda:{number}") if tensor.is_cuda else Device(kind, number)
        device.keep_open()
        _devices[key] = device
    return _devices[key]


def _after_fork() -> None:
    """A child has none of the threads: it opens devices itself, and leaves the parent's."""
    _devices.clear()
    for each in _calls.values():
        if isinstance(each, Call):
            each.forget()
    for each in _stream_workspaces.values():
        each.forget()
    _calls.clear()
    _recent.clear()
    _stream_workspaces.clear()


os.register_at_fork(after_in_child=_after_fork)
