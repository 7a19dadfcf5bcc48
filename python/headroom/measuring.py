# SPDX-License-Identifier: Apache-2.0
"""Measurements on a device of this machine: a call by its kernels, sweeps, and the rows of the store.

docs/measuring.md says how times are taken. Options are those of the commands `gemm`, `attention`, `decode`, `sweep` and
`results list`, with `_` for `-`; a path given as `db` saves rows there."""
from __future__ import annotations

import contextlib
import ctypes
from ctypes import byref
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, Literal, Mapping, Optional, Tuple, TypedDict, Union,
                    overload)

from . import _advice_calls as calls
from . import _bindings as c
from . import _options, documents
from ._interrupt import Interruptible
from ._library import advice as library
from ._library import call
from ._options import Path, Table, flag, number, text, whole
from ._text import document, libc
from .device import Device
from .errors import InvalidError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

ENERGY_BUDGET_S = 1  # a smaller budget leaves no time to measure energy
HEAD_DIM, LENGTH, PAGE_SIZE = 64, 1024, 16
LATENT_DIMS = (576, 512)  # of DeepSeek-V2 and V3: 512 of the latent and 64 of the rotary part
DECODE_KERNELS = b"decode_split"


class MeasureOptions(TypedDict, total=False):
    """`budget` in seconds. `probe` False: without measuring the device's rates first."""
    device: str
    dtype: str
    batch: int
    kernel: str
    warm: bool
    budget: float
    threads: int
    probe: bool
    save: bool
    db: Path


class GemmOptions(MeasureOptions, total=False):
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int
    broadcast_a: bool
    broadcast_b: bool
    bias: bool
    autotune: int


class HeadOptions(MeasureOptions, total=False):
    """`memory_limit` in MiB."""
    heads: int
    kv_heads: int
    k_heads: int
    v_heads: int
    head_dim: int
    v_head_dim: int
    q_len: int
    kv_len: int
    window: int
    scale: float
    softcap: float
    memory_limit: int


class AttentionOptions(HeadOptions, total=False):
    seq: int
    causal: bool
    alibi: bool
    backward: bool
    layout: str


class DecodeOptions(HeadOptions, total=False):
    top_k: int
    page_size: int
    kv_cache: str
    scales: str
    sinks: bool
    latent: bool
    batch_invariant: bool


class SweepOptions(TypedDict, total=False):
    """`time_limit` in seconds of a point, `memory_limit` in MiB, `shard` (number, of how many)."""
    device: str
    dtype: str
    kernel: str
    warm: bool
    threads: int
    probe: bool
    db: Path
    points: int
    shard: Tuple[int, int]
    again: bool
    seed: int
    autotune: int
    time_limit: float
    memory_limit: int


class ResultOptions(TypedDict, total=False):
    db: Path
    id: str
    sweep: str
    device: str
    status: str
    since: str
    last: int


GEMM: Table = {
    **{name: (name, whole) for name in ("m", "n", "k", "batch", "lda", "ldb", "ldc", "stride_a", "stride_b",
                                        "stride_c")},
    **{name: (name, flag) for name in ("transpose_a", "transpose_b", "broadcast_a", "broadcast_b", "bias")},
}
HEADS: Table = {
    **{name: (name, whole) for name in ("batch", "k_heads", "v_heads", "q_len", "kv_len", "window")},
    **{name: (name, number) for name in ("scale", "softcap")},
    "heads": ("q_heads", whole), "head_dim": ("qk_dim", whole), "v_head_dim": ("v_dim", whole),
}
GRADIENTS = "attention_backward"  # the operation of their kernels
ATTENTION: Table = {**HEADS, "causal": ("mask", flag), "alibi": ("alibi", flag)}
DECODE: Table = {
    **HEADS,
    **{name: (name, flag) for name in ("sinks", "latent", "batch_invariant")},
    "top_k": ("top_k", whole),
    "kv_cache": ("cache_format", _options.readable_kv_format),
    "scales": ("cache_scales", _options.choice("hr_kv_scales_name")),
}
SWEEP: Table = {
    **{name: (name, flag) for name in ("again", "warm", "probe")},
    "autotune": ("autotune", whole),
    "time_limit": ("time_limit_ns", lambda name, value: number(name, value) * 1e9),
    "memory_limit": ("memory_limit_bytes", lambda name, value: whole(name, value) << 20),
}


@overload
def measure(op: Literal["gemm"], **options: Unpack[GemmOptions]) -> documents.GemmRun: ...
@overload
def measure(op: Literal["attention"], **options: Unpack[AttentionOptions]) -> documents.AttentionRun: ...
@overload
def measure(op: Literal["decode"], **options: Unpack[DecodeOptions]) -> documents.DecodeRun: ...


