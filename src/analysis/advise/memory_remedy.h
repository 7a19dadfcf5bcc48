/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a step fit that takes more memory than there is. Thread safety: as its context. */
#ifndef HR_ANALYSIS_ADVISE_MEMORY_REMEDY_H
#define HR_ANALYSIS_ADVISE_MEMORY_REMEDY_H

#include "analysis/advise/context.h"
#include "analysis/advise/format.h"

/** A workload that fits, and what it differs in: "full recomputation, ZeRO stage 1". */
typedef struct hr_memory_remedy {
  hr_trial trial; /* time_ns 0: nothing that was tried fits */
  int64_t bytes;  /* per device */
  hr_text192 changes;
} hr_memory_remedy;

/** Finds the remedy with the most tokens per second and device, on the devices at hand if there is one: in training
 *  recomputation, sequence parallelism, ZeRO over the replicas, and smaller microbatches, more of them; in other steps
 *  the largest batch that fits, `largest`, if it is not 0. Otherwise on the fewest devices, with a larger t within the
 *  node and more stages. */
hr_memory_remedy hr_find_memory_remedy(hr_advice_context *context, int64_t largest, int64_t capacity_bytes);

#endif
