# SPDX-License-Identifier: Apache-2.0
"""The C libraries: finding and loading them, and calls that raise."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import threading

from . import _bindings as c
from . import errors

OWN = pathlib.Path(__file__).parent / "lib"
FOLDER_VARIABLE = "HEADROOM_LIBRARY_FOLDER"
ERRORS = {
    c.HR_ERROR_INVALID: errors.InvalidError,
    c.HR_ERROR_UNREADABLE: errors.UnreadableError,
    c.HR_ERROR_NOT_FOUND: errors.NotFoundError,
    c.HR_ERROR_UNSUPPORTED: errors.UnsupportedError,
    c.HR_ERROR_UNAVAILABLE: errors.UnavailableError,
    c.HR_ERROR_OVERFLOW: errors.SizeOverflowError,
    c.HR_ERROR_OUT_OF_MEMORY: errors.OutOfMemoryError,
    c.HR_ERROR_TIMEOUT: errors.TimeLimitError,
    c.HR_ERROR_NOISY: errors.NoisyError,
    c.HR_ERROR_WRONG_RESULT: errors.WrongResultError,
    c.HR_ERROR_INTERRUPTED: errors.InterruptedByCallerError,
    c.HR_ERROR_OUTPUT: errors.OutputError,
    c.HR_ERROR_BACKEND: errors.BackendError,
}


def load(path: str) -> ctypes.CDLL:
    """A libheadroom or libheadroom-advice whose functions have their types. Calls release the GIL."""
    try:
        library = ctypes.CDLL(path)
    except OSError as cause:
        raise errors.UnavailableError(f"{path}: {cause}") from None
    for name, (result, parameters) in c.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.restype, function.argtypes = result, parameters
    if library.hr_version_number() != c.HR_VERSION_NUMBER:
        own = library.hr_version().decode()
        raise errors.UnavailableError(f"{path}: version {own}, and the package's is {version()}")
    return library


def version() -> str:
    """The version of the package, which its libraries have, too."""
    return f"{c.HR_VERSION_MAJOR}.{c.HR_VERSION_MINOR}.{c.HR_VERSION_PATCH}"


def soversion() -> str:
    """The number in the libraries' names: before 1.0 a minor version may break the interface."""
    return str(c.HR_VERSION_MAJOR or f"0.{c.HR_VERSION_MINOR}")


def path_of(name: str) -> str:
    """The file of a library: in the folder that HEADROOM_LIBRARY_FOLDER names, the package's own, or the system's."""
    soname = f"lib{name}.so.{soversion()}"
    folder = pathlib.Path(os.environ[FOLDER_VARIABLE]) if FOLDER_VARIABLE in os.environ else OWN
    return str(folder / soname) if (folder / soname).exists() or folder != OWN else soname


@functools.lru_cache(maxsize=None)
def kernels() -> ctypes.CDLL:
    """libheadroom: devices, plans, kernels."""
    return load(path_of("headroom"))


@functools.lru_cache(maxsize=None)
def advice() -> ctypes.CDLL:
    """libheadroom-advice: models, predictions, advice."""
    kernels()  # in the process already when the advisor's library asks for it by its name
    return load(path_of("headroom-advice"))


def default(library: ctypes.CDLL, struct: type, *arguments):
    """A struct of the headers with its defaults: what hr_gemm_default() returns in C."""
    value = struct()
    getattr(library, f"{struct.__name__}_init")(ctypes.byref(value), ctypes.sizeof(value), *arguments)
    return value


class _Thread(threading.local):
    def __init__(self) -> None:
        self.error = c.hr_error()
        self.error_address = ctypes.addressof(self.error)


_thread = _Thread()


def error_address() -> int:
    """Where a call of this thread writes its line."""
    return _thread.error_address


def fail(status: int) -> None:
    """Raises the failure that the last call of this thread returned and described."""
    raise ERRORS.get(status, errors.Error)(_thread.error.message.decode("utf-8", "replace"))


def call(function, *arguments) -> None:
    """Calls a function that returns a status and takes an hr_error last; raises what it returns."""
    status = function(*arguments, _thread.error_address)
    if status != c.HR_OK:
        fail(status)
