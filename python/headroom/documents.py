# SPDX-License-Identifier: Apache-2.0
"""What the advisor returns, as classes. docs/json.md says what each attribute means; `pass` and `class` end in `_`."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional

from ._rows import Document, Row


@dataclass(frozen=True)
class Hardware(Row):
    """A device."""
    name: str
    product: str
    architecture: str
    kind: str
    calibration: str
    error_band: float
    multiprocessors: int
    clock_hz: float
    dense_flops_per_s: Dict[str, float]
    library_flops_per_s: Dict[str, float]
    bandwidth_bytes_per_s: float
    bandwidth_share: float
    memory_bytes: int
    l2_bytes: int
    usable_memory_bytes: int
    shared_bytes: int
    launch_ns: float
    devices_per_node: int
    interconnect_bytes_per_s: float
    interconnect_latency_ns: float
    network_bytes_per_s: float
    network_latency_ns: float
    ceilings: List[Ceiling]
    collectives: List[CollectiveRate]
    numa_nodes: int
    placement: Optional[str]
    power_limit_w: Optional[float]
    clock: str
    cache: str
    calibrated: Optional[str]
    trtllm_version: Optional[str]
    vllm_version: Optional[str]
    sglang_version: Optional[str]


@dataclass(frozen=True)
class Ceiling(Row):
    """An instruction ceiling of a device."""
    kind: str
    dtype: Optional[str]
    instruction: str
    per_s: float
    core_per_s: Optional[float]
    clock_hz: Optional[float]
    power_w: Optional[float]


@dataclass(frozen=True)
class CollectiveRate(Row):
    """Fitted times of a library's collective, within a node or between several."""
    kind: str
    devices: int
    latency_ns: float
    bus_bytes_per_s: float
    ramp: float
    error_band: float
    library: str
    nodes: int


@dataclass(frozen=True)
class Model(Row):
    """A model. None where layers differ."""
    name: str
    family: str
    layers: int
    hidden: int
    vocabulary: int
    max_positions: int
    q_heads: Optional[int]
    k_heads: Optional[int]
    v_heads: Optional[int]
    qk_dim: Optional[int]
    v_dim: Optional[int]
    q_rank: Optional[int]
    window: Optional[int]
    window_layers: int
    mlp_width: Optional[int]
    mlp_gated: Optional[bool]
    activation: str
    parallel_block: Optional[bool]
    residual_streams: int
    positions: str
    rotary_dim: Optional[int]
    norm: str
    qk_norm: Optional[str]
    tied_embeddings: bool
    groups: List[LayerGroup]
    quantization: Optional[Quantization]


@dataclass(frozen=True)
class LayerGroup(Row):
    """Equal layers; None: they have none of the kind."""
    layers: int
    parameters_per_layer: int
    norms: int
    parallel_block: bool
    attention: Optional[AttentionLayer]
    latent: Optional[LatentLayer]
    compressed: Optional[CompressedLayer]
    scan: Optional[ScanLayer]
    dense: Optional[DenseLayer]
    experts: Optional[ExpertLayer]


@dataclass(frozen=True)
class AttentionLayer(Row):
    """The attention of a group of layers."""
    q_heads: int
    k_heads: int
    v_heads: int
    qk_dim: int
    v_dim: int
    q_rank: int
    window: int
    window_kind: Optional[str]
    rotary_dim: int
    qk_norm: str
    qk_norm_bias: bool
    q_bias: bool
    k_bias: bool
    v_bias: bool
    output_bias: bool
    output_gate: bool
    gate_per_head: bool
    gate_unbiased: bool
    sinks: bool
    shared_kv: bool
    shared_k_norm: bool
    v_is_k: bool
    index_topk: int
    index_block: int
    index_dim: int


@dataclass(frozen=True)
class DenseLayer(Row):
    """The feed-forward network of a group of layers."""
    width: int
    gated: bool
    bias: bool
    activation_parameters: int


@dataclass(frozen=True)
class Workload(Row):
    """A step: phase, sizes, parallelism."""
    phase: str
    attention: str
    dtype: str
    batch: int
    sequence: int
    context: Optional[int]
    tensor_parallel: int
    pipeline_stages: int
    expert_parallel: int
    expert_imbalance: float
    kv_cache: str
    sequence_parallel: bool
    context_parallel: int
    data_parallel: int
    zero_stage: int
    overlap: float
    recompute: str
    dropout: str
    microbatches: int
    framework: str
    flash_attention: str
    virtual_stages: int
    page_size: int
    fp8_linears: bool


