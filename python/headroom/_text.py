# SPDX-License-Identifier: Apache-2.0
"""What functions of the library write to a FILE *, as text, and documents made of it."""
from __future__ import annotations

import ctypes
import functools
import json
from ctypes import byref
from typing import Any, Callable, Type

from . import _bindings as c
from ._advice_calls import Write, default
from ._rows import DocumentType
from .errors import OutOfMemoryError

WIDTH = 120  # columns of a table, as the command has it in a file


@functools.lru_cache(maxsize=None)
def libc() -> ctypes.CDLL:
    """The C library, with the types of the functions below."""
    library = ctypes.CDLL(None)
    library.open_memstream.restype = ctypes.c_void_p
    library.open_memstream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.fclose.argtypes = library.free.argtypes = [ctypes.c_void_p]
    library.free.restype = None
    return library


def text_of(write: Callable[[int], None]) -> str:
    """What `write` writes to the FILE * that it is called with."""
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = libc().open_memstream(byref(address), byref(size))
    if not stream:
        raise OutOfMemoryError("out of memory for a report")
    try:
        try:
            write(stream)
        finally:
            libc().fclose(stream)
        return ctypes.string_at(address, size.value).decode()
    finally:
        libc().free(address)


def report_options(form: int, verbose: bool, explain: bool) -> Any:
    options = default(c.hr_report_options)
    options.format, options.width, options.verbose, options.explain = form, WIDTH, verbose, explain
    return options


def document(kind: Type[DocumentType], write: Write, verbose: bool = False, explain: bool = False,
             page: bool = False) -> DocumentType:
    """The document of a report function: read from its JSON, with its table and, where it has one, its HTML page."""
    def of(form: int) -> str:
        return text_of(lambda out: write(out, byref(report_options(form, verbose, explain))))

    return kind.of_texts(json.loads(of(c.HR_FORMAT_JSON)), of(c.HR_FORMAT_TABLE),
                         of(c.HR_FORMAT_HTML) if page else None)
