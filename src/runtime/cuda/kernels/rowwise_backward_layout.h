/* SPDX-License-Identifier: Apache-2.0 */
/* What rowwise_backward.c and the kernels of gradients and the optimizer share. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ROWWISE_BACKWARD_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_ROWWISE_BACKWARD_LAYOUT_H

#include "runtime/cuda/kernels/rowwise_layout.h"

/** HR_OPERATION of rowwise_backward_rows.cu. */
enum { HR_ROWS_SOFTMAX, HR_ROWS_LAYER_NORM, HR_ROWS_RMS_NORM, HR_ROWS_BIAS };

enum {
  HR_SUMMED_COLUMNS = 32, /* of a block that adds up the sums of other blocks */
  HR_SUMMED_SHARES = 16,  /* threads of such a column */
  HR_CLIP_BLOCKS = 1024,  /* that compute the norm of a gradient, at most */
  HR_ELEMENT_THREADS = 256
};

/** The only parameter of every kernel: addresses in the order of HR_ROWWISE_LIST. */
typedef struct hr_backward_rows_call {
  unsigned long long inputs[4], outputs[4];
  unsigned long long sums; /* workspace: [block][vector][columns] floats, squares of a gradient [block], or links of
                              rows [rows] and whether they are the first of their number [rows] */
  long long rows, columns, period, group;
  long long blocks;                                                       /* that wrote the sums */
  float decay, beta1, beta2, rest1, rest2, rate, root, epsilon, max_norm; /* hr_adamw; epsilon of a norm */
  float factor;
} hr_backward_rows_call;

#endif