@dataclass(frozen=True)
class PredictedOperator(Row):
    """An operator with the terms of its predicted time."""
    name: str
    kind: str
    pass_: str
    m: Optional[int]
    n: Optional[int]
    k: Optional[int]
    batch: Optional[int]
    count: int
    flops: int
    bytes: int
    predicted_ns: float
    predicted_low_ns: float
    predicted_high_ns: float
    share: float
    bound_by: str
    efficiency: float
    tile_waste: Optional[float]
    wave_waste: Optional[float]
    alignment: Optional[int]
    alignment_loss: Optional[float]
    tile_m: int
    tile_n: int
    tiles: int
    waves: int
    matrix_ns: float
    tile_ns: float
    wave_ns: float
    alignment_ns: float
    reduction_ns: float
    clock_ns: float
    launch_ns: float
    exposed_ns: float
    memory_ns: float
    pair_ns: float
    split_ns: float
    cache_ns: float
    rounding_ns: float
    padding_ns: float
    collective: Optional[str]
    devices: Optional[int]
    bus_bytes_per_s: Optional[float]
    library: Optional[str]


@dataclass(frozen=True)
class Layout(Row):
    """The same work with other degrees of parallelism."""
    tensor_parallel: int
    pipeline_stages: int
    devices: int
    nodes: int
    step_time_ns: float
    step_time_low_ns: float
    step_time_high_ns: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    communication_share: float
    bubble: float
    memory_bytes: int
    fits: bool
    largest_batch: int
    given: bool
    fastest: bool
    most_per_device: bool
    fewest_devices: bool
    heads_split: bool
    splits: bool
    split: Optional[str]


@dataclass(frozen=True)
class Finding(Row):
    """What a rule found."""
    rule: str
    severity: str
    class_: str
    not_applicable: bool
    cannot_run: bool
    operator: Optional[str]
    operators: Optional[str]
    why: str
    current: Optional[str]
    suggested: Optional[str]
    parameter_change: Optional[float]
    predicted_operator_gain: Optional[float]
    predicted_gain: Optional[float]
    eager_gain: Optional[float]
    gain_per_device: bool
    predicted_time_ns: Optional[float]
    measured_operator_gain: Optional[float]
    measured_gain: Optional[float]
    cost: Optional[str]
    cost_source: Optional[str]
    source: Optional[str]


@dataclass(frozen=True)
class CombinedFinding(Row):
    """Compatible suggestions together."""
    rule: str
    class_: str
    why: str
    suggested: str
    parameter_change: float
    predicted_gain: float
    eager_gain: Optional[float]
    measured_gain: Optional[float]
    model: Model
    workload: Workload


@dataclass(frozen=True)
class Confirmation(Row):
    """What was measured of the findings."""
    _body = "rows"
    batch: int
    sequence: int
    reduced: bool
    note: Optional[str]
    complete: bool
    findings: List[ConfirmedFinding]
    rows: List[ConfirmationRow]


@dataclass(frozen=True)
class ConfirmedFinding(Row):
    """Predicted and measured gains of a finding."""
    rule: str
    predicted_operator_gain: Optional[float]
    measured_operator_gain: Optional[float]
    predicted_gain: Optional[float]
    measured_gain: Optional[float]
    measured_gain_low: Optional[float]
    measured_gain_high: Optional[float]
    measured_as: Optional[str]
    status: str
    reason: Optional[str]


@dataclass(frozen=True)
class ConfirmationRow(Row):
    """An operator, measured as it is and as suggested."""
    rule: str
    operator: str
    before_ns: Optional[float]
    after_ns: Optional[float]
    before_m: Optional[int]
    before_n: Optional[int]
    before_k: Optional[int]
    before_batch: Optional[int]
    after_m: Optional[int]
    after_n: Optional[int]
    after_k: Optional[int]
    after_batch: Optional[int]
    predicted_before_ns: float
    predicted_after_ns: float
    predicted_gain: Optional[float]
    measured_gain: Optional[float]
    measured_gain_low: Optional[float]
    measured_gain_high: Optional[float]
    samples: int
    kernel_before: Optional[str]
    kernel_after: Optional[str]
    status: str
    reason: Optional[str]
    before_operators: str
    before_problem: Optional[str]
    after_problem: Optional[str]


