/* What rows.c and the widths of rows_body.h agree on. */
#ifndef HR_RUNTIME_CPU_ROWS_H
#define HR_RUNTIME_CPU_ROWS_H

#include <headroom/rows.h>
#include <stdbool.h>

/** One run. */
typedef struct hr_rows_job {
  const hr_rows *rows;
  const void *inputs[3];
  void *output;
  bool stream; /* the result is too large to stay in a cache */
} hr_rows_job;

#define HR_ROWS_SCRATCH_MORE 128 /* floats of scratch beyond the columns of a row */

/** Does rows first … last − 1, or elements where hr_rows_by_element(). `scratch` takes a row of floats, and
 *  HR_ROWS_SCRATCH_MORE. */
typedef void (*hr_rows_fn)(const hr_rows_job *job, int64_t first, int64_t last, float *scratch);

typedef const hr_rows_fn hr_rows_table[HR_ROWS_COUNT][HR_DTYPE_COUNT]; /* NULL: not this format */

/** One for each width of vector.h. Only what the processor has may be called. */
extern hr_rows_table hr_rows_avx512, hr_rows_avx2, hr_rows_portable;

/** Whether rows do not matter to the operation. */
static inline bool hr_rows_by_element(hr_rows_operation operation)
{
  return operation == HR_ROWS_GELU || operation == HR_ROWS_SWIGLU || operation == HR_ROWS_RESIDUAL;
}

#endif
