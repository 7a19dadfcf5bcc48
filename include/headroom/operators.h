/* SPDX-License-Identifier: Apache-2.0 */
/* The operators that a step of a model runs. Thread safety: values; pure functions; nothing is allocated. */
#ifndef HEADROOM_OPERATORS_H
#define HEADROOM_OPERATORS_H

#include <headroom/attention.h>
#include <headroom/collective.h>
#include <headroom/gemm.h>
#include <headroom/model.h>
#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One row per operator, in execution order: enumerator, name, whether it runs in each layer. */
#define HR_OPERATOR_LIST(ROW)                                            \
  ROW(HR_OP_EMBEDDING, "embedding", false)                               \
  ROW(HR_OP_EMBEDDING_ALL_REDUCE, "embedding_all_reduce", false)         \
  ROW(HR_OP_EMBEDDING_REDUCE_SCATTER, "embedding_reduce_scatter", false) \
  ROW(HR_OP_EMBEDDING_NORM, "embedding_norm", false)                     \
  ROW(HR_OP_EMBEDDING_DROPOUT, "embedding_dropout", false)               \
  ROW(HR_OP_EMBEDDING_PROJECTION_IN, "embedding_projection_in", false)   \
  ROW(HR_OP_ATTENTION_HC_WEIGHTS, "attention_hc_weights", true)          \
  ROW(HR_OP_ATTENTION_HC_PRE, "attention_hc_pre", true)                  \
  ROW(HR_OP_ATTENTION_NORM, "attention_norm", true)                      \
  ROW(HR_OP_ATTENTION_ALL_GATHER, "attention_all_gather", true)          \
  ROW(HR_OP_QKV_TRANSFORM, "qkv_transform", true)                        \
  ROW(HR_OP_Q_TRANSFORM, "q_transform", true)                            \
  ROW(HR_OP_Q_DOWN, "q_down", true)                                      \
  ROW(HR_OP_KV_DOWN, "kv_down", true)                                    \
  ROW(HR_OP_RANK_NORM, "rank_norm", true)                                \
  ROW(HR_OP_Q_UP, "q_up", true)                                          \
  ROW(HR_OP_KV_UP, "kv_up", true)                                        \
  ROW(HR_OP_K_TRANSFORM, "k_transform", true)                            \
  ROW(HR_OP_V_TRANSFORM, "v_transform", true)                            \
  ROW(HR_OP_QKV_SPLIT, "qkv_split", true)                                \
  ROW(HR_OP_QK_NORM, "qk_norm", true)                                    \
  ROW(HR_OP_ROTARY, "rotary", true)                                      \
  ROW(HR_OP_K_ROTARY_COPY, "k_rotary_copy", true)                        \
  ROW(HR_OP_COMPRESS_IN, "compress_in", true)                            \
  ROW(HR_OP_COMPRESS, "compress", true)                                  \
  ROW(HR_OP_INDEX_Q, "index_q", true)                                    \
  ROW(HR_OP_INDEX_K, "index_k", true)                                    \
  ROW(HR_OP_INDEX_COMPRESS, "index_compress", true)                      \
  ROW(HR_OP_INDEX_NORM, "index_norm", true)                              \
  ROW(HR_OP_INDEX_WEIGHTS, "index_weights", true)                        \
  ROW(HR_OP_INDEX_ROTARY, "index_rotary", true)                          \
  ROW(HR_OP_INDEX_SCORE, "index_score", true)                            \
  ROW(HR_OP_INDEX_TOP_K, "index_top_k", true)                            \
  ROW(HR_OP_KV_ALL_GATHER, "kv_all_gather", true)                        \
  ROW(HR_OP_Q_ABSORB, "q_absorb", true)                                  \
  ROW(HR_OP_ATTENTION_SCORE, "attention_score", true)                    \
  ROW(HR_OP_SOFTMAX, "softmax", true)                                    \
  ROW(HR_OP_SOFTMAX_DROPOUT, "softmax_dropout", true)                    \
  ROW(HR_OP_ATTENTION_OVER_VALUE, "attention_over_value", true)          \
  ROW(HR_OP_ATTENTION, "attention", true)                                \
  ROW(HR_OP_O_ABSORB, "o_absorb", true)                                  \
  ROW(HR_OP_O_ROTARY, "o_rotary", true)                                  \
  ROW(HR_OP_ATTENTION_GATE, "attention_gate", true)                      \
  ROW(HR_OP_O_DOWN, "o_down", true)                                      \
  ROW(HR_OP_LINEAR_PROJECTION, "linear_projection", true)                \
  ROW(HR_OP_IN_PROJ, "in_proj", true)                                    \
  ROW(HR_OP_CONVOLUTION, "convolution", true)                            \
  ROW(HR_OP_X_PROJ, "x_proj", true)                                      \
  ROW(HR_OP_X_ALL_REDUCE, "x_all_reduce", true)                          \
  ROW(HR_OP_X_NORM, "x_norm", true)                                      \
  ROW(HR_OP_DT_PROJ, "dt_proj", true)                                    \
  ROW(HR_OP_RECURRENCE_GATES, "recurrence_gates", true)                  \
  ROW(HR_OP_SCAN_DECAY_UP, "scan_decay_up", true)                        \
  ROW(HR_OP_SCAN_GATE_UP, "scan_gate_up", true)                          \
  ROW(HR_OP_SCAN, "scan", true)                                          \
  ROW(HR_OP_SCAN_GATE, "scan_gate", true)                                \
  ROW(HR_OP_OUT_PROJ, "out_proj", true)                                  \
  ROW(HR_OP_ATTENTION_ALL_REDUCE, "attention_all_reduce", true)          \
  ROW(HR_OP_ATTENTION_REDUCE_SCATTER, "attention_reduce_scatter", true)  \
  ROW(HR_OP_ATTENTION_POST_NORM, "attention_post_norm", true)            \
  ROW(HR_OP_ATTENTION_DROPOUT, "attention_dropout", true)                \
  ROW(HR_OP_ATTENTION_RESIDUAL, "attention_residual", true)              \
  ROW(HR_OP_MLP_HC_WEIGHTS, "mlp_hc_weights", true)                      \
  ROW(HR_OP_MLP_HC_PRE, "mlp_hc_pre", true)                              \
  ROW(HR_OP_MLP_NORM, "mlp_norm", true)                                  \
  ROW(HR_OP_MLP_ALL_GATHER, "mlp_all_gather", true)                      \
  ROW(HR_OP_ROUTER, "router", true)                                      \
  ROW(HR_OP_ROUTER_TOP_K, "router_top_k", true)                          \
  ROW(HR_OP_EXPERT_LATENT_DOWN, "expert_latent_down", true)              \
  ROW(HR_OP_DISPATCH, "dispatch", true)                                  \
  ROW(HR_OP_DISPATCH_ALL_TO_ALL, "dispatch_all_to_all", true)            \
  ROW(HR_OP_EXPERT_UP, "expert_up", true)                                \
  ROW(HR_OP_EXPERT_GATE, "expert_gate", true)                            \
  ROW(HR_OP_EXPERT_ACTIVATION, "expert_activation", true)                \
  ROW(HR_OP_EXPERT_DOWN, "expert_down", true)                            \
  ROW(HR_OP_COMBINE_ALL_TO_ALL, "combine_all_to_all", true)              \
  ROW(HR_OP_SHARED_UP, "shared_up", true)                                \
  ROW(HR_OP_SHARED_GATE, "shared_gate", true)                            \
  ROW(HR_OP_SHARED_ACTIVATION, "shared_activation", true)                \
  ROW(HR_OP_SHARED_DOWN, "shared_down", true)                            \
  ROW(HR_OP_SHARED_OUTPUT_GATE, "shared_output_gate", true)              \
  ROW(HR_OP_COMBINE, "combine", true)                                    \
  ROW(HR_OP_EXPERT_LATENT_UP, "expert_latent_up", true)                  \
  ROW(HR_OP_SHARED_ADD, "shared_add", true)                              \
  ROW(HR_OP_MLP_UP, "mlp_up", true)                                      \
  ROW(HR_OP_MLP_GATE, "mlp_gate", true)                                  \
  ROW(HR_OP_ACTIVATION, "activation", true)                              \
  ROW(HR_OP_MLP_DOWN, "mlp_down", true)                                  \
  ROW(HR_OP_MLP_ALL_REDUCE, "mlp_all_reduce", true)                      \
  ROW(HR_OP_MLP_REDUCE_SCATTER, "mlp_reduce_scatter", true)              \
  ROW(HR_OP_MLP_POST_NORM, "mlp_post_norm", true)                        \
  ROW(HR_OP_MLP_DROPOUT, "mlp_dropout", true)                            \
  ROW(HR_OP_MLP_RESIDUAL, "mlp_residual", true)                          \
  ROW(HR_OP_PIPELINE_SEND, "pipeline_send", false)                       \
  ROW(HR_OP_FINAL_HC_WEIGHTS, "final_hc_weights", false)                 \
  ROW(HR_OP_FINAL_HC_PRE, "final_hc_pre", false)                         \
  ROW(HR_OP_FINAL_NORM, "final_norm", false)                             \
  ROW(HR_OP_LOGIT_ALL_GATHER, "logit_all_gather", false)                 \
  ROW(HR_OP_EMBEDDING_PROJECTION_OUT, "embedding_projection_out", false) \
  ROW(HR_OP_LOGIT, "logit", false)                                       \
  ROW(HR_OP_LOSS, "loss", false)                                         \
  ROW(HR_OP_WEIGHT_ALL_GATHER, "weight_all_gather", false)               \
  ROW(HR_OP_GRADIENT_ALL_REDUCE, "gradient_all_reduce", false)           \
  ROW(HR_OP_GRADIENT_REDUCE_SCATTER, "gradient_reduce_scatter", false)   \
  ROW(HR_OP_OPTIMIZER, "optimizer", false)