@dataclass(frozen=True)
class ExpertLayer(Row):
    """The experts of a group of layers."""
    experts: int
    active: int
    width: int
    groups: int
    active_groups: int
    shared_width: int
    latent: int
    gated: bool
    bias: bool
    shared_bias: bool
    router_bias: bool
    shared_gate: bool
    output_norm: bool
    latent_bias: bool


@dataclass(frozen=True)
class LatentLayer(Row):
    """The latent attention of a group of layers."""
    q_heads: int
    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    down_bias: bool
    output_bias: bool
    index_topk: int
    index_heads: int
    index_dim: int


@dataclass(frozen=True)
class CompressedLayer(Row):
    """The attention over compressed entries of a group of layers."""
    q_heads: int
    head_dim: int
    rope_dim: int
    q_rank: int
    window: int
    ratio: int
    index_topk: int
    index_heads: int
    index_dim: int
    o_groups: int
    o_rank: int
    overlaps: bool


@dataclass(frozen=True)
class ParametersByPart(Row):
    """Parameters by part; they sum to all."""
    embedding: int
    position: int
    attention: int
    scan: int
    mlp: int
    experts: int
    norm: int
    logit: int


@dataclass(frozen=True)
class CacheGrowth(Row):
    """From a length on, the bytes that a token adds to the KV cache."""
    from_tokens: int
    bytes_per_token: int


@dataclass(frozen=True)
class Memory(Row):
    """Memory of the most loaded device."""
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    kv_cache_bytes: int
    state_bytes: int
    total_bytes: int
    gathered_bytes: int


@dataclass(frozen=True)
class Operator(Row):
    """An operator of a step; figures are of one execution."""
    name: str
    kind: str
    pass_: str
    m: Optional[int]
    n: Optional[int]
    k: Optional[int]
    batch: Optional[int]
    count: int
    flops: int
    bytes: int
    collective: Optional[str]
    devices: Optional[int]
    reads: Optional[str]
    writes: Optional[str]
    weights: Optional[str]


@dataclass(frozen=True)
class Checkpoint(Row):
    """The safetensors files beside a configuration."""
    files: int
    tensors: int
    elements: int
    bytes: int
    formats: List[CheckpointFormat]
    elements_by_part: Dict[str, int]
    match: str
    compared_elements: int
    left_out: List[str]
    text: str


@dataclass(frozen=True)
class CheckpointFormat(Row):
    """A number format of a checkpoint."""
    format: str
    tensors: int
    elements: int
    bytes: int


@dataclass(frozen=True)
class ExpertLoad(Row):
    """The load of experts."""
    experts_hit: int
    tokens_per_expert: float
    most_tokens_per_expert: float


@dataclass(frozen=True)
class LatentCache(Row):
    """The KV cache without latent attention."""
    multi_head_bytes_per_token: int
    kv_heads: int
    grouped_query_bytes_per_token: int


@dataclass(frozen=True)
class ScanLayer(Row):
    """The recurrent mixer of a group of layers."""
    recurrence: str
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    rank: int
    chunk: int
    in_bias: bool
    out_bias: bool
    conv_bias: bool
    norm: bool
    norm_weight: bool


@dataclass(frozen=True)
class Quantization(Row):
    """The quantization of a model."""
    method: str
    formats: List[WeightFormat]


@dataclass(frozen=True)
class WeightFormat(Row):
    """A format of quantized weights."""
    name: str
    bits: int
    block_inputs: int
    block_outputs: int
    block_bits: int
    nested: int
    input_bytes: int
    matrix_bytes: int
    activations: str
    linear_layers: List[str]
    linear_layers_of_some_groups: List[str]
    logits: bool


