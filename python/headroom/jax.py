# SPDX-License-Identifier: Apache-2.0
"""Attention as a function of JAX, on CPUs and NVIDIA GPUs: forward, under jit and vmap.

JAX calls a handler of XLA's foreign function interface; here it is Python's, so that nothing is compiled for a jaxlib.
The structs are those of xla/ffi/api/c_api.h, versions 0.3 and 0.4, in the packages jaxlib 0.10 and 0.11."""
from __future__ import annotations

import ctypes
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import jax
import numpy
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero

from . import _bindings as c
from . import _problem as problem
from ._library import call, error_address, fail, kernels
from ._problem import Layout, Softmax
from .device import Device, default_device
from .errors import InvalidError, UnavailableError, UnsupportedError

Result = Union[jax.Array, Tuple[jax.Array, jax.Array]]
Numbers = Tuple[bool, float, int, float]  # causal, scale (0: the usual one), window, soft cap
NAME = "headroom_attention"
DTYPES = {10: (c.HR_FP16, 2), 11: (c.HR_FP32, 4), 16: (c.HR_BF16, 2)}  # XLA_FFI_DataType: ours, bytes
VERSION = (0, 4)
EXECUTE, METADATA, INVALID_ARGUMENT, ARRAY_F64 = 3, 1, 3, 12


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool = False, scale: Optional[float] = None,
              window: int = 0, softcap: float = 0.0, return_lse: bool = False) -> Result:
    """softmax(scale · Q Kᵀ) V per query head, as headroom.torch.attention(). Arrays are [batch, length, heads, dim] of
    float32, float16 or bfloat16. With return_lse also the log-sum-exp [batch, heads, length], which has no gradient of
    its own."""
    layouts = [Layout(tuple(x.shape), problem.packed(tuple(x.shape))) for x in (q, k, v)]
    softmax = Softmax(causal, scale, window, softcap, False)
    if q.ndim != 4:
        raise InvalidError(f"attention: q has {q.ndim} dimensions; expected 4")
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise InvalidError(f"attention: {name} is {array.dtype}, and q is {q.dtype}")
    problem.expect_sizes("attention", *layouts)
    problem.expect_numbers("attention", softmax)
    return differentiable((causal, scale or 0, window, softcap), bool(return_lse), q, k, v)


def computed(softmax: Numbers, return_lse: bool, q: jax.Array, k: jax.Array, v: jax.Array) -> Result:
    batch, length, heads, _ = q.shape
    results = [jax.ShapeDtypeStruct((batch, length, heads, v.shape[3]), q.dtype)]
    results += [jax.ShapeDtypeStruct((batch, heads, length), numpy.float32)] * return_lse
    found = called(results, softmax, q, k, v)
    return tuple(found) if return_lse else found[0]


def called(results: List[jax.ShapeDtypeStruct], softmax: Numbers, *operands: jax.Array) -> List[jax.Array]:
    function = jax.ffi.ffi_call(NAME, tuple(results), vmap_method="sequential")
    return list(function(*operands, softmax=numpy.array(softmax, numpy.float64)))


# ---- gradients ----


def forward(softmax: Numbers, return_lse: bool, *operands: CustomVJPPrimal) -> Tuple[Result, Tuple[jax.Array, ...]]:
    """The result, and what its gradients are made of."""
    q, k, v = (each.value for each in operands)
    o, lse = computed(softmax, True, q, k, v)
    return (o, lse) if return_lse else o, (q, k, v, o, lse)


def backward(softmax: Numbers, return_lse: bool, kept: Tuple[jax.Array, ...], given) -> Tuple[jax.Array, ...]:
    d_o, d_lse = given if return_lse else (given, None)
    if return_lse and not isinstance(d_lse, SymbolicZero):
        raise UnsupportedError("attention: the log-sum-exp has no gradient of its own; use jax.lax.stop_gradient()")
    if isinstance(d_o, SymbolicZero):
        return tuple(jax.numpy.zeros_like(x) for x in kept[:3])
    return tuple(called([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in kept[:3]], softmax, *kept, d_o))


differentiable = jax.custom_vjp(computed, nondiff_argnums=(0, 1))
differentiable.defvjp(forward, backward, symbolic_zeros=True)


# ---- structs of the interface ----


class Head(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p)]


class Extension(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p)]