typedef enum hr_operator_id {
#define HR_OPERATOR_ENUM(enumerator, name, in_layer) enumerator,
  HR_OPERATOR_LIST(HR_OPERATOR_ENUM)
#undef HR_OPERATOR_ENUM
      HR_OPERATOR_ID_COUNT
} hr_operator_id;

typedef enum hr_operator_kind {
  HR_KIND_GEMM,          /* `gemm`, batch 1 */
  HR_KIND_BMM,           /* `gemm`, batched: one GEMM per head */
  HR_KIND_ATTENTION,     /* `attention` */
  HR_KIND_MEMORY,        /* norms, softmax, rotary, activation, dropout, residual, embedding, loss: bytes only */
  HR_KIND_COMMUNICATION, /* a collective between devices */
  HR_KIND_GROUPED_GEMM,  /* `gemm`, batched: one GEMM for each expert that a token goes to; their m differ */
  HR_KIND_SCAN           /* convolution and scan of a recurrent mixer: FLOPs and bytes */
} hr_operator_kind;

/** The part of a training step. For the batched GEMMs of attention, dgrad is the gradient of the first operand and
 *  wgrad that of the second. For operators without a GEMM, dgrad is the whole backward pass. */
typedef enum hr_pass {
  HR_PASS_FORWARD,
  HR_PASS_DGRAD,
  HR_PASS_WGRAD,
  HR_PASS_RECOMPUTE, /* a forward operator once more, for the backward pass of its layer */
  HR_PASS_BGRAD      /* the gradient of a linear layer's bias, where a framework has a kernel for it */
} hr_pass;

