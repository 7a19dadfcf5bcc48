# SPDX-License-Identifier: Apache-2.0
"""Devices of this machine, with their plans."""
from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from typing import Optional

from . import _bindings as c
from ._library import call, error_address, fail, kernels
from .errors import InvalidError

PLANS = 1024


class Device:
    """"cpu", "reference" or "cuda:N"; `threads` 0: all cores that the process may use. Closed by close(), as a context
    manager, or with the last reference to it. Threads may share it, but for closing it."""

    def __init__(self, name: str = "cpu", threads: int = 0) -> None:
        device, plans = ctypes.c_void_p(), ctypes.c_void_p()
        call(kernels().hr_device_open, name.encode(), threads, ctypes.byref(device))
        self.name = name
        try:
            call(kernels().hr_plans_create, device, PLANS, ctypes.byref(plans))
        except Exception:
            kernels().hr_device_close(device)
            raise
        self._handles: Optional[tuple[int, int]] = (device.value or 0, plans.value or 0)
        self._workspaces = Workspace()
        self._close = weakref.finalize(self, _close, self._handles, os.getpid())

    def close(self) -> None:
        """Frees the plans and closes the device; again does nothing."""
        self._handles = None
        self._close()

    def keep_open(self) -> None:
        """Leaves the device open when the last reference to it goes, and at the end of the process."""
        self._close.detach()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Device({self.name!r}{'' if self._handles else ', closed'})"

    @property
    def handle(self) -> int:
        """The hr_device."""
        return self._open()[0]

    @property
    def plans(self) -> int:
        """The hr_plans."""
        return self._open()[1]

    def _open(self) -> tuple[int, int]:
        if self._handles is None:
            raise InvalidError(f"device {self.name} is closed")
        return self._handles

    def counts(self) -> tuple[int, int]:
        """How often a plan was found, and how often one was made."""
        counts = kernels().hr_plans_count(self.plans)
        return counts.found, counts.made

    def run(self, find, problem: bytes, run, arguments: bytes, *options: bytes) -> None:
        """Runs the plan of a problem on operands in the host's memory. `find` is an hr_plans_…, `run` an
        hr_plan_run_…; `options`: the structs that it takes behind the problem's."""
        plan, library, error = ctypes.c_void_p(), kernels(), error_address()
        status = find(self.plans, problem, *options, ctypes.byref(plan), error)
        if status:
            fail(status)
        try:
            size = library.hr_plan_workspace_bytes(plan)
            status = run(plan, arguments, self._workspaces.at_least(size) if size else None, None, error)
        finally:
            library.hr_plan_free(plan)
        if status:
            fail(status)


class Workspace(threading.local):
    """Memory of each thread, which grows to the largest need."""

    def __init__(self) -> None:
        self.size, self.address = 0, 0
        self.memory: Optional[mmap.mmap] = None

    def at_least(self, size: int) -> int:
        """Its address, that of a page."""
        if size > self.size:
            self.memory, self.size = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), size
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        return self.address


def _close(handles: tuple[int, int], process: int) -> None:
    if os.getpid() == process:  # a child of fork() has none of the threads
        kernels().hr_plans_free(handles[1])
        kernels().hr_device_close(handles[0])


_lock = threading.Lock()
_default: list[Device] = []


def default_device() -> Device:
    """The CPU with all cores that the process may use, opened by the first call that needs it."""
    with _lock:
        if not _default:
            _default.append(Device("cpu"))
        return _default[0]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _default.clear()


os.register_at_fork(after_in_child=_after_fork)
