/* Values for buffers, made where they are needed. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"
#include "runtime/device/number.h"

#define THREADS 256
#define BLOCKS_MOST 65535

hr_status hr_cuda_fill_uniform(hr_device *device, void *to, hr_dtype dtype, uint64_t seed, size_t count,
                               hr_error *error)
{
  const hr_cuda *cuda = device->state;
  cu_function function = NULL;
  /* What cannot be built here is filled from the host. */
  if (hr_cuda_function(cuda, "fill", dtype, NULL, "fill_uniform", &function, NULL) != HR_OK)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: fill.cu cannot be built", device->name);
  cu_address address = (cu_address)(uintptr_t)to;
  unsigned long long elements = count, key = hr_numbers_key(seed);
  void *arguments[] = {&address, &elements, &key};
  unsigned blocks = (unsigned)hr_min64(hr_ceil_div(hr_ceil_div((int64_t)count, 2), THREADS), BLOCKS_MOST);
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuLaunchKernel,
                           (function, blocks, 1, 1, THREADS, 1, 1, 0, cuda->stream, arguments, NULL), error);
  if (status == HR_OK)
    status = HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}