/* What operators hand to each other: enumerator, name. Each is [tokens, …] on one device; a layer's are those of the
 * layer that runs, but `hidden` goes from layer to layer. */
#define HR_TENSOR_LIST(ROW)                                                                                          \
  ROW(HR_TENSOR_NONE, "none")                                                                                        \
  ROW(HR_TENSOR_TOKENS, "tokens")         /* numbers of rows of the token embedding */                               \
  ROW(HR_TENSOR_POSITIONS, "positions")   /* of each token in its sequence */                                        \
  ROW(HR_TENSOR_HIDDEN, "hidden")         /* the residual stream */                                                  \
  ROW(HR_TENSOR_HC_WEIGHTS, "hc_weights") /* of the residual streams */                                              \
  ROW(HR_TENSOR_COLLAPSED, "collapsed")   /* the weighted sum of the residual streams */                             \
  ROW(HR_TENSOR_NORMED, "normed")                                                                                    \
  ROW(HR_TENSOR_Q_LOW, "q_low")           /* between the two linear layers of an augmented Q, and of a latent one */ \
  ROW(HR_TENSOR_KV_LOW, "kv_low")         /* latents */                                                              \
  ROW(HR_TENSOR_COMPRESSED, "compressed") /* what compressed entries are made of */                                  \
  ROW(HR_TENSOR_Q, "q")                                                                                              \
  ROW(HR_TENSOR_K, "k")                                                                                              \
  ROW(HR_TENSOR_V, "v")                                                                                              \
  ROW(HR_TENSOR_INDEX_Q, "index_q")                                                                                  \
  ROW(HR_TENSOR_INDEX_K, "index_k")                                                                                  \
  ROW(HR_TENSOR_INDEX_WEIGHTS, "index_weights")                                                                      \
  ROW(HR_TENSOR_INDEX_SCORES, "index_scores")                                                                        \
  ROW(HR_TENSOR_CHOSEN_KEYS, "chosen_keys")                                                                          \
  ROW(HR_TENSOR_SCORES, "scores")                                                                                    \
  ROW(HR_TENSOR_HEADS, "heads") /* attention's result, head by head */                                               \
  ROW(HR_TENSOR_GATE, "gate")   /* of attention's result */                                                          \
  ROW(HR_TENSOR_ATTENTION, "attention")                                                                              \
  ROW(HR_TENSOR_SCAN_INPUT, "scan_input")                                                                            \
  ROW(HR_TENSOR_SCAN_STEPS, "scan_steps") /* what the scan's steps depend on */                                      \
  ROW(HR_TENSOR_SCAN_HEADS, "scan_heads") /* the scan's result, head by head */                                      \
  ROW(HR_TENSOR_SCAN, "scan")                                                                                        \
  ROW(HR_TENSOR_ROUTER_LOGITS, "router_logits")                                                                      \
  ROW(HR_TENSOR_ROUTES, "routes")               /* experts of each token, and their weights */                       \
  ROW(HR_TENSOR_EXPERT_LATENT, "expert_latent") /* routed experts' inputs, and their weighted sum */                 \
  ROW(HR_TENSOR_DISPATCHED, "dispatched")                                                                            \
  ROW(HR_TENSOR_EXPERT_UP, "expert_up")                                                                              \
  ROW(HR_TENSOR_EXPERT_GATE, "expert_gate")                                                                          \
  ROW(HR_TENSOR_EXPERT_ACTIVATED, "expert_activated")                                                                \
  ROW(HR_TENSOR_EXPERTS, "experts") /* results of routed experts */                                                  \
  ROW(HR_TENSOR_SHARED_UP, "shared_up")                                                                              \
  ROW(HR_TENSOR_SHARED_GATE, "shared_gate")                                                                          \
  ROW(HR_TENSOR_SHARED_ACTIVATED, "shared_activated")                                                                \
  ROW(HR_TENSOR_SHARED, "shared") /* results of shared experts */                                                    \
  ROW(HR_TENSOR_MLP_UP, "mlp_up")                                                                                    \
  ROW(HR_TENSOR_MLP_GATE, "mlp_gate")                                                                                \
  ROW(HR_TENSOR_MLP_ACTIVATED, "mlp_activated")                                                                      \
  ROW(HR_TENSOR_MLP, "mlp")                                                                                          \
  ROW(HR_TENSOR_LOGITS, "logits")

