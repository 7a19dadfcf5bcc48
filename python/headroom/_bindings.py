# SPDX-License-Identifier: Apache-2.0
"""Made by scripts/bindings.py from the public headers: run it after a change there."""
from ctypes import (POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

HR_OK = 0
HR_ERROR_INVALID = 1
HR_ERROR_UNREADABLE = 2
HR_ERROR_NOT_FOUND = 3
HR_ERROR_UNSUPPORTED = 4
HR_ERROR_UNAVAILABLE = 5
HR_ERROR_OVERFLOW = 6
HR_ERROR_OUT_OF_MEMORY = 7
HR_ERROR_TIMEOUT = 8
HR_ERROR_NOISY = 9
HR_ERROR_WRONG_RESULT = 10
HR_ERROR_INTERRUPTED = 11
HR_ERROR_OUTPUT = 12
HR_ERROR_BACKEND = 13
HR_STATUS_COUNT = 14
HR_NOTE_DETAIL = 0
HR_NOTE_LEFT_OUT = 1
HR_FP64 = 0
HR_FP32 = 1
HR_TF32 = 2
HR_FP16 = 3
HR_BF16 = 4
HR_FP8_E4M3 = 5
HR_DTYPE_COUNT = 6
HR_MASK_NONE = 0
HR_MASK_CAUSAL = 1
HR_OUTPUT_AS_OPERANDS = 0
HR_OUTPUT_BF16 = 1
HR_OUTPUT_FP16 = 2
HR_LAYOUT_BSHD = 0
HR_LAYOUT_BHSD = 1
HR_LAYOUT_PACKED_QKV = 2
HR_LAYOUT_COUNT = 3
HR_OPERAND_Q = 0
HR_OPERAND_K = 1
HR_OPERAND_V = 2
HR_OPERAND_O = 3
HR_ALL_REDUCE = 0
HR_ALL_GATHER = 1
HR_REDUCE_SCATTER = 2
HR_ALL_TO_ALL = 3
HR_POINT_TO_POINT = 4
HR_BROADCAST = 5
HR_COLLECTIVE_COUNT = 6
HR_HARDWARE_GPU = 0
HR_HARDWARE_CPU = 1
HR_CALIBRATION_ESTIMATED = 0
HR_CALIBRATION_DATASHEET = 1
HR_CALIBRATION_PUBLISHED = 2
HR_CALIBRATION_MEASURED = 3
HR_CLOCK_SETTLED = 0
HR_CLOCK_BURST = 1
HR_CACHE_COLD = 0
HR_CACHE_WARM = 1
HR_CEILING_GEMM = 0
HR_CEILING_EXP = 1
HR_CEILING_READ = 2
HR_CEILING_COPY = 3
HR_INTERVAL_GEMM = 0
HR_INTERVAL_GEMM_MISALIGNED = 1
HR_INTERVAL_BMM = 2
HR_INTERVAL_ATTENTION = 3
HR_INTERVAL_DECODE = 4
HR_INTERVAL_LATENT = 5
HR_INTERVAL_LATENT_PREFILL = 6
HR_INTERVAL_EXPERTS = 7
HR_INTERVAL_GEMM_8BIT = 8
HR_INTERVAL_BMM_MISALIGNED = 9
HR_INTERVAL_OWN_ATTENTION = 10
HR_INTERVAL_OWN_DECODE = 11
HR_INTERVAL_SCAN = 12
HR_INTERVAL_COLLECTIVE = 13
HR_INTERVAL_KIND_COUNT = 14
HR_ROWWISE_SOFTMAX = 0
HR_ROWWISE_LAYER_NORM = 1
HR_ROWWISE_RMS_NORM = 2
HR_ROWWISE_ROTARY = 3
HR_ROWWISE_GELU = 4
HR_ROWWISE_SWIGLU = 5
HR_ROWWISE_RESIDUAL = 6
HR_ROWWISE_DROPOUT = 7
HR_ROWWISE_SOFTMAX_BACKWARD = 8
HR_ROWWISE_LAYER_NORM_BACKWARD = 9
HR_ROWWISE_RMS_NORM_BACKWARD = 10
HR_ROWWISE_ROTARY_BACKWARD = 11
HR_ROWWISE_GELU_BACKWARD = 12
HR_ROWWISE_SWIGLU_BACKWARD = 13
HR_ROWWISE_BIAS_BACKWARD = 14
HR_ROWWISE_CROSS_ENTROPY = 15
HR_ROWWISE_CROSS_ENTROPY_BACKWARD = 16
HR_ROWWISE_ADAMW = 17
HR_ROWWISE_RESIDUAL_LAYER_NORM = 18
HR_ROWWISE_RESIDUAL_RMS_NORM = 19
HR_ROWWISE_GELU_TANH = 20
HR_ROWWISE_RELU = 21
HR_ROWWISE_RELU2 = 22
HR_ROWWISE_GEGLU_TANH = 23
HR_ROWWISE_SCALE = 24
HR_ROWWISE_COPY = 25
HR_ROWWISE_BIAS = 26
HR_ROWWISE_GATHER = 27
HR_ROWWISE_SOFTCAP = 28
HR_ROWWISE_WEIGHT = 29
HR_ROWWISE_GATE = 30
HR_ROWWISE_SINK = 31
HR_ROWWISE_SWIGLU_CLAMPED = 32
HR_ROWWISE_COMBINE = 33
HR_ROWWISE_ROTARY_JOIN = 34
HR_ROWWISE_GEGLU = 35
HR_ROWWISE_GELU_TANH_BACKWARD = 36
HR_ROWWISE_RELU_BACKWARD = 37
HR_ROWWISE_RELU2_BACKWARD = 38
HR_ROWWISE_SOFTCAP_BACKWARD = 39
HR_ROWWISE_GEGLU_BACKWARD = 40
HR_ROWWISE_GEGLU_TANH_BACKWARD = 41
HR_ROWWISE_GATHER_BACKWARD = 42
HR_ROWWISE_GATHER_SUM = 43
HR_ROWWISE_COMBINE_BACKWARD = 44
HR_ROWWISE_GATE_BACKWARD = 45
HR_ROWWISE_COUNT = 46
HR_KV_UNQUANTIZED = 0
HR_KV_FP8 = 1
HR_KV_INT8 = 2
HR_KV_Q8_0 = 3
HR_KV_Q5_1 = 4
HR_KV_Q5_0 = 5
HR_KV_Q4_1 = 6
HR_KV_Q4_0 = 7
HR_KV_IQ4_NL = 8
HR_KV_NVFP4 = 9
HR_KV_FORMAT_COUNT = 10
HR_KV_SCALE_HEAD = 0
HR_KV_SCALE_TOKEN = 1
HR_KV_SCALES_COUNT = 2
HR_LINEAR_Q = 0
HR_LINEAR_K = 1
HR_LINEAR_V = 2
HR_LINEAR_O = 3
HR_LINEAR_O_DOWN = 4
HR_LINEAR_Q_DOWN = 5
HR_LINEAR_Q_UP = 6
HR_LINEAR_KV_DOWN = 7
HR_LINEAR_KV_UP = 8
HR_LINEAR_INDEX_Q = 9
HR_LINEAR_INDEX_K = 10
HR_LINEAR_IN_PROJ = 11
HR_LINEAR_OUT_PROJ = 12
HR_LINEAR_GATE = 13
HR_LINEAR_UP = 14
HR_LINEAR_DOWN = 15
HR_LINEAR_EXPERT_GATE = 16
HR_LINEAR_EXPERT_UP = 17
HR_LINEAR_EXPERT_DOWN = 18
HR_LINEAR_EXPERT_LATENT_DOWN = 19
HR_LINEAR_EXPERT_LATENT_UP = 20
HR_LINEAR_SHARED_GATE = 21
HR_LINEAR_SHARED_UP = 22
HR_LINEAR_SHARED_DOWN = 23
HR_LINEAR_COUNT = 24
HR_ACTIVATIONS_UNQUANTIZED = 0
HR_ACTIVATIONS_FP8 = 1
HR_ACTIVATIONS_INT8 = 2
HR_ACTIVATIONS_FP4 = 3
HR_POSITIONS_NONE = 0
HR_POSITIONS_LEARNED = 1
HR_POSITIONS_ROTARY = 2
HR_POSITIONS_ALIBI = 3
HR_NORM_LAYER = 0
HR_NORM_RMS = 1
HR_QK_NORM_NONE = 0
HR_QK_NORM_SHARED = 1
HR_QK_NORM_PER_HEAD = 2
HR_QK_NORM_FULL = 3
HR_QK_NORM_ROTATED = 4
HR_HEAD_LANGUAGE = 0
HR_HEAD_CLASSES = 1
HR_HEAD_NONE = 2
HR_ORIGIN_DESIGN = 0
HR_ORIGIN_PUBLISHED = 1
HR_ORIGIN_FILES = 2
HR_WINDOW_SLIDING = 0
HR_WINDOW_CHUNKED = 1
HR_RECURRENCE_NONE = 0
HR_RECURRENCE_SELECTIVE = 1
HR_RECURRENCE_SSD = 2
HR_RECURRENCE_GATED_DELTA = 3
HR_RECURRENCE_LIGHTNING = 4
HR_RECURRENCE_RG_LRU = 5
HR_RECURRENCE_CONVOLUTION = 6
HR_RECURRENCE_KIMI_DELTA = 7
HR_ROTARY_UNSCALED = 0
HR_ROTARY_LINEAR = 1
HR_ROTARY_LLAMA3 = 2
HR_ROTARY_YARN = 3
HR_ROTARY_OTHER = 4
HR_PHASE_FORWARD = 0
HR_PHASE_TRAIN = 1
HR_PHASE_PREFILL = 2
HR_PHASE_DECODE = 3
HR_ATTENTION_UNFUSED = 0
HR_ATTENTION_FUSED = 1
HR_FRAMEWORK_COMPILED = 0
HR_FRAMEWORK_EAGER = 1
HR_FRAMEWORK_HEADROOM = 2
HR_FRAMEWORK_TRANSFORMERS = 3
HR_FRAMEWORK_TRANSFORMERS_COMPILED = 4
HR_FRAMEWORK_TRTLLM = 5
HR_FRAMEWORK_VLLM = 6
HR_FRAMEWORK_SGLANG = 7
HR_FLASH_NEWEST = 0
HR_FLASH_2 = 1
HR_FLASH_1 = 2
HR_FLASH_TRITON = 3
HR_RECOMPUTE_NONE = 0
HR_RECOMPUTE_SELECTIVE = 1
HR_RECOMPUTE_FULL = 2
HR_DROPOUT_NONE = 0
HR_DROPOUT_TRAIN = 1
HR_DROPOUT_FORWARD = 2
HR_CHANGE_FREE = 0
HR_CHANGE_DEPLOY = 1
HR_CHANGE_RETRAIN = 2
HR_CHANGED_ATTENTION = 0
HR_CHANGED_VOCABULARY = 1
HR_CHANGED_MLP_PADDING = 2
HR_CHANGED_RECOMPUTE = 3
HR_CHANGED_SHARING = 4
HR_CHANGED_MICROBATCH = 5
HR_CHANGED_BATCH = 6
HR_CHANGED_SEQUENCE = 7
HR_CHANGED_MICROBATCHES = 8
HR_CHANGED_DATA_PARALLEL = 9
HR_CHANGED_CONTEXT_PARALLEL = 10
HR_CHANGED_EXPERT_PARALLEL = 11
HR_CHANGED_PIPELINE_STAGES = 12
HR_CHANGED_TENSOR_PARALLEL = 13
HR_CHANGED_MLP_WIDTH = 14
HR_CHANGED_HEADS = 15
HR_CHANGED_KV_HEADS = 16
HR_CHANGED_K_HEADS = 17
HR_CHANGED_K_SIZE = 18
HR_CHANGED_PARALLEL_LAYERS = 19
HR_CHANGED_LAYERS = 20
HR_CHANGED_HIDDEN = 21
HR_CHANGED_OTHER = 22
HR_CHANGED_COUNT = 23
HR_OP_EMBEDDING = 0
HR_OP_EMBEDDING_ALL_REDUCE = 1
HR_OP_EMBEDDING_REDUCE_SCATTER = 2
HR_OP_EMBEDDING_NORM = 3
HR_OP_EMBEDDING_DROPOUT = 4
HR_OP_EMBEDDING_PROJECTION_IN = 5
HR_OP_ATTENTION_HC_WEIGHTS = 6
HR_OP_ATTENTION_HC_PRE = 7
HR_OP_ATTENTION_NORM = 8
HR_OP_ATTENTION_ALL_GATHER = 9
HR_OP_QKV_TRANSFORM = 10
HR_OP_Q_TRANSFORM = 11
HR_OP_Q_DOWN = 12
HR_OP_KV_DOWN = 13
HR_OP_RANK_NORM = 14
HR_OP_Q_UP = 15
HR_OP_KV_UP = 16
HR_OP_K_TRANSFORM = 17
HR_OP_V_TRANSFORM = 18
HR_OP_QKV_SPLIT = 19
HR_OP_QK_NORM = 20
HR_OP_ROTARY = 21
HR_OP_K_ROTARY_COPY = 22
HR_OP_COMPRESS_IN = 23
HR_OP_COMPRESS = 24
HR_OP_INDEX_Q = 25
HR_OP_INDEX_K = 26
HR_OP_INDEX_COMPRESS = 27
HR_OP_INDEX_NORM = 28
HR_OP_INDEX_WEIGHTS = 29
HR_OP_INDEX_ROTARY = 30
HR_OP_INDEX_SCORE = 31
HR_OP_INDEX_TOP_K = 32
HR_OP_KV_ALL_GATHER = 33
HR_OP_Q_ABSORB = 34
HR_OP_ATTENTION_SCORE = 35
HR_OP_SOFTMAX = 36
HR_OP_SOFTMAX_DROPOUT = 37
HR_OP_ATTENTION_OVER_VALUE = 38
HR_OP_ATTENTION = 39
HR_OP_O_ABSORB = 40
HR_OP_O_ROTARY = 41
HR_OP_ATTENTION_GATE = 42
HR_OP_O_DOWN = 43
HR_OP_LINEAR_PROJECTION = 44
HR_OP_IN_PROJ = 45
HR_OP_CONVOLUTION = 46
HR_OP_X_PROJ = 47
HR_OP_X_ALL_REDUCE = 48
HR_OP_X_NORM = 49
HR_OP_DT_PROJ = 50
HR_OP_RECURRENCE_GATES = 51
HR_OP_SCAN_DECAY_UP = 52
HR_OP_SCAN_GATE_UP = 53
HR_OP_SCAN = 54
HR_OP_SCAN_GATE = 55
HR_OP_OUT_PROJ = 56
HR_OP_ATTENTION_ALL_REDUCE = 57
HR_OP_ATTENTION_REDUCE_SCATTER = 58
HR_OP_ATTENTION_POST_NORM = 59
HR_OP_ATTENTION_DROPOUT = 60
HR_OP_ATTENTION_RESIDUAL = 61
HR_OP_MLP_HC_WEIGHTS = 62
HR_OP_MLP_HC_PRE = 63
HR_OP_MLP_NORM = 64
HR_OP_MLP_ALL_GATHER = 65
HR_OP_ROUTER = 66
HR_OP_ROUTER_TOP_K = 67
HR_OP_EXPERT_LATENT_DOWN = 68
HR_OP_DISPATCH = 69
HR_OP_DISPATCH_ALL_TO_ALL = 70
HR_OP_EXPERT_UP = 71
HR_OP_EXPERT_GATE = 72
HR_OP_EXPERT_ACTIVATION = 73
HR_OP_EXPERT_DOWN = 74
HR_OP_COMBINE_ALL_TO_ALL = 75
HR_OP_SHARED_UP = 76
HR_OP_SHARED_GATE = 77
HR_OP_SHARED_ACTIVATION = 78
HR_OP_SHARED_DOWN = 79
HR_OP_SHARED_OUTPUT_GATE = 80
HR_OP_COMBINE = 81
HR_OP_EXPERT_LATENT_UP = 82
HR_OP_SHARED_ADD = 83
HR_OP_MLP_UP = 84
HR_OP_MLP_GATE = 85
HR_OP_ACTIVATION = 86
HR_OP_MLP_DOWN = 87
HR_OP_MLP_ALL_REDUCE = 88
HR_OP_MLP_REDUCE_SCATTER = 89
HR_OP_MLP_POST_NORM = 90
HR_OP_MLP_DROPOUT = 91
HR_OP_MLP_RESIDUAL = 92
HR_OP_PIPELINE_SEND = 93
HR_OP_FINAL_HC_WEIGHTS = 94
HR_OP_FINAL_HC_PRE = 95
HR_OP_FINAL_NORM = 96
HR_OP_LOGIT_ALL_GATHER = 97
HR_OP_EMBEDDING_PROJECTION_OUT = 98
HR_OP_LOGIT = 99
HR_OP_LOSS = 100
HR_OP_WEIGHT_ALL_GATHER = 101
HR_OP_GRADIENT_ALL_REDUCE = 102
HR_OP_GRADIENT_REDUCE_SCATTER = 103
HR_OP_OPTIMIZER = 104
HR_OPERATOR_ID_COUNT = 105
HR_KIND_GEMM = 0
HR_KIND_BMM = 1
HR_KIND_ATTENTION = 2
HR_KIND_MEMORY = 3
HR_KIND_COMMUNICATION = 4
HR_KIND_GROUPED_GEMM = 5
HR_KIND_SCAN = 6
HR_PASS_FORWARD = 0
HR_PASS_DGRAD = 1
HR_PASS_WGRAD = 2
HR_PASS_RECOMPUTE = 3
HR_PASS_BGRAD = 4
HR_TENSOR_NONE = 0
HR_TENSOR_TOKENS = 1
HR_TENSOR_POSITIONS = 2
HR_TENSOR_HIDDEN = 3
HR_TENSOR_HC_WEIGHTS = 4
HR_TENSOR_COLLAPSED = 5
HR_TENSOR_NORMED = 6
HR_TENSOR_Q_LOW = 7
HR_TENSOR_KV_LOW = 8
HR_TENSOR_COMPRESSED = 9
HR_TENSOR_Q = 10
HR_TENSOR_K = 11
HR_TENSOR_V = 12
HR_TENSOR_INDEX_Q = 13
HR_TENSOR_INDEX_K = 14
HR_TENSOR_INDEX_WEIGHTS = 15
HR_TENSOR_INDEX_SCORES = 16
HR_TENSOR_CHOSEN_KEYS = 17
HR_TENSOR_SCORES = 18
HR_TENSOR_HEADS = 19
HR_TENSOR_GATE = 20
HR_TENSOR_ATTENTION = 21
HR_TENSOR_SCAN_INPUT = 22
HR_TENSOR_SCAN_STEPS = 23
HR_TENSOR_SCAN_HEADS = 24
HR_TENSOR_SCAN = 25
HR_TENSOR_ROUTER_LOGITS = 26
HR_TENSOR_ROUTES = 27
HR_TENSOR_EXPERT_LATENT = 28
HR_TENSOR_DISPATCHED = 29
HR_TENSOR_EXPERT_UP = 30
HR_TENSOR_EXPERT_GATE = 31
HR_TENSOR_EXPERT_ACTIVATED = 32
HR_TENSOR_EXPERTS = 33
HR_TENSOR_SHARED_UP = 34
HR_TENSOR_SHARED_GATE = 35
HR_TENSOR_SHARED_ACTIVATED = 36
HR_TENSOR_SHARED = 37
HR_TENSOR_MLP_UP = 38
HR_TENSOR_MLP_GATE = 39
HR_TENSOR_MLP_ACTIVATED = 40
HR_TENSOR_MLP = 41
HR_TENSOR_LOGITS = 42
HR_TENSOR_COUNT = 43
HR_BOUND_MATRIX = 0
HR_BOUND_MEMORY = 1
HR_BOUND_LAUNCH = 2
HR_BOUND_ALIGNMENT = 3
HR_BOUND_QUANTIZATION = 4
HR_BOUND_INTERCONNECT = 5
HR_BOUND_NETWORK = 6
HR_SEVERITY_NONE = 0
HR_SEVERITY_LOW = 1
HR_SEVERITY_MEDIUM = 2
HR_SEVERITY_HIGH = 3
HR_LIBRARY_NCCL = 0
HR_LIBRARY_HEADROOM = 1
HR_LIBRARY_SERVERS = 2
HR_LIBRARY_TRTLLM = 3
HR_LIBRARY_VLLM = 4
HR_LIBRARY_SGLANG = 5
HR_LIBRARY_DEEPEP_TRTLLM = 6
HR_LIBRARY_DEEPEP_VLLM = 7
HR_LIBRARY_DEEPEP_SGLANG = 8
HR_LIBRARY_DEEPEP_LL_TRTLLM = 9
HR_LIBRARY_DEEPEP_LL_VLLM = 10
HR_LIBRARY_DEEPEP_LL_SGLANG = 11
HR_LIBRARY_COUNT = 12
HR_EXPERTS_USUAL = 0
HR_EXPERTS_CUTLASS = 1
HR_EXPERTS_TRITON = 2
HR_CALIBRATED_ANY = 0
HR_CALIBRATED_SHORT = 1
HR_CALIBRATED_LONG = 2
HR_CALIBRATED_SIZE_COUNT = 3
HR_TENSOR_FP64 = 0
HR_TENSOR_FP32 = 1
HR_TENSOR_FP16 = 2
HR_TENSOR_BF16 = 3
HR_TENSOR_FP8_E4M3 = 4
HR_TENSOR_FP8_E5M2 = 5
HR_TENSOR_FP8_E4M3FNUZ = 6
HR_TENSOR_FP8_E5M2FNUZ = 7
HR_TENSOR_FP8_E8M0 = 8
HR_TENSOR_FP6_E2M3 = 9
HR_TENSOR_FP6_E3M2 = 10
HR_TENSOR_FP4 = 11
HR_TENSOR_COMPLEX64 = 12
HR_TENSOR_INT64 = 13
HR_TENSOR_UINT64 = 14
HR_TENSOR_INT32 = 15
HR_TENSOR_UINT32 = 16
HR_TENSOR_INT16 = 17
HR_TENSOR_UINT16 = 18
HR_TENSOR_INT8 = 19
HR_TENSOR_UINT8 = 20
HR_TENSOR_BOOL = 21
HR_TENSOR_FORMAT_COUNT = 22
HR_CHECKPOINT_WEIGHTS = 0
HR_CHECKPOINT_HEAD = 1
HR_CHECKPOINT_BUFFERS = 2
HR_CHECKPOINT_SCALES = 3
HR_CHECKPOINT_ROUTER_BIAS = 4
HR_CHECKPOINT_PREDICTION = 5
HR_CHECKPOINT_MEDIA = 6
HR_CHECKPOINT_OTHER_HEADS = 7
HR_CHECKPOINT_ADAPTERS = 8
HR_CHECKPOINT_PACKED = 9
HR_CHECKPOINT_PART_COUNT = 10
HR_CHECKPOINT_EQUAL = 0
HR_CHECKPOINT_EQUAL_WITHOUT = 1
HR_CHECKPOINT_NOT_COMPARED = 2
HR_CHECKPOINT_DIFFERENT = 3
HR_CHECKPOINT_MATCH_COUNT = 4
HR_CALL_WHOLE = 0
HR_CALL_BEGIN = 1
HR_CALL_END = 2
HR_RESULT_GEMM = 0
HR_RESULT_ATTENTION = 1
HR_RESULT_DECODE = 2
HR_RESULT_OTHER = 3
HR_RESULT_KIND_COUNT = 4
HR_STORE_READ = 0
HR_STORE_WRITE = 1
HR_STORE_SCRATCH = 2
HR_STORE_CSV = 0
HR_STORE_JSON_LINES = 1
HR_VERDICT_SAME = 0
HR_VERDICT_FASTER = 1
HR_VERDICT_SLOWER = 2
HR_VERDICT_NOISY = 3
HR_VERDICT_COUNT = 4
HR_PICTURE_TEXT = 0
HR_PICTURE_SVG = 1
HR_PICTURE_PNG = 2
HR_PICTURE_PDF = 3
HR_PART_LINEAR = 0
HR_PART_ATTENTION = 1
HR_PART_SOFTMAX = 2
HR_PART_SCAN = 3
HR_PART_NORM = 4
HR_PART_ROTARY = 5
HR_PART_ACTIVATION = 6
HR_PART_DROPOUT = 7
HR_PART_RESIDUAL = 8
HR_PART_ROUTING = 9
HR_PART_COMMUNICATION = 10
HR_PART_LOSS = 11
HR_PART_OPTIMIZER = 12
HR_PART_COUNT = 13
HR_SERVE_VLLM = 0
HR_SERVE_SGLANG = 1
HR_SERVE_TRTLLM = 2
HR_SERVE_TURBOMIND = 3
HR_SERVE_NONE = 4
HR_SERVE_ENGINE_COUNT = 5
HR_OFFER_COUNT = 0
HR_OFFER_TIME = 1
HR_OFFER_BYTES = 2
HR_OFFER_SHARE = 3
HR_OFFER_NUMBER = 4
HR_SWEEP_GEMM = 0
HR_SWEEP_BMM = 1
HR_SWEEP_ATTENTION = 2
HR_SWEEP_DECODE = 3
HR_SWEEP_LAYER = 4
HR_SWEEP_STEP = 5
HR_SWEEP_COLLECTIVE = 6
HR_SWEEP_KIND_COUNT = 7
HR_VIEW_RATE = 0
HR_VIEW_TIME = 1
HR_VIEW_HEATMAP = 2
HR_VIEW_SCALING = 3
HR_VIEW_GAIN = 4
HR_VIEW_SHARES = 5
HR_VIEW_GEMM_SHARES = 6
HR_VIEW_COUNT = 7
HR_TRAINING_MEGATRON = 1
HR_TRAINING_TORCHTITAN = 2
HR_SEARCH_HIDDEN = 1
HR_SEARCH_HEADS = 2
HR_SEARCH_MLP = 4
HR_SEARCH_VOCABULARY = 8
HR_SEARCH_LAYERS = 16
HR_SEARCH_KV_HEADS = 32
HR_FORMAT_TABLE = 0
HR_FORMAT_JSON = 1
HR_FORMAT_CSV = 2
HR_FORMAT_MARKDOWN = 3
HR_FORMAT_HTML = 4
HR_CSV_FINDINGS = 0
HR_CSV_OPERATORS = 1
HR_CSV_MEASUREMENTS = 2
HR_CSV_LAYOUTS = 3
HR_ROTARY_HALF_SPLIT = 0
HR_ROTARY_INTERLEAVED = 1
HR_FINDINGS_MAX = 48
HR_COMBINED_MAX = 2
HR_CHANGE_CLASS_COUNT = 3
HR_DECODE_Q_LEN_MAX = 16
HR_KV_READABLE_COUNT = 3
HR_LIBRARIES_MAX = 8
HR_FITTED_FIGURES_MAX = 512
HR_CALIBRATE_ROWS_MIN = 20
HR_CALLS_UNDER_WAY = 8
HR_CONFIRMATION_REPLACED_MAX = 3
HR_LAYER_BESIDE_MAX = 4
HR_LOAD_REQUESTS_MAX = 1000000
HR_LOAD_TOKENS_MAX = 16777216
HR_LOAD_SEQUENCES_MAX = 65536
HR_LOAD_DRAFT_MAX = 64
HR_LOAD_INSTANCES_MAX = 512
HR_LOAD_INTERVALS = 10
HR_OFFERS_MAX = 16
HR_OFFER_FIGURES_MAX = 16
HR_POINTS_DRAWN_MAX = 100000
HR_SWEEP_AXES_MAX = 24
HR_SWEEP_POINTS_MAX = 100000
HR_TRAINING_COUNTS_MAX = 16
HR_TRAINING_DEVICES_MAX = 1048576
HR_TRAINING_GLOBAL_BATCH_MAX = 16777216
HR_TRAINING_MICROBATCH_MAX = 1024
HR_VALIDATED_WORST = 10
HR_TENSOR_DIMS_MAX = 8
HR_KV_PAGE_MIN = 16
HR_KV_PAGE_MAX = 256
HR_KV_QUANTIZED_DIM_MAX = 4096
HR_LAYER_ORDER_MAX = 256
HR_LAYER_GROUPS_MAX = 64
HR_OPERATOR_READS_MAX = 5
HR_OPERATOR_WRITES_MAX = 4
HR_OPERATOR_WEIGHTS_MAX = 8
HR_OPERATORS_MAX = 768
HR_PARALLEL_LAYOUTS_MAX = 32
HR_WORKSPACE_COUNTER_BYTES = 262144
HR_WEIGHT_FORMATS_MAX = 4
HR_ROWWISE_TERMS_MAX = 64
HR_SEARCH_LIMIT_MAX = 4096
HR_SEARCH_HEAD_SIZES_MAX = 16
HR_SEARCH_SERVE_ON_MAX = 16
HR_SERVE_TOKENS_MAX = 274877906944
HR_SERVE_DEVICES_MAX = 4096
HR_SERVE_PREFILL_MAX = 1099511627776
HR_SERVE_PAGE_MAX = 1048576
HR_SERVE_RATE_MAX = 1000000000
HR_SERVE_RESERVE_MAX = 1125899906842624
HR_VERSION_MAJOR = 0
HR_VERSION_MINOR = 2
HR_VERSION_PATCH = 0
HR_VERSION_NUMBER = 200
HR_WORKLOAD_SIZE_MAX = 1099511627776


class hr_error(Structure):
    _fields_ = [
        ("status", c_int),
        ("message", c_char * 512),
    ]


class hr_strides(Structure):
    _fields_ = [
        ("batch", c_int64),
        ("row", c_int64),
        ("head", c_int64),
    ]


class hr_attention(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_int64),
        ("q_len", c_int64),
        ("kv_len", c_int64),
        ("q_heads", c_int64),
        ("k_heads", c_int64),
        ("v_heads", c_int64),
        ("qk_dim", c_int64),
        ("v_dim", c_int64),
        ("dtype", c_int),
        ("mask", c_int),
        ("window", c_int64),
        ("scale", c_float),
        ("softcap", c_float),
        ("alibi", c_bool),
        ("variable_lengths", c_bool),
        ("q_total", c_int64),
        ("kv_total", c_int64),
        ("q_strides", hr_strides),
        ("k_strides", hr_strides),
        ("v_strides", hr_strides),
        ("o_strides", hr_strides),
        ("output", c_int),
        ("head_scales", c_bool),
        ("alignment", c_int64),
        ("first_keys", c_bool),
    ]


