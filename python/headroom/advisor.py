# SPDX-License-Identifier: Apache-2.0
"""The commands about models as functions: what a model is, how fast it runs, what to change, how to serve it.

A model is a path, a name of a built-in model, a name in the local cache of the Hugging Face hub, the content of a
config.json, a transformers.PretrainedConfig or a module with one. Options are the command's, with `_` for `-`."""
from __future__ import annotations

import contextlib
import os
from ctypes import byref, pointer
from typing import TYPE_CHECKING, Any, ContextManager, Mapping, Optional, Tuple

from . import _advice_calls as calls
from . import _bindings as c
from . import _models, _options, documents
from ._interrupt import Interruptible
from ._library import advice as library
from ._library import call
from ._models import ModelLike
from ._options import AdviseOptions, LoadOptions, PredictOptions, SearchOptions, ServeOptions, StepOptions
from ._text import document
from .device import Device
from .errors import InvalidError

if TYPE_CHECKING:
    from typing_extensions import Unpack

SECOND_NS = 1e9
NONE = c.HR_DTYPE_COUNT  # no number format


def describe(model: ModelLike, **options: Unpack[StepOptions]) -> documents.Description:
    """Parameters, memory and operators of a step; with a device also what fits on it."""
    known = _options.given("describe", StepOptions, options)
    read, name = read_model(model, known)
    files = _models.checkpoint(name)
    hardware = device_of(known, None)
    workload = workload_of(known, read, hardware)
    return document(documents.Description, calls.description(hardware, read, workload, files), verbose(known))


def predict(model: ModelLike, **options: Unpack[PredictOptions]) -> documents.Advice:
    """The predicted step alone: what advise() returns, without findings."""
    known = _options.given("predict", PredictOptions, options)
    return advised(model, {**known, "ignore": _options.rules()})


def advise(model: ModelLike, **options: Unpack[AdviseOptions]) -> documents.Advice:
    """What to change about a model's shape, and what that gains; with `measure` also as measured on this machine."""
    return advised(model, _options.given("advise", AdviseOptions, options))


def search(model: ModelLike, **options: Unpack[SearchOptions]) -> documents.SearchResult:
    """Faster shapes with about as many parameters."""
    known = _options.given("search", SearchOptions, options)
    read, hardware, workload = subject(model, known)
    bounds = calls.default(c.hr_search_options)
    _options.fill_search(bounds, known)
    with Interruptible() as interrupt:
        bounds.progress = interrupt.progress
        with calls.search(hardware, read, workload, bounds) as write:
            return document(documents.SearchResult, write, verbose(known), page=True)


def serve_plan(model: ModelLike, **options: Unpack[ServeOptions]) -> documents.ServePlan:
    """Latency, throughput and cost of serving a model."""
    known = _options.given("serve_plan", ServeOptions, options)
    read, hardware, workload, plan = serving(model, known)
    with calls.serve_plan(hardware, read, workload, plan) as write:
        return document(documents.ServePlan, write, verbose(known))


def serve_load(model: ModelLike, **options: Unpack[LoadOptions]) -> documents.ServeLoad:
    """What requests wait for and take on a server under a load, simulated."""
    known = _options.given("serve_load", LoadOptions, options)
    load = calls.default(c.hr_load_options)
    if known.get("disaggregated"):
        load.instances = load.prefill_instances = 0  # the fewest, as the command has it
    for name, least in (("prompt", "prompt_min"), ("output", "output_min")):
        if name in known:
            low, high, step = _options.least_most_step(name, known[name])
            if step:
                raise InvalidError(f"{name}: a range without a step, found {known[name]!r}")
            setattr(load, least, low)
            known[name] = high
    if ("draft" in known) != ("accept" in known):
        raise InvalidError("draft and accept need each other")
    _options.fill(load, _options.LOAD, known)
    if "draft_model" in known:
        load.kept, _ = read_model(known["draft_model"], {})
        load.draft_model = pointer(load.kept)
    read, hardware, workload, plan = serving(model, known)
    load.prompt_min, load.prompt_max = load.prompt_min or plan.prompt_tokens, plan.prompt_tokens
    load.output_min, load.output_max = load.output_min or plan.output_tokens, plan.output_tokens
    with requests_of(known) as (load.trace, load.trace_count), \
            calls.serve_load(hardware, read, workload, plan, load) as write:
        return document(documents.ServeLoad, write, verbose(known))