@dataclass(frozen=True)
class Decode(Row):
    """A decode call."""
    batch: int
    q_len: int
    kv_len: int
    q_heads: int
    k_heads: int
    v_heads: int
    qk_dim: int
    v_dim: int
    page_size: int
    page_count: int
    table_pitch: int
    window: int
    top_k: int
    flops: int
    bytes: int
    dtype: str
    scale: float
    softcap: float
    sinks: bool
    latent: bool
    cache_format: str
    cache_scales: str
    batch_invariant: bool
    q_strides: RowStrides
    k_strides: PageStrides
    v_strides: PageStrides
    o_strides: RowStrides
    k_scale_strides: PageStrides
    v_scale_strides: PageStrides


@dataclass(frozen=True)
class RowStrides(Row):
    """Strides in elements."""
    batch: int
    row: int
    head: int


@dataclass(frozen=True)
class PageStrides(Row):
    """Strides of a paged cache."""
    page: int
    token: int
    head: int


@dataclass(frozen=True)
class DecodeKernel(Row):
    """A decode kernel and its measurement."""
    kernel: str
    measured_ns: Optional[float]
    measured_low_ns: Optional[float]
    measured_high_ns: Optional[float]
    bytes_per_s: Optional[float]
    read_share: Optional[float]
    flops_per_s: Optional[float]
    ceiling_share: Optional[float]
    workspace_bytes: Optional[int]
    peak_bytes: Optional[int]
    max_error: Optional[float]
    rows_checked: int
    selection_error: Optional[float]
    samples: int
    configuration: Optional[str]
    status: str
    reason: Optional[str]
    energy_j: Optional[float]
    joules_per_tflop: Optional[float]
    sustained_ns: Optional[float]
    sustained_power_w: Optional[float]
    sustained_clock_hz: Optional[float]


@dataclass(frozen=True)
class Gemm(Row):
    """A GEMM."""
    m: int
    n: int
    k: int
    batch: int
    dtype: str
    transpose_a: bool
    transpose_b: bool
    flops: int
    bytes: int
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int


@dataclass(frozen=True)
class GemmPrediction(Row):
    """The predicted time of a GEMM, and its terms."""
    bound_by: str
    predicted_ns: float
    predicted_low_ns: float
    predicted_high_ns: float
    efficiency: float
    matrix_ns: float
    tile_ns: float
    wave_ns: float
    alignment_ns: float
    memory_ns: float
    launch_ns: float
    reduction_ns: float
    clock_ns: float
    exposed_ns: float
    tile_waste: float
    wave_waste: float
    alignment_loss: float
    tile_m: int
    tile_n: int
    tiles: int
    waves: int
    splits: int
    m_alignment: int
    n_alignment: int
    k_alignment: int
    alignment: int


@dataclass(frozen=True)
class GemmMeasurement(Row):
    """The measured time of a GEMM."""
    status: str
    reason: Optional[str]
    kernel: Optional[str]
    configuration: Optional[str]
    choice: int
    choices: int
    choice_speedup: Optional[float]
    samples: int
    discarded: int
    min_ns: Optional[float]
    p10_ns: Optional[float]
    median_ns: Optional[float]
    mean_ns: Optional[float]
    p90_ns: Optional[float]
    max_ns: Optional[float]
    stddev_ns: Optional[float]
    median_low_ns: Optional[float]
    median_high_ns: Optional[float]
    latency_ns: Optional[float]
    flops_per_s: Optional[float]
    bytes_per_s: Optional[float]
    ceiling_share: Optional[float]
    warm: bool
    buffer_sets: int
    workspace_bytes: Optional[float]
    peak_bytes: Optional[float]
    max_error: Optional[float]
    rows_checked: int
    energy_j: Optional[float]
    joules_per_tflop: Optional[float]
    sustained_ns: Optional[float]
    sustained_power_w: Optional[float]
    sustained_clock_hz: Optional[float]
    conditions: Conditions


@dataclass(frozen=True)
class Conditions(Row):
    """The device right after the last sample."""
    clock_hz: Optional[float]
    memory_clock_hz: Optional[float]
    power_w: Optional[float]
    temperature_c: Optional[float]
    throttled_by: Optional[str]


