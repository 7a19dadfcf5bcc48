/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between q8.c and the instances of q8_body.h. */
#ifndef HR_RUNTIME_CPU_GEMV_Q8_H
#define HR_RUNTIME_CPU_GEMV_Q8_H

#include "runtime/device/device.h"
#include "runtime/device/q8.h"

#define HR_Q8_GROUP 32 /* rows of W of a call, at most */

typedef struct hr_q8_functions {
  /** Elements first … last − 1 of each row of y, up to HR_Q8_GROUP of them; `room` has x. */
  void (*multiply[HR_Q8_TOKENS])(const hr_q8_arguments *arguments, int64_t first, int64_t last); /* by tokens − 1 */
  /** Row `from` of W, as row `to` of y. */
  void (*widen)(const hr_q8_arguments *arguments, int64_t from, int64_t to);
  /** x to `room`, with zeros behind each row. */
  void (*widen_x)(const hr_q8_arguments *arguments);
} hr_q8_functions;

/** One for each instruction set; the processor must have it. */
extern const hr_q8_functions hr_q8_avx512, hr_q8_avx2, hr_q8_neon, hr_q8_portable;

/** hr_backend.multiply_q8 and widen_q8. */
hr_status hr_cpu_multiply_q8(hr_device *device, const hr_q8_arguments *arguments, hr_error *error);
hr_status hr_cpu_widen_q8(hr_device *device, const hr_q8_arguments *arguments, hr_error *error);

#endif