def requests_of(options: Mapping[str, Any]) -> ContextManager[Tuple[Any, int]]:
    """The trace of the options."""
    trace = options.get("trace")
    if trace is None:
        return contextlib.nullcontext((None, 0))
    for name in ("prompt", "output", "requests"):
        if name in options:
            raise InvalidError(f"{name}: a trace has its own lengths and number of requests")
    if isinstance(trace, (str, os.PathLike)):
        return calls.trace_file(os.fspath(trace))
    if not isinstance(trace, (list, tuple)) or not all(isinstance(each, (list, tuple)) and len(each) == 3 for each in trace):
        raise InvalidError(f"trace: expected a file or a list of (arrival in seconds, prompt, output), found {trace!r:.80}")
    rows = [(_options.number("trace", arrival) * SECOND_NS, _options.whole("trace", prompt), _options.whole("trace", output))
            for arrival, prompt, output in trace]
    return contextlib.nullcontext(((c.hr_load_request * len(rows))(*rows), len(rows)))


def serving(model: ModelLike, known: Mapping[str, Any]) -> Tuple[Any, Any, Any, Any]:
    """Model, device, step, and an hr_serve_options."""
    plan = calls.default(c.hr_serve_options)
    read, hardware, workload = subject(model, {name: value for name, value in known.items() if name != "batch"})
    engine = _options.choice("hr_serve_engine_name")("engine", engine_of(known))
    calls.set_engine(plan, engine, hardware)
    _options.fill(plan, _options.SERVE, known)
    set_prices(plan, known)
    if "prefill_device" in known:
        prefill = with_conditions(known, calls.resolved_hardware(_options.text("prefill_device", known["prefill_device"])))
        plan.prefill_hardware, plan.kept = prefill._as_parameter_, prefill
    left = read.max_positions - plan.output_tokens
    if "prompt" not in known and 0 < left < plan.prompt_tokens:
        plan.prompt_tokens = left
    return read, hardware, workload, plan


def engine_of(known: Mapping[str, Any]) -> str:
    """The engine's name, which is that of a server whose step is predicted, or "none"."""
    framework = known.get("framework")
    server = framework if framework in ("vllm", "sglang", "trtllm") else None
    engine = known.get("engine", server or "vllm")
    if server and engine not in (server, "none"):
        raise InvalidError(f"framework: {server} beside engine {engine!r}, another server")
    return engine


def set_prices(plan: Any, known: Mapping[str, Any]) -> None:
    """One price, or with a device of their own those of the devices that decode and that prefill."""
    prices = known.get("price", 0)
    if not isinstance(prices, (list, tuple)):
        prices = [prices]
    if len(prices) > (2 if "prefill_device" in known else 1) or not prices:
        raise InvalidError(f"price: expected one, or with prefill_device two, found {known['price']!r}")
    plan.price_per_device_hour = _options.number("price", prices[0])
    plan.prefill_price_per_device_hour = _options.number("price", prices[-1]) if len(prices) > 1 else 0


def advised(model: ModelLike, options: Mapping[str, Any]) -> documents.Advice:
    choice = _options.advise_options(calls.default(c.hr_advise_options), options)
    if _options.flag("measure", options.get("measure", False)):
        return confirmed(model, options, choice)
    for name in ("budget", "threads", "probe"):
        if name in options:
            raise InvalidError(f"{name}: needs measure")
    read, hardware, workload = subject(model, options)
    with calls.advice(hardware, read, workload, choice) as advice:
        return advice_document(options, calls.advice_report(advice, None))


def confirmed(model: ModelLike, options: Mapping[str, Any], choice: Any) -> documents.Advice:
    """The advice about Headroom's own kernels on a device of this machine, measured there. Operands are not
    quantized."""
    if options.get("framework", "headroom") != "headroom":
        raise InvalidError("framework: Headroom's own kernels are measured, so the prediction is of \"headroom\"")
    options = {**options, "framework": "headroom", "weights": "bf16", "kv_cache": "bf16"}
    read, _ = read_model(model, options)
    with Device(_options.text("device", options.get("device", "cpu")), threads_of(options)) as device, \
            Interruptible() as interrupt:
        probe = _options.flag("probe", options.get("probe", True))
        hardware = with_conditions(options, calls.measured_hardware(device, probe, interrupt.progress))
        workload = workload_of(options, read, hardware)
        limits = calls.default(c.hr_confirm_options)
        limits.budget_ns = _options.number("budget", options.get("budget", 0)) * SECOND_NS
        limits.progress = interrupt.progress
        with calls.advice(hardware, read, workload, choice) as advice, \
                calls.confirmation(device, advice, limits) as confirmation:
            return advice_document(options, calls.advice_report(advice, confirmation))


