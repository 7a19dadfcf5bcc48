/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a decoder-only transformer, and its reader.
 *
 * Thread safety: hr_model is a value; the functions are pure (no file, no environment). */
#ifndef HEADROOM_MODEL_H
#define HEADROOM_MODEL_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_positions {
  HR_POSITIONS_NONE,
  HR_POSITIONS_LEARNED,
  HR_POSITIONS_ROTARY,
  HR_POSITIONS_ALIBI
} hr_positions;

typedef enum hr_norm { HR_NORM_LAYER, HR_NORM_RMS } hr_norm;

/** Normalization of queries and keys before the score. */
typedef enum hr_qk_norm {
  HR_QK_NORM_NONE,
  HR_QK_NORM_SHARED,   /* one weight vector of qk_dim for all heads (Qwen3) */
  HR_QK_NORM_PER_HEAD, /* a weight vector of qk_dim for each head (StableLM 2 12B) */
  HR_QK_NORM_FULL      /* over all heads together (OLMo 2): as many weights as per head */
} hr_qk_norm;

/** A model's shape, which determines its operators, parameters and memory. Sizes are elements; 0 means "none" where the
 *  comment says so. Letters in brackets are those of Anthony et al. 2024 (arXiv 2401.14489), Table I. */
typedef struct hr_model {
  size_t struct_size; /* sizeof(hr_model), set by hr_model_default() */
  char name[96];      /* the caller's name, truncated if longer */
  char family[24];    /* "gpt2", "llama", … or "short" for the short form */

  int64_t layers;        /* [L] */
  int64_t hidden;        /* [h] */
  int64_t vocabulary;    /* [v] rows of the token embedding */
  int64_t max_positions; /* longest sequence that the configuration allows; 0: not given */
  int64_t q_heads;       /* [a] */
  int64_t k_heads, v_heads;
  int64_t qk_dim, v_dim; /* [h/a] head sizes of Q and K, and of V */
  int64_t q_rank;        /* augmented Q: width between its two linear layers (SIGMA, Table 7); 0: one layer */
  int64_t window;        /* sliding window in tokens; 0: none */
  int64_t window_layers; /* number of layers with the window */

  int64_t mlp_width;   /* [d_ff] */
  bool mlp_gated;      /* gate and up (SwiGLU, GeGLU), not up alone */
  char activation[24]; /* as the configuration names it */
  bool parallel_block; /* attention and MLP read the same input, and their sum is added */

  hr_positions positions;
  int64_t position_rows; /* rows of the learned position table (OPT has two more than positions); 0: none */
  int64_t rotary_dim;    /* elements of each head that are rotated; 0: none */

  hr_norm norm;
  bool norm_bias;      /* LayerNorm with bias */
  bool norm_weight;    /* false: norms have no parameters (OLMo 1) */
  int64_t layer_norms; /* hidden-sized norms in a layer: 1 (shared by a parallel block), 2 or 4 (Gemma 2) */
  bool final_norm;
  bool embedding_norm; /* a norm after the token embedding (BLOOM) */
  hr_qk_norm qk_norm;
  bool qk_norm_bias;

  bool q_bias, k_bias, v_bias, output_bias; /* of the attention's linear layers */
  bool mlp_bias;                            /* of all linear layers of the MLP */
  bool logit_bias;                          /* of the logits (GPT-J, Phi) */
  bool tied_embeddings;                     /* the logits reuse the token embedding */
  int64_t embedding_dim;                    /* width of the token embedding if not `hidden` (OPT 350M); 0: hidden */

  /* Defaults from the short form ("b", "s", "t", "p"); 0: not given. */
  int64_t default_batch, default_sequence, default_tensor_parallel, default_pipeline_stages;
} hr_model;

/** A model without sizes: two LayerNorms per layer and a final one, with weight and bias, everything else off. */
HR_API hr_model hr_model_default(void);

/** Reads a Hugging Face config.json, or Headroom's short form, from `length` bytes of text.
 *  `name` stands for the input in messages ("config.json") and becomes model->name. `note`, if not NULL, is called for
 *  every field that was ignored or assumed. Errors: HR_ERROR_UNREADABLE (not JSON, not UTF-8, too deep or too large),
 *  HR_ERROR_INVALID (a field is missing, of the wrong type, or impossible), HR_ERROR_UNSUPPORTED (mixture of experts,
 *  MLA, state space, encoder-decoder, unknown family), each naming the field. *model is written only on HR_OK. */
HR_API hr_status hr_model_from_json(const char *text, size_t length, const char *name, hr_note_fn note, void *context,
                                    hr_model *model, hr_error *error);

/** HR_OK if the shape is valid: sizes positive and below 2^40, K and V heads dividing the query heads, all parameter
 *  counts within 63 bits. Otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW naming the member. */
HR_API hr_status hr_model_check(const hr_model *model, hr_error *error);

/** Parameters by part; sums over all layers. */
typedef struct hr_parameters {
  int64_t total;
  int64_t excluding_embeddings; /* total without `embedding`, `position` and `logit` */
  int64_t embedding;            /* token embedding, with its projections if embedding_dim differs */
  int64_t position;             /* learned positions */
  int64_t attention, mlp, norm; /* of all layers with biases; norm includes the final and embedding norms */
  int64_t logit;                /* the untied output weights and the bias; 0 if tied and without bias */
} hr_parameters;

/** Counts the parameters exactly, as the published checkpoint has them. Errors as hr_model_check(). */
HR_API hr_status hr_model_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
