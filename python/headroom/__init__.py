# SPDX-License-Identifier: Apache-2.0
"""Headroom: attention and decode kernels for CPUs and NVIDIA GPUs, and advice about transformer shapes."""
from ._library import version as _version
from .advisor import advise, describe, predict, search, serve_load, serve_plan
from .device import Device
from .errors import (BackendError, Error, InterruptedByCallerError, InvalidError, NoisyError, NotFoundError,
                     OutOfMemoryError, OutputError, SizeOverflowError, TimeLimitError, UnavailableError,
                     UnreadableError, UnsupportedError, WrongResultError)
from .host import attention, attention_varlen, decode
from .measuring import measure, results, sweep
from .model import Model

__version__ = _version()
__all__ = ["BackendError", "Device", "Error", "InterruptedByCallerError", "InvalidError", "Model", "NoisyError",
           "NotFoundError", "OutOfMemoryError", "OutputError", "SizeOverflowError", "TimeLimitError", "UnavailableError",
           "UnreadableError", "UnsupportedError", "WrongResultError", "advise", "attention", "attention_varlen",
           "decode", "describe", "measure", "predict", "results", "search", "serve_load", "serve_plan", "sweep"]