class hr_device_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("threads", c_int),
        ("stream", c_void_p),
        ("context", c_void_p),
    ]


class hr_conditions(Structure):
    _fields_ = [
        ("clock_hz", c_double),
        ("memory_clock_hz", c_double),
        ("power_w", c_double),
        ("temperature_c", c_double),
        ("throttled_by", c_char * 96),
    ]


class hr_library(Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("device", c_char * 16),
        ("purpose", c_char * 64),
        ("status", c_int),
        ("version", c_char * 32),
        ("detail", c_char * 256),
    ]


class hr_gemm(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("m", c_int64),
        ("n", c_int64),
        ("k", c_int64),
        ("batch", c_int64),
        ("dtype", c_int),
        ("transpose_a", c_bool),
        ("transpose_b", c_bool),
        ("broadcast_a", c_bool),
        ("broadcast_b", c_bool),
        ("lda", c_int64),
        ("ldb", c_int64),
        ("ldc", c_int64),
        ("stride_a", c_int64),
        ("stride_b", c_int64),
        ("stride_c", c_int64),
        ("alignment", c_int64),
        ("bias", c_bool),
    ]


class hr_matrix(Structure):
    _fields_ = [
        ("rows", c_int64),
        ("columns", c_int64),
        ("leading_dimension", c_int64),
        ("batch_stride", c_int64),
        ("elements", c_int64),
    ]


