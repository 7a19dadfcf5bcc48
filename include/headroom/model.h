/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a decoder-only language model (attention, recurrent mixers, experts), and its reader.
 *
 * Thread safety: hr_model is a value; the functions are pure (no file, no environment). */
#ifndef HEADROOM_MODEL_H
#define HEADROOM_MODEL_H

#include <headroom/input.h>
#include <headroom/quantization.h>
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
  HR_QK_NORM_FULL,     /* over all heads together (OLMo 2): as many weights as per head */
  HR_QK_NORM_ROTATED   /* of each head behind its rotation, without weights (Llama 4) */
} hr_qk_norm;

/** What follows the layers. */
typedef enum hr_head {
  HR_HEAD_LANGUAGE, /* logits over the vocabulary */
  HR_HEAD_CLASSES,  /* a linear layer with weights of its own to `classes` outputs */
  HR_HEAD_NONE      /* nothing: the layers' output is the result (embedding models) */
} hr_head;

/** Whether trained weights of a model exist, by what says so; the strongest evidence found. */
typedef enum hr_origin {
  HR_ORIGIN_DESIGN,    /* nothing does: a shape that can still change */
  HR_ORIGIN_PUBLISHED, /* a built-in model that is not in short form, or a repository in the cache of the hub */
  HR_ORIGIN_FILES      /* files of weights are beside the configuration */
} hr_origin;

/** How `window` limits the keys of a query. */
typedef enum hr_window_kind {
  HR_WINDOW_SLIDING, /* the last `window` tokens, the query's own included */
  HR_WINDOW_CHUNKED  /* those of the query's own chunk of `window` tokens (Llama 4) */
} hr_window_kind;

/** Softmax attention of a layer. Absent if q_heads is 0. */
typedef struct hr_mixer_attention {
  int64_t q_heads; /* [a] */
  int64_t k_heads, v_heads;
  int64_t qk_dim, v_dim; /* [h/a] head sizes of Q and K, and of V */
  int64_t q_rank;        /* augmented Q: width between its two linear layers (SIGMA, Table 7); 0: one layer */
  int64_t window;        /* in tokens; 0: all earlier tokens */
  hr_window_kind window_kind;
  int64_t rotary_dim;  /* elements of each head that are rotated; 0: none */
  int64_t index_topk;  /* most keys that a token attends to, the best by an indexer with a head for each K head
                         (MiniMax-M3); 0: all */
  int64_t index_block; /* neighbouring keys that it chooses together */
  int64_t index_dim;   /* head size of the indexer, of which the first rotary_dim elements are rotated */
  hr_qk_norm qk_norm;
  bool qk_norm_bias;
  bool q_bias, k_bias, v_bias, output_bias; /* of the linear layers */
  bool output_gate;   /* each query head's output is multiplied by a gate of its own columns (Qwen3-Next) */
  bool gate_per_head; /* that gate is one number for each head (Laguna) */
  bool gate_unbiased; /* that gate has no bias where Q has one (AFMoE) */
  bool sinks;         /* a learned logit for each query head in the softmax's sum (gpt-oss) */
  bool shared_kv;     /* uses the K and V of an earlier layer: no K and V weights, no cache of its own (Gemma 3n) */
  bool shared_k_norm; /* that K has a norm of this layer's own (Hunyuan-Large) */
  bool v_is_k;        /* V is K before its norm and rotation: no V weights, but a cache of its own (Gemma 4) */
} hr_mixer_attention;

/** Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). K and V of a token are kept as one latent
 *  of kv_rank elements for all heads, beside rope_dim elements of K that are rotated. Absent if q_heads is 0. */
typedef struct hr_mixer_latent {
  int64_t q_heads;
  int64_t q_rank;             /* width between the two linear layers of Q, with an RMS norm; 0: one layer */
  int64_t kv_rank;            /* width of the latent, with an RMS norm */
  int64_t nope_dim, rope_dim; /* elements of a head of Q and K that are not rotated, and that are */
  int64_t v_dim;              /* head size of V */
  bool down_bias;             /* of the linear layers to the ranks and to the rotated part of K */
  bool output_bias;
  int64_t index_topk;  /* most keys that a token attends to, the best by an indexer (DeepSeek-V3.2); 0: all */
  int64_t index_heads; /* of the layer's own indexer; 0: none, and index_topk keys are those of a layer before */
  int64_t index_dim;   /* head size of the indexer, of which the first rope_dim elements are rotated */
} hr_mixer_latent;

/** Attention over the last tokens and over compressed entries of all tokens (DeepSeek-V4): K and V of a token or of an
 *  entry are one vector, the only K and V head. Q and O are low-rank; each query head has a sink. Absent if q_heads is
 *  0. */