class ApiVersion(Head):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int)]


class Metadata(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version", ApiVersion), ("traits", ctypes.c_uint32)]


class MetadataExtension(Extension):
    _fields_ = [("metadata", ctypes.POINTER(Metadata))]


class Buffer(Head):
    _fields_ = [("dtype", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64),
                ("dims", ctypes.POINTER(ctypes.c_int64))]


class Values(Head):
    """Arguments or results."""
    _fields_ = [("size", ctypes.c_int64), ("types", ctypes.c_void_p),
                ("buffers", ctypes.POINTER(ctypes.POINTER(Buffer)))]


class Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("size", ctypes.c_size_t), ("data", ctypes.POINTER(ctypes.c_double))]


class Attributes(Head):
    _fields_ = [("size", ctypes.c_int64), ("types", ctypes.c_void_p), ("names", ctypes.c_void_p),
                ("arrays", ctypes.POINTER(ctypes.POINTER(Array)))]


MOST_ALIGNMENT = 16  # that XLA allows; its memory on GPUs is aligned to more
FUNCTIONS = ("error_create", "error_message", "error_destroy", "handler_register", "stream_get", "type_register",
             "context_get", "state_set", "state_get", "memory_allocate", "memory_free", "pool_schedule", "pool_threads",
             "future_create", "future_available", "future_error", "run_id_get", "device_ordinal_get")
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Api(Head):
    _fields_ = [("version", ApiVersion), ("internal", ctypes.c_void_p), *((name, FUNCTION) for name in FUNCTIONS)]


class CallFrame(Head):
    _fields_ = [("api", ctypes.POINTER(Api)), ("context", ctypes.c_void_p), ("stage", ctypes.c_int),
                ("arguments", Values), ("results", Values), ("attributes", Attributes)]


class ErrorArguments(Head):
    _fields_ = [("message", ctypes.c_char_p), ("code", ctypes.c_int)]


class FreeError(Head):
    _fields_ = [("error", ctypes.c_void_p)]