@dataclass(frozen=True)
class Serving(Row):
    """What a plan is for."""
    dtype: str
    kv_cache: str
    formats: ServingFormats
    expert_imbalance: float
    prompt_tokens: int
    output_tokens: int
    ttft_limit_ns: float
    tpot_limit_ns: float
    price_per_device_hour: float
    memory_share: float
    batch_max: int
    devices_max: int
    prefill_tokens: int
    page_tokens: int
    disaggregated: bool
    reserve_bytes: int
    uniform_pages: bool
    sure: int
    recommend: float
    pipeline_stages: int
    prefill_price_per_device_hour: float
    engine: str
    prefill_device: Optional[str]
    capacity_bytes: int
    cached_tokens: int
    kv_cache_growth: List[CacheGrowth]


@dataclass(frozen=True)
class ServingFormats(Row):
    """Number formats of a plan."""
    weights: str
    activations: str
    kv_cache: str
    gemm: str


@dataclass(frozen=True)
class ServePoint(Row):
    """A layout with a batch."""
    tensor_parallel: int
    expert_parallel: int
    devices: int
    batch: int
    sequences: int
    prefill_batch: int
    ttft_ns: float
    ttft_low_ns: float
    ttft_high_ns: float
    tpot_ns: Optional[float]
    tpot_low_ns: Optional[float]
    tpot_high_ns: Optional[float]
    decode_step_ns: float
    request_ns: float
    requests_per_s: float
    requests_per_s_low: float
    requests_per_s_high: float
    output_tokens_per_s: float
    tokens_per_s: float
    prefill_devices: float
    prefill_share: float
    output_tokens_per_s_per_device: float
    memory_bytes: int
    cost_per_million_output_tokens: Optional[float]
    cost_per_million_tokens: Optional[float]
    meets_ttft: bool
    meets_tpot: bool
    band_meets_ttft: bool
    band_meets_tpot: bool
    meets_limits: bool
    pareto: bool
    pipeline_stages: int
    prefill_tensor_parallel: int


@dataclass(frozen=True)
class Load(Row):
    """Who sends requests."""
    rate_per_s: float
    clients: int
    requests: int
    prompt_min: int
    prompt_max: int
    output_min: int
    output_max: int
    cached: float
    accept: float
    draft: int
    wait_steps: int
    instances: int
    prefill_instances: int
    draft_model: Optional[str]
    seed: int


@dataclass(frozen=True)
class LoadServing(Row):
    """The server of a load."""
    engine: str
    ttft_limit_ns: float
    tpot_limit_ns: Optional[float]
    sure: int
    memory_share: float
    batch_max: int
    devices_max: int
    page_tokens: int
    prefill_tokens: int
    reserve_bytes: int
    disaggregated: bool
    prefill_device: Optional[str]
    formats: ServingFormats


@dataclass(frozen=True)
class LoadLayout(Row):
    """A layout under a load."""
    tensor_parallel: int
    expert_parallel: int
    devices: int
    ttft_mean_ns: float
    ttft_p50_ns: float
    ttft_p90_ns: float
    ttft_p99_ns: float
    ttft_mean_low_ns: float
    ttft_mean_high_ns: float
    ttft_p50_low_ns: float
    ttft_p50_high_ns: float
    ttft_p90_low_ns: float
    ttft_p90_high_ns: float
    ttft_p99_low_ns: float
    ttft_p99_high_ns: float
    tpot_mean_ns: Optional[float]
    tpot_p50_ns: Optional[float]
    tpot_p90_ns: Optional[float]
    tpot_p99_ns: Optional[float]
    tpot_mean_low_ns: Optional[float]
    tpot_mean_high_ns: Optional[float]
    tpot_p50_low_ns: Optional[float]
    tpot_p50_high_ns: Optional[float]
    tpot_p90_low_ns: Optional[float]
    tpot_p90_high_ns: Optional[float]
    tpot_p99_low_ns: Optional[float]
    tpot_p99_high_ns: Optional[float]
    queue_mean_ns: float
    queue_p50_ns: float
    queue_p90_ns: float
    queue_p99_ns: float
    request_mean_ns: float
    request_p50_ns: float
    request_p90_ns: float
    request_p99_ns: float
    resident_mean: float
    resident_max: int
    slots: int
    preempted: int
    requests_per_s: float
    output_tokens_per_s: float
    output_tokens_per_s_low: float
    output_tokens_per_s_high: float
    cost_per_million_output_tokens: Optional[float]
    busy_share: float
    duration_ns: float
    keeps_up: bool
    meets_ttft: bool
    meets_tpot: bool
    band_keeps_up: bool
    band_meets_ttft: bool
    band_meets_tpot: bool
    pipeline_stages: int
    instances: int
    prefill_instances: int
    prefill_tensor_parallel: int
    prefill_busy_share: float


