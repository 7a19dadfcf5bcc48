/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a model needs on a device. Thread safety: values; pure functions. */
#ifndef HEADROOM_MEMORY_H
#define HEADROOM_MEMORY_H

#include <headroom/model.h>
#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes on the most loaded device (of t × p) for one microbatch.
 *  Gradients and optimizer are 0 unless the phase is HR_PHASE_TRAIN. */
typedef struct hr_memory {
  int64_t weight_bytes;     /* parameters in the workload's format; of quantized linear layers (not in HR_PHASE_TRAIN)
                                       values, scales and zero points as their checkpoint stores them */
  int64_t gradient_bytes;   /* in the same format */
  int64_t optimizer_bytes;  /* Adam: mean and variance in fp32, and an fp32 copy of narrower weights: 12 bytes per
                                       parameter (8 without the copy) */
  int64_t activation_bytes; /* train: saved for the backward pass; else the largest total of live activations */
  int64_t kv_cache_bytes;   /* of the whole batch at `context` (decode) or `sequence` (prefill); else 0 */
  int64_t state_bytes;      /* convolution and recurrent states of the whole batch (decode, prefill); else 0 */
  int64_t state_bytes_per_sequence; /* all layers and devices together, in every phase */
  int64_t kv_cache_bytes_per_token; /* all layers and devices together, in every phase */
  int64_t total_bytes;
} hr_memory;

/** Memory of a step without recomputation and without sharding beyond t and p (1F1B: the
 *  first of p stages has p microbatches in flight).
 *  Source of the activation terms: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.1, generalized from
 *  sbh(34 + 5as/h) to unequal heads, gated MLPs and fused attention. Errors as hr_operators_list(). */
HR_API hr_status hr_memory_estimate(const hr_model *model, const hr_workload *workload, hr_memory *memory,
                                    hr_error *error);

/** The largest batch whose total fits `capacity_bytes`; *batch is 0 if not even one does. Other members of
 *  `workload` apply. Errors of hr_model_check() and hr_workload_check(); *batch is then untouched. */
HR_API hr_status hr_memory_largest_batch(const hr_model *model, const hr_workload *workload, int64_t capacity_bytes,
                                         int64_t *batch, hr_error *error);

/** Bytes of a token in the KV caches of all layers and devices, as hr_memory.kv_cache_bytes_per_token: the model's own,
 *  and what it would be if the layers with latent attention kept K and V of heads of the same sizes. */
typedef struct hr_latent_cache {
  int64_t bytes_per_token;
  int64_t multi_head_bytes_per_token;    /* a K and a V head for each query head */
  int64_t grouped_query_bytes_per_token; /* kv_heads K and V heads */
  int64_t kv_heads; /* 8, or the next larger divisor of the query heads; 0: no layer has latent attention */
} hr_latent_cache;

/** Compares the KV cache of latent attention. Errors of hr_model_check() and hr_workload_check(), and
 *  HR_ERROR_OVERFLOW. */
HR_API hr_status hr_memory_latent_cache(const hr_model *model, const hr_workload *workload, hr_latent_cache *cache,
                                        hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
