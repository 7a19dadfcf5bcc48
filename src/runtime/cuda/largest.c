/* SPDX-License-Identifier: Apache-2.0 */
/* The largest element of each row by kernels/largest.cu. */
#include "runtime/device/largest.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"

#define THREADS 1024

hr_status hr_cuda_find_largest(hr_device *device, const hr_largest_arguments *x, void *stream, hr_error *error)
{
  const hr_cuda_queue queue = {device->state, stream};
  cu_address from = hr_cuda_address(x->x), to = hr_cuda_address(x->to), values = hr_cuda_address(x->values);
  int columns = (int)x->columns, first = (int)x->first;
  int64_t stride = x->stride;
  void *parameters[] = {&from, &columns, &stride, &first, &to, &values};
  hr_cuda_kernel kernel = {.blocks = x->rows, .threads = THREADS, .early = queue.cuda->capability >= 90};
  HR_TRY(hr_cuda_function(queue.cuda, "largest", x->dtype, NULL, "find_largest", &kernel.function, error));
  HR_TRY(hr_cuda_enter(queue.cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, parameters, error);
  hr_cuda_leave(queue.cuda);
  return status;
}