typedef struct hr_mixer_compressed {
  int64_t q_heads;
  int64_t head_dim;    /* of Q, and of the vector that is K and V */
  int64_t rope_dim;    /* elements of both that are rotated, and in O rotated back */
  int64_t q_rank;      /* width between the two linear layers of Q, with an RMS norm */
  int64_t window;      /* last tokens that a token attends to */
  int64_t ratio;       /* tokens of a compressed entry; 0: no entries */
  bool overlaps;       /* an entry is also made of the tokens of the one before it */
  int64_t index_topk;  /* most entries that a token attends to, the best by an indexer; 0: all */
  int64_t index_heads; /* of the indexer, whose keys are compressed, too; 0: none */
  int64_t index_dim;
  int64_t o_groups, o_rank; /* groups of heads, each mapped to o_rank elements before the linear layer of all */
} hr_mixer_compressed;

/** How a scan updates its state. Shapes and sources: docs/operators.md. */
typedef enum hr_recurrence {
  HR_RECURRENCE_NONE,
  HR_RECURRENCE_SELECTIVE,   /* Mamba-1: a state for each channel */
  HR_RECURRENCE_SSD,         /* Mamba-2: a state for each head, one decay for all of it */
  HR_RECURRENCE_GATED_DELTA, /* gated delta net (Qwen3-Next) */
  HR_RECURRENCE_LIGHTNING,   /* linear attention with a fixed decay (MiniMax-01) */
  HR_RECURRENCE_RG_LRU,      /* real-gated linear recurrent unit (RecurrentGemma): a state of one element per channel */
  HR_RECURRENCE_CONVOLUTION, /* gated short convolution (LFM2): no state but the convolution's */
  HR_RECURRENCE_KIMI_DELTA   /* Kimi delta attention: a decay for each element of a key (Kimi Linear) */
} hr_recurrence;

/** A recurrent mixer, whose state does not grow with the sequence: a head keeps head_dim × state elements, in fp32, and
 *  the convolution before it its last `kernel` inputs. Absent if heads is 0. */
typedef struct hr_mixer_scan {
  hr_recurrence recurrence;
  int64_t heads;    /* of values; Mamba-1 and short convolutions: channels, of head_dim 1 */
  int64_t head_dim; /* channels of a head */
  int64_t groups;   /* heads of keys and queries (B and C in Mamba), each for as many heads of values; 0: none */
  int64_t state;    /* size of a key; 0: no state */
  int64_t kernel;   /* width of the convolution over the tokens; 0: none */
  int64_t rank;     /* of Mamba-1's step sizes, of Kimi delta attention's decays and gates */
  int64_t chunk;    /* tokens that are processed together where a whole sequence is; 0: token by token */
  bool in_bias, out_bias, conv_bias; /* of the projections and of the convolution */
  bool norm;                         /* of the output, beside its gate (Mamba-2); of step size, B and C (Mamba-1) */
  bool norm_weight;                  /* that norm has parameters */
} hr_mixer_scan;

/** The feed-forward network of a layer without experts. Absent if width is 0. */
typedef struct hr_ffn_dense {
  int64_t width;                 /* [d_ff] */
  bool gated;                    /* gate and up (SwiGLU, GeGLU), not up alone */
  bool bias;                     /* of all its linear layers */
  int64_t activation_parameters; /* learned numbers of the activation (xIELU of Apertus: 2); 0: none */
} hr_ffn_dense;

/** A feed-forward network of routed experts, of which each token passes `active`, and of shared ones, which every token
 *  passes. Absent if experts is 0. */
typedef struct hr_ffn_experts {
  int64_t experts;               /* routed experts of a layer */
  int64_t active;                /* those that a token passes (top-k) */
  int64_t width;                 /* of each routed expert */
  int64_t groups, active_groups; /* a token's experts are of active_groups of so many equal groups; 0: of any */
  int64_t shared_width;          /* of all shared experts together; 0: none */
  int64_t latent; /* width of the routed experts' inputs and outputs, which two linear layers of all experts make of and
                     into the stream's (LatentMoE, Nemotron 3 Super); 0: hidden */
  int64_t held;   /* routed experts on one device where they are spread; 0: all, as in every model */
  bool gated;     /* routed and shared experts have gate and up, not up alone */
  bool bias, shared_bias; /* of the linear layers of the routed and of the shared experts */
  bool latent_bias;       /* of the two linear layers of `latent` */
  bool router_bias;       /* a parameter for each expert beside the router's weights */
  bool shared_gate;       /* the shared experts' output is multiplied by a sigmoid gate of its own (Qwen2-MoE) */
  bool output_norm;       /* a norm of the sum of all experts' outputs (A.X K1) */
} hr_ffn_experts;

