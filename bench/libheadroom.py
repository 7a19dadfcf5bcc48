# SPDX-License-Identifier: Apache-2.0
"""libheadroom for the scripts of this folder: the structs and functions of its headers, as scripts/bindings.py wrote
them, and calls that raise with the library's line."""
import ctypes
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from headroom import _bindings as bindings  # noqa: E402
from headroom._library import call, default, load  # noqa: E402


def open_device(library, name, threads=0):
    """A device of a library, never closed."""
    device = ctypes.c_void_p()
    call(library.hr_device_open, name.encode(), threads, ctypes.byref(device))
    return device


def address_64(tensor):
    """The first address in a tensor of bytes that is a multiple of 64."""
    return (tensor.data_ptr() + 63) // 64 * 64