def measure(op: str, **options: Any) -> Union[documents.GemmRun, documents.AttentionRun, documents.DecodeRun]:
    """One call, measured and checked on a device of this machine: "gemm" by the best kernel or the one asked for,
    "attention" and "decode" by every kernel of the device."""
    operations: Dict[str, Any] = {"gemm": (GemmOptions, gemm_of, measured_gemm),
                                  "attention": (AttentionOptions, attention_of, measured_attention),
                                  "decode": (DecodeOptions, decode_of, measured_decode)}
    if op not in operations:
        raise InvalidError(f"op: expected one of {', '.join(operations)}, found {op!r}")
    known, problem_of, measured = operations[op]
    given = _options.given(f"measure {op}", known, options)
    problem, kernel = problem_of(given), asked_kernel(given)
    with Session(given) as session:
        run: Union[documents.GemmRun, documents.AttentionRun, documents.DecodeRun] = measured(session, problem, kernel)
    return run


class Session:
    """An open device with its rates, and where rows are saved."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.interrupt = Interruptible()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        with contextlib.ExitStack() as stack:
            self.device = stack.enter_context(opened(self.options))
            saves = "db" in self.options or flag("save", self.options.get("save", False))
            self.store = stack.enter_context(written_store(self.options)) if saves else None
            stack.enter_context(self.interrupt)
            probe = flag("probe", self.options.get("probe", True))
            self.hardware = calls.measured_hardware(self.device, probe, self.interrupt.progress)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *why: Any) -> None:
        self._stack.__exit__(*why)

    def dtype(self) -> int:
        """The format of the operands, by default the device's."""
        return _options.dtype_of(self.options["dtype"]) if "dtype" in self.options else \
            calls.usual_dtype(self.hardware)

    def autotune(self) -> int:
        return whole("autotune", self.options["autotune"]) if "autotune" in self.options else 0

    def measurement(self, function: str, problem: Any, kernel: Optional[bytes], kernels: int, *further: Any) -> Any:
        """The hr_measurement of a call by one of `kernels` kernels, which share the budget."""
        options, measured = calls.default(c.hr_measure_options), c.hr_measurement()
        options.kernel, options.cancelled = kernel, self.interrupt.cancelled
        options.warm = flag("warm", self.options.get("warm", False))
        budget = number("budget", self.options.get("budget", 0))
        if budget > 0:
            options.time_limit_ns = budget * 1e9 / kernels
        options.energy = budget == 0 or budget >= ENERGY_BUDGET_S
        options.autotune = self.autotune()
        if "memory_limit" in self.options:
            options.memory_limit_bytes = whole("memory_limit", self.options["memory_limit"]) << 20
        call(getattr(library(), function), self.device.handle, byref(problem), *further, byref(options),
             byref(measured))
        return measured

    def save(self, kind: str, problem: Any, kernel: Optional[bytes], measured: Any) -> None:
        """Adds the row of a measurement to the store."""
        if self.store is None:
            return
        result = calls.default(c.hr_result)
        getattr(library(), f"hr_result_set_{kind}")(byref(result), byref(problem))
        calls.set_result(result, self.device, self.hardware, measured)
        result.kernel_asked, result.seed = kernel or b"", calls.default(c.hr_measure_options).seed
        result.autotune = self.autotune()
        call(library().hr_store_append, self.store, byref(result))


def opened(options: Mapping[str, Any]) -> Device:
    threads = whole("threads", options["threads"]) if "threads" in options else 0
    return Device(text("device", options.get("device", "cpu")), threads)


@contextlib.contextmanager
def store(options: Mapping[str, Any], mode: int, close: str) -> Iterator[Any]:
    """The store at `db`, or the default one."""
    path = text("db", options["db"]).encode() if "db" in options else None
    pointer = ctypes.c_void_p()
    call(library().hr_store_open, path, mode, byref(pointer))
    with calls.owned(getattr(library(), close), pointer):
        yield pointer


def written_store(options: Mapping[str, Any]) -> Any:
    """Without rows its file does not stay."""
    return store(options, c.HR_STORE_WRITE, "hr_store_abandon")


def gemm_of(options: Mapping[str, Any]) -> Any:
    for name in ("m", "n", "k"):
        if name not in options:
            raise InvalidError(f"{name}: is missing: a GEMM has m, n and k")
    gemm = calls.default(c.hr_gemm)
    _options.fill(gemm, GEMM, options)
    call(library().hr_gemm_check, byref(gemm))
    return gemm


