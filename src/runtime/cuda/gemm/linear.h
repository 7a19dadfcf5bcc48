/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of few rows by kernels/gemv.cu, with what is fused with them; those of experts, too. */
#ifndef HR_RUNTIME_CUDA_GEMM_LINEAR_H
#define HR_RUNTIME_CUDA_GEMM_LINEAR_H

#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/gemm/gemv.h"
#include "runtime/cuda/kernels/gemv_layout.h"
#include "runtime/device/linear.h"

/** hr_backend.multiply_linear; as runs. */
hr_status hr_cuda_multiply_linear(hr_device *device, const hr_linear_arguments *linear, void *stream, hr_error *error);

/** Queues it, in the device's context. HR_ERROR_UNSUPPORTED for too many copies of experts. */
hr_status hr_cuda_launch_linear(const hr_cuda_queue *queue, const hr_linear_arguments *linear, hr_error *error);

/** The tiling and the definitions of its program, on a GPU of so many multiprocessors with programmatic launches or
 *  without. */
void hr_linear_program(const hr_linear_arguments *linear, int64_t multiprocessors, bool early, hr_gemv_tiling *tiling,
                       char text[HR_DEFINES_SIZE]);

/** The parameter of its program, and the bytes that one of its threads loads at once. */
hr_gemv_call hr_linear_call(const hr_linear_arguments *linear);
int hr_linear_load_bytes(const hr_linear_arguments *linear);

#endif