class hr_rowwise(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("operation", c_int),
        ("rows", c_int64),
        ("columns", c_int64),
        ("dtype", c_int),
        ("period", c_int64),
        ("group", c_int64),
        ("rate", c_double),
        ("seed", c_uint64),
        ("alignment", c_int64),
        ("scale", c_double),
        ("learning_rate", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("weight_decay", c_double),
        ("max_norm", c_double),
        ("step", c_int64),
        ("factor", c_double),
        ("x_stride", c_int64),
        ("rotated", c_int64),
        ("interleaved", c_bool),
        ("x_row", c_int64),
        ("z_row", c_int64),
        ("z_stride", c_int64),
        ("y_stride", c_int64),
    ]


class hr_kernel_info(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("operation", c_char_p),
        ("device", c_char_p),
        ("dtypes", c_char_p),
        ("needs", c_char_p),
        ("summary", c_char_p),
    ]


class hr_gemm_arguments(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("a", c_void_p),
        ("b", c_void_p),
        ("c", c_void_p),
        ("bias", c_void_p),
    ]


class hr_attention_arguments(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("o", c_void_p),
        ("lse", c_void_p),
        ("alibi_slopes", c_void_p),
        ("q_offsets", c_void_p),
        ("kv_offsets", c_void_p),
        ("q_scales", c_void_p),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("batch", c_int64),
        ("q_rows", c_int64),
        ("kv_rows", c_int64),
        ("first_keys", c_void_p),
    ]


class hr_rowwise_arguments(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("inputs", c_void_p * 3),
        ("output", c_void_p),
        ("more_inputs", c_void_p * 1),
        ("more_outputs", c_void_p * 3),
        ("step", c_int64),
        ("squares", c_void_p),
        ("squares_count", c_int64),
        ("row_count", c_void_p),
    ]


class hr_kv_strides(Structure):
    _fields_ = [
        ("page", c_int64),
        ("token", c_int64),
        ("head", c_int64),
    ]


class hr_decode(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_int64),
        ("q_len", c_int64),
        ("kv_len", c_int64),
        ("q_heads", c_int64),
        ("k_heads", c_int64),
        ("v_heads", c_int64),
        ("qk_dim", c_int64),
        ("v_dim", c_int64),
        ("dtype", c_int),
        ("page_size", c_int64),
        ("page_count", c_int64),
        ("table_pitch", c_int64),
        ("window", c_int64),
        ("top_k", c_int64),
        ("scale", c_float),
        ("softcap", c_float),
        ("sinks", c_bool),
        ("latent", c_bool),
        ("batch_invariant", c_bool),
        ("q_strides", hr_strides),
        ("o_strides", hr_strides),
        ("k_strides", hr_kv_strides),
        ("v_strides", hr_kv_strides),
        ("cache_format", c_int),
        ("cache_scales", c_int),
        ("k_scale_strides", hr_kv_strides),
        ("v_scale_strides", hr_kv_strides),
        ("alignment", c_int64),
        ("alibi", c_bool),
    ]


class hr_decode_arguments(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("o", c_void_p),
        ("lse", c_void_p),
        ("lengths", c_void_p),
        ("pages", c_void_p),
        ("sinks", c_void_p),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("page_starts", c_void_p),
        ("batch", c_int64),
        ("alibi_slopes", c_void_p),
    ]


class hr_input(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("length", c_size_t),
        ("name", c_char_p),
    ]


class hr_weight_format(Structure):
    _fields_ = [
        ("name", c_char * 16),
        ("bits", c_int64),
        ("block_inputs", c_int64),
        ("block_outputs", c_int64),
        ("block_bits", c_int64),
        ("nested", c_int64),
        ("input_bytes", c_int64),
        ("matrix_bytes", c_int64),
        ("activations", c_int),
    ]


class hr_quantization(Structure):
    _fields_ = [
        ("method", c_char * 24),
        ("format_count", c_size_t),
        ("formats", hr_weight_format * 4),
        ("logit", c_uint8),
        ("tied_logit", c_uint8),
        ("kv_cache", c_int),
    ]


class hr_mixer_attention(Structure):
    _fields_ = [
        ("q_heads", c_int64),
        ("k_heads", c_int64),
        ("v_heads", c_int64),
        ("qk_dim", c_int64),
        ("v_dim", c_int64),
        ("q_rank", c_int64),
        ("window", c_int64),
        ("window_kind", c_int),
        ("rotary_dim", c_int64),
        ("index_topk", c_int64),
        ("index_block", c_int64),
        ("index_dim", c_int64),
        ("qk_norm", c_int),
        ("qk_norm_bias", c_bool),
        ("q_bias", c_bool),
        ("k_bias", c_bool),
        ("v_bias", c_bool),
        ("output_bias", c_bool),
        ("output_gate", c_bool),
        ("gate_per_head", c_bool),
        ("gate_unbiased", c_bool),
        ("sinks", c_bool),
        ("shared_kv", c_bool),
        ("shared_k_norm", c_bool),
        ("v_is_k", c_bool),
    ]


class hr_mixer_latent(Structure):
    _fields_ = [
        ("q_heads", c_int64),
        ("q_rank", c_int64),
        ("kv_rank", c_int64),
        ("nope_dim", c_int64),
        ("rope_dim", c_int64),
        ("v_dim", c_int64),
        ("down_bias", c_bool),
        ("output_bias", c_bool),
        ("index_topk", c_int64),
        ("index_heads", c_int64),
        ("index_dim", c_int64),
    ]


class hr_mixer_compressed(Structure):
    _fields_ = [
        ("q_heads", c_int64),
        ("head_dim", c_int64),
        ("rope_dim", c_int64),
        ("q_rank", c_int64),
        ("window", c_int64),
        ("ratio", c_int64),
        ("overlaps", c_bool),
        ("index_topk", c_int64),
        ("index_heads", c_int64),
        ("index_dim", c_int64),
        ("o_groups", c_int64),
        ("o_rank", c_int64),
    ]


class hr_mixer_scan(Structure):
    _fields_ = [
        ("recurrence", c_int),
        ("heads", c_int64),
        ("head_dim", c_int64),
        ("groups", c_int64),
        ("state", c_int64),
        ("kernel", c_int64),
        ("rank", c_int64),
        ("chunk", c_int64),
        ("in_bias", c_bool),
        ("out_bias", c_bool),
        ("conv_bias", c_bool),
        ("norm", c_bool),
        ("norm_weight", c_bool),
    ]


class hr_ffn_dense(Structure):
    _fields_ = [
        ("width", c_int64),
        ("gated", c_bool),
        ("bias", c_bool),
        ("activation_parameters", c_int64),
    ]


class hr_ffn_experts(Structure):
    _fields_ = [
        ("experts", c_int64),
        ("active", c_int64),
        ("width", c_int64),
        ("groups", c_int64),
        ("active_groups", c_int64),
        ("shared_width", c_int64),
        ("latent", c_int64),
        ("held", c_int64),
        ("gated", c_bool),
        ("bias", c_bool),
        ("shared_bias", c_bool),
        ("latent_bias", c_bool),
        ("router_bias", c_bool),
        ("shared_gate", c_bool),
        ("output_norm", c_bool),
    ]


class hr_layer_group(Structure):
    _fields_ = [
        ("count", c_int64),
        ("norms", c_int64),
        ("parallel_block", c_bool),
        ("norms_behind", c_bool),
        ("attention", hr_mixer_attention),
        ("latent", hr_mixer_latent),
        ("compressed", hr_mixer_compressed),
        ("scan", hr_mixer_scan),
        ("dense", hr_ffn_dense),
        ("experts", hr_ffn_experts),
        ("formats", c_uint8 * 24),
    ]


class hr_router(Structure):
    _fields_ = [
        ("sigmoid", c_bool),
        ("normalized", c_bool),
        ("bias_chooses", c_bool),
        ("group_pairs", c_bool),
        ("scale", c_double),
        ("weighs_inputs", c_bool),
    ]


class hr_numerics(Structure):
    _fields_ = [
        ("known", c_bool),
        ("norm_epsilon", c_double),
        ("rotary_base", c_double),
        ("rotary_window_base", c_double),
        ("rotary_interleaved", c_bool),
        ("gelu_tanh", c_bool),
        ("rotary_scaling", c_int),
        ("rotary_factor", c_double),
        ("rotary_low", c_double),
        ("rotary_high", c_double),
        ("rotary_positions", c_double),
        ("rotary_amplitude", c_double),
        ("rotary_truncated", c_bool),
        ("attention_scale", c_double),
        ("attention_softcap", c_double),
        ("logit_softcap", c_double),
        ("embedding_scale", c_double),
        ("residual_scale", c_double),
        ("logit_scale", c_double),
        ("alibi_scaled", c_bool),
        ("swiglu_limit", c_double),
        ("router", hr_router),
        ("query_growth", c_double),
        ("query_floor", c_double),
        ("refusal", c_char * 96),
    ]


