# SPDX-License-Identifier: Apache-2.0
"""Keyword options: the command's, with `_` for `-`. Each is read into a member of a struct; what the library reads by
itself, such as how sizes fit together, is not checked here."""
from __future__ import annotations

import ctypes
import numbers
import operator
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Sequence, Tuple, TypedDict, Union

from . import _bindings as c
from ._library import advice as library
from .errors import InvalidError

if TYPE_CHECKING:
    from ._models import ModelLike

Path = Union[str, "os.PathLike[str]"]
Names = Union[str, Sequence[str]]
Range = Union[int, Tuple[int, int], Tuple[int, int, int]]
Reader = Callable[[str, Any], Any]


class DeviceOptions(TypedDict, total=False):
    """`network` in GB/s, `network_latency` in microseconds. `verbose` is of what is printed."""
    device: Path
    network: float
    network_latency: float
    devices_per_node: int
    clock: str
    cache: str
    verbose: bool


class StepOptions(DeviceOptions, total=False):
    """The step of a model, as `headroom describe --help` explains."""
    batch: int
    seq: int
    tensor_parallel: int
    pipeline_stages: int
    virtual_stages: int
    expert_parallel: int
    expert_imbalance: float
    sequence_parallel: bool
    context_parallel: int
    data_parallel: int
    zero: int
    overlap: float
    recompute: str
    dropout: str
    microbatches: int
    phase: str
    context: int
    attention: str
    framework: str
    flash_attention: str
    dtype: str
    weights: str
    kv_cache: str
    page_size: int


class PredictOptions(StepOptions, total=False):
    """`explain`: print also each operator's time as a sum of its terms."""
    explain: bool


class AdviseOptions(PredictOptions, total=False):
    """As `headroom advise --help`; `budget` in seconds. `probe` False: measure without probing the device's rates."""
    nodes: int
    only: Names
    ignore: Names
    design: bool
    trained: bool
    measure: bool
    budget: float
    threads: int
    probe: bool


class SearchOptions(StepOptions, total=False):
    """As `headroom search --help`; a range is one value, (least, most) or (least, most, step)."""
    param_band: float
    vary: Names
    keep: Names
    serve_on: Sequence[int]
    hidden: Range
    layers: Range
    heads: Range
    head_sizes: Sequence[int]
    head_dim: Range
    mlp_width: Range
    vocab_multiple: int
    keep_vocabulary: bool
    kv_ratio: int
    allow_uneven: bool
    limit: int
    max_shapes: int


class ServeOptions(DeviceOptions, total=False):
    """As `headroom serve-plan --help` without a load; `ttft` and `tpot` in seconds, `reserve` in GiB, `price` also of both
    devices where others prefill."""
    tensor_parallel: int
    expert_parallel: int
    expert_imbalance: float
    framework: str
    dtype: str
    weights: str
    kv_cache: str
    prompt: int
    output: int
    ttft: float
    tpot: float
    price: Union[float, Tuple[float, float]]
    devices: int
    batch: int
    max_batch: int
    prefill_tokens: int
    engine: str
    memory_share: float
    page_size: int
    uniform_pages: bool
    reserve: float
    pipeline_stages: int
    disaggregated: bool
    prefill_device: str
    prefill_tensor_parallel: int
    sure: int
    recommend: float


class LoadOptions(ServeOptions, total=False):
    """As `headroom serve-plan --help` under a load: one of `rate`, `clients` and `trace`, a file or a sequence of
    (arrival in seconds, prompt, output). `prompt` and `output` are a number or (least, most)."""
    rate: float
    clients: int
    trace: Union[str, "os.PathLike[str]", Sequence[Tuple[float, int, int]]]
    requests: int
    prompt: Range  # type: ignore[misc]
    output: Range  # type: ignore[misc]
    cached: float
    draft: int
    draft_model: ModelLike
    accept: float
    prefill_wait: int
    instances: int
    prefill_instances: int
    seed: int


