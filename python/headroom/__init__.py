# SPDX-License-Identifier: Apache-2.0
"""Headroom: attention and decode kernels for CPUs and NVIDIA GPUs, and advice about transformer shapes."""
from ._library import version as _version
from .errors import (BackendError, Error, InterruptedByCallerError, InvalidError, NoisyError, NotFoundError,
                     OutOfMemoryError, OutputError, SizeOverflowError, TimeLimitError, UnavailableError, UnreadableError,
                     UnsupportedError, WrongResultError)

__version__ = _version()
__all__ = ["BackendError", "Error", "InterruptedByCallerError", "InvalidError", "NoisyError", "NotFoundError",
           "OutOfMemoryError", "OutputError", "SizeOverflowError", "TimeLimitError", "UnavailableError",
           "UnreadableError", "UnsupportedError", "WrongResultError"]
