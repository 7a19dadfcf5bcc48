/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that stay in fp8: what multiplies with them, beside kernels/gemv.cu, is kernels/fp8.cu. */
#ifndef HR_RUNTIME_CUDA_GEMM_FP8_H
#define HR_RUNTIME_CUDA_GEMM_FP8_H

#include "runtime/device/device.h"
#include "runtime/device/fp8.h"

/** hr_backend.keeps_fp8: from compute capability 8.9 on, which converts fp8. */
bool hr_cuda_keeps_fp8(const hr_device *device);

/** hr_backend.widen_fp8. */
hr_status hr_cuda_widen_fp8(hr_device *device, const hr_fp8_arguments *arguments, void *stream, hr_error *error);

/** hr_backend.quantize_fp8. */
hr_status hr_cuda_quantize_fp8(hr_device *device, const hr_fp8_arguments *arguments, void *stream, hr_error *error);

/** hr_backend.plan_fp8, multiply_fp8 and free_fp8: cuBLASLt of CUDA 12.9 and later on compute capability 9.0, which
 *  alone takes scales of rows and of blocks. */
hr_status hr_cuda_plan_fp8(hr_device *device, const hr_fp8_gemm *gemm, void **plan, size_t *workspace_bytes,
                           hr_error *error);
hr_status hr_cuda_multiply_fp8(hr_device *device, const hr_fp8_arguments *arguments, void *workspace, void *stream,
                               hr_error *error);
void hr_cuda_free_fp8(hr_device *device, void *plan);

#endif