def advice_document(options: Mapping[str, Any], write: calls.Write) -> documents.Advice:
    explain = _options.flag("explain", options.get("explain", False))
    return document(documents.Advice, write, verbose(options), explain, page=True)


def subject(model: ModelLike, options: Mapping[str, Any]) -> Tuple[Any, Any, Any]:
    """Model, device and step."""
    read, _ = read_model(model, options)
    hardware = device_of(options, "cpu")
    workload = workload_of(options, read, hardware)
    if workload.phase == c.HR_PHASE_TRAIN:
        _models.set_weights(read, "weights", "bf16")  # a step trains in 16 bits, whatever a checkpoint has
    return read, hardware, workload


def verbose(options: Mapping[str, Any]) -> bool:
    return _options.flag("verbose", options.get("verbose", False))


def threads_of(options: Mapping[str, Any]) -> int:
    return _options.whole("threads", options["threads"]) if "threads" in options else 0


def asks_for_fp8(options: Mapping[str, Any]) -> bool:
    """fp8 is then the format of weights, K and V, in training of linear layers' GEMMs; a measurement has operands of it."""
    return dtype_of(options) == c.HR_FP8_E4M3 and not options.get("measure")


def dtype_of(options: Mapping[str, Any]) -> int:
    return _options.dtype_of(options["dtype"]) if "dtype" in options else NONE


def read_model(model: ModelLike, options: Mapping[str, Any]) -> Tuple[Any, str]:
    """An hr_model with the formats of the options, and the name of its checkpoint."""
    read, name = _models.read(model)
    if "weights" in options:
        _models.set_weights(read, "weights", options["weights"])
    if asks_for_fp8(options):
        phase = _options.WORKLOAD["phase"][1]("phase", options.get("phase", "forward"))
        if phase == c.HR_PHASE_TRAIN:
            return read, name
        call(library().hr_model_store_in_fp8, byref(read), phase, "weights" not in options, "kv_cache" not in options)
    return read, name


def device_of(options: Mapping[str, Any], otherwise: Optional[str]) -> Any:
    """The device of the options; None if there is none."""
    name = options.get("device", otherwise)
    return None if name is None else with_conditions(options, calls.resolved_hardware(_options.text("device", name)))


def with_conditions(options: Mapping[str, Any], hardware: Any) -> Any:
    """The device with clock, cache and network of the options."""
    clock, cache = (_options.one_of(name, options.get(name, first), _options.names_of(f"hr_{name}_name"))
                    for name, first in (("clock", "settled"), ("cache", "cold")))
    calls.set_conditions(hardware, clock, cache)
    devices = _options.whole("devices_per_node", options["devices_per_node"]) if "devices_per_node" in options else 0
    latency = _options.number("network_latency", options["network_latency"]) if "network_latency" in options else -1
    calls.set_network(hardware, devices, _options.number("network", options.get("network", 0)) * 1e9, latency * 1e3)
    return hardware


def workload_of(options: Mapping[str, Any], model: Any, hardware: Optional[Any]) -> Any:
    """The step of the options, whose number format is by default the device's."""
    workload = calls.default(c.hr_workload, byref(model))
    _options.fill(workload, _options.WORKLOAD, options)
    if "context" not in options:
        workload.context = workload.sequence
    elif workload.phase != c.HR_PHASE_DECODE:
        raise InvalidError("context: needs the phase decode")
    workload.fp8_linears = workload.phase == c.HR_PHASE_TRAIN and asks_for_fp8(options)
    dtype = NONE if asks_for_fp8(options) else dtype_of(options)
    if dtype != NONE:
        workload.dtype = dtype
    elif hardware is not None:
        workload.dtype = calls.usual_dtype(hardware)
    if "attention" not in options and hardware is not None and not calls.has_fused_attention(hardware, workload.dtype):
        workload.attention = c.HR_ATTENTION_UNFUSED
    call(library().hr_workload_check, byref(workload), byref(model))
    return workload