class hr_model(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 96),
        ("family", c_char * 24),
        ("hidden", c_int64),
        ("vocabulary", c_int64),
        ("max_positions", c_int64),
        ("activation", c_char * 24),
        ("positions", c_int),
        ("position_rows", c_int64),
        ("norm", c_int),
        ("norm_bias", c_bool),
        ("norm_weight", c_bool),
        ("final_norm", c_bool),
        ("embedding_norm", c_bool),
        ("head", c_int),
        ("classes", c_int64),
        ("logit_bias", c_bool),
        ("tied_embeddings", c_bool),
        ("embedding_dim", c_int64),
        ("residual_streams", c_int64),
        ("default_batch", c_int64),
        ("default_sequence", c_int64),
        ("default_tensor_parallel", c_int64),
        ("default_pipeline_stages", c_int64),
        ("quantization", hr_quantization),
        ("origin", c_int),
        ("group_count", c_size_t),
        ("groups", hr_layer_group * 64),
        ("numerics", hr_numerics),
        ("order", c_uint8 * 256),
    ]


class hr_parameters(Structure):
    _fields_ = [
        ("total", c_int64),
        ("excluding_embeddings", c_int64),
        ("embedding", c_int64),
        ("position", c_int64),
        ("scan", c_int64),
        ("attention", c_int64),
        ("mlp", c_int64),
        ("norm", c_int64),
        ("experts", c_int64),
        ("logit", c_int64),
        ("active", c_int64),
    ]


class hr_workload(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("phase", c_int),
        ("attention", c_int),
        ("dtype", c_int),
        ("dropout", c_int),
        ("batch", c_int64),
        ("sequence", c_int64),
        ("context", c_int64),
        ("tensor_parallel", c_int64),
        ("pipeline_stages", c_int64),
        ("expert_parallel", c_int64),
        ("kv_cache", c_int),
        ("expert_imbalance", c_double),
        ("sequence_parallel", c_bool),
        ("context_parallel", c_int64),
        ("data_parallel", c_int64),
        ("zero_stage", c_int64),
        ("recompute", c_int),
        ("microbatches", c_int64),
        ("overlap", c_double),
        ("framework", c_int),
        ("flash", c_int),
        ("virtual_stages", c_int64),
        ("page_size", c_int64),
        ("fp8_linears", c_bool),
    ]


class hr_operator(Structure):
    _fields_ = [
        ("id", c_int),
        ("kind", c_int),
        ("pass", c_int),
        ("in_layer", c_bool),
        ("count", c_int64),
        ("gemm", hr_gemm),
        ("attention", hr_attention),
        ("latent", c_bool),
        ("columns", c_int64),
        ("rows", c_int64),
        ("recurrence", c_int),
        ("updates", c_bool),
        ("collective", c_int),
        ("devices", c_int64),
        ("stride", c_int64),
        ("flops", c_int64),
        ("activations", c_int),
        ("kv_cache", c_int),
        ("bytes", c_int64),
        ("framework", c_int),
        ("kernels", c_int64),
        ("moved_bytes", c_int64),
        ("summed_rows", c_int64),
        ("sequence", c_int64),
        ("cached_bytes", c_int64),
        ("flash", c_int),
        ("masked", c_bool),
        ("reads", c_uint8 * 5),
        ("writes", c_uint8 * 4),
        ("weights", c_uint8 * 8),
        ("groups", c_uint64),
        ("copies", c_int64),
        ("chosen", c_int64),
        ("served", c_bool),
        ("fused", c_bool),
        ("persistent", c_bool),
        ("page_size", c_int64),
        ("rounded", c_bool),
        ("rounds_twice", c_bool),
    ]


class hr_operators(Structure):
    _fields_ = [
        ("count", c_size_t),
        ("items", hr_operator * 768),
        ("flops", c_int64),
        ("bytes", c_int64),
    ]


class hr_prediction(Structure):
    _fields_ = [
        ("time_ns", c_double),
        ("low_ns", c_double),
        ("high_ns", c_double),
        ("bound_by", c_int),
        ("efficiency", c_double),
        ("matrix_ns", c_double),
        ("tile_ns", c_double),
        ("store_ns", c_double),
        ("wave_ns", c_double),
        ("alignment_ns", c_double),
        ("memory_ns", c_double),
        ("launch_ns", c_double),
        ("pair_ns", c_double),
        ("split_ns", c_double),
        ("cache_ns", c_double),
        ("rounding_ns", c_double),
        ("padding_ns", c_double),
        ("tile_waste", c_double),
        ("wave_waste", c_double),
        ("alignment_loss", c_double),
        ("tile_m", c_int64),
        ("tile_n", c_int64),
        ("tiles", c_int64),
        ("waves", c_int64),
        ("splits", c_int64),
        ("m_alignment", c_int64),
        ("n_alignment", c_int64),
        ("k_alignment", c_int64),
        ("alignment", c_int64),
        ("reduction_ns", c_double),
        ("clock_ns", c_double),
        ("exposed_ns", c_double),
    ]


class hr_step_about(Structure):
    _fields_ = [
        ("operator_count", c_size_t),
        ("time_ns", c_double),
        ("low_ns", c_double),
        ("high_ns", c_double),
        ("layer_time_ns", c_double),
        ("logit_time_ns", c_double),
        ("tokens_per_s", c_double),
        ("model_efficiency", c_double),
        ("microbatch_time_ns", c_double),
        ("stage_time_ns", c_double),
        ("bubble", c_double),
        ("tokens_per_s_per_device", c_double),
        ("replica_ns", c_double),
        ("exposed_ns", c_double),
        ("communication_ns", c_double),
        ("kernels", c_int64),
        ("host_ns", c_double),
        ("optimizer_ns", c_double),
    ]


class hr_subject(Structure):
    _fields_ = [
        ("model", POINTER(hr_model)),
        ("workload", POINTER(hr_workload)),
        ("hardware", c_void_p),
    ]


class hr_parallel_layout(Structure):
    _fields_ = [
        ("workload", hr_workload),
        ("devices", c_int64),
        ("nodes", c_int64),
        ("memory_bytes", c_int64),
        ("largest_batch", c_int64),
        ("fits", c_bool),
        ("time_ns", c_double),
        ("low_ns", c_double),
        ("high_ns", c_double),
        ("tokens_per_s", c_double),
        ("tokens_per_s_per_device", c_double),
        ("communication_share", c_double),
        ("bubble", c_double),
        ("heads_split", c_bool),
        ("splits", c_bool),
        ("split", c_char * 160),
    ]


class hr_parallel_layouts(Structure):
    _fields_ = [
        ("count", c_size_t),
        ("current", c_int),
        ("fastest", c_int),
        ("max_per_device", c_int),
        ("fewest_devices", c_int),
        ("nodes", c_int64),
        ("items", hr_parallel_layout * 32),
    ]


class hr_finding(Structure):
    _fields_ = [
        ("rule", c_char_p),
        ("source", c_char_p),
        ("severity", c_int),
        ("own_severity", c_int),
        ("change_class", c_int),
        ("cost", c_char_p),
        ("cost_source", c_char_p),
        ("not_applicable", c_bool),
        ("cannot_run", c_bool),
        ("operators", c_char * 128),
        ("main_operators", c_uint64 * 2),
        ("why", c_char * 384),
        ("current", c_char * 96),
        ("suggested", c_char * 192),
        ("has_change", c_bool),
        ("model", hr_model),
        ("workload", hr_workload),
        ("parameter_change", c_double),
        ("predicted_operator_gain", c_double),
        ("predicted_gain", c_double),
        ("eager_gain", c_double),
        ("gain_per_device", c_bool),
        ("predicted_time_ns", c_double),
        ("measured_gain", c_double),
        ("measured_operator_gain", c_double),
    ]


class hr_advise_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("design", c_bool),
        ("trained", c_bool),
        ("without_classes", c_uint32),
        ("without_rules", c_uint64),
        ("nodes", c_int64),
    ]


class hr_advice_about(Structure):
    _fields_ = [
        ("hardware", c_void_p),
        ("model", POINTER(hr_model)),
        ("workload", POINTER(hr_workload)),
        ("step", c_void_p),
        ("layouts", POINTER(hr_parallel_layouts)),
        ("finding_count", c_size_t),
        ("combined_count", c_size_t),
        ("left_out", c_size_t),
        ("left_out_high", c_size_t),
        ("retrain_last", c_bool),
    ]


class hr_rule(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("summary", c_char_p),
        ("source", c_char_p),
        ("change_class", c_int),
    ]


class hr_plans_counts(Structure):
    _fields_ = [
        ("found", c_int64),
        ("made", c_int64),
    ]


class hr_attention_backward(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("do_strides", hr_strides),
        ("dq_strides", hr_strides),
        ("dk_strides", hr_strides),
        ("dv_strides", hr_strides),
        ("sinks", c_bool),
        ("deterministic", c_bool),
    ]


class hr_attention_backward_arguments(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("o", c_void_p),
        ("d_o", c_void_p),
        ("lse", c_void_p),
        ("dq", c_void_p),
        ("dk", c_void_p),
        ("dv", c_void_p),
        ("alibi_slopes", c_void_p),
        ("sinks", c_void_p),
        ("d_sinks", c_void_p),
        ("q_offsets", c_void_p),
        ("kv_offsets", c_void_p),
        ("first_keys", c_void_p),
        ("batch", c_int64),
        ("q_rows", c_int64),
        ("kv_rows", c_int64),
    ]


class hr_collective(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("devices", c_int64),
        ("stride", c_int64),
        ("bytes", c_int64),
        ("library", c_int),
        ("copies", c_int64),
    ]


class hr_expert_call(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("tokens", c_int64),
        ("rows", c_int64),
        ("hidden", c_int64),
        ("width", c_int64),
        ("experts", c_int64),
        ("gated", c_bool),
        ("top_k", c_int64),
        ("kernels", c_int),
    ]


class hr_scan_call(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("recurrence", c_int),
        ("updates", c_bool),
        ("batch", c_int64),
        ("tokens", c_int64),
        ("heads", c_int64),
        ("head_dim", c_int64),
        ("groups", c_int64),
        ("state", c_int64),
        ("chunk", c_int64),
    ]


class hr_validate_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("framework", c_int),
        ("cache_writes", c_bool),
    ]


class hr_validated_row(Structure):
    _fields_ = [
        ("line", c_int64),
        ("kind", c_int),
        ("gemm", hr_gemm),
        ("rounded", c_bool),
        ("attention", hr_attention),
        ("experts", hr_expert_call),
        ("scan", hr_scan_call),
        ("measured_ns", c_double),
        ("clock", c_int),
        ("cache", c_int),
        ("framework", c_int),
        ("cache_writes", c_bool),
        ("prediction", hr_prediction),
        ("error", c_double),
        ("term", c_char_p),
        ("collective", hr_collective),
        ("nodes", c_int64),
    ]


class hr_validated_rows(Structure):
    _fields_ = [
        ("rows", POINTER(hr_validated_row)),
        ("count", c_size_t),
    ]


class hr_validated_group(Structure):
    _fields_ = [
        ("kind", c_int),
        ("min_ns", c_double),
        ("max_ns", c_double),
        ("rows", c_int64),
        ("median", c_double),
        ("mean", c_double),
        ("p90", c_double),
        ("bias", c_double),
        ("coverage", c_double),
        ("rank_correlation", c_double),
    ]


class hr_validation(Structure):
    _fields_ = [
        ("row_count", c_size_t),
        ("rows", POINTER(hr_validated_row)),
        ("skipped", c_int64),
        ("skipped_why", c_char * 160),
        ("group_count", c_size_t),
        ("groups", POINTER(hr_validated_group)),
        ("worst_count", c_size_t),
        ("worst", c_size_t * 10),
        ("drawn", c_int64),
        ("seed", c_uint64),
    ]


class hr_calibrate_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("folds", c_int64),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_fitted_figure(Structure):
    _fields_ = [
        ("name", c_char * 64),
        ("field", c_char * 32),
        ("before", c_double),
        ("after", c_double),
        ("rows", c_int64),
    ]


class hr_calibrated_kind(Structure):
    _fields_ = [
        ("kind", c_int),
        ("size", c_int),
        ("rows", c_int64),
        ("before", c_double),
        ("fitted", c_double),
        ("held_out", c_double),
        ("held_out_median", c_double),
        ("held_out_p90", c_double),
        ("held_out_bias", c_double),
        ("coverage", c_double),
    ]


class hr_calibrate_result(Structure):
    _fields_ = [
        ("hardware", c_void_p),
        ("rows", c_int64),
        ("skipped", c_int64),
        ("folds", c_int64),
        ("skipped_why", c_char * 160),
        ("figure_count", c_size_t),
        ("figures", hr_fitted_figure * 512),
        ("kind_count", c_size_t),
        ("kinds", hr_calibrated_kind * 42),
        ("held_out", POINTER(hr_validation)),
    ]


class hr_calibrate_facts(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("date", c_char_p),
        ("source", c_char_p),
        ("driver", c_char_p),
        ("libraries", c_char_p),
        ("calibration", c_int),
    ]


class hr_catalog_entry(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("text", c_char_p),
        ("length", c_size_t),
    ]


class hr_change_cost(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("change_class", c_int),
        ("cost", c_char_p),
        ("source", c_char_p),
    ]


class hr_checkpoint(Structure):
    _fields_ = [
        ("files", c_int64),
        ("tensors", c_int64),
        ("elements", c_int64),
        ("bytes", c_int64),
        ("format_tensors", c_int64 * 22),
        ("format_elements", c_int64 * 22),
        ("format_bytes", c_int64 * 22),
        ("part_elements", c_int64 * 10),
    ]


class hr_checkpoint_comparison(Structure):
    _fields_ = [
        ("match", c_int),
        ("elements", c_int64),
        ("parameters", c_int64),
        ("left_out", c_bool * 10),
        ("text", c_char * 480),
    ]


class hr_communicator_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("patience_s", c_double),
        ("rank", c_int64),
        ("size", c_int64),
        ("local_rank", c_int64),
        ("port", c_int64),
        ("address", c_char * 256),
        ("small_bytes", c_int64),
        ("local_size", c_int64),
    ]