@dataclass(frozen=True)
class LoadInterval(Row):
    """A part of a simulation's time."""
    begin_ns: float
    end_ns: float
    arrivals: int
    waiting: float
    resident: float
    output_tokens_per_s: float


@dataclass(frozen=True)
class ServeFleet(Row):
    """Copies of a model that together carry a load."""
    instances: int
    prefill_instances: int
    tensor_parallel: int
    expert_parallel: int
    batch: int
    devices: int
    load_share: float
    ttft_ns: float
    tpot_ns: Optional[float]
    request_ns: float
    cost_per_hour: Optional[float]
    cost_per_million_output_tokens: Optional[float]
    pipeline_stages: int


@dataclass(frozen=True)
class ServeLayout(Row):
    """A way to spread a model over devices."""
    tensor_parallel: int
    expert_parallel: int
    devices: int
    weight_bytes: int
    sequence_bytes: int
    step_bytes: int
    largest_batch: int
    cache_tokens: int
    splits: bool
    split: Optional[str]
    pipeline_stages: int


@dataclass(frozen=True)
class ResultRow(Row):
    """A row of the store (docs/results.md)."""
    id: str
    date: str
    sweep: Optional[str]
    series: Optional[str]
    axes: Optional[str]
    operation: str
    problem: str
    dtype: Optional[str]
    batch: Optional[int]
    m: Optional[int]
    n: Optional[int]
    k: Optional[int]
    transpose_a: Optional[bool]
    transpose_b: Optional[bool]
    q_len: Optional[int]
    kv_len: Optional[int]
    q_heads: Optional[int]
    k_heads: Optional[int]
    v_heads: Optional[int]
    qk_dim: Optional[int]
    v_dim: Optional[int]
    mask: Optional[str]
    window: Optional[int]
    scale: Optional[float]
    device: Optional[str]
    product: Optional[str]
    threads: Optional[int]
    kernel_asked: Optional[str]
    kernel: Optional[str]
    configuration: Optional[str]
    status: str
    reason: Optional[str]
    samples: Optional[int]
    min_ns: Optional[float]
    p10_ns: Optional[float]
    median_ns: Optional[float]
    mean_ns: Optional[float]
    p90_ns: Optional[float]
    max_ns: Optional[float]
    stddev_ns: Optional[float]
    median_low_ns: Optional[float]
    median_high_ns: Optional[float]
    flops_per_s: Optional[float]
    bytes_per_s: Optional[float]
    ceiling_share: Optional[float]
    library_share: Optional[float]
    warm: Optional[bool]
    buffer_sets: Optional[int]
    max_error: Optional[float]
    rows_checked: Optional[int]
    seed: Optional[int]
    clock_hz: Optional[float]
    memory_clock_hz: Optional[float]
    power_w: Optional[float]
    temperature_c: Optional[float]
    throttled: Optional[str]
    driver: Optional[str]
    libraries: Optional[str]
    host: Optional[str]
    program: Optional[str]
    latency_ns: Optional[float]
    discarded: Optional[int]
    lda: Optional[int]
    ldb: Optional[int]
    ldc: Optional[int]
    stride_a: Optional[int]
    stride_b: Optional[int]
    stride_c: Optional[int]
    broadcast_a: Optional[bool]
    broadcast_b: Optional[bool]
    softcap: Optional[float]
    alibi: Optional[bool]
    variable_lengths: Optional[bool]
    q_total: Optional[int]
    kv_total: Optional[int]
    q_batch_stride: Optional[int]
    q_row_stride: Optional[int]
    q_head_stride: Optional[int]
    k_batch_stride: Optional[int]
    k_row_stride: Optional[int]
    k_head_stride: Optional[int]
    v_batch_stride: Optional[int]
    v_row_stride: Optional[int]
    v_head_stride: Optional[int]
    o_batch_stride: Optional[int]
    o_row_stride: Optional[int]
    o_head_stride: Optional[int]
    autotune: Optional[int]
    choice: Optional[int]
    choices: Optional[int]
    choice_speedup: Optional[float]
    workspace_bytes: Optional[float]
    peak_bytes: Optional[float]
    page_size: Optional[int]
    page_count: Optional[int]
    table_pitch: Optional[int]
    sinks: Optional[bool]
    latent: Optional[bool]
    k_page_stride: Optional[int]
    k_token_stride: Optional[int]
    v_page_stride: Optional[int]
    v_token_stride: Optional[int]
    top_k: Optional[int]
    selection_error: Optional[float]
    cache_format: Optional[str]
    cache_scales: Optional[str]
    k_scale_page_stride: Optional[int]
    k_scale_token_stride: Optional[int]
    k_scale_head_stride: Optional[int]
    v_scale_page_stride: Optional[int]
    v_scale_token_stride: Optional[int]
    v_scale_head_stride: Optional[int]
    batch_invariant: Optional[bool]
    decode_part: Optional[int]
    energy_j: Optional[float]
    sustained_ns: Optional[float]
    sustained_power_w: Optional[float]
    sustained_clock_hz: Optional[float]
    parts: Optional[str]
    output: Optional[str]
    head_scales: Optional[bool]
    backward: Optional[bool]
    bias: Optional[bool]


