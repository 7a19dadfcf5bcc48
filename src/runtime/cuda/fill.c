/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform random values for buffers, generated on the device by kernels/fill.cu. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "shape/number.h"

#define THREADS 256
#define BLOCKS_MAX 65535

hr_status hr_cuda_fill_uniform(hr_device *device, void *to, hr_dtype dtype, uint64_t seed, float bound, size_t count,
                               hr_error *error)
{
  const hr_cuda *cuda = device->state;
  cu_function function = NULL;
  /* HR_ERROR_UNSUPPORTED: the caller fills from the host. */
  if (hr_cuda_function(cuda, "fill", dtype, NULL, "fill_uniform", &function, NULL) != HR_OK)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: fill.cu cannot be compiled", device->name);
  cu_address address = (cu_address)(uintptr_t)to;
  unsigned long long elements = count, key = hr_numbers_key(seed);
  void *arguments[] = {&address, &elements, &key, &bound};
  int64_t blocks = hr_min64(hr_ceil_div(hr_ceil_div((int64_t)count, 2), THREADS), BLOCKS_MAX);
  const hr_cuda_queue queue = {cuda, cuda->stream};
  const hr_cuda_kernel kernel = {.function = function, .blocks = blocks, .threads = THREADS};
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, arguments, error);
  if (status == HR_OK)
    status = HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}