class hr_collective_call(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("dtype", c_int),
        ("count", c_int64),
        ("peer", c_int64),
        ("source", c_int64),
        ("send", c_void_p),
        ("receive", c_void_p),
        ("columns", c_int64),
        ("residual", c_void_p),
        ("norm_weight", c_void_p),
        ("residual_sum", c_void_p),
        ("epsilon", c_double),
        ("part", c_int),
        ("place", c_int64),
    ]


class hr_measure_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("time_limit_ns", c_double),
        ("precision", c_double),
        ("samples_min", c_int64),
        ("samples_max", c_int64),
        ("warm", c_bool),
        ("check", c_bool),
        ("seed", c_uint64),
        ("kernel", c_char_p),
        ("autotune", c_int64),
        ("decode_part", c_int),
        ("memory_limit_bytes", c_int64),
        ("cancelled", c_void_p),
        ("context", c_void_p),
        ("energy", c_bool),
    ]


class hr_measurement(Structure):
    _fields_ = [
        ("status", c_int),
        ("reason", c_char * 160),
        ("kernel", c_char * 64),
        ("configuration", c_char * 128),
        ("choice", c_int64),
        ("choices", c_int64),
        ("choice_speedup", c_double),
        ("conditions", hr_conditions),
        ("samples", c_int64),
        ("discarded", c_int64),
        ("min_ns", c_double),
        ("p10_ns", c_double),
        ("median_ns", c_double),
        ("mean_ns", c_double),
        ("p90_ns", c_double),
        ("max_ns", c_double),
        ("stddev_ns", c_double),
        ("median_low_ns", c_double),
        ("median_high_ns", c_double),
        ("latency_ns", c_double),
        ("flops_per_s", c_double),
        ("bytes_per_s", c_double),
        ("warm", c_bool),
        ("buffer_sets", c_int64),
        ("workspace_bytes", c_double),
        ("peak_bytes", c_double),
        ("max_error", c_double),
        ("rows_checked", c_int64),
        ("selection_error", c_double),
        ("energy_j", c_double),
        ("sustained_ns", c_double),
        ("sustained_power_w", c_double),
        ("sustained_clock_hz", c_double),
    ]


class hr_comparison(Structure):
    _fields_ = [
        ("before", hr_measurement),
        ("after", hr_measurement),
        ("ratio", c_double),
        ("ratio_low", c_double),
        ("ratio_high", c_double),
    ]


class hr_result(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("id", c_char * 33),
        ("date", c_char * 25),
        ("sweep", c_char * 64),
        ("series", c_char * 128),
        ("axes", c_char * 512),
        ("kind", c_int),
        ("gemm", hr_gemm),
        ("attention", hr_attention),
        ("decode", hr_decode),
        ("problem", c_char * 512),
        ("device", c_char * 32),
        ("product", c_char * 96),
        ("parts", c_char * 1024),
        ("threads", c_int64),
        ("kernel_asked", c_char * 64),
        ("autotune", c_int64),
        ("decode_part", c_int64),
        ("measurement", hr_measurement),
        ("ceiling_share", c_double),
        ("library_share", c_double),
        ("driver", c_char * 96),
        ("libraries", c_char * 256),
        ("seed", c_uint64),
        ("host", c_char * 64),
        ("program", c_char * 32),
        ("backward", c_bool),
    ]


class hr_store_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("patience_ms", c_int),
        ("cancelled", c_void_p),
        ("context", c_void_p),
    ]


class hr_result_filter(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("id", c_char_p),
        ("sweep", c_char_p),
        ("device", c_char_p),
        ("since", c_char_p),
        ("only_status", c_bool),
        ("status", c_int),
        ("last", c_int64),
    ]


class hr_store_change(Structure):
    _fields_ = [
        ("added", c_int64),
        ("present", c_int64),
    ]


class hr_ratio(Structure):
    _fields_ = [
        ("value", c_double),
        ("low", c_double),
        ("high", c_double),
    ]


class hr_compare_side(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("sweep", c_char_p),
        ("device", c_char_p),
        ("dtype", c_char_p),
        ("libraries", c_char_p),
        ("driver", c_char_p),
        ("program", c_char_p),
        ("host", c_char_p),
        ("kernel", c_char_p),
        ("since", c_char_p),
        ("until", c_char_p),
        ("store", c_void_p),
    ]


class hr_compared_row(Structure):
    _fields_ = [
        ("date", c_char * 25),
        ("status", c_int),
        ("reason", c_char_p),
        ("samples", c_int64),
        ("median_ns", c_double),
        ("low_ns", c_double),
        ("high_ns", c_double),
    ]


class hr_compared_point(Structure):
    _fields_ = [
        ("sweep", c_char_p),
        ("series", c_char_p),
        ("axes", c_char_p),
        ("problem", c_char_p),
        ("product", c_char_p),
        ("a", hr_compared_row),
        ("b", hr_compared_row),
        ("ratio", hr_ratio),
        ("verdict", c_int),
        ("lost", c_bool),
    ]


class hr_compared_sum(Structure):
    _fields_ = [
        ("points", c_int64),
        ("lost", c_int64),
        ("verdicts", c_int64 * 4),
        ("ratio", hr_ratio),
        ("verdict", c_int),
    ]


class hr_compared_sweep(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("first", c_size_t),
        ("count", c_size_t),
        ("sum", hr_compared_sum),
    ]


class hr_compared_origin(Structure):
    _fields_ = [
        ("name", c_char * 256),
        ("rows", c_int64),
        ("products", c_char * 256),
        ("libraries", c_char * 512),
        ("drivers", c_char * 128),
        ("programs", c_char * 128),
        ("hosts", c_char * 256),
        ("first", c_char * 25),
        ("last", c_char * 25),
        ("alone", c_int64),
    ]


class hr_compare_result(Structure):
    _fields_ = [
        ("a", hr_compared_origin),
        ("b", hr_compared_origin),
        ("tolerance", c_double),
        ("points", POINTER(hr_compared_point)),
        ("count", c_size_t),
        ("sweeps", POINTER(hr_compared_sweep)),
        ("sweep_count", c_size_t),
        ("total", hr_compared_sum),
        ("rows_a", c_void_p),
        ("rows_b", c_void_p),
    ]


class hr_confirmation_row(Structure):
    _fields_ = [
        ("finding", c_size_t),
        ("before_count", c_size_t),
        ("before", hr_operator * 3),
        ("after", hr_operator),
        ("predicted_before_ns", c_double),
        ("predicted_after_ns", c_double),
        ("token_ratio", c_double),
        ("comparison", hr_comparison),
    ]


class hr_confirmed(Structure):
    _fields_ = [
        ("finding", c_size_t),
        ("predicted_gain", c_double),
        ("predicted_operator_gain", c_double),
        ("measured_gain", c_double),
        ("measured_operator_gain", c_double),
        ("measured_gain_low", c_double),
        ("measured_gain_high", c_double),
        ("status", c_int),
        ("reason", c_char * 224),
        ("by_steps", c_bool),
    ]


class hr_confirmation(Structure):
    _fields_ = [
        ("batch", c_int64),
        ("sequence", c_int64),
        ("reduced", c_bool),
        ("note", c_char * 256),
        ("complete", c_bool),
        ("count", c_size_t),
        ("rows", POINTER(hr_confirmation_row)),
        ("finding_count", c_size_t),
        ("findings", POINTER(hr_confirmed)),
    ]


class hr_confirm_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("budget_ns", c_double),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_figure_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("picture", c_int),
        ("single", c_bool),
        ("columns", c_int),
        ("rows", c_int),
    ]


class hr_hardware_about(Structure):
    _fields_ = [
        ("name", c_char * 48),
        ("product", c_char * 96),
        ("architecture", c_char * 32),
        ("kind", c_int),
        ("calibration", c_int),
        ("calibrated", c_char * 96),
        ("clock", c_int),
        ("cache", c_int),
    ]


class hr_layer_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("group", c_size_t),
        ("budget_ns", c_double),
        ("warm", c_bool),
        ("check", c_bool),
        ("seed", c_uint64),
        ("whole_only", c_bool),
        ("operator_times", c_bool),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_layer_row(Structure):
    _fields_ = [
        ("op", hr_operator),
        ("part", c_int),
        ("prediction", hr_prediction),
        ("measurement", hr_measurement),
        ("rows", hr_rowwise),
        ("decode", hr_decode),
        ("tried", c_bool),
        ("measured", c_bool),
        ("time_ns", c_double),
        ("share", c_double),
    ]


class hr_layer(Structure):
    _fields_ = [
        ("group", c_size_t),
        ("workload", hr_workload),
        ("reduced", c_bool),
        ("note", c_char * 256),
        ("complete", c_bool),
        ("count", c_size_t),
        ("rows", hr_layer_row * 768),
        ("sum_ns", c_double),
        ("predicted_ns", c_double),
        ("measured_ns", c_double),
        ("measured_count", c_int64),
        ("part_ns", c_double * 13),
        ("whole", hr_measurement),
        ("flops", c_int64),
        ("beside_count", c_size_t),
        ("beside", hr_layer_row * 4),
    ]


class hr_serve_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("prompt_tokens", c_int64),
        ("output_tokens", c_int64),
        ("ttft_limit_ns", c_double),
        ("tpot_limit_ns", c_double),
        ("price_per_device_hour", c_double),
        ("memory_share", c_double),
        ("batch", c_int64),
        ("batch_max", c_int64),
        ("devices_max", c_int64),
        ("tensor_parallel", c_int64),
        ("expert_parallel", c_int64),
        ("prefill_tokens", c_int64),
        ("page_tokens", c_int64),
        ("disaggregated", c_bool),
        ("reserve_bytes", c_int64),
        ("engine", c_int),
        ("uniform_pages", c_bool),
        ("sure", c_int64),
        ("recommend", c_double),
        ("pipeline_stages", c_int64),
        ("prefill_hardware", c_void_p),
        ("prefill_tensor_parallel", c_int64),
        ("prefill_price_per_device_hour", c_double),
    ]


class hr_serve_layout(Structure):
    _fields_ = [
        ("tensor_parallel", c_int64),
        ("expert_parallel", c_int64),
        ("devices", c_int64),
        ("weight_bytes", c_int64),
        ("sequence_bytes", c_int64),
        ("largest_batch", c_int64),
        ("step_bytes", c_int64),
        ("cache_tokens", c_int64),
        ("splits", c_bool),
        ("split", c_char * 160),
        ("pipeline_stages", c_int64),
    ]


class hr_serve_point(Structure):
    _fields_ = [
        ("tensor_parallel", c_int64),
        ("expert_parallel", c_int64),
        ("devices", c_int64),
        ("batch", c_int64),
        ("sequences", c_int64),
        ("prefill_batch", c_int64),
        ("ttft_ns", c_double),
        ("ttft_low_ns", c_double),
        ("ttft_high_ns", c_double),
        ("tpot_ns", c_double),
        ("tpot_low_ns", c_double),
        ("tpot_high_ns", c_double),
        ("decode_step_ns", c_double),
        ("request_ns", c_double),
        ("requests_per_s", c_double),
        ("requests_per_s_low", c_double),
        ("requests_per_s_high", c_double),
        ("output_tokens_per_s", c_double),
        ("tokens_per_s", c_double),
        ("prefill_devices", c_double),
        ("prefill_share", c_double),
        ("output_tokens_per_s_per_device", c_double),
        ("memory_bytes", c_int64),
        ("cost_per_million_output_tokens", c_double),
        ("cost_per_million_tokens", c_double),
        ("meets_ttft", c_bool),
        ("meets_tpot", c_bool),
        ("band_meets_ttft", c_bool),
        ("band_meets_tpot", c_bool),
        ("pareto", c_bool),
        ("meets_limits", c_bool),
        ("pipeline_stages", c_int64),
        ("prefill_tensor_parallel", c_int64),
    ]


class hr_serve_fleet(Structure):
    _fields_ = [
        ("point", POINTER(hr_serve_point)),
        ("instances", c_int64),
        ("prefill_instances", c_int64),
        ("devices", c_int64),
        ("load_share", c_double),
        ("cost_per_hour", c_double),
        ("cost_per_million_output_tokens", c_double),
    ]


class hr_serve_result(Structure):
    _fields_ = [
        ("options", hr_serve_options),
        ("capacity_bytes", c_int64),
        ("cached_tokens", c_int64),
        ("layout_count", c_size_t),
        ("layouts", POINTER(hr_serve_layout)),
        ("count", c_size_t),
        ("points", POINTER(hr_serve_point)),
        ("latency", POINTER(hr_serve_point)),
        ("throughput", POINTER(hr_serve_point)),
        ("cheapest", POINTER(hr_serve_point)),
        ("nearest", POINTER(hr_serve_point)),
        ("devices_needed", c_int64),
        ("weights_needed", c_char * 16),
        ("fleet_count", c_size_t),
        ("fleets", POINTER(hr_serve_fleet)),
    ]


class hr_load_request(Structure):
    _fields_ = [
        ("arrival_ns", c_double),
        ("prompt", c_int64),
        ("output", c_int64),
    ]


class hr_load_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rate_per_s", c_double),
        ("clients", c_int64),
        ("trace", POINTER(hr_load_request)),
        ("trace_count", c_size_t),
        ("requests", c_int64),
        ("prompt_min", c_int64),
        ("prompt_max", c_int64),
        ("output_min", c_int64),
        ("output_max", c_int64),
        ("cached", c_double),
        ("accept", c_double),
        ("draft", c_int64),
        ("wait_steps", c_int64),
        ("seed", c_uint64),
        ("instances", c_int64),
        ("prefill_instances", c_int64),
        ("draft_model", POINTER(hr_model)),
    ]


class hr_load_quantiles(Structure):
    _fields_ = [
        ("mean", c_double),
        ("p50", c_double),
        ("p90", c_double),
        ("p99", c_double),
    ]


