/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of a gradient's parts, which make the norm of all of it: hr_rowwise_arguments.squares. Thread safety: as runs
 * of plans. */
#ifndef HR_RUNTIME_DEVICE_SQUARES_H
#define HR_RUNTIME_DEVICE_SQUARES_H

#include "base/private.h"

#include <headroom/plan.h>
#include <stdint.h>

#define HR_SQUARES_SUMS 128

/** The squares of x are added up in an order that the device and the count determine. */
typedef struct hr_squares_arguments {
  hr_dtype dtype; /* fp32, fp16 or bf16 */
  int64_t count;
  const void *x; /* [count], aligned to 16 bytes */
  float *to;     /* [HR_SQUARES_SUMS], whose sum is that of the squares */
  bool adds;     /* to what is there */
} hr_squares_arguments;

/** hr_backend.add_squares, or the host where the backend has none. */
HR_PRIVATE hr_status hr_device_add_squares(hr_device *device, const hr_squares_arguments *squares, void *stream,
                                           hr_error *error);

#endif
