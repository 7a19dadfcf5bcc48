/* SPDX-License-Identifier: Apache-2.0 */
/* What rowwise_fused.c and residual_norm.cu share. C includes this header, and NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_RESIDUAL_NORM_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_RESIDUAL_NORM_LAYOUT_H

enum { HR_RESIDUAL_NORM_FLOATS = 16 }; /* of a thread, at most */

/** The only parameter: addresses. */
typedef struct hr_residual_norm_call {
  unsigned long long x, z, weight, bias; /* bias: of a layer norm */
  unsigned long long y, sum;
  long long columns;
  float epsilon, padding;
} hr_residual_norm_call;

#endif
