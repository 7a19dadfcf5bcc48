/* SPDX-License-Identifier: Apache-2.0 */
/* Number formats of a model's weights: how the matrices of its linear layers are stored.
 *
 * Thread safety: values; pure functions. */
#ifndef HEADROOM_QUANTIZATION_H
#define HEADROOM_QUANTIZATION_H

#include <headroom/decode.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The linear layers whose weights may have a format of their own. Embeddings, norms, biases, routers and gates of
 * shared experts have that of the workload. Enumerator, name as in a Llama or DeepSeek checkpoint. */
#define HR_LINEAR_LIST(ROW)                              \
  ROW(HR_LINEAR_Q, "q_proj")                             \
  ROW(HR_LINEAR_K, "k_proj")                             \
  ROW(HR_LINEAR_V, "v_proj")                             \
  ROW(HR_LINEAR_O, "o_proj")                             \
  ROW(HR_LINEAR_O_DOWN, "o_a_proj")                      \
  ROW(HR_LINEAR_Q_DOWN, "q_a_proj")                      \
  ROW(HR_LINEAR_Q_UP, "q_b_proj")                        \
  ROW(HR_LINEAR_KV_DOWN, "kv_a_proj")                    \
  ROW(HR_LINEAR_KV_UP, "kv_b_proj")                      \
  ROW(HR_LINEAR_INDEX_Q, "indexer.wq_b")                 \
  ROW(HR_LINEAR_INDEX_K, "indexer.wk")                   \
  ROW(HR_LINEAR_IN_PROJ, "in_proj")                      \
  ROW(HR_LINEAR_OUT_PROJ, "out_proj")                    \
  ROW(HR_LINEAR_GATE, "gate_proj")                       \
  ROW(HR_LINEAR_UP, "up_proj")                           \
  ROW(HR_LINEAR_DOWN, "down_proj")                       \
  ROW(HR_LINEAR_EXPERT_GATE, "experts.gate_proj")        \
  ROW(HR_LINEAR_EXPERT_UP, "experts.up_proj")            \
  ROW(HR_LINEAR_EXPERT_DOWN, "experts.down_proj")        \
  ROW(HR_LINEAR_EXPERT_LATENT_DOWN, "fc1_latent_proj")   \
  ROW(HR_LINEAR_EXPERT_LATENT_UP, "fc2_latent_proj")     \
  ROW(HR_LINEAR_SHARED_GATE, "shared_experts.gate_proj") \
  ROW(HR_LINEAR_SHARED_UP, "shared_experts.up_proj")     \
  ROW(HR_LINEAR_SHARED_DOWN, "shared_experts.down_proj")

typedef enum hr_linear_id {
#define HR_LINEAR_ENUM(enumerator, name) enumerator,
  HR_LINEAR_LIST(HR_LINEAR_ENUM)
#undef HR_LINEAR_ENUM
      HR_LINEAR_COUNT
} hr_linear_id;

/** The format that a GEMM's other operand is rounded to before it is multiplied with quantized weights. */
typedef enum hr_activations {
  HR_ACTIVATIONS_UNQUANTIZED, /* weights are widened to the workload's format instead */
  HR_ACTIVATIONS_FP8,
  HR_ACTIVATIONS_INT8,
  HR_ACTIVATIONS_FP4 /* E2M1 with a scale for each block, as NVFP4 and MXFP4 */
} hr_activations;

/** How the matrix of a linear layer, [outputs, inputs], is stored: values of a few bits, and for each block of them a
 *  scale and perhaps a zero point. docs/notes/models.md has the formats that are read, with their sources. */
typedef struct hr_weight_format {
  char name[16];         /* of the values: "int4", "fp8", "nf4", … */
  int64_t bits;          /* of a value, 1 to 16 */
  int64_t block_inputs;  /* values of a row that share a scale; 0: all */
  int64_t block_outputs; /* rows that share a scale; 0: all */
  int64_t block_bits;    /* of the scale and the zero point of a block */
  int64_t nested;        /* scales that share an fp32 scale of their own (bitsandbytes); 0: none */
  int64_t input_bytes;   /* for each input, such as GPTQ's g_idx */
  int64_t matrix_bytes;  /* for each matrix: its own scale, that of its inputs, tables */
  hr_activations activations;
} hr_weight_format;

#define HR_WEIGHT_FORMATS_MAX 4

/** The quantization of a model. A linear layer has the number of its format in hr_layer_group.formats: 0 is that of
 *  the workload, i is formats[i − 1]. */
typedef struct hr_quantization {
  char method[24]; /* "awq", "gptq", …, "--weights" of a preset; "": none */
  size_t format_count;
  hr_weight_format formats[HR_WEIGHT_FORMATS_MAX];
  uint8_t logit;         /* number of the format of the logits' weights */
  uint8_t tied_logit;    /* the same, of logits that reuse the token embedding, which then has it, too */
  hr_kv_format kv_cache; /* that the checkpoint has scales for */
} hr_quantization;

#ifdef __cplusplus
}
#endif
#endif