class StreamArguments(Head):
    _fields_ = [("context", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class OrdinalArguments(Head):
    _fields_ = [("context", ctypes.c_void_p), ("ordinal", ctypes.c_int32)]


class AllocateArguments(Head):
    _fields_ = [("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("alignment", ctypes.c_size_t),
                ("data", ctypes.c_void_p)]


class FreeArguments(Head):
    _fields_ = [("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


def asked(frame: CallFrame, name: str, arguments: Head) -> Head:
    """Calls a function of the interface. Its errors are rare, and named by the function."""
    arguments.struct_size = ctypes.sizeof(arguments)
    if frame.api.contents.struct_size < getattr(Api, name).offset + ctypes.sizeof(FUNCTION):
        raise UnavailableError(f"attention: this jaxlib has no {name}")
    error = getattr(frame.api.contents, name)(ctypes.addressof(arguments))
    if error:
        destroyed = FreeError(error=error)
        destroyed.struct_size = ctypes.sizeof(destroyed)
        frame.api.contents.error_destroy(ctypes.addressof(destroyed))
        raise UnavailableError(f"attention: XLA's {name} failed")
    return arguments


# ---- the handler ----


def handler(on_gpu: bool):
    """The function that XLA calls with the address of a call frame; it returns an error or NULL."""
    def handle(address: int) -> Optional[int]:
        frame = CallFrame.from_address(address)
        if frame.extension:
            return describe(frame)
        if frame.stage != EXECUTE:
            return None
        try:
            (run_on_gpu if on_gpu else run_on_cpu)(frame, described(frame))
        except Exception as error:  # pylint: disable=broad-except
            made = ErrorArguments(message=str(error).encode(), code=INVALID_ARGUMENT)
            made.struct_size = ctypes.sizeof(made)
            return frame.api.contents.error_create(ctypes.addressof(made))
        return None
    return FUNCTION(handle)


def describe(frame: CallFrame) -> None:
    """Writes the version whose structs these are into the metadata that XLA asks for."""
    extension = MetadataExtension.from_address(frame.extension)
    if extension.type == METADATA:
        version = extension.metadata.contents.version
        own = frame.api.contents.version if frame.api else version
        version.major, version.minor = VERSION[0], min(VERSION[1], own.minor) if own.major == VERSION[0] else VERSION[1]
        extension.metadata.contents.traits = 0


class Run(NamedTuple):
    """A call: the functions that find and run its plan, the structs that they take."""
    find: Callable
    start: Callable
    problems: Tuple[bytes, ...]
    arguments: bytes


def described(frame: CallFrame) -> Run:
    """A call of Q, K and V gives O, one of these, O, the log-sum-exp and dO their gradients."""
    q, k, v, *kept = buffers(frame.arguments)
    results = buffers(frame.results)
    o = kept[0] if kept else results[0]
    causal, scale, window, softcap = softmax_of(frame.attributes)
    if q.dtype not in DTYPES:
        raise InvalidError("attention: expected float32, float16 or bfloat16")
    dtype, element = DTYPES[q.dtype]
    layouts = [layout(x) for x in (q, k, v, o)]
    places = [x.data or 0 for x in (q, k, v, *kept, *results)]
    found = problem.attention("attention", dtype, problem.alignment_of(element, *places),
                              *layouts, Softmax(bool(causal), scale or None, int(window), softcap, False))
    if not kept:
        return Run(kernels().hr_plans_attention, kernels().hr_plan_run_attention, (found,),
                   problem.attention_arguments(*places[:4], places[4] if len(results) > 1 else None, None))
    operands = (*places[:4], places[5], places[4])
    return Run(kernels().hr_plans_attention_backward, kernels().hr_plan_run_attention_backward,
               (found, problem.attention_backward(layout(kept[2]), False, False)),
               problem.attention_backward_arguments(operands, tuple(places[6:]), *(None,) * 6))


def buffers(values: Values) -> List[Buffer]:
    return [values.buffers[i].contents for i in range(values.size)]


def layout(buffer: Buffer) -> Layout:
    shape = tuple(buffer.dims[i] for i in range(buffer.rank))
    return Layout(shape, problem.packed(shape))


def softmax_of(attributes: Attributes) -> List[float]:
    array = attributes.arrays[0].contents
    if attributes.size != 1 or array.dtype != ARRAY_F64 or array.size != 4:
        raise InvalidError("attention: expected one attribute of four float64")
    return array.data[:4]


def run_on_cpu(_: CallFrame, run: Run) -> None:
    default_device().run(run.find, run.problems[0], run.start, run.arguments, *run.problems[1:])


def run_on_gpu(frame: CallFrame, run: Run) -> None:
    """Starts the call on XLA's stream, with a workspace of XLA's."""
    device = gpu(asked(frame, "device_ordinal_get", OrdinalArguments(context=frame.context)).ordinal)
    stream = asked(frame, "stream_get", StreamArguments(context=frame.context)).stream
    plan = ctypes.c_void_p()
    call(run.find, device.plans, *run.problems, ctypes.byref(plan))
    try:
        size = kernels().hr_plan_workspace_bytes(plan)
        if not size:
            start(run, plan, None, stream)
            return
        in_workspace(frame, device, max(size, c.HR_WORKSPACE_COUNTER_BYTES), stream, plan, run)
    finally:
        kernels().hr_plan_free(plan)


def in_workspace(frame: CallFrame, device: Device, size: int, stream: Optional[int], plan: ctypes.c_void_p,
                 run: Run) -> None:
    wanted = AllocateArguments(context=frame.context, size=size, alignment=MOST_ALIGNMENT)
    memory = asked(frame, "memory_allocate", wanted).data
    try:
        call(kernels().hr_workspace_clear, device.handle, memory, stream)
        start(run, plan, memory, stream)
    finally:
        asked(frame, "memory_free", FreeArguments(context=frame.context, size=size, data=memory))


def start(run: Run, plan: ctypes.c_void_p, workspace: Optional[int], stream: Optional[int]) -> None:
    status = run.start(plan, run.arguments, workspace, stream, error_address())
    if status:
        fail(status)


_gpus: Dict[int, Device] = {}


def gpu(ordinal: int) -> Device:
    """A GPU in its primary context, which is JAX's. Never closed."""
    if ordinal not in _gpus:
        _gpus[ordinal] = Device(f"cuda:{ordinal}")
        _gpus[ordinal].keep_open()
    return _gpus[ordinal]


HANDLERS = {"cpu": handler(False), "CUDA": handler(True)}
for _platform, _handler in HANDLERS.items():
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(_handler), platform=_platform)