def given(what: str, known: Any, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options that are not None; a name that `known`, a TypedDict, lacks is refused with the nearest ones."""
    names: List[str] = list(known.__annotations__)
    for name in options:
        if name not in names:
            raise InvalidError(f"{what}: there is no option {name!r}{nearest(name, names)}")
    return {name: value for name, value in options.items() if value is not None}


def nearest(wanted: str, names: Sequence[str]) -> str:
    """"; did you mean a or b?", or nothing."""
    array, text = (ctypes.c_char_p * len(names))(*(name.encode() for name in names)), ctypes.create_string_buffer(256)
    library().hr_suggest_names(wanted.encode(), array, len(names), text, len(text))
    return text.value.decode()


def whole(name: str, value: Any) -> int:
    """A number that fits the library's integers. 0 stands for an option that was not given there, and a size is 1 or
    more."""
    return whole_from(1, name, value)


def count(name: str, value: Any) -> int:
    return whole_from(0, name, value)


def whole_from(least: int, name: str, value: Any) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number < 2**63:
        raise InvalidError(f"{name}: expected a whole number from {least} on, found {value!r}")
    return number


def number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < float("inf"):
        raise InvalidError(f"{name}: expected a number from 0 on, found {value!r}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    if value not in (True, False):
        raise InvalidError(f"{name}: expected True or False, found {value!r}")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A name or a path that C can have."""
    try:
        found = os.fspath(value)
    except TypeError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise InvalidError(f"{name}: expected a name, found {value!r}")
    return found


def names_of(function: str) -> List[str]:
    """The names of an enumeration, by the function that names its values; a value is its place."""
    found: List[str] = []
    while (name := getattr(library(), function)(len(found)).decode()) != "unknown":
        found.append(name)
    return found


def one_of(name: str, value: Any, names: Sequence[str]) -> int:
    """The place of a name."""
    if value not in names:
        raise InvalidError(f"{name}: expected one of {', '.join(names)}, found {value!r}")
    return names.index(value)


def choice(function: str) -> Reader:
    return lambda name, value: one_of(name, value, names_of(function))


def kv_format(name: str, value: Any) -> int:
    return one_of(name, value, ["bf16", *names_of("hr_kv_format_name")[1:]])  # bf16: as the other operands


def readable_kv_format(name: str, value: Any) -> int:
    """Of the formats of a cache, those that kernels read."""
    return one_of(name, value, ["bf16", *names_of("hr_kv_format_name")[1 : c.HR_KV_READABLE_COUNT]])


def bits(name: str, value: Names, names: Sequence[str]) -> int:
    """A set of names, in a list or with commas between, as bits of their places."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple, set, frozenset)):
        raise InvalidError(f"{name}: expected names, found {value!r}")
    return sum(1 << place for place in {one_of(name, each, names) for each in listed})


def sizes(name: str, value: Sequence[int], most: int, least: int = 1) -> List[int]:
    if not isinstance(value, (list, tuple)) or not least <= len(value) <= most:
        raise InvalidError(f"{name}: expected a list of {least} to {most} numbers, found {value!r}")
    return [whole(name, each) for each in value]


def least_most_step(name: str, value: Range) -> List[int]:
    """A range; the step is 0 if it is not given."""
    values = [value, value] if not isinstance(value, (list, tuple)) else list(value)
    if len(values) not in (2, 3):
        raise InvalidError(f"{name}: expected a number, (least, most) or (least, most, step), found {value!r}")
    read = [whole(name, each) for each in values]
    if read[0] > read[1]:
        raise InvalidError(f"{name}: the least, {read[0]}, is above the most, {read[1]}")
    return [*read, 0][:3]


Table = Dict[str, Tuple[str, Reader]]  # of an option, the member and what reads it

WORKLOAD: Table = {
    "batch": ("batch", whole),
    "seq": ("sequence", whole),
    "tensor_parallel": ("tensor_parallel", whole),
    "pipeline_stages": ("pipeline_stages", whole),
    "virtual_stages": ("virtual_stages", whole),
    "expert_parallel": ("expert_parallel", whole),
    "expert_imbalance": ("expert_imbalance", number),
    "sequence_parallel": ("sequence_parallel", flag),
    "context_parallel": ("context_parallel", whole),
    "data_parallel": ("data_parallel", whole),
    "zero": ("zero_stage", count),
    "overlap": ("overlap", number),
    "recompute": ("recompute", choice("hr_recompute_name")),
    "dropout": ("dropout", choice("hr_dropout_name")),
    "microbatches": ("microbatches", whole),
    "phase": ("phase", choice("hr_phase_name")),
    "context": ("context", whole),
    "attention": ("attention", choice("hr_attention_form_name")),
    "framework": ("framework", choice("hr_framework_name")),
    "flash_attention": ("flash", choice("hr_flash_library_name")),
    "kv_cache": ("kv_cache", kv_format),
    "page_size": ("page_size", whole),
}
SERVE: Table = {
    "prompt": ("prompt_tokens", whole),
    "output": ("output_tokens", whole),
    "ttft": ("ttft_limit_ns", lambda name, value: number(name, value) * 1e9),
    "tpot": ("tpot_limit_ns", lambda name, value: number(name, value) * 1e9),
    "devices": ("devices_max", whole),
    "batch": ("batch", whole),
    "max_batch": ("batch_max", whole),
    "tensor_parallel": ("tensor_parallel", whole),
    "expert_parallel": ("expert_parallel", whole),
    "prefill_tokens": ("prefill_tokens", whole),
    "memory_share": ("memory_share", number),
    "page_size": ("page_tokens", whole),
    "uniform_pages": ("uniform_pages", flag),
    "reserve": ("reserve_bytes", lambda name, value: int(number(name, value) * 2**30)),
    "pipeline_stages": ("pipeline_stages", whole),
    "disaggregated": ("disaggregated", flag),
    "prefill_tensor_parallel": ("prefill_tensor_parallel", whole),
    "sure": ("sure", whole),
    "recommend": ("recommend", number),
}
LOAD: Table = {
    "rate": ("rate_per_s", number),
    "clients": ("clients", whole),
    "requests": ("requests", whole),
    "cached": ("cached", number),
    "draft": ("draft", whole),
    "accept": ("accept", number),
    "prefill_wait": ("wait_steps", count),
    "instances": ("instances", count),
    "prefill_instances": ("prefill_instances", count),
    "seed": ("seed", count),
}
SEARCH: Table = {
    "param_band": ("parameter_band", number),
    "vocab_multiple": ("vocabulary_multiple", whole),
    "kv_ratio": ("query_heads_per_kv", whole),
    "keep_vocabulary": ("keep_vocabulary", flag),
    "limit": ("limit", whole),
    "max_shapes": ("evaluations_max", whole),
}
SEARCH_LISTS = {"head_sizes": ("head_sizes", "head_size_count"), "serve_on": ("serve_on", "serve_on_count")}
SEARCH_RANGES = {"hidden": "hidden", "layers": "layers", "heads": "heads", "head_dim": "head_dim",
                 "mlp_width": "mlp_width"}
STEPS = {"hidden": "hidden_step", "mlp_width": "mlp_step"}
SEARCH_SIZES = ["hidden", "heads", "mlp", "vocabulary", "layers", "kv-heads"]
EXCLUSIVE = [("vocab_multiple", "keep_vocabulary"), ("head_dim", "head_sizes"), ("serve_on", "allow_uneven")]
NOT_WITH_KEPT = {"vocab_multiple": "vocabulary", "kv_ratio": "heads", "hidden": "hidden", "heads": "heads",
                 "head_dim": "heads", "head_sizes": "heads", "mlp_width": "mlp"}


def fill(struct: Any, table: Table, options: Mapping[str, Any]) -> None:
    """Sets the members of the options that were given."""
    for name, (member, read) in table.items():
        if name in options:
            setattr(struct, member, read(name, options[name]))


def dtype_of(value: Any) -> int:
    return one_of("dtype", value, names_of("hr_dtype_name"))


def fill_search(search: Any, options: Mapping[str, Any]) -> None:
    """Sets the bounds of an hr_search_options."""
    vary, keep = (bits(name, options.get(name, ()), SEARCH_SIZES) for name in ("vary", "keep"))
    expect_compatible(options, keep)
    fill(search, SEARCH, options)
    search.vary = (search.vary | vary) & ~keep
    search.require_divisible = not flag("allow_uneven", options.get("allow_uneven", False))
    for name, (member, length) in SEARCH_LISTS.items():
        if name in options:
            array = getattr(search, member)
            values = sizes(name, options[name], len(array))
            array[:len(values)] = values
            setattr(search, length, len(values))
    for name, member in SEARCH_RANGES.items():
        if name in options:
            least, most, step = least_most_step(name, options[name])
            if step and name not in STEPS:
                raise InvalidError(f"{name}: a range without a step, found {options[name]!r}")
            setattr(search, f"{member}_min", least)
            setattr(search, f"{member}_max", most)
            if step:
                setattr(search, STEPS[name], step)


def expect_compatible(options: Mapping[str, Any], keep: int) -> None:
    """Refuses options of which one says the opposite of the other."""
    for name, other in EXCLUSIVE:
        if options.get(name) and options.get(other):
            raise InvalidError(f"{name}: cannot be combined with {other}")
    for name, size in NOT_WITH_KEPT.items():
        if name in options and keep >> SEARCH_SIZES.index(size) & 1:
            raise InvalidError(f"{name}: cannot be combined with keep={size!r}")


def advise_options(struct: Any, options: Mapping[str, Any]) -> Any:
    """Sets which findings an hr_advise_options leaves out, their order, and the nodes of layouts."""
    for name in ("design", "trained"):
        setattr(struct, name, flag(name, options.get(name, False)))
    if struct.design and struct.trained:
        raise InvalidError("design: cannot be combined with trained")
    if "only" in options:
        classes = names_of("hr_change_class_name")
        struct.without_classes = (1 << len(classes)) - 1 & ~bits("only", options["only"], classes)
    struct.without_rules = bits("ignore", options.get("ignore", ()), rules())
    struct.nodes = whole("nodes", options["nodes"]) if "nodes" in options else 0
    return struct


def rules() -> List[str]:
    """The names of the rules."""
    length = ctypes.c_size_t()
    array = library().hr_rules(ctypes.byref(length))
    return [array[i].name.decode() for i in range(length.value)]