typedef enum hr_step_tensor {
#define HR_TENSOR_ENUM(enumerator, name) enumerator,
  HR_TENSOR_LIST(HR_TENSOR_ENUM)
#undef HR_TENSOR_ENUM
      HR_TENSOR_COUNT
} hr_step_tensor;

#define HR_OPERATOR_READS_MAX 5
#define HR_OPERATOR_WRITES_MAX 4
#define HR_OPERATOR_WEIGHTS_MAX 8

/** One operator on one device. Figures are per execution; a step executes it `count` times. */
typedef struct hr_operator {
  hr_operator_id id;
  hr_operator_kind kind;
  hr_pass pass;
  bool in_layer; /* runs in layers: in all of them, or in those of some groups */
  int64_t count; /* executions in a microbatch, all layers together; weight_* and gradient_*: on one device; optimizer:
                    in a step */
  hr_gemm gemm;  /* HR_KIND_GEMM, _BMM and _GROUPED_GEMM; of the last with the mean m (wgrad: k), rounded up; of
                   _SCAN only the dtype */
  hr_attention attention; /* HR_KIND_ATTENTION */
  bool latent;            /* HR_KIND_ATTENTION: V is the first v_dim elements of K, which are read once */
  int64_t columns; /* HR_KIND_MEMORY: elements of a row (hidden, keys, head size, …); _SCAN: channels; else 0 */
  int64_t rows;    /* of expert_*: tokens of all experts together; else 0 */
  hr_recurrence recurrence;      /* HR_KIND_SCAN: which; of the convolution before a scan HR_RECURRENCE_CONVOLUTION */
  bool updates;                  /* the same: a decode step, token by token */
  hr_collective_kind collective; /* HR_KIND_COMMUNICATION; else 0 */
  int64_t devices;               /* the same: that take part; else 0 */
  int64_t stride;                /* the same: see hr_collective; else 0 */
  int64_t flops;                 /* 0 for memory and communication operators */
  hr_activations activations;    /* of a GEMM with quantized weights: what its first operand is rounded to */
  hr_kv_format kv_cache;         /* of the cache that attention reads in decode */
  int64_t bytes; /* minimum traffic: operands and results once, quantized weights and KV caches as they are stored; of
                    HR_KIND_COMMUNICATION see HR_COLLECTIVE_LIST */
  hr_framework framework; /* whose kernels compute it; transformers' are those of eager or compiled */
  int64_t kernels;        /* that the framework launches for it; 0 counts as 1 */
  int64_t moved_bytes;    /* HR_KIND_MEMORY and _SCAN: what these kernels move; 0: `bytes` */
  int64_t
      summed_rows;  /* HR_KIND_MEMORY: over which a kernel sums the gradients of a norm's weights or a bias; else 0 */
  int64_t sequence; /* HR_KIND_SCAN: tokens of a sequence; else 0 */
  int64_t
      cached_bytes; /* HR_KIND_ATTENTION: K and V that prefill also copies into the KV cache, and copies of them that
                           transformers makes; else 0 */
  hr_flash_library flash; /* the same: the framework's kernel */
  bool masked;            /* the same: the kernel is passed a mask and computes what it hides, too */
  /* What a forward operator works on, in order; 0 behind the last. Its gradients name the same. Communication and what
   * runs once a step name nothing. */
  uint8_t reads[HR_OPERATOR_READS_MAX], writes[HR_OPERATOR_WRITES_MAX]; /* hr_step_tensor */
  uint8_t weights[HR_OPERATOR_WEIGHTS_MAX]; /* see hr_weight_role_name(); biases behind the matrices */
  uint64_t groups; /* in_layer: bit i for the layers of groups[i] of the model, which run it; else 0 */
  int64_t copies; /* of dispatch and an all-to-all of experts: experts of a token; `bytes` has a copy to each; else 0 */
  int64_t chosen; /* of dispatch: experts of all tokens of this device; of expert_activation and combine: those that
                        other devices have, where each device has the tokens of all; else 0 */
  bool served;    /* HR_KIND_COMMUNICATION: of a prefill or decode step */
  bool fused;     /* HR_FRAMEWORK_HEADROOM on a GPU: a part of the kernel of the operator before or behind it, as in
                      decode steps of up to eight tokens norms, activations, residuals and gates are of linear layers
                      with up to 2^24 weights; on other devices a kernel of its own */
  bool persistent;   /* the same: a part of the one kernel that runs a decode step on a GPU of compute capability 9.0 to
                      11.x; false in lists for no device */
  int64_t page_size; /* tokens of a page of the cache that attention reads in decode; 0: 16 */
  bool rounded;      /* another kernel has written its first operand in 8 bits: that before a GEMM of a server, or with
                        `rounds_twice` the operator before it */
  bool rounds_twice; /* HR_KIND_GEMM and _GROUPED_GEMM of a training step with fp8_linears: the first operand, unless
                        `rounded`, is scaled by its largest element and written twice, as it is and transposed */
} hr_operator;

#define HR_OPERATORS_MAX 768

/** The operators of a microbatch, in order; forward ones first, then recomputed ones, then the backward ones. Next
 *  comes the communication between replicas, weight_all_gather and gradient_*; the ZeRO stage decides whether a step
 *  has it once or with each microbatch (docs/parallelism.md). Last comes the optimizer, once a step. Equal operators of
 *  several groups of layers are one, with their counts added; operators of different sizes follow each other under one
 *  id. About 300 KB: for static or allocated memory rather than the stack of a small thread. */
typedef struct hr_operators {
  size_t count;
  hr_operator items[HR_OPERATORS_MAX];
  int64_t flops; /* of a microbatch: Σ count · flops */
  int64_t bytes; /* of a microbatch without communication and optimizer: Σ count · bytes */
} hr_operators;

/** The name with its pass: "mlp_up", "mlp_up_dgrad", "mlp_up_wgrad". Written to `name` (48 bytes always suffice). */
HR_API void hr_operator_name(const hr_operator *op, char *name, size_t size);

#ifdef __cplusplus
}
#endif
#endif