def measured_gemm(session: Session, gemm: Any, kernel: Optional[bytes]) -> documents.GemmRun:
    gemm.dtype = session.dtype()
    measured = session.measurement("hr_measure_gemm", gemm, kernel, 1)
    session.save("gemm", gemm, kernel, measured)
    predicted = calls.prediction("hr_predict_gemm", session.hardware, gemm)
    runs = [c.hr_kernel_measurement(b"", measured)]
    return document(documents.GemmRun, calls.measured_call("hr_report_gemm", gemm, session.hardware, predicted, runs))


def asked_kernel(options: Mapping[str, Any]) -> Optional[bytes]:
    """The kernel asked for; an unknown name is refused with the nearest ones."""
    if "kernel" not in options:
        return None
    asked, kernels = text("kernel", options["kernel"]), all_kernels()
    if not any(library().hr_kernel_is(byref(each), asked.encode()) for each in kernels):
        names = [each.name.decode() for each in kernels]
        raise NotFoundError(f"kernel: there is no kernel {asked!r}{_options.nearest(asked, names)}")
    return asked.encode()


def all_kernels() -> List[Any]:
    length = ctypes.c_size_t()
    array = library().hr_kernels(byref(length))
    return [array[i] for i in range(length.value)]


def kernels_of(device: str, operation: str, asked: Optional[bytes], also: bool = False) -> List[bytes]:
    """The device's kernels for an operation, with `also` those of DECODE_KERNELS; or those of the family asked for."""
    found = [each.name for each in all_kernels()
             if each.device.decode() == device.split(":")[0] and
             (each.operation.decode() == operation or (also and each.name.startswith(DECODE_KERNELS))) and
             (asked is None or library().hr_kernel_is(byref(each), asked))]
    if not found:
        raise UnsupportedError(f"kernel: {device} has no such kernel for {operation}")
    return found


def fill_heads(problem: Any, table: Table, options: Mapping[str, Any], dims: Tuple[int, Optional[int]],
               kv_heads: Optional[int] = None) -> None:
    """Heads and head sizes, those not given as the command has them."""
    problem.q_heads, problem.qk_dim = 1, dims[0]
    _options.fill(problem, table, options)
    given = whole("kv_heads", options["kv_heads"]) if "kv_heads" in options else None
    if "k_heads" not in options:
        problem.k_heads = given or kv_heads or problem.q_heads
    if "v_heads" not in options:
        problem.v_heads = given or problem.k_heads
    if "v_head_dim" not in options:
        problem.v_dim = dims[1] or problem.qk_dim


def attention_of(options: Mapping[str, Any]) -> Any:
    attention = calls.default(c.hr_attention)
    attention.mask = c.HR_MASK_NONE
    fill_heads(attention, ATTENTION, options, (HEAD_DIM, None))
    length = whole("seq", options["seq"]) if "seq" in options else None
    if "q_len" not in options:
        attention.q_len = length or (attention.kv_len if "kv_len" in options else LENGTH)
    if "kv_len" not in options:
        attention.kv_len = length or attention.q_len
    call(library().hr_attention_check, byref(attention))
    if "layout" in options:
        layout = _options.one_of("layout", options["layout"], _options.names_of("hr_layout_name"))
        call(library().hr_attention_set_layout, byref(attention), layout)
    return attention


def measured_attention(session: Session, attention: Any, kernel: Optional[bytes]) -> documents.AttentionRun:
    attention.dtype = session.dtype()
    if attention.dtype == c.HR_FP8_E4M3:  # as it is used: a scale per head, and O in bf16
        attention.output, attention.head_scales = c.HR_OUTPUT_BF16, True
    if flag("backward", session.options.get("backward", False)):
        return measured_gradients(session, attention, kernel)
    decode, runs = as_decode(attention), []
    kernels = kernels_of(session.device.name, "attention", kernel, decode is not None)
    for each in kernels:
        kind, problem = ("decode", decode) if each.startswith(DECODE_KERNELS) else ("attention", attention)
        runs.append(kernel_run(session, kind, problem, each, len(kernels)))
    return document(documents.AttentionRun, calls.measured_call(
        "hr_report_attention", attention, session.hardware, predicted(session.hardware, attention, decode), runs))


def measured_gradients(session: Session, attention: Any, kernel: Optional[bytes]) -> documents.AttentionRun:
    kernels = kernels_of(session.device.name, GRADIENTS, kernel, False)
    runs = [kernel_run(session, GRADIENTS, attention, each, len(kernels), None) for each in kernels]
    return document(documents.AttentionRun, calls.measured_call(
        "hr_report_attention_backward", attention, session.hardware, predicted_gradients(session.hardware, attention),
        runs))


def predicted_gradients(hardware: Any, attention: Any) -> Any:
    """As predicted() of the call itself."""
    try:
        return calls.prediction("hr_predict_attention_backward", hardware, attention)
    except UnsupportedError:
        return None


