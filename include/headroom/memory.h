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
  int64_t weight_bytes;     /* parameters in the workload's format */
  int64_t gradient_bytes;   /* in the same format */
  int64_t optimizer_bytes;  /* Adam: mean and variance in fp32, and an fp32 copy of narrower weights: 12 bytes per
                                       parameter (8 without the copy) */
  int64_t activation_bytes; /* train: saved for the backward pass; else the largest total of live activations */
  int64_t kv_cache_bytes;   /* of the whole batch at `context` (decode) or `sequence` (prefill); else 0 */
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

#ifdef __cplusplus
}
#endif
#endif
