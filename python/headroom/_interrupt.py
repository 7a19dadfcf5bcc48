# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in long calls of the library."""
from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double, ctypes.c_char_p)
SWEEP_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Interruptible:
    """While it is entered in the main thread, Ctrl-C ends the calls that have one of its functions, and is raised at
    the end. Python's own handler would raise in a function that C calls, where an exception is lost."""

    def __init__(self) -> None:
        self._stopped = False
        self._functions = [kind(self._stopped_now) for kind in (PROGRESS, SWEEP_PROGRESS, CANCELLED)]
        self.progress, self.sweep_progress, self.cancelled = (
            ctypes.cast(each, ctypes.c_void_p).value for each in self._functions)  # as the library's options have them
        self._before: Any = None

    def _stopped_now(self, *_: Any) -> int:
        return int(self._stopped)

    def _stop(self, *_: Any) -> None:
        self._stopped = True

    def __enter__(self) -> Interruptible:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._stopped:
            raise KeyboardInterrupt
