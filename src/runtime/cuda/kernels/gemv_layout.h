/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and gemv.cu share. C includes this header, and NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_GEMV_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_GEMV_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

enum {
  HR_GEMV_TOKENS_MAX = 8, /* the columns of an mma.sync */
  HR_GEMV_MMA_ROWS = 16,  /* of W, of an mma.sync */
  HR_GEMV_LOAD_MAX = 16,  /* bytes */
  HR_GEMV_SCALED_LOG2 = 7 /* columns of W that share a scale */
};

/** HR_FP8: what has a scale of its own. */
#define HR_GEMV_SCALED_ROWS 1
#define HR_GEMV_SCALED_BLOCKS 2

/** y = x Wᵀ + bias for x [tokens, k], W [n, k], y [tokens, n], with what hr_linear_arguments adds to it; the parameter
 *  of gemv. Strides in elements. */
typedef struct hr_gemv_call {
  HR_DEVICE_POINTER(const element) x;
  HR_DEVICE_POINTER(const element) w;
  HR_DEVICE_POINTER(element) y;
  HR_DEVICE_POINTER(const element) bias; /* NULL: none */
  hr_layout_int64 x_row, w_row, y_row;
  hr_layout_int64 x_batch, w_batch, y_batch;
  hr_layout_int64 n, k;
  HR_DEVICE_POINTER(const int) offsets;  /* with HR_GROUPED: of the experts' tokens, which are x and y of all batches */
  HR_DEVICE_POINTER(const int) numbers;  /* the same: of a token its row of x; NULL: its own */
  HR_DEVICE_POINTER(const element) gate; /* with HR_GATED, as W */
  HR_DEVICE_POINTER(const element) gate_bias;
  HR_DEVICE_POINTER(const element) norm_weight; /* with HR_NORM */
  HR_DEVICE_POINTER(const element) norm_bias;
  HR_DEVICE_POINTER(const element) residual; /* NULL: none */
  hr_layout_int64 residual_row;
  HR_DEVICE_POINTER(const int) experts_of; /* with HR_GROUPED: of each copy; NULL: offsets are read */
  HR_DEVICE_POINTER(const int) places;     /* with HR_COMBINED, as the next two: of a token's copies */
  HR_DEVICE_POINTER(const float) weights;
  HR_DEVICE_POINTER(const float) scales; /* with HR_FP8: of W, whose elements are bytes then */
  HR_DEVICE_POINTER(const float) gate_scales;
  hr_layout_int64 scale_row; /* from the scales of some rows to the next */
  int active;                /* copies of a token */
  int copies;                /* with HR_GROUPED: of all tokens */
  int tokens;
  int experts;   /* with HR_GROUPED */
  float epsilon; /* with HR_NORM */
  float limit;   /* of a clamped activation */
  float factor;  /* of what the residual is added to */
  int scale_rows_log2;
} hr_gemv_call;

HR_LAYOUT_ASSERT(sizeof(hr_gemv_call) == 26 * 8 + 8 * 4);

#endif