class hr_load_interval(Structure):
    _fields_ = [
        ("begin_ns", c_double),
        ("end_ns", c_double),
        ("arrivals", c_int64),
        ("waiting", c_double),
        ("resident", c_double),
        ("output_tokens_per_s", c_double),
    ]


class hr_load_point(Structure):
    _fields_ = [
        ("tensor_parallel", c_int64),
        ("expert_parallel", c_int64),
        ("devices", c_int64),
        ("ttft_ns", hr_load_quantiles),
        ("tpot_ns", hr_load_quantiles),
        ("queue_ns", hr_load_quantiles),
        ("request_ns", hr_load_quantiles),
        ("resident_mean", c_double),
        ("resident_max", c_int64),
        ("slots", c_int64),
        ("preempted", c_int64),
        ("requests_per_s", c_double),
        ("output_tokens_per_s", c_double),
        ("cost_per_million_output_tokens", c_double),
        ("busy_share", c_double),
        ("duration_ns", c_double),
        ("keeps_up", c_bool),
        ("meets_ttft", c_bool),
        ("meets_tpot", c_bool),
        ("ttft_low_ns", hr_load_quantiles),
        ("ttft_high_ns", hr_load_quantiles),
        ("tpot_low_ns", hr_load_quantiles),
        ("tpot_high_ns", hr_load_quantiles),
        ("output_tokens_per_s_low", c_double),
        ("output_tokens_per_s_high", c_double),
        ("band_meets_ttft", c_bool),
        ("band_meets_tpot", c_bool),
        ("band_keeps_up", c_bool),
        ("timeline", hr_load_interval * 10),
        ("pipeline_stages", c_int64),
        ("instances", c_int64),
        ("prefill_instances", c_int64),
        ("prefill_tensor_parallel", c_int64),
        ("prefill_busy_share", c_double),
    ]


class hr_load_result(Structure):
    _fields_ = [
        ("serve", hr_serve_options),
        ("load", hr_load_options),
        ("count", c_size_t),
        ("points", POINTER(hr_load_point)),
        ("best", POINTER(hr_load_point)),
        ("shown", POINTER(hr_load_point)),
    ]


class hr_memory(Structure):
    _fields_ = [
        ("weight_bytes", c_int64),
        ("gradient_bytes", c_int64),
        ("optimizer_bytes", c_int64),
        ("activation_bytes", c_int64),
        ("kv_cache_bytes", c_int64),
        ("state_bytes", c_int64),
        ("state_bytes_per_sequence", c_int64),
        ("kv_cache_bytes_per_token", c_int64),
        ("total_bytes", c_int64),
        ("gathered_bytes", c_int64),
        ("kv_cache_bytes_of_next_token", c_int64),
    ]


class hr_latent_cache(Structure):
    _fields_ = [
        ("bytes_per_token", c_int64),
        ("multi_head_bytes_per_token", c_int64),
        ("grouped_query_bytes_per_token", c_int64),
        ("kv_heads", c_int64),
    ]


class hr_offer_figure(Structure):
    _fields_ = [
        ("key", c_char_p),
        ("title", c_char_p),
        ("unit", c_int),
    ]


class hr_offer_value(Structure):
    _fields_ = [
        ("value", c_double),
        ("low", c_double),
        ("high", c_double),
    ]


class hr_offer(Structure):
    _fields_ = [
        ("hardware", c_void_p),
        ("price_per_hour", c_double),
        ("power_w", c_double),
        ("dtype", c_int),
        ("devices", c_double),
        ("work_per_s", hr_offer_value),
        ("figures", hr_offer_value * 16),
        ("words", c_char * 96),
        ("why", c_char * 256),
        ("work_per_money", hr_offer_value),
        ("work_per_joule", hr_offer_value),
        ("gemm_flops_per_s", c_double),
    ]


class hr_offers(Structure):
    _fields_ = [
        ("command", c_char_p),
        ("about", c_char_p),
        ("model", POINTER(hr_model)),
        ("tokens", c_bool),
        ("words_title", c_char_p),
        ("figures", POINTER(hr_offer_figure)),
        ("figure_count", c_size_t),
        ("offers", POINTER(hr_offer)),
        ("count", c_size_t),
        ("rank_correlation", c_double),
    ]


class hr_plan_choice(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        ("choice", c_int64),
        ("choices", c_int64),
    ]


class hr_executor_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("slots", c_int64),
        ("tokens", c_int64),
        ("no_graph", c_bool),
        ("trains", c_bool),
        ("recompute", c_int),
        ("learning_rate", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("weight_decay", c_double),
        ("max_norm", c_double),
        ("communicator", c_void_p),
        ("pieces", c_int64),
        ("replicas", c_void_p),
        ("zero_stage", c_int64),
        ("bucket_bytes", c_int64),
        ("expert_parallel", c_int64),
        ("sequence_parallel", c_bool),
        ("stages", c_void_p),
        ("no_persistent", c_bool),
    ]


class hr_executor_input(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("phase", c_int),
        ("batch", c_int64),
        ("tokens", c_int64),
        ("slots", c_void_p),
        ("ids", c_void_p),
        ("microbatches", c_int64),
    ]


class hr_step_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("weights", c_char_p),
        ("seed", c_uint64),
        ("budget_ns", c_double),
        ("progress", c_void_p),
        ("context", c_void_p),
        ("no_graph", c_bool),
        ("output", c_int64),
        ("pieces", c_int64),
        ("communicator", c_void_p),
        ("no_persistent", c_bool),
    ]


class hr_step_row(Structure):
    _fields_ = [
        ("op", hr_operator),
        ("predicted_ns", c_double),
        ("measured_ns", c_double),
        ("share", c_double),
    ]


class hr_step_times(Structure):
    _fields_ = [
        ("workload", hr_workload),
        ("measurement", hr_measurement),
        ("predicted_ns", c_double),
        ("operators_ns", c_double),
        ("between_share", c_double),
        ("tokens_per_s", c_double),
        ("load_ns", c_double),
        ("weight_bytes", c_int64),
        ("allocated_bytes", c_int64),
        ("estimated_bytes", c_int64),
        ("count", c_size_t),
        ("rows", hr_step_row * 768),
    ]


class hr_generated(Structure):
    _fields_ = [
        ("prompt_count", c_int64),
        ("count", c_int64),
        ("ids", c_void_p),
        ("first_ns", c_double),
        ("others_ns", c_double),
    ]


class hr_generate_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("prompt", c_void_p),
        ("prompt_count", c_int64),
        ("count", c_int64),
        ("dtype", c_int),
        ("weights", c_char_p),
        ("seed", c_uint64),
        ("progress", c_void_p),
        ("context", c_void_p),
        ("tensor_parallel", c_int64),
        ("communicator", c_void_p),
        ("expert_parallel", c_int64),
        ("pipeline_stages", c_int64),
    ]


class hr_sweep_about(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("figure", c_char_p),
        ("title", c_char_p),
        ("source", c_char_p),
        ("note", c_char_p),
        ("x", c_char_p),
        ("x_label", c_char_p),
        ("y_label", c_char_p),
        ("baseline", c_char_p),
        ("view", c_int),
        ("x_log2", c_bool),
        ("kind", c_int),
        ("point_count", c_size_t),
        ("series_count", c_size_t),
    ]


class hr_sweep_point(Structure):
    _fields_ = [
        ("index", c_size_t),
        ("kind", c_int),
        ("gemm", hr_gemm),
        ("attention", hr_attention),
        ("decode", hr_decode),
        ("model", hr_model),
        ("workload", hr_workload),
        ("decode_part", c_int),
        ("kernel", c_char * 64),
        ("x", c_int64),
        ("x_name", c_char * 48),
        ("series_index", c_size_t),
        ("series", c_char * 128),
        ("axes", c_char * 512),
        ("problem", c_char * 512),
        ("output", c_int64),
        ("no_graph", c_bool),
        ("collective", hr_collective),
        ("backward", c_bool),
    ]


class hr_sweep_choice(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("points", c_int64),
        ("shard", c_int64),
        ("shards", c_int64),
        ("seed", c_uint64),
    ]


class hr_sweep_progress(Structure):
    _fields_ = [
        ("total", c_int64),
        ("done", c_int64),
        ("skipped", c_int64),
        ("measured", c_int64),
        ("failed", c_int64),
        ("noisy", c_int64),
        ("what", c_char_p),
        ("probing", c_bool),
        ("storing", c_bool),
    ]


class hr_sweep_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("choice", hr_sweep_choice),
        ("dtype", c_int),
        ("again", c_bool),
        ("warm", c_bool),
        ("probe", c_bool),
        ("rates", c_void_p),
        ("time_limit_ns", c_double),
        ("kernel", c_char_p),
        ("autotune", c_int64),
        ("memory_limit_bytes", c_int64),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_sweep_row(Structure):
    _fields_ = [
        ("found", c_bool),
        ("date", c_char * 25),
        ("measurement", hr_measurement),
        ("ceiling_share", c_double),
    ]


class hr_training_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device_counts", c_size_t),
        ("devices", c_int64 * 16),
        ("global_batch", c_int64),
        ("tokens", c_double),
        ("price_per_device_hour", c_double),
        ("power_w", c_double),
        ("tensor_parallel", c_int64),
        ("pipeline_stages", c_int64),
        ("virtual_stages", c_int64),
        ("context_parallel", c_int64),
        ("expert_parallel", c_int64),
        ("batch", c_int64),
        ("zero_stages", c_uint32),
        ("recomputes", c_uint32),
        ("accepted_by", c_uint32),
    ]


class hr_training_layout(Structure):
    _fields_ = [
        ("workload", hr_workload),
        ("devices", c_int64),
        ("accepted_by", c_uint32),
        ("memory_bytes", c_int64),
        ("time_ns", c_double),
        ("low_ns", c_double),
        ("high_ns", c_double),
        ("tokens_per_s", c_double),
        ("tokens_per_s_low", c_double),
        ("tokens_per_s_high", c_double),
        ("communication_share", c_double),
        ("bubble", c_double),
        ("model_efficiency", c_double),
        ("days", c_double),
        ("device_hours", c_double),
        ("cost", c_double),
        ("energy_joules", c_double),
        ("best_of_degrees", c_bool),
        ("pareto", c_bool),
        ("first_stage_layers", c_int64),
        ("last_stage_layers", c_int64),
    ]


class hr_training_count(Structure):
    _fields_ = [
        ("devices", c_int64),
        ("tried", c_size_t),
        ("first", c_size_t),
        ("fitting", c_size_t),
        ("least_memory_bytes", c_int64),
    ]


class hr_training_plan(Structure):
    _fields_ = [
        ("options", hr_training_options),
        ("capacity_bytes", c_int64),
        ("count_of_devices", c_size_t),
        ("counts", hr_training_count * 16),
        ("layout_count", c_size_t),
        ("layouts", POINTER(hr_training_layout)),
    ]


class hr_search_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("parameter_band", c_double),
        ("hidden_min", c_int64),
        ("hidden_max", c_int64),
        ("hidden_step", c_int64),
        ("layers_min", c_int64),
        ("layers_max", c_int64),
        ("heads_min", c_int64),
        ("heads_max", c_int64),
        ("head_dim_min", c_int64),
        ("head_dim_max", c_int64),
        ("mlp_width_min", c_int64),
        ("mlp_width_max", c_int64),
        ("mlp_step", c_int64),
        ("vocabulary_multiple", c_int64),
        ("query_heads_per_kv", c_int64),
        ("keep_vocabulary", c_bool),
        ("require_divisible", c_bool),
        ("limit", c_size_t),
        ("evaluations_max", c_uint64),
        ("vary", c_uint32),
        ("head_size_count", c_size_t),
        ("head_sizes", c_int64 * 16),
        ("serve_on_count", c_size_t),
        ("serve_on", c_int64 * 16),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_search_shape(Structure):
    _fields_ = [
        ("model", hr_model),
        ("parameters", c_int64),
        ("parameter_change", c_double),
        ("step_time_ns", c_double),
        ("predicted_gain", c_double),
        ("pareto", c_bool),
        ("cache_change", c_double),
        ("differs", c_char * 320),
        ("change_class", c_int),
    ]


class hr_search_result(Structure):
    _fields_ = [
        ("evaluated", c_uint64),
        ("complete", c_bool),
        ("base_time_ns", c_double),
        ("base_parameters", c_int64),
        ("count", c_size_t),
        ("shapes", POINTER(hr_search_shape)),
        ("varied", c_uint32),
        ("served_count", c_size_t),
        ("served", c_int64 * 17),
        ("unserved_count", c_size_t),
        ("unserved_on", c_int64 * 16),
        ("has_free", c_bool),
        ("free", hr_search_shape),
        ("unserved", c_uint64),
    ]


class hr_report_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("format", c_int),
        ("colour", c_bool),
        ("width", c_int),
        ("verbose", c_bool),
        ("csv", c_int),
        ("explain", c_bool),
        ("library_choice", c_char_p),
    ]


class hr_kernel_measurement(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        ("measurement", hr_measurement),
    ]


class hr_measured_call(Structure):
    _fields_ = [
        ("hardware", c_void_p),
        ("prediction", POINTER(hr_prediction)),
        ("runs", POINTER(hr_kernel_measurement)),
        ("count", c_size_t),
    ]


class hr_training_report(Structure):
    _fields_ = [
        ("plan", POINTER(hr_training_plan)),
        ("advice", c_void_p),
        ("limit", c_size_t),
    ]


class hr_device_report(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("status", c_int),
        ("detail", c_char_p),
        ("hardware", c_void_p),
    ]


class hr_devices_report(Structure):
    _fields_ = [
        ("devices", POINTER(hr_device_report)),
        ("count", c_size_t),
        ("libraries", POINTER(hr_library)),
        ("library_count", c_size_t),
    ]


