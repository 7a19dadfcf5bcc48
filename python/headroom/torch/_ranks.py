# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed as the library's communicators, and the operator that runs on them. A group's
ranks join once for each kind of device, by addresses in the group's store."""
from __future__ import annotations

import ctypes
import os
import socket
import threading
import weakref
from typing import Any, Dict, Tuple

import torch
import torch.distributed as dist

from .. import _bindings as c
from .._library import call, default, error_address, fail, kernels
from ..device import Workspace
from ..errors import InvalidError, UnavailableError
from ._run import device_of
from ._tensors import DTYPES, expect_no_gradient

Tensor = torch.Tensor
WHAT = "all_reduce_rmsnorm"
PATIENCE_S = 600  # as NCCL's groups have
ALIGNED = 8       # bytes: what the kernel moves at a time

_here = Workspace()


class Ranks:
    """The ranks of a group, each with a device of one kind. One thread at a time calls them."""

    def __init__(self, group, x: Tensor) -> None:
        self.device, self.index = device_of(x), x.get_device()
        self.lock = threading.Lock()
        self.seen: set = set()
        options = default(kernels(), c.hr_communicator_options)
        options.rank, options.size, options.patience_s = group.rank(), group.size(), PATIENCE_S
        meeting = Meeting(group, x.device.type)
        options.address, options.port = meeting.address.encode(), meeting.port
        communicator = ctypes.c_void_p()
        try:
            call(kernels().hr_communicator_join, self.device.handle, ctypes.byref(options), ctypes.byref(communicator))
        finally:
            meeting.is_over()
        self.communicator = communicator.value
        weakref.finalize(self, _leave, self.communicator, os.getpid()).atexit = False

    def run(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tuple[Tensor, Tensor]:
        shape = (x.dtype, x.shape)
        if shape not in self.seen and x.is_cuda and torch.cuda.is_current_stream_capturing():
            raise InvalidError(f"{WHAT}: call it once with x of {list(x.shape)} before it is captured")
        y, total = torch.empty_like(x), torch.empty_like(x)
        stream = torch._C._cuda_getCurrentRawStream(self.index) if x.is_cuda else None
        message = default(kernels(), c.hr_collective_call)
        message.kind, message.dtype, message.count = c.HR_ALL_REDUCE, DTYPES[x.dtype], x.numel()
        message.send, message.receive = x.data_ptr(), y.data_ptr()
        message.columns, message.epsilon = x.shape[-1], eps
        message.residual, message.residual_sum = residual.data_ptr(), total.data_ptr()
        message.norm_weight = weight.data_ptr()
        with self.lock:
            if kernels().hr_communicator_takes_norm(self.communicator, ctypes.byref(message)):
                self._communicate(message, stream)
            else:
                self._apart(message, torch.empty_like(x), stream)
        self.seen.add(shape)
        return y, total

    def _communicate(self, message: c.hr_collective_call, stream) -> None:
        call(kernels().hr_communicate, self.communicator, ctypes.byref(message), stream)

    def _apart(self, message: c.hr_collective_call, summed: Tensor, stream) -> None:
        """The same sums and norm by two calls, for messages that the one kernel does not take."""
        y, columns = message.receive, message.columns
        message.receive, message.columns = summed.data_ptr(), 0
        self._communicate(message, stream)
        rows = default(kernels(), c.hr_rowwise)
        rows.operation, rows.dtype, rows.epsilon = c.HR_ROWWISE_RESIDUAL_RMS_NORM, message.dtype, message.epsilon
        rows.rows, rows.columns = message.count // columns, columns
        rows.alignment = ALIGNED
        operands = default(kernels(), c.hr_rowwise_arguments)
        operands.inputs = (message.receive, message.residual, message.norm_weight)
        operands.output, operands.more_outputs[0] = y, message.residual_sum
        plan = ctypes.c_void_p()
        call(kernels().hr_plans_rowwise, self.device.plans, ctypes.byref(rows), ctypes.byref(plan))
        try:
            size = kernels().hr_plan_workspace_bytes(plan)
            workspace = None
            if size and summed.is_cuda:
                workspace = summed.new_zeros(size, dtype=torch.uint8).data_ptr()
            elif size:
                workspace = _here.at_least(size)
            status = kernels().hr_plan_run_rowwise(plan, ctypes.byref(operands), workspace, stream, error_address())
        finally:
            kernels().hr_plan_free(plan)
        if status:
            fail(status)


def _leave(communicator: int, process: int) -> None:
    if os.getpid() == process:  # a child of fork() is none of the ranks
        kernels().hr_communicator_free(communicator)


class Meeting:
    """Where the group's first rank listens: its host's name, or this host if all ranks are here, and a free port."""

    def __init__(self, group, kind: str) -> None:
        self.store = dist.PrefixStore(f"headroom/{kind}", dist.distributed_c10d._get_process_group_store(group))
        self.own = [f"host{group.rank()}"]
        self.store.set(self.own[0], socket.gethostname())
        if group.rank() == 0:
            hosts = {self.store.get(f"host{each}") for each in range(group.size())}
            with socket.socket() as free:
                free.bind(("", 0))
                port = free.getsockname()[1]
            self.store.set("at", f"{'127.0.0.1' if len(hosts) == 1 else socket.gethostname()} {port}")
            self.own.append("at")
        self.address, port = self.store.get("at").decode().split()
        self.port = int(port)

    def is_over(self) -> None:
        """Another group may get the store, and the name."""
        for each in self.own:
            self.store.delete_key(each)


_ranks: "weakref.WeakKeyDictionary[Any, Dict[str, Ranks]]" = weakref.WeakKeyDictionary()  # by group and kind of device


def group_of(name: str):
    """The group of this name, "": the default one."""
    known = dist.distributed_c10d
    try:
        return known._resolve_process_group(name) if name else known._get_default_group()
    except (RuntimeError, ValueError) as cause:
        raise UnavailableError(f"{WHAT}: {str(cause).splitlines()[0]}") from None


def ranks_of(group, x: Tensor) -> Ranks:
    """They leave each other when the group is destroyed."""
    kinds = _ranks.setdefault(group, {})
    ranks = kinds.get(x.device.type)
    if ranks is None:
        ranks = kinds[x.device.type] = Ranks(group, x)
    if ranks.index != x.get_device():
        raise InvalidError(f"{WHAT}: x is on {x.device}, and the group's rank on cuda:{ranks.index}")
    return ranks


def name_of(group) -> str:
    if group is None or isinstance(group, str):
        return group or ""
    if not isinstance(group, dist.ProcessGroup):
        raise InvalidError(f"{WHAT}: group is {group}; expected a process group that this rank is in, or its name")
    return group.group_name


def check(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> None:
    if x.dtype not in DTYPES:
        raise InvalidError(f"{WHAT}: x is {x.dtype}; expected {', '.join(map(str, DTYPES))}")
    if x.dim() < 1 or x.shape[-1] < 1:
        raise InvalidError(f"{WHAT}: x has shape {list(x.shape)}; expected rows of one element or more")
    for name, tensor, shape in (("residual", residual, x.shape), ("weight", weight, x.shape[-1:])):
        if tensor.dtype != x.dtype:
            raise InvalidError(f"{WHAT}: {name} is {tensor.dtype}, and x is {x.dtype}")
        if tensor.device != x.device:
            raise InvalidError(f"{WHAT}: {name} is on {tensor.device}, and x is on {x.device}")
        if tensor.shape != shape:
            raise InvalidError(f"{WHAT}: {name} has shape {list(tensor.shape)}; expected {list(shape)}")
    if not 0 < eps < float("inf"):
        raise InvalidError(f"{WHAT}: eps is {eps}; expected more than 0")


def readable(x: Tensor) -> Tensor:
    """Packed, at an address that depends on no rank."""
    x = x.contiguous()
    return x if x.data_ptr() % ALIGNED == 0 and not x.is_neg() else x.clone()


def all_reduce_rmsnorm(x: Tensor, residual: Tensor, weight: Tensor, eps: float, group: str) -> Tuple[Tensor, Tensor]:
    expect_no_gradient(WHAT, x=x, residual=residual, weight=weight)
    check(x, residual, weight, eps)
    if x.numel() == 0:
        return x.new_empty(x.shape), x.new_empty(x.shape)
    return ranks_of(group_of(group), x).run(readable(x), readable(residual), readable(weight), eps)


def fake_all_reduce_rmsnorm(x: Tensor, *_) -> Tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _after_fork() -> None:
    _ranks.clear()


os.register_at_fork(after_in_child=_after_fork)