@dataclass(frozen=True)
class Shape(Row):
    """A shape that a search found."""
    hidden: int
    layers: int
    heads: int
    k_heads: int
    v_heads: int
    head_dim: int
    v_dim: int
    mlp_width: Optional[int]
    expert_width: Optional[int]
    shared_width: Optional[int]
    vocabulary: int
    parameters: int
    active_parameters: Optional[int]
    parameter_change: float
    step_time_ns: float
    predicted_gain: float
    pareto: bool
    cache_change: float
    class_: str
    differs: str


@dataclass(frozen=True)
class Attention(Row):
    """An attention call."""
    batch: int
    q_len: int
    kv_len: int
    q_heads: int
    k_heads: int
    v_heads: int
    qk_dim: int
    v_dim: int
    window: int
    flops: int
    bytes: int
    dtype: str
    causal: bool
    scale: float
    softcap: float
    alibi: bool
    output: str
    head_scales: bool
    backward: bool
    q_strides: RowStrides
    k_strides: RowStrides
    v_strides: RowStrides
    o_strides: RowStrides


@dataclass(frozen=True)
class AttentionKernel(Row):
    """An attention kernel and its measurement."""
    kernel: str
    measured_ns: Optional[float]
    measured_low_ns: Optional[float]
    measured_high_ns: Optional[float]
    flops_per_s: Optional[float]
    ceiling_share: Optional[float]
    workspace_bytes: Optional[int]
    peak_bytes: Optional[int]
    max_error: Optional[float]
    rows_checked: int
    samples: int
    configuration: Optional[str]
    status: str
    reason: Optional[str]
    energy_j: Optional[float]
    joules_per_tflop: Optional[float]
    sustained_ns: Optional[float]
    sustained_power_w: Optional[float]
    sustained_clock_hz: Optional[float]


@dataclass(frozen=True)
class SweepRow(Row):
    """A measured point of a sweep."""
    series: Optional[str]
    x: int
    axes: str
    problem: str
    status: str
    reason: Optional[str]
    median_ns: Optional[float]
    median_low_ns: Optional[float]
    median_high_ns: Optional[float]
    flops_per_s: Optional[float]
    ceiling_share: Optional[float]
    bytes_per_s: Optional[float]
    samples: int
    kernel: Optional[str]
    date: str
    mean_ns: Optional[float]
    stddev_ns: Optional[float]
    min_ns: Optional[float]
    workspace_bytes: Optional[float]
    peak_bytes: Optional[float]
    change: Optional[float]
    bytes_change: Optional[float]
    selection_error: Optional[float]


