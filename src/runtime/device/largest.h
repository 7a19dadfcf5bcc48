/* SPDX-License-Identifier: Apache-2.0 */
/* The largest element of each row: the id that greedy decoding takes. Thread safety: as runs of plans. */
#ifndef HR_RUNTIME_DEVICE_LARGEST_H
#define HR_RUNTIME_DEVICE_LARGEST_H

#include "base/private.h"

#include <headroom/plan.h>
#include <stdint.h>

/** Rows are `stride` elements apart, of which those behind the columns are not looked at. */
typedef struct hr_largest_arguments {
  hr_dtype dtype;        /* fp32, fp16 or bf16 */
  int64_t rows, columns; /* columns: fewer than 2^31; 0: a row has no largest */
  int64_t stride;
  int64_t first; /* the index of the first column, for ranks that have some columns each */
  const void *x; /* [rows, stride] */
  int32_t *to;   /* [rows]: the first of equal ones; NaN is none, but with index 0 it is the result */
  float *values; /* [rows]: what is there, −inf where a row has no largest; NULL: not asked for */
} hr_largest_arguments;

/** hr_backend.find_largest, or the host where the backend has none. */
HR_PRIVATE hr_status hr_device_find_largest(hr_device *device, const hr_largest_arguments *largest, void *stream,
                                            hr_error *error);

#endif
