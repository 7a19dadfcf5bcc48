# SPDX-License-Identifier: Apache-2.0
"""A failure of the library is an exception: its class says the status, its text is the library's line."""
from __future__ import annotations


class Error(Exception):
    """A failure of the library."""


class InvalidError(Error, ValueError):
    """An argument or a field has an invalid value."""


class UnreadableError(Error, ValueError):
    """The input cannot be read or parsed."""


class NotFoundError(Error, LookupError):
    """No such name."""


class UnsupportedError(Error, NotImplementedError):
    """Not supported by Headroom."""


class UnavailableError(Error, RuntimeError):
    """This machine lacks the device or library."""


class SizeOverflowError(Error, OverflowError):
    """A size does not fit into 64 bits."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""


class TimeLimitError(Error, TimeoutError):
    """The time limit was reached before the first result."""


class NoisyError(Error, RuntimeError):
    """The samples did not stabilize."""


class WrongResultError(Error, ArithmeticError):
    """A kernel's result differs from the reference."""


class InterruptedByCallerError(Error, RuntimeError):
    """Stopped by the caller."""


class OutputError(Error, OSError):
    """The output cannot be written."""


class BackendError(Error, RuntimeError):
    """A backend library failed."""