class hr_page(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("title", c_char_p),
        ("sources", c_void_p),
        ("source_count", c_size_t),
        ("advice", c_void_p),
        ("advice_count", c_size_t),
    ]


class hr_sweeps_report(Structure):
    _fields_ = [
        ("sweeps", c_void_p),
        ("count", c_size_t),
        ("choice", POINTER(hr_sweep_choice)),
        ("hardware", c_void_p),
        ("dtype", c_int),
    ]


class hr_sweep_report(Structure):
    _fields_ = [
        ("sweep", c_void_p),
        ("rows", POINTER(hr_sweep_row)),
        ("device", c_char_p),
        ("dtype", c_int),
    ]


class hr_plot_source(Structure):
    _fields_ = [
        ("store", c_void_p),
        ("label", c_char_p),
    ]


class hr_plot_sources(Structure):
    _fields_ = [
        ("list", POINTER(hr_plot_source)),
        ("count", c_size_t),
    ]


class hr_plot_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("view", c_int),
        ("device", c_char_p),
        ("series", c_char_p),
        ("dtype", c_char_p),
        ("published", c_bool),
        ("no_rows", c_bool),
        ("peers", c_char_p),
        ("peers_name", c_char_p),
        ("predicted", c_void_p),
        ("predicted_dtype", c_int),
    ]


class hr_point(Structure):
    _fields_ = [
        ("kind", c_int),
        ("gemm", hr_gemm),
        ("attention", hr_attention),
    ]


class hr_point_list(Structure):
    _fields_ = [
        ("points", POINTER(hr_point)),
        ("count", c_size_t),
    ]


class hr_points_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("sweep", c_char_p),
        ("series", c_char_p),
        ("budget_ns", c_double),
        ("time_limit_ns", c_double),
        ("again", c_bool),
        ("warm", c_bool),
        ("seed", c_uint64),
        ("progress", c_void_p),
        ("context", c_void_p),
    ]


class hr_points_draw_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("seed", c_uint64),
        ("kinds", c_uint32),
        ("count", c_int64),
        ("dtype", c_int),
    ]


class hr_weights_tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("format", c_int),
        ("rank", c_int64),
        ("dims", c_int64 * 8),
        ("data", c_void_p),
        ("bytes", c_int64),
    ]


class hr_kv_cache_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("k_heads", c_int64),
        ("v_heads", c_int64),
        ("qk_dim", c_int64),
        ("v_dim", c_int64),
        ("dtype", c_int),
        ("page_size", c_int64),
        ("slots", c_int64),
        ("tokens", c_int64),
        ("pages", c_int64),
        ("latent", c_bool),
        ("cache_format", c_int),
        ("cache_scales", c_int),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("slots_of", c_void_p),
    ]


class hr_kv_append(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_int64),
        ("slots", c_void_p),
        ("tokens", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("k_row", c_int64),
        ("v_row", c_int64),
        ("cos", c_void_p),
        ("sin", c_void_p),
        ("positions", c_int64),
        ("rotary_first", c_int64),
        ("rotary_dim", c_int64),
        ("pairs", c_int),
    ]


