/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of a gradient's parts by kernels/rowwise_backward_elements.cu. */
#include "runtime/device/squares.h"

#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/rowwise_backward_layout.h"

hr_status hr_cuda_add_squares(hr_device *device, const hr_squares_arguments *x, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  hr_backward_rows_call call = {.rows = 1,
                                .columns = x->count,
                                .inputs[0] = hr_cuda_address(x->x),
                                .sums = hr_cuda_address(x->to),
                                .factor = x->adds ? 1 : 0};
  void *parameters[] = {&call};
  hr_cuda_kernel kernel = {.blocks = HR_SQUARES_SUMS, .threads = HR_ELEMENT_THREADS};
  HR_TRY(hr_cuda_function(queue.cuda, "rowwise_backward_elements", x->dtype, NULL, "add_squares", &kernel.function,
                          error));
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(queue.cuda);
  return status;
}
