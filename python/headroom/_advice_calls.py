# SPDX-License-Identifier: Apache-2.0
"""The calls of libheadroom-advice that make, pass or report an hr_hardware or an hr_advice."""
from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from ctypes import byref
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

from . import _bindings as c
from . import _library
from ._library import advice as library
from ._library import call
from .errors import OutOfMemoryError

Write = Callable[[int, Any], None]  # to a FILE *, by an hr_report_options


def default(struct: Any, *arguments: Any) -> Any:
    """A struct with the library's defaults."""
    return _library.default(library(), struct, *arguments)


class Hardware:
    """An hr_hardware, which calls take as it is, and which is freed with the last reference to it."""

    def __init__(self) -> None:
        self._as_parameter_ = library().hr_hardware_create()
        if not self._as_parameter_:
            raise OutOfMemoryError("out of memory for the figures of a device")
        weakref.finalize(self, library().hr_hardware_free, self._as_parameter_)


def resolved_hardware(name: str) -> Hardware:
    """A device by its name or file."""
    hardware = Hardware()
    call(library().hr_resolve_hardware, name.encode(), hardware)
    return hardware


def measured_hardware(device: Any, probe: bool, progress: Any) -> Hardware:
    """An open device, with its rates measured if `probe`."""
    if not probe:
        return resolved_hardware(device.name)
    hardware = Hardware()
    call(library().hr_resolve_probed, device.handle, progress, None, hardware)
    return hardware


def detected_dtype(device: Any) -> int:
    """The number format of an open device; of one without rates, as the reference, fp32."""
    hardware = Hardware()
    library().hr_device_detect(device.handle, hardware, None)
    return usual_dtype(hardware)


def set_conditions(hardware: Hardware, clock: int, cache: int) -> None:
    library().hr_hardware_set_conditions(hardware, clock, cache)


def set_network(hardware: Hardware, devices_per_node: int, bytes_per_s: float, latency_ns: float) -> None:
    call(library().hr_hardware_set_network, hardware, devices_per_node, bytes_per_s, latency_ns)


def usual_dtype(hardware: Hardware) -> int:
    return int(library().hr_hardware_usual_dtype(hardware))


def has_fused_attention(hardware: Hardware, dtype: int) -> bool:
    return bool(library().hr_hardware_has_fused_attention(hardware, dtype))


def subject_of(hardware: Optional[Hardware], model: Any, workload: Any) -> Any:
    subject = c.hr_subject(ctypes.pointer(model), ctypes.pointer(workload), address_of(hardware))
    subject.owner = hardware
    return subject


def address_of(hardware: Optional[Hardware]) -> Any:
    """For a member of a struct, which does not keep it."""
    return None if hardware is None else hardware._as_parameter_


def description(hardware: Optional[Hardware], model: Any, workload: Any, checkpoint: Any) -> Write:
    subject = subject_of(hardware, model, workload)
    return lambda out, options: call(library().hr_report_description, out, options, byref(subject), byref(checkpoint))


@contextlib.contextmanager
def owned(free: Any, pointer: Any) -> Iterator[Any]:
    """A pointer that a call has set, freed at the end."""
    try:
        yield pointer
    finally:
        free(pointer)


@contextlib.contextmanager
def advice(hardware: Hardware, model: Any, workload: Any, options: Any) -> Iterator[Any]:
    """An hr_advice."""
    pointer = ctypes.c_void_p()
    call(library().hr_advise_with, hardware, byref(model), byref(workload), byref(options), byref(pointer))
    with owned(library().hr_advice_free, pointer):
        yield pointer


@contextlib.contextmanager
def confirmation(device: Any, advised: Any, options: Any) -> Iterator[Any]:
    """The findings of an hr_advice, measured."""
    pointer = ctypes.c_void_p()
    call(library().hr_confirm, device.handle, advised, byref(options), byref(pointer))
    with owned(library().hr_confirmation_free, pointer):
        yield pointer


def advice_report(advised: Any, confirmed: Optional[Any]) -> Write:
    return lambda out, options: call(library().hr_report_advice, out, options, advised, confirmed)


@contextlib.contextmanager
def search(hardware: Hardware, model: Any, workload: Any, options: Any) -> Iterator[Write]:
    """The report of an hr_search_result."""
    pointer, subject = ctypes.c_void_p(), subject_of(hardware, model, workload)
    call(library().hr_search, hardware, byref(model), byref(workload), byref(options), byref(pointer))
    with owned(library().hr_search_result_free, pointer):
        yield lambda out, how: call(library().hr_report_search, out, how, byref(subject), pointer)


def set_engine(options: Any, engine: int, hardware: Hardware) -> None:
    """The defaults of a server in an hr_serve_options."""
    call(library().hr_serve_options_set_engine, byref(options), engine, hardware)


@contextlib.contextmanager
def serve_plan(hardware: Hardware, model: Any, workload: Any, options: Any) -> Iterator[Write]:
    """The report of an hr_serve_result."""
    pointer, subject = ctypes.c_void_p(), subject_of(hardware, model, workload)
    call(library().hr_serve_plan, hardware, byref(model), byref(workload), byref(options), byref(pointer))
    with owned(library().hr_serve_result_free, pointer):
        yield lambda out, how: call(library().hr_report_serve_plan, out, how, byref(subject), pointer)


@contextlib.contextmanager
def trace_file(path: str) -> Iterator[Tuple[Any, int]]:
    """The requests of a file, as an array and their number."""
    requests, size = ctypes.POINTER(c.hr_load_request)(), ctypes.c_size_t()
    call(library().hr_load_trace_file, os.fsencode(path), byref(requests), byref(size))
    with owned(library().hr_load_trace_free, requests):
        yield requests, size.value


@contextlib.contextmanager
def serve_load(hardware: Hardware, model: Any, workload: Any, serve: Any, load: Any) -> Iterator[Write]:
    """The report of an hr_load_result."""
    pointer, subject = ctypes.c_void_p(), subject_of(hardware, model, workload)
    call(library().hr_serve_load, byref(subject), byref(serve), byref(load), byref(pointer))
    with owned(library().hr_load_result_free, pointer):
        yield lambda out, how: call(library().hr_report_serve_load, out, how, byref(subject), pointer)


def prediction(predict: str, hardware: Hardware, problem: Any, *framework: int) -> Any:
    """The hr_prediction of a call."""
    predicted = c.hr_prediction()
    call(getattr(library(), predict), hardware, byref(problem), *framework, byref(predicted))
    return predicted


def measured_call(report: str, problem: Any, hardware: Hardware, predicted: Optional[Any],
                  runs: Sequence[Any]) -> Write:
    """The report of a call with the measurements of kernels."""
    array = (c.hr_kernel_measurement * max(len(runs), 1))(*runs)
    about = c.hr_measured_call(address_of(hardware), None if predicted is None else ctypes.pointer(predicted),
                               array, len(runs))
    about.owner = hardware
    return lambda out, options: call(getattr(library(), report), out, options, byref(problem), byref(about))


def set_result(result: Any, device: Any, hardware: Hardware, measurement: Any) -> None:
    """Device and measurement of a row of the store."""
    library().hr_result_set_device(byref(result), device.handle, hardware)
    library().hr_result_set_measurement(byref(result), byref(measurement), hardware)
