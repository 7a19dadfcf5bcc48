/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a model needs on a device. Thread safety: values; pure functions. */
#ifndef HEADROOM_MEMORY_H
#define HEADROOM_MEMORY_H

#include <headroom/model.h>
#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes on the most loaded device.
 *  Gradients, optimizer and gathered weights are 0 unless the phase is HR_PHASE_TRAIN. */
typedef struct hr_memory {
  int64_t weight_bytes;     /* parameters in the workload's format; of quantized linear layers (not in HR_PHASE_TRAIN)
                                       values, scales and zero points as their checkpoint stores them */
  int64_t gradient_bytes;   /* in the same format */
  int64_t optimizer_bytes;  /* Adam: mean and variance in fp32, and an fp32 copy of narrower weights: 12 bytes per
                                       parameter (8 without the copy) */
  int64_t activation_bytes; /* train: saved for the backward pass; else the largest total of live activations */
  int64_t kv_cache_bytes;   /* of all sequences at `context` (decode) or `sequence` (prefill); else 0 */
  int64_t state_bytes;      /* convolution and recurrent states of all sequences (decode, prefill); else 0 */
  int64_t state_bytes_per_sequence; /* all layers and devices together, in every phase */
  int64_t kv_cache_bytes_per_token; /* while no window is full; all layers and devices together, in every phase */
  int64_t total_bytes;
  int64_t
      gathered_bytes; /* ZeRO: stage 3 the gathered weights of two layers, stages 2 and 3 the gradients of one before
                             they are split; an end of the model counts as a layer if it is larger */
  int64_t kv_cache_bytes_of_next_token; /* what the token after `context` (decode) or `sequence` adds, all layers and
                                           devices together, in every phase: nothing in a layer whose window is full;
                                           with a page_size the page that it begins, or nothing */
} hr_memory;

/** Memory of a step. Pipeline stages follow the 1F1B schedule: the first has min(p, m) microbatches in flight. In
 *  prefill and decode all m microbatches keep their KV caches and states.
 *  Source of the activation terms: Korthikanti et al. 2022 (arXiv 2205.05198), generalized from sbh(34 + 5as/h) to
 *  unequal heads, gated MLPs and fused attention; of what replicas share: Rajbhandari et al. 2020 (arXiv 1910.02054).
 *  Errors as hr_operators_list(). */
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

#ifdef __cplusplus
}
#endif
#endif
