/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between gemv.c and the instances of gemv_body.h. */
#ifndef HR_RUNTIME_CPU_GEMV_GEMV_H
#define HR_RUNTIME_CPU_GEMV_GEMV_H

#include "runtime/operation/few_rows.h"

#define HR_GEMV_GROUP 32 /* rows of W of a call, at most */

/** y = x Wᵀ + bias for x [tokens, k], W [n, k], y [tokens, n]. Strides in elements. */
typedef struct hr_gemv_job {
  const void *x, *w, *bias; /* bias: NULL: none */
  void *y;
  int64_t x_row, w_row, y_row;
  int64_t k;
  int tokens;
} hr_gemv_job;

/** Computes elements first … last − 1 of each row of y, up to HR_GEMV_GROUP of them. */
typedef void (*hr_gemv_fn)(const hr_gemv_job *job, int64_t first, int64_t last);

typedef const hr_gemv_fn hr_gemv_table[HR_DTYPE_COUNT][HR_GEMM_FEW_ROWS]; /* by tokens − 1; NULL: not this format */

/** One for each instruction set; the processor must have it. */
extern hr_gemv_table hr_gemv_avx512_bf16, hr_gemv_avx512, hr_gemv_avx2, hr_gemv_neon, hr_gemv_portable;

#endif