@dataclass(frozen=True, repr=False)
class Advice(Document):
    """What `headroom advise` prints; of predict(): without findings."""
    _body = "findings"
    device: str
    hardware: Hardware
    model: Model
    workload: Workload
    parameters: int
    flops: int
    step_time_ns: float
    step_time_low_ns: float
    step_time_high_ns: float
    layer_time_ns: float
    logit_time_ns: float
    communication_time_ns: float
    tokens_per_s: float
    model_efficiency: float
    microbatch_time_ns: float
    stage_time_ns: float
    bubble: float
    tokens_per_s_per_device: float
    replica_ns: float
    exposed_ns: float
    origin: str
    retrain_last: bool
    left_out: int
    left_out_high: int
    operators: List[PredictedOperator]
    layouts: List[Layout]
    findings: List[Finding]
    combined: List[CombinedFinding]
    measurement: Optional[Confirmation]


@dataclass(frozen=True, repr=False)
class Description(Document):
    """What `headroom describe` prints."""
    _body = "operators"
    model: Model
    workload: Workload
    parameters: int
    parameters_excluding_embeddings: int
    active_parameters: Optional[int]
    parameters_by_part: ParametersByPart
    checkpoint: Optional[Checkpoint]
    flops: int
    bytes: int
    expert_load: Optional[ExpertLoad]
    kv_cache_bytes_per_token: int
    kv_cache_bytes_of_next_token: int
    kv_cache_growth: List[CacheGrowth]
    latent_cache: Optional[LatentCache]
    state_bytes_per_sequence: int
    memory: Memory
    splits: bool
    split: Optional[str]
    device: Optional[str]
    largest_batch: Optional[int]
    operators: List[Operator]


@dataclass(frozen=True, repr=False)
class DecodeRun(Document):
    """What `headroom decode` prints."""
    _body = "kernels"
    device: str
    hardware: Hardware
    decode: Decode
    predicted_ns: Optional[float]
    kernels: List[DecodeKernel]


@dataclass(frozen=True, repr=False)
class GemmRun(Document):
    """What `headroom gemm` prints."""
    device: str
    hardware: Hardware
    gemm: Gemm
    prediction: GemmPrediction
    library_choice: Optional[str]
    measurement: Optional[GemmMeasurement]


@dataclass(frozen=True, repr=False)
class ServeLoad(Document):
    """What `headroom serve-plan` prints under a load."""
    _body = "layouts"
    device: str
    hardware: Hardware
    model: Model
    load: Load
    serving: LoadServing
    best: Optional[int]
    shown: Optional[int]
    layouts: List[LoadLayout]
    timeline: Optional[List[LoadInterval]]


@dataclass(frozen=True, repr=False)
class ServePlan(Document):
    """What `headroom serve-plan` prints."""
    _body = "points"
    device: str
    hardware: Hardware
    model: Model
    serving: Serving
    latency: Optional[ServePoint]
    throughput: Optional[ServePoint]
    cheapest: Optional[ServePoint]
    nearest: Optional[ServePoint]
    devices_needed: int
    weights_needed: Optional[str]
    fleets: List[ServeFleet]
    layouts: List[ServeLayout]
    points: List[ServePoint]


@dataclass(frozen=True, repr=False)
class Results(Document):
    """What `headroom results list` prints."""
    _body = "results"
    store: Optional[str]
    results: List[ResultRow]


@dataclass(frozen=True, repr=False)
class SearchResult(Document):
    """What `headroom search` prints."""
    _body = "shapes"
    device: str
    hardware: Hardware
    model: Model
    workload: Workload
    parameters: int
    step_time_ns: float
    evaluated: int
    complete: bool
    varied: List[str]
    serve_on: List[int]
    unserved_on: List[int]
    unserved: int
    free: Optional[Shape]
    shapes: List[Shape]


@dataclass(frozen=True, repr=False)
class AttentionRun(Document):
    """What `headroom attention` prints."""
    _body = "kernels"
    device: str
    hardware: Hardware
    attention: Attention
    predicted_ns: Optional[float]
    kernels: List[AttentionKernel]


@dataclass(frozen=True, repr=False)
class SweepRun(Document):
    """What `headroom sweep NAME` prints."""
    _body = "rows"
    name: str
    figure: Optional[str]
    title: Optional[str]
    source: Optional[str]
    note: Optional[str]
    kind: str
    x: str
    x_label: Optional[str]
    y_label: Optional[str]
    baseline: Optional[str]
    device: str
    dtype: str
    x_log2: bool
    points: int
    found: int
    rows: List[SweepRow]
