/* SPDX-License-Identifier: Apache-2.0 */
/* A linear layer of few rows together with what is before and behind it (schedule/linear.h). Thread safety: as runs of
 * plans. */
#ifndef HR_RUNTIME_DEVICE_LINEAR_H
#define HR_RUNTIME_DEVICE_LINEAR_H

#include "runtime/device/fp8.h"
#include "schedule/linear.h"

/** y = residual + factor · activation(n Wᵀ + bias), where n is the norm of x. With `gate` G the activation is of two
 *  values, n Gᵀ + gate_bias and n Wᵀ + bias. Elements are of one format; sums are in fp32. Addresses but that of x are
 *  multiples of 16 bytes. With `experts` each row is a copy of a token for one of them, which has matrices of its own;
 *  then there is no norm nor bias, and a residual only with `active`, which makes y the sums of each token's copies,
 *  weighted: then there is no activation. With `scales` W and G are in fp8, packed, without experts, and x is aligned
 *  to 16 bytes. */
typedef struct hr_linear_arguments {
  int64_t rows, n, k;
  int64_t x_stride, residual_stride;   /* elements from a row to the next; those of y are packed */
  int64_t alignment;                   /* bytes of which the address of x is a multiple */
  hr_dtype dtype;                      /* fp32, fp16 or bf16 */
  hr_rowwise_operation norm;           /* HR_ROWWISE_RMS_NORM or _LAYER_NORM; HR_ROWWISE_COUNT: none */
  hr_rowwise_operation activation;     /* HR_ROWWISE_COUNT: none */
  double epsilon;                      /* of the norm */
  double limit;                        /* of HR_ROWWISE_SWIGLU_CLAMPED */
  double factor;                       /* 0: 1 */
  const void *x;                       /* [rows, k] */
  const void *norm_weight, *norm_bias; /* [k]; the bias of HR_ROWWISE_LAYER_NORM */
  const void *weight, *gate;           /* [n, k]; gate NULL: none */
  const void *bias, *gate_bias;        /* [n]; NULL: none */
  const void *residual;                /* [rows, n], may be y; NULL: none */
  void *y;                             /* [rows, n] */
  int64_t experts;                     /* 0: none */
  int64_t most;                        /* copies of one expert */
  const int32_t *offsets;              /* as hr_route_arguments */
  const int32_t *numbers;              /* [rows], of a copy its row of x; NULL: rows of x are copies */
  const int32_t *experts_of; /* [rows], as hr_route_arguments, of up to HR_LINEAR_ROWS_MAX tokens; NULL: none */
  int64_t active;            /* copies of a token, whose sum is a row of y and residual; 0: they stay apart */
  const int32_t *places;     /* [rows / active, active], as the next, as hr_route_arguments */
  const float *weights;
  hr_fp8_scales shares;              /* what has a scale of those: */
  const float *scales, *gate_scales; /* of the weights; NULL: they are of the dtype */
} hr_linear_arguments;

/** The most copies that are added up. */
#define HR_LINEAR_COPIES_MAX 256

#endif
