/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between rowwise.c and the instances of rowwise_body.h. */
#ifndef HR_RUNTIME_CPU_ROWWISE_ROWWISE_H
#define HR_RUNTIME_CPU_ROWWISE_ROWWISE_H

#include "shape/rowwise.h"
#include <stdbool.h>

/** One run. */
typedef struct hr_rowwise_job {
  const hr_rowwise *rows;
  const void *inputs[3];
  void *output;
  bool stream; /* the result is too large to stay in a cache */
} hr_rowwise_job;

#define HR_ROWWISE_SCRATCH_MORE 128 /* floats of scratch beyond the columns of a row */

/** Computes rows first … last − 1, or elements where hr_rowwise_by_element(). `scratch` has room for a row of floats
 *  and HR_ROWWISE_SCRATCH_MORE. */
typedef void (*hr_rowwise_fn)(const hr_rowwise_job *job, int64_t first, int64_t last, float *scratch);

typedef const hr_rowwise_fn hr_rowwise_table[HR_ROWWISE_COUNT][HR_DTYPE_COUNT]; /* NULL: not this format */

/** One for each instruction set; the processor must have it. */
extern hr_rowwise_table hr_rowwise_avx512, hr_rowwise_avx2, hr_rowwise_neon, hr_rowwise_portable;

#endif