def as_decode(attention: Any) -> Any:
    """The call as one of the decode kernels, of which a contiguous cache is K and V; None if it is none."""
    decode = calls.default(c.hr_decode)
    status = library().hr_decode_from_attention(byref(attention), byref(decode), None)
    return decode if status == c.HR_OK else None


def predicted(hardware: Any, attention: Any, decode: Any) -> Any:
    """The prediction by this library's kernels; None where there is none."""
    try:
        if decode is not None:
            return calls.prediction("hr_predict_decode", hardware, decode)
        return calls.prediction("hr_predict_attention_by", hardware, attention, c.HR_FRAMEWORK_HEADROOM)
    except UnsupportedError:
        return None


def kernel_run(session: Session, kind: str, problem: Any, kernel: bytes, kernels: int, *further: Any) -> Any:
    measured = session.measurement(f"hr_measure_{kind}", problem, kernel, kernels, *further)
    session.save(kind, problem, kernel, measured)
    return c.hr_kernel_measurement(kernel, measured)


def decode_of(options: Mapping[str, Any]) -> Any:
    latent = flag("latent", options.get("latent", False))
    if "scales" in options and options.get("kv_cache", "bf16") == "bf16":
        raise InvalidError("scales: needs kv_cache fp8 or int8")
    decode = calls.default(c.hr_decode)
    decode.kv_len = LENGTH
    fill_heads(decode, DECODE, options, LATENT_DIMS if latent else (HEAD_DIM, None), 1 if latent else None)
    page_size = _options.count("page_size", options.get("page_size", PAGE_SIZE))
    call(library().hr_decode_set_pages, byref(decode), page_size)
    call(library().hr_decode_check, byref(decode))
    return decode


def measured_decode(session: Session, decode: Any, kernel: Optional[bytes]) -> documents.DecodeRun:
    decode.dtype = session.dtype()
    kernels = kernels_of(session.device.name, "decode", kernel)
    runs = [kernel_run(session, "decode", decode, each, len(kernels)) for each in kernels]
    return document(documents.DecodeRun, calls.measured_call(
        "hr_report_decode", decode, session.hardware, predicted(session.hardware, None, decode), runs))


def sweep(name: Path, **options: Unpack[SweepOptions]) -> documents.SweepRun:
    """Measures the points of a sweep, a name of `headroom sweep list` or a file, that the store lacks; the rows of all
    its points."""
    known = _options.given("sweep", SweepOptions, options)
    with opened(known) as device, written_store(known) as rows_store, Interruptible() as interrupt:
        loaded, rows, how = ctypes.c_void_p(), ctypes.c_void_p(), sweep_options(known, device)
        how.progress = interrupt.sweep_progress
        call(library().hr_sweep_load, text("sweep", name).encode(), not device.name.startswith("cuda"), byref(loaded))
        with calls.owned(library().hr_sweep_free, loaded):
            call(library().hr_sweep_run, loaded, device.handle, rows_store, byref(how), None)
            call(library().hr_sweep_rows, loaded, device.handle, rows_store, byref(how), byref(rows))
            with calls.owned(libc().free, rows):
                array = ctypes.cast(rows, ctypes.POINTER(c.hr_sweep_row))
                about = c.hr_sweep_report(loaded, array, device.name.encode(), how.dtype)
                return document(documents.SweepRun, lambda out, form: call(library().hr_report_sweep, out, form,
                                                                           byref(about)))


def sweep_options(options: Mapping[str, Any], device: Device) -> Any:
    """Which points of a sweep are measured, and how."""
    how = calls.default(c.hr_sweep_options)
    how.probe = True
    _options.fill(how, SWEEP, options)
    _options.fill(how.choice, {"points": ("points", whole), "seed": ("seed", _options.count)}, options)
    if "shard" in options:
        how.choice.shard, how.choice.shards = _options.sizes("shard", options["shard"], 2, 2)
    how.kernel = asked_kernel(options)
    how.dtype = _options.dtype_of(options["dtype"]) if "dtype" in options else calls.detected_dtype(device)
    return how


def results(**options: Unpack[ResultOptions]) -> documents.Results:
    """The rows of the store, oldest first, that were measured as the options say."""
    known = _options.given("results", ResultOptions, options)
    chosen = calls.default(c.hr_result_filter)
    for name in ("id", "sweep", "device", "since"):
        if name in known:
            setattr(chosen, name, text(name, known[name]).encode())
    if "status" in known:
        chosen.status = _options.one_of("status", known["status"], _options.names_of("hr_status_name"))
        chosen.only_status = True
    if "last" in known:
        chosen.last = whole("last", known["last"])
    with store(known, c.HR_STORE_READ, "hr_store_close") as rows:
        return document(documents.Results, lambda out, form: call(library().hr_report_results, out, form, rows,
                                                                  byref(chosen)))