/** Equal layers: a mixer (attention, scan) and a feed-forward network, either of which may be absent. Several mixers in
 *  one layer read the same input, and their outputs are added. */
typedef struct hr_layer_group {
  int64_t count;       /* number of such layers, wherever they are in the model */
  int64_t norms;       /* hidden-sized norms in a layer: 1 (shared by a parallel block), 2, 4 (Gemma 2), up to 8 */
  bool parallel_block; /* mixer and feed-forward network read the same input, and their sum is added */
  bool norms_behind;   /* its two norms are behind mixer and network, not before them (OLMo 2) */
  hr_mixer_attention attention;
  hr_mixer_latent latent;
  hr_mixer_compressed compressed;
  hr_mixer_scan scan;
  hr_ffn_dense dense;
  hr_ffn_experts experts;
  uint8_t formats[HR_LINEAR_COUNT]; /* of the weights of each linear layer: see hr_quantization */
} hr_layer_group;

/** How a longer context stretches the angles of rotary positions. */
typedef enum hr_rotary_scaling {
  HR_ROTARY_UNSCALED,
  HR_ROTARY_LINEAR, /* positions divided by `factor` */
  HR_ROTARY_LLAMA3, /* low frequencies divided by `factor` (Llama 3.1) */
  HR_ROTARY_YARN,   /* the same by pairs, and larger cosines and sines (Peng et al., arXiv 2309.00071) */
  HR_ROTARY_OTHER   /* one that cannot be run yet */
} hr_rotary_scaling;

/** How a router's logits become a token's experts and their weights. */
typedef struct hr_router {
  bool sigmoid;       /* scores are sigmoids of the logits; else their softmax */
  bool normalized;    /* the weights of a token's experts are divided by their sum */
  bool bias_chooses;  /* the router's bias is added to scores for the choice alone; else to the logits */
  bool group_pairs;   /* the best groups have the largest sums of two scores; else the largest score */
  double scale;       /* of the weights; 0: 1 */
  bool weighs_inputs; /* an expert's input is multiplied by its weight; else its output */
} hr_router;

/** Constants of the computation, on which no size and no time depends. They are read with the configuration, for a step
 *  that runs. */
typedef struct hr_numerics {
  bool known;                /* the family's computation is; else the other members are 0 */
  double norm_epsilon;       /* added to the mean of squares */
  double rotary_base;        /* angle of pair i of r at position p: p / base^(2i/r) */
  double rotary_window_base; /* the same of layers with a window, which no scaling stretches; 0: as the others */
  bool rotary_interleaved;   /* pairs are elements 2i and 2i + 1; else i and i + r/2 */
  bool gelu_tanh;            /* "gelu" is its approximation by tanh (BLOOM) */
  hr_rotary_scaling rotary_scaling;
  double rotary_factor, rotary_low, rotary_high; /* of the scaling; the latter two of Llama 3.1's and YaRN's: turns
                                                          within rotary_positions that bound it */
  double rotary_positions;                       /* the same: of the model before it was stretched */
  double rotary_amplitude;                       /* of YaRN: by which cosines and sines are multiplied */
  bool rotary_truncated;                         /* the same: its bounds are whole pairs */
  double attention_scale;                        /* of the scores; 0: 1 / sqrt(qk_dim) */
  double attention_softcap, logit_softcap;       /* c of c tanh(x / c), of scores and of logits; 0: none */
  double embedding_scale, residual_scale, logit_scale; /* factors of the embedding, of what is added to the stream, and
                                                          of the logits; 0: 1 */
  bool alibi_scaled;                                   /* ALiBi is scaled as scores are (Falcon) */
  double swiglu_limit;                                 /* SwiGLU's inputs are clamped to it (gpt-oss); 0: not */
  hr_router router;                                    /* of experts */
  double query_growth, query_floor;                    /* queries of layers without rotary positions are multiplied by
                                       1 + growth log(1 + floor((p + 1) / floor)) (Llama 4); growth 0: not */
  char refusal[96];                                    /* what of the configuration cannot be run yet; "" if all can */
} hr_numerics;

/** Most layers whose order a model has. */
#define HR_LAYER_ORDER_MAX 256

/** Most groups of a model. A group is about 500 bytes, and a model a value that is copied. */
#define HR_LAYER_GROUPS_MAX 64

/** A model's shape, which determines its operators, parameters and memory: what all layers share, and its layers as
 *  groups of equal ones. Sizes are elements; 0 means "none" where the comment says so. Letters in brackets are those of
 *  Anthony et al. 2024 (arXiv 2401.14489), Table I. */
