/* SPDX-License-Identifier: Apache-2.0 */
/* The rules by which training frameworks accept a layout. Thread safety: pure functions. */
#ifndef HR_ANALYSIS_PLAN_RULES_H
#define HR_ANALYSIS_PLAN_RULES_H

#include <headroom/experimental/training.h>

/** What a layout is made of, in the order in which a plan chooses it. p, dp and m are there from STAGES on. */
typedef enum hr_training_dimension {
  HR_TRAINING_TENSOR,
  HR_TRAINING_CONTEXT,
  HR_TRAINING_EXPERTS,
  HR_TRAINING_SEQUENCE,
  HR_TRAINING_RECOMPUTE,
  HR_TRAINING_BATCH,
  HR_TRAINING_STAGES,
  HR_TRAINING_PARTS,
  HR_TRAINING_ZERO,
  HR_TRAINING_DIMENSION_COUNT
} hr_training_dimension;

/** Whether stages can have ⌈layers / stages⌉ layers but the first and the last, which may have fewer: *first and *last,
 *  0 where they have as many. */
bool hr_training_stage_ends(int64_t layers, int64_t stages, int64_t *first, int64_t *last);

/** The frameworks of a mask that accept what the layout has in this dimension, the earlier ones being chosen. */
unsigned hr_training_accepting(unsigned frameworks, hr_training_dimension dimension, const hr_model *model,
                               const hr_workload *workload);

#endif
