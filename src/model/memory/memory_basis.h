/* SPDX-License-Identifier: Apache-2.0 */
/* hr_memory_estimate() in two parts, for callers that try all ZeRO stages of a layout. */
#ifndef HR_MODEL_MEMORY_MEMORY_BASIS_H
#define HR_MODEL_MEMORY_MEMORY_BASIS_H

#include "model/memory/weight_memory.h"

#include <headroom/memory.h>

/** What workloads have in common that differ in their ZeRO stage alone. */
typedef struct hr_memory_basis {
  hr_held_parameters held; /* in training */
  hr_weight_memory stored; /* in other phases */
  hr_checked64 activations, kv_cache, states;
  hr_checked64 of_token, of_next_token, of_sequence; /* of all devices: in the cache, and states */
} hr_memory_basis;

/** The model and the workload have been checked. HR_ERROR_OVERFLOW if a count does not fit into 63 bits. */
hr_status hr_memory_begin(const hr_model *model, const hr_workload *workload, hr_memory_basis *basis, hr_error *error);

/** `workload`: that of hr_memory_begin(), with any ZeRO stage. HR_ERROR_OVERFLOW as hr_memory_estimate(). */
hr_status hr_memory_end(const hr_memory_basis *basis, const hr_workload *workload, hr_memory *memory, hr_error *error);

#endif