FUNCTIONS = {  # name: result, parameters
    "hr_activations_name": (c_char_p, [c_int]),
    "hr_advice_describe": (POINTER(hr_advice_about), [c_void_p]),
    "hr_advice_finding": (POINTER(hr_finding), [c_void_p, c_size_t]),
    "hr_advice_free": (None, [c_void_p]),
    "hr_advise": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_advise_options_init": (None, [c_void_p, c_size_t]),
    "hr_advise_with": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_attention_alibi_slopes": (None, [c_int64, c_void_p]),
    "hr_attention_arguments_init": (None, [c_void_p, c_size_t]),
    "hr_attention_backward_arguments_init": (None, [c_void_p, c_size_t]),
    "hr_attention_backward_bytes": (c_int, [c_void_p, c_void_p]),
    "hr_attention_backward_check": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_attention_backward_flops": (c_int, [c_void_p, c_void_p]),
    "hr_attention_backward_init": (None, [c_void_p, c_size_t]),
    "hr_attention_bytes": (c_int, [c_void_p, c_void_p]),
    "hr_attention_check": (c_int, [c_void_p, c_void_p]),
    "hr_attention_entries": (c_int, [c_void_p, c_void_p]),
    "hr_attention_flops": (c_int, [c_void_p, c_void_p]),
    "hr_attention_flops_of": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_attention_form_name": (c_char_p, [c_int]),
    "hr_attention_form_parse": (c_int, [c_char_p, c_void_p]),
    "hr_attention_init": (None, [c_void_p, c_size_t]),
    "hr_attention_lse_elements": (c_int, [c_void_p, c_void_p]),
    "hr_attention_output_dtype": (c_int, [c_void_p]),
    "hr_attention_set_layout": (c_int, [c_void_p, c_int, c_void_p]),
    "hr_attention_span": (c_int, [c_void_p, c_int, c_void_p]),
    "hr_attention_strides": (hr_strides, [c_void_p, c_int]),
    "hr_bound_name": (c_char_p, [c_int]),
    "hr_buffer_create": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_buffer_data": (c_void_p, [c_void_p]),
    "hr_buffer_fill_uniform": (c_int, [c_void_p, c_int, c_uint64, c_void_p]),
    "hr_buffer_free": (None, [c_void_p]),
    "hr_buffer_poison": (c_int, [c_void_p, c_int, c_void_p]),
    "hr_buffer_read": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "hr_buffer_write": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "hr_cache_name": (c_char_p, [c_int]),
    "hr_cache_parse": (c_int, [c_char_p, c_void_p]),
    "hr_calibrate": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "hr_calibrate_device_file": (c_int, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "hr_calibrate_facts_init": (None, [c_void_p, c_size_t]),
    "hr_calibrate_options_init": (None, [c_void_p, c_size_t]),
    "hr_calibrate_result_free": (None, [c_void_p]),
    "hr_calibrated_size_name": (c_char_p, [c_int]),
    "hr_calibration_name": (c_char_p, [c_int]),
    "hr_calibration_path": (c_int, [c_void_p, c_char_p, c_size_t, c_void_p]),
    "hr_calibration_prepare": (c_int, [c_char_p, c_void_p]),
    "hr_catalog_hardware": (POINTER(hr_catalog_entry), [c_void_p]),
    "hr_catalog_licenses": (POINTER(hr_catalog_entry), [c_void_p]),
    "hr_catalog_models": (POINTER(hr_catalog_entry), [c_void_p]),
    "hr_catalog_published": (POINTER(hr_catalog_entry), [c_void_p]),
    "hr_catalog_sweeps": (POINTER(hr_catalog_entry), [c_void_p]),
    "hr_ceiling_kind_name": (c_char_p, [c_int]),
    "hr_change_class_name": (c_char_p, [c_int]),
    "hr_change_class_parse": (c_int, [c_char_p, c_void_p]),
    "hr_change_cost_of": (POINTER(hr_change_cost), [c_int]),
    "hr_changes_between": (c_uint64, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_checkpoint_compare": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_checkpoint_match_name": (c_char_p, [c_int]),
    "hr_checkpoint_part_name": (c_char_p, [c_int]),
    "hr_clock_name": (c_char_p, [c_int]),
    "hr_clock_parse": (c_int, [c_char_p, c_void_p]),
    "hr_collective_bus_share": (c_double, [c_int, c_int64]),
    "hr_collective_call_init": (None, [c_void_p, c_size_t]),
    "hr_collective_check": (c_int, [c_void_p, c_void_p]),
    "hr_collective_init": (None, [c_void_p, c_size_t]),
    "hr_collective_library_name": (c_char_p, [c_int]),
    "hr_collective_library_parse": (c_int, [c_char_p, c_void_p]),
    "hr_collective_name": (c_char_p, [c_int]),
    "hr_collective_parse": (c_int, [c_char_p, c_void_p]),
    "hr_communicate": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_communicator_environment": (c_int, [c_void_p, c_void_p]),
    "hr_communicator_free": (None, [c_void_p]),
    "hr_communicator_give_up": (None, [c_void_p, c_char_p]),
    "hr_communicator_join": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_communicator_meet": (c_int, [c_void_p, c_void_p]),
    "hr_communicator_options_init": (None, [c_void_p, c_size_t]),
    "hr_communicator_rank": (c_int64, [c_void_p]),
    "hr_communicator_sends_beside": (c_bool, [c_void_p, c_void_p]),
    "hr_communicator_share": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_communicator_size": (c_int64, [c_void_p]),
    "hr_communicator_takes_norm": (c_bool, [c_void_p, c_void_p]),
    "hr_communicator_wait": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_communicators_create": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "hr_compare_free": (None, [c_void_p]),
    "hr_compare_is_worse": (c_bool, [c_void_p, c_bool]),
    "hr_compare_parallel_layouts": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p]),
    "hr_compare_side_init": (None, [c_void_p, c_size_t]),
    "hr_compare_stores": (c_int, [c_void_p, c_void_p, c_double, c_void_p, c_void_p]),
    "hr_confirm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_confirm_options_init": (None, [c_void_p, c_size_t]),
    "hr_confirmation_free": (None, [c_void_p]),
    "hr_costliest_change": (c_int, [c_uint64]),
    "hr_csv_table_parse": (c_int, [c_char_p, c_void_p]),
    "hr_decode_arguments_init": (None, [c_void_p, c_size_t]),
    "hr_decode_bytes": (c_int, [c_void_p, c_void_p]),
    "hr_decode_cache_bytes": (c_size_t, [c_void_p]),
    "hr_decode_check": (c_int, [c_void_p, c_void_p]),
    "hr_decode_flops": (c_int, [c_void_p, c_void_p]),
    "hr_decode_from_attention": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_decode_from_latent": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_decode_init": (None, [c_void_p, c_size_t]),
    "hr_decode_k_scale_strides": (hr_kv_strides, [c_void_p]),
    "hr_decode_k_strides": (hr_kv_strides, [c_void_p]),
    "hr_decode_o_strides": (hr_strides, [c_void_p]),
    "hr_decode_q_strides": (hr_strides, [c_void_p]),
    "hr_decode_set_pages": (c_int, [c_void_p, c_int64, c_void_p]),
    "hr_decode_v_scale_strides": (hr_kv_strides, [c_void_p]),
    "hr_decode_v_strides": (hr_kv_strides, [c_void_p]),
    "hr_device_close": (None, [c_void_p]),
    "hr_device_conditions": (None, [c_void_p, c_void_p]),
    "hr_device_detect": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_device_name": (c_char_p, [c_void_p]),
    "hr_device_open": (c_int, [c_char_p, c_int, c_void_p, c_void_p]),
    "hr_device_open_part": (c_int, [c_char_p, c_int, c_int, c_void_p, c_void_p]),
    "hr_device_open_with": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "hr_device_options_init": (None, [c_void_p, c_size_t]),
    "hr_device_probe": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_device_stream": (c_void_p, [c_void_p]),
    "hr_dropout_name": (c_char_p, [c_int]),
    "hr_dropout_parse": (c_int, [c_char_p, c_void_p]),
    "hr_dtype_bytes": (c_size_t, [c_int]),
    "hr_dtype_name": (c_char_p, [c_int]),
    "hr_dtype_parse": (c_int, [c_char_p, c_void_p]),
    "hr_executor_bytes": (c_int64, [c_void_p]),
    "hr_executor_close": (None, [c_void_p]),
    "hr_executor_input_init": (None, [c_void_p, c_size_t]),
    "hr_executor_largest": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_executor_length": (c_int64, [c_void_p, c_int64]),
    "hr_executor_load": (c_int, [c_void_p, c_char_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    "hr_executor_open": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_executor_operators": (POINTER(hr_operators), [c_void_p]),
    "hr_executor_options_init": (None, [c_void_p, c_size_t]),
    "hr_executor_outputs": (c_int64, [c_void_p]),
    "hr_executor_step": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_executor_time_operators": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_executor_truncate": (c_int, [c_void_p, c_int64, c_int64, c_void_p]),
    "hr_expert_call_init": (None, [c_void_p, c_size_t]),
    "hr_figure_free": (None, [c_void_p]),
    "hr_figure_of_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_heads": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_layer": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_roofline": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_search": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_sweep": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_of_tiles": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_figure_options_init": (None, [c_void_p, c_size_t]),
    "hr_figure_point_count": (c_size_t, [c_void_p]),
    "hr_figure_series_count": (c_size_t, [c_void_p]),
    "hr_figure_write_gnuplot": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_flash_library_name": (c_char_p, [c_int]),
    "hr_flash_library_parse": (c_int, [c_char_p, c_void_p]),
    "hr_format_parse": (c_int, [c_char_p, c_void_p]),
    "hr_framework_name": (c_char_p, [c_int]),
    "hr_framework_parse": (c_int, [c_char_p, c_void_p]),
    "hr_gemm_a": (hr_matrix, [c_void_p]),
    "hr_gemm_arguments_init": (None, [c_void_p, c_size_t]),
    "hr_gemm_b": (hr_matrix, [c_void_p]),
    "hr_gemm_bytes": (c_int, [c_void_p, c_void_p]),
    "hr_gemm_c": (hr_matrix, [c_void_p]),
    "hr_gemm_check": (c_int, [c_void_p, c_void_p]),
    "hr_gemm_flops": (c_int, [c_void_p, c_void_p]),
    "hr_gemm_init": (None, [c_void_p, c_size_t]),
    "hr_generate": (c_int, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p]),
    "hr_generate_on": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_generate_options_init": (None, [c_void_p, c_size_t]),
    "hr_generated_free": (None, [c_void_p]),
    "hr_hardware_ceiling": (c_double, [c_void_p, c_int, c_int]),
    "hr_hardware_ceiling_share": (c_double, [c_void_p, c_int, c_double]),
    "hr_hardware_check": (c_int, [c_void_p, c_void_p]),
    "hr_hardware_compute_dtype": (c_int, [c_void_p, c_int]),
    "hr_hardware_create": (c_void_p, []),
    "hr_hardware_describe": (POINTER(hr_hardware_about), [c_void_p]),
    "hr_hardware_free": (None, [c_void_p]),
    "hr_hardware_from_json": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_hardware_has_alias": (c_bool, [c_char_p, c_size_t, c_char_p]),
    "hr_hardware_has_fused_attention": (c_bool, [c_void_p, c_int]),
    "hr_hardware_library_flops_per_s": (c_double, [c_void_p, c_int]),
    "hr_hardware_number": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_hardware_set_conditions": (None, [c_void_p, c_int, c_int]),
    "hr_hardware_set_network": (c_int, [c_void_p, c_int64, c_double, c_double, c_void_p]),
    "hr_hardware_set_number": (c_int, [c_void_p, c_char_p, c_double, c_void_p]),
    "hr_hardware_usable_memory_bytes": (c_int64, [c_void_p]),
    "hr_hardware_usual_dtype": (c_int, [c_void_p]),
    "hr_interval_kind_name": (c_char_p, [c_int]),
    "hr_interval_kind_of": (c_int, [c_void_p, c_void_p]),
    "hr_kernel_is": (c_bool, [c_void_p, c_char_p]),
    "hr_kernel_runs": (c_bool, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "hr_kernels": (POINTER(hr_kernel_info), [c_void_p]),
    "hr_kv_append_init": (None, [c_void_p, c_size_t]),
    "hr_kv_cache_add": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_append": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_create": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_decode": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_free": (None, [c_void_p]),
    "hr_kv_cache_grow": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_length": (c_int, [c_void_p, c_int64, c_void_p, c_void_p]),
    "hr_kv_cache_options_init": (None, [c_void_p, c_size_t]),
    "hr_kv_cache_pages_free": (c_int64, [c_void_p]),
    "hr_kv_cache_remove": (c_int, [c_void_p, c_int64, c_void_p]),
    "hr_kv_cache_select": (c_int, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "hr_kv_cache_truncate": (c_int, [c_void_p, c_int64, c_int64, c_void_p]),
    "hr_kv_cache_write": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_kv_format_name": (c_char_p, [c_int]),
    "hr_kv_format_parse": (c_int, [c_char_p, c_void_p]),
    "hr_kv_scales_name": (c_char_p, [c_int]),
    "hr_kv_scales_parse": (c_int, [c_char_p, c_void_p]),
    "hr_layer_free": (None, [c_void_p]),
    "hr_layer_measure": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_layer_options_init": (None, [c_void_p, c_size_t]),
    "hr_layer_part_name": (c_char_p, [c_int]),
    "hr_layer_part_of": (c_int, [c_void_p]),
    "hr_layer_part_words": (c_char_p, [c_int]),
    "hr_layout_name": (c_char_p, [c_int]),
    "hr_layout_parse": (c_int, [c_char_p, c_void_p]),
    "hr_libraries": (None, [c_char_p, c_void_p, c_void_p]),
    "hr_linear_name": (c_char_p, [c_int]),
    "hr_load_options_init": (None, [c_void_p, c_size_t]),
    "hr_load_result_free": (None, [c_void_p]),
    "hr_load_trace_file": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "hr_load_trace_free": (None, [c_void_p]),
    "hr_load_trace_parse": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_gemm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_gemm_pair": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_measure_options_init": (None, [c_void_p, c_size_t]),
    "hr_measure_rowwise": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_memory_estimate": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_memory_largest_batch": (c_int, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p]),
    "hr_memory_latent_cache": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_model_check": (c_int, [c_void_p, c_void_p]),
    "hr_model_from_json": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_model_init": (None, [c_void_p, c_size_t]),
    "hr_model_layers": (c_int64, [c_void_p]),
    "hr_model_main_group": (POINTER(hr_layer_group), [c_void_p]),
    "hr_model_parameters": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_model_set_weights": (c_int, [c_void_p, c_char_p, c_void_p]),
    "hr_model_store_in_fp8": (c_int, [c_void_p, c_int, c_bool, c_bool, c_void_p]),
    "hr_offer_of": (hr_offer, [c_void_p]),
    "hr_offers_compare": (c_int, [c_void_p, c_void_p]),
    "hr_operator_between_replicas": (c_bool, [c_int]),
    "hr_operator_id_name": (c_char_p, [c_int]),
    "hr_operator_kind_name": (c_char_p, [c_int]),
    "hr_operator_name": (None, [c_void_p, c_char_p, c_size_t]),
    "hr_operators_find": (POINTER(hr_operator), [c_void_p, c_int, c_int]),
    "hr_operators_list": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_origin_name": (c_char_p, [c_int]),
    "hr_page_init": (None, [c_void_p, c_size_t]),
    "hr_pass_name": (c_char_p, [c_int]),
    "hr_phase_name": (c_char_p, [c_int]),
    "hr_phase_parse": (c_int, [c_char_p, c_void_p]),
    "hr_picture_of_path": (c_int, [c_char_p, c_void_p]),
    "hr_plan_attention": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_plan_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_plan_choices": (c_int64, [c_void_p]),
    "hr_plan_configuration": (c_char_p, [c_void_p]),
    "hr_plan_decode": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_plan_free": (None, [c_void_p]),
    "hr_plan_gemm": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_plan_gemm_choice": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_kernel": (c_char_p, [c_void_p]),
    "hr_plan_passed_over": (c_char_p, [c_void_p]),
    "hr_plan_rowwise": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_plan_run_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_run_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_run_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_run_gemm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_run_rowwise": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_training": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plan_workspace_bytes": (c_size_t, [c_void_p]),
    "hr_plans_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plans_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plans_count": (hr_plans_counts, [c_void_p]),
    "hr_plans_create": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_plans_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plans_free": (None, [c_void_p]),
    "hr_plans_gemm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plans_rowwise": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_plot_options_init": (None, [c_void_p, c_size_t]),
    "hr_points_design": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_points_draw": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_points_draw_options_init": (None, [c_void_p, c_size_t]),
    "hr_points_measure": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_points_options_init": (None, [c_void_p, c_size_t]),
    "hr_points_rows": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_attention_by": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "hr_predict_collective": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_communication": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_decode_by": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "hr_predict_experts": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "hr_predict_gemm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_library": (c_int, [c_int]),
    "hr_predict_operator": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_scan": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predict_server_version": (c_char_p, [c_void_p, c_int]),
    "hr_predict_step": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_prediction_largest_term": (c_char_p, [c_void_p]),
    "hr_recompute_name": (c_char_p, [c_int]),
    "hr_recompute_parse": (c_int, [c_char_p, c_void_p]),
    "hr_recurrence_name": (c_char_p, [c_int]),
    "hr_report_advice": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_attention": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_attention_backward": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_calibration": (c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_void_p]),
    "hr_report_changes": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
    "hr_report_comparison": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_decode": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_description": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_devices": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_gemm": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_generated": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_kernels": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_report_layer": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_offers": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_options_init": (None, [c_void_p, c_size_t]),
    "hr_report_page": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_result": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_results": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_search": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_serve_command": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_char_p, c_void_p]),
    "hr_report_serve_load": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_serve_plan": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_step": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_sweep": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_sweeps": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_training": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_report_validation": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_resolve_checkpoint": (c_int, [c_char_p, c_void_p, c_void_p]),
    "hr_resolve_hardware": (c_int, [c_char_p, c_void_p, c_void_p]),
    "hr_resolve_model": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_resolve_probed": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_resolve_uncalibrated": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "hr_result_filter_check": (c_int, [c_void_p, c_void_p]),
    "hr_result_filter_init": (None, [c_void_p, c_size_t]),
    "hr_result_init": (None, [c_void_p, c_size_t]),
    "hr_result_kind_name": (c_char_p, [c_int]),
    "hr_result_set_attention": (None, [c_void_p, c_void_p]),
    "hr_result_set_attention_backward": (None, [c_void_p, c_void_p]),
    "hr_result_set_decode": (None, [c_void_p, c_void_p]),
    "hr_result_set_device": (None, [c_void_p, c_void_p, c_void_p]),
    "hr_result_set_gemm": (None, [c_void_p, c_void_p]),
    "hr_result_set_measurement": (None, [c_void_p, c_void_p, c_void_p]),
    "hr_result_set_rowwise": (None, [c_void_p, c_void_p]),
    "hr_result_stamp": (c_int, [c_void_p, c_void_p]),
    "hr_rowwise_arguments_init": (None, [c_void_p, c_size_t]),
    "hr_rowwise_bytes": (c_int, [c_void_p, c_void_p]),
    "hr_rowwise_check": (c_int, [c_void_p, c_void_p]),
    "hr_rowwise_dropped": (c_int64, [c_void_p]),
    "hr_rowwise_init": (None, [c_void_p, c_size_t]),
    "hr_rowwise_inputs": (c_int, [c_int]),
    "hr_rowwise_operation_name": (c_char_p, [c_int]),
    "hr_rules": (POINTER(hr_rule), [c_void_p]),
    "hr_scan_call_init": (None, [c_void_p, c_size_t]),
    "hr_search": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_search_options_init": (None, [c_void_p, c_size_t]),
    "hr_search_result_free": (None, [c_void_p]),
    "hr_search_size_name": (c_char_p, [c_int]),
    "hr_serve_engine_name": (c_char_p, [c_int]),
    "hr_serve_engine_parse": (c_int, [c_char_p, c_void_p]),
    "hr_serve_load": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_serve_options_init": (None, [c_void_p, c_size_t]),
    "hr_serve_options_set_engine": (c_int, [c_void_p, c_int, c_void_p, c_void_p]),
    "hr_serve_plan": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_serve_result_free": (None, [c_void_p]),
    "hr_severity_name": (c_char_p, [c_int]),
    "hr_statistics": (None, [c_void_p, c_int64, c_void_p]),
    "hr_status_name": (c_char_p, [c_int]),
    "hr_status_parse": (c_int, [c_char_p, c_void_p]),
    "hr_status_sentence": (c_char_p, [c_int]),
    "hr_step_describe": (POINTER(hr_step_about), [c_void_p]),
    "hr_step_free": (None, [c_void_p]),
    "hr_step_measure": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_step_operator": (POINTER(hr_operator), [c_void_p, c_size_t]),
    "hr_step_options_init": (None, [c_void_p, c_size_t]),
    "hr_step_prediction": (POINTER(hr_prediction), [c_void_p, c_size_t]),
    "hr_step_tensor_name": (c_char_p, [c_int]),
    "hr_step_times_free": (None, [c_void_p]),
    "hr_store_abandon": (None, [c_void_p]),
    "hr_store_append": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_store_append_new": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_close": (None, [c_void_p]),
    "hr_store_copy": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_count": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_default_path": (c_int, [c_char_p, c_size_t, c_void_p]),
    "hr_store_delete": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_export": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "hr_store_has": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_import": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_store_merge": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_store_open": (c_int, [c_char_p, c_int, c_void_p, c_void_p]),
    "hr_store_open_with": (c_int, [c_char_p, c_int, c_void_p, c_void_p, c_void_p]),
    "hr_store_options_init": (None, [c_void_p, c_size_t]),
    "hr_store_path": (c_char_p, [c_void_p]),
    "hr_store_query": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_store_set_patience": (None, [c_void_p, c_int]),
    "hr_suggest_names": (None, [c_char_p, c_void_p, c_size_t, c_char_p, c_size_t]),
    "hr_sweep_catalog": (c_int, [c_bool, c_void_p, c_void_p, c_void_p]),
    "hr_sweep_catalog_free": (None, [c_void_p, c_size_t]),
    "hr_sweep_choice_init": (None, [c_void_p, c_size_t]),
    "hr_sweep_describe": (POINTER(hr_sweep_about), [c_void_p]),
    "hr_sweep_estimate": (c_int, [c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "hr_sweep_free": (None, [c_void_p]),
    "hr_sweep_from_json": (c_int, [c_void_p, c_char_p, c_bool, c_void_p, c_void_p]),
    "hr_sweep_kind_name": (c_char_p, [c_int]),
    "hr_sweep_load": (c_int, [c_char_p, c_bool, c_void_p, c_void_p]),
    "hr_sweep_options_init": (None, [c_void_p, c_size_t]),
    "hr_sweep_order": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_sweep_point_at": (c_int, [c_void_p, c_size_t, c_int, c_void_p, c_void_p]),
    "hr_sweep_predict": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_sweep_rows": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_sweep_run": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_tensor_format_name": (c_char_p, [c_int]),
    "hr_training_options_init": (None, [c_void_p, c_size_t]),
    "hr_training_plan_best": (POINTER(hr_training_layout), [c_void_p]),
    "hr_training_plan_free": (None, [c_void_p]),
    "hr_validate_csv": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_validate_file": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "hr_validate_options_init": (None, [c_void_p, c_size_t]),
    "hr_validate_rows": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_validation_free": (None, [c_void_p]),
    "hr_verdict_name": (c_char_p, [c_int]),
    "hr_version": (c_char_p, []),
    "hr_version_commit": (c_char_p, []),
    "hr_version_number": (c_int, []),
    "hr_view_name": (c_char_p, [c_int]),
    "hr_view_parse": (c_int, [c_char_p, c_void_p]),
    "hr_weight_format_bytes": (c_int, [c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "hr_weight_role_name": (c_char_p, [c_int]),
    "hr_weights_close": (None, [c_void_p]),
    "hr_weights_find": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_weights_open": (c_int, [c_char_p, c_void_p, c_void_p]),
    "hr_workload_check": (c_int, [c_void_p, c_void_p, c_void_p]),
    "hr_workload_drops": (c_bool, [c_void_p]),
    "hr_workload_init": (None, [c_void_p, c_size_t, c_void_p]),
    "hr_workload_microbatches": (c_int64, [c_void_p]),
    "hr_workspace_clear": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
}
