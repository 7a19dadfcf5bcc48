/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform random values for buffers, generated on the device by kernels/fill.cu. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/module.h"
#include "shape/number.h"

#define THREADS 256
#define BLOCKS_MAX 65535

hr_status hr_cuda_fill_uniform(hr_device *device, void *to, const hr_uniform *u, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  const bool all = u->rows == 1 && u->first == 0;
  const char *name = all ? "fill_uniform" : "fill_uniform_part";
  cu_function function = NULL;
  /* HR_ERROR_UNSUPPORTED: the caller fills from the host. */
  if (hr_cuda_function(cuda, "fill", u->dtype, NULL, name, &function, NULL) != HR_OK)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: fill.cu cannot be compiled", device->name);
  cu_address address = (cu_address)(uintptr_t)to;
  unsigned long long count = u->rows * u->columns, key = hr_numbers_key(u->seed), columns = u->columns,
                     first = u->first, pitch = u->pitch;
  float bound = u->bound;
  void *arguments[] = {&address, &count, &key, &bound, &columns, &first, &pitch};
  int64_t blocks = hr_min64(hr_ceil_div(hr_ceil_div((int64_t)count, all ? 2 : 1), THREADS), BLOCKS_MAX);
  const hr_cuda_queue queue = {cuda, cuda->stream};
  const hr_cuda_kernel kernel = {.function = function, .blocks = blocks, .threads = THREADS};
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = hr_cuda_launch(&queue, &kernel, arguments, error);
  if (status == HR_OK)
    status = HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}