typedef struct hr_model {
  size_t struct_size; /* sizeof(hr_model), set by hr_model_default() */
  char name[96];      /* the name in the configuration, else the caller's; truncated if longer */
  char family[24];    /* "gpt2", "llama", … or "short" for the short form */

  int64_t hidden;        /* [h] */
  int64_t vocabulary;    /* [v] rows of the token embedding */
  int64_t max_positions; /* longest sequence that the configuration allows; 0: not given */
  char activation[24];   /* as the configuration names it */

  hr_positions positions;
  int64_t position_rows; /* rows of the learned position table (OPT has two more than positions); 0: none */

  hr_norm norm;
  bool norm_bias;   /* LayerNorm with bias */
  bool norm_weight; /* false: norms have no parameters (OLMo 1) */
  bool final_norm;
  bool embedding_norm; /* a norm after the token embedding (BLOOM) */

  hr_head head;
  int64_t classes;          /* outputs of HR_HEAD_CLASSES; else 0 */
  bool logit_bias;          /* of the logits (GPT-J, Phi) or classes */
  bool tied_embeddings;     /* the logits reuse the token embedding */
  int64_t embedding_dim;    /* width of the token embedding if not `hidden` (OPT 350M); 0: hidden */
  int64_t residual_streams; /* copies of the residual stream, mixed before and behind each mixer and network by weights
                               computed of all of them (hyper-connections); 0: one, which is not mixed */

  /* Defaults from the short form ("b", "s", "t", "p"); 0: not given. */
  int64_t default_batch, default_sequence, default_tensor_parallel, default_pipeline_stages;

  hr_quantization quantization; /* of a quantized checkpoint; hr_model_set_weights() replaces it */

  hr_origin origin; /* of hr_model_from_json() DESIGN or CONFIG; hr_resolve_model() looks further */

  size_t group_count; /* 1 to HR_LAYER_GROUPS_MAX, in the order of each group's first layer */
  hr_layer_group groups[HR_LAYER_GROUPS_MAX];

  hr_numerics numerics;
  uint8_t
      order[HR_LAYER_ORDER_MAX]; /* the group of each layer, as the configuration has them; counts may have changed */
} hr_model;

/** A model without sizes and with one empty group of layers: two LayerNorms per layer and a final one, with weight and
 *  bias, everything else off. */
HR_API void hr_model_init(hr_model *model, size_t size);
HR_DEFAULT(hr_model)

/** Reads a Hugging Face config.json, or Headroom's short form. The input's name becomes model->name. `note`, if not
 *  NULL, is called for every field that was ignored or assumed. Errors: HR_ERROR_UNREADABLE (not JSON, not UTF-8, too
 *  deep or too large), HR_ERROR_INVALID (a field is missing, of the wrong type, or impossible), HR_ERROR_UNSUPPORTED
 *  (encoder-decoder, a mechanism that is not covered, unknown family), each naming the field. *model is written only on
 *  HR_OK. */
HR_API hr_status hr_model_from_json(const hr_input *input, hr_note_fn note, void *context, hr_model *model,
                                    hr_error *error);

/** Replaces the format of all weights in linear layers, the logits' excepted: "int4" (groups of 128 with scale and zero
 *  point, as AWQ), "int8" (a scale for each output), "fp8" (also of the activations; a scale for each output and each
 *  token), "mxfp4", "nvfp4" and "nf4" (weights alone), or "bf16": none is quantized, all have the workload's format.
 *  "q8_0", llama.cpp's int8 with an fp16 scale for 32 inputs, is that of the logits, too.
 *  HR_ERROR_NOT_FOUND for another name, with *model untouched. */
HR_API hr_status hr_model_set_weights(hr_model *model, const char *name, hr_error *error);

/** HR_OK if the shape is valid: sizes positive and below 2^40, K and V heads dividing the query heads, every group with
 *  a mixer or a feed-forward network, all parameter counts within 63 bits. Otherwise HR_ERROR_INVALID or
 *  HR_ERROR_OVERFLOW naming the member. */
HR_API hr_status hr_model_check(const hr_model *model, hr_error *error);

/** Parameters by part; sums over all layers. */
typedef struct hr_parameters {
  int64_t total;
  int64_t excluding_embeddings; /* total without `embedding`, `position` and `logit` */
  int64_t embedding;            /* token embedding, with its projections if embedding_dim differs */
  int64_t position;             /* learned positions */
  int64_t scan;                 /* of all recurrent mixers, with their convolutions */
  int64_t attention, mlp, norm; /* of all layers with biases; norm includes the final and embedding norms */
  int64_t experts;              /* of all routed experts; mlp has their routers and the shared experts */
  int64_t logit;                /* the head's own weights and bias; 0 if tied and without bias */
  int64_t active;               /* total without the routed experts that a token does not pass */
} hr_parameters;

/** Counts the parameters exactly, as the published checkpoint has them. Errors as hr_model_check(). */
HR_API hr_status hr_model_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
