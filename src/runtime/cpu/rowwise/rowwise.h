/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between rowwise.c and the instances of rowwise_body.h. */
#ifndef HR_RUNTIME_CPU_ROWWISE_ROWWISE_H
#define HR_RUNTIME_CPU_ROWWISE_ROWWISE_H

#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <stdbool.h>

typedef enum hr_rowwise_phase {
  HR_ROWWISE_MAIN,
  HR_ROWWISE_SUMS /* of what the parts have added up, or of adamw before it: squares of the gradient */
} hr_rowwise_phase;

/** One run. */
typedef struct hr_rowwise_job {
  const hr_rowwise *rows;
  hr_rowwise_phase phase;
  const void *inputs[HR_ROWWISE_INPUTS_MAX];
  void *outputs[HR_ROWWISE_OUTPUTS_MAX];
  bool stream; /* the result is too large to stay in a cache */
  /* Sums over rows: of the part, zeros at first, in the second phase of all. */
  float *sums;               /* [parts][vectors][sums_width] */
  int64_t parts, sums_width; /* parts: that have rows */
  int vectors, first_vector; /* first_vector: their first output */
  hr_adamw adamw;
  float clip; /* what gradients are scaled by */
} hr_rowwise_job;

#define HR_ROWWISE_SCRATCH_MORE 128 /* floats of scratch beyond the columns of a row */

/** Computes rows first … last − 1, or elements where hr_rowwise_by_element(), or in the second phase columns. `scratch`
 *  has room for a row of floats and HR_ROWWISE_SCRATCH_MORE. */
typedef void (*hr_rowwise_fn)(const hr_rowwise_job *job, int64_t first, int64_t last, float *scratch);

typedef const hr_rowwise_fn hr_rowwise_table[HR_ROWWISE_COUNT][HR_DTYPE_COUNT]; /* NULL: not this format */

/** One for each instruction set; the processor must have it. */
extern hr_rowwise_table hr_rowwise_avx512, hr_rowwise_avx2, hr_rowwise_neon, hr_rowwise_portable;

#endif
