/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/context.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define CAPABILITY_MIN 70 /* Volta: the first with Tensor Cores */

hr_status hr_cuda_enter(const hr_cuda *cuda, hr_error *error)
{
  return HR_CU(&cuda->driver, cuCtxPushCurrent_v2, (cuda->context), error);
}

void hr_cuda_leave(const hr_cuda *cuda)
{
  cu_context popped;
  cuda->driver.cuCtxPopCurrent_v2(&popped);
}

hr_status hr_cuda_attribute(const hr_cuda *cuda, int attribute, int64_t *value, hr_error *error)
{
  int found = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&found, attribute, cuda->device), error));
  *value = found;
  return HR_OK;
}

static unsigned at_least_one(unsigned count)
{
  return count > 0 ? count : 1;
}

static hr_status launch_early(const hr_cuda_queue *queue, const hr_cuda_kernel *k, void **parameters, hr_error *error)
{
  cu_launch_attribute early = {.id = CU_PROGRAMMATIC_SERIALIZATION, .value = {.programmatic_serialization = 1}};
  cu_launch_config config = {.grid = {(unsigned)k->blocks, at_least_one(k->grid_y), at_least_one(k->grid_z)},
                             .block = {k->threads, at_least_one(k->threads_y), 1},
                             .shared_bytes = (unsigned)k->shared_bytes,
                             .stream = queue->stream,
                             .attributes = &early,
                             .attribute_count = 1};
  return HR_CU(&queue->cuda->driver, cuLaunchKernelEx, (&config, k->function, parameters, NULL), error);
}

hr_status hr_cuda_launch(const hr_cuda_queue *queue, const hr_cuda_kernel *k, void **parameters, hr_error *error)
{
  const hr_driver *driver = &queue->cuda->driver;
  if (k->early && driver->cuLaunchKernelEx)
    return launch_early(queue, k, parameters, error);
  return HR_CU(driver, cuLaunchKernel,
               (k->function, (unsigned)k->blocks, at_least_one(k->grid_y), at_least_one(k->grid_z), k->threads,
                at_least_one(k->threads_y), 1, (unsigned)k->shared_bytes, queue->stream, parameters, NULL),
               error);
}

static hr_status find_device(hr_cuda *cuda, const char *name, hr_error *error)
{
  int count = 0;
  int64_t major = 0, minor = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetCount, (&count), error));
  long ordinal = strtol(name + strlen("cuda:"), NULL, 10);
  if (ordinal >= count)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s: this machine has %d CUDA device%s", name, count,
                   count == 1 ? ", cuda:0" : "s");
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGet, (&cuda->device, (int)ordinal), error));
  HR_TRY(hr_cuda_attribute(cuda, CU_CAPABILITY_MAJOR, &major, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_CAPABILITY_MINOR, &minor, error));
  cuda->capability = (int)(10 * major + minor);
  if (cuda->capability < CAPABILITY_MIN)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: compute capability %d.%d has no Tensor Cores", name, (int)major,
                   (int)minor);
  return HR_OK;
}

/* Fails unless the caller's context, which is current, is of this GPU, and the caller's stream of this context. */
static hr_status check_given(const hr_cuda *cuda, const char *name, cu_context context, cu_stream stream,
                             hr_error *error)
{
  cu_device device = 0;
  cu_context of_stream = context;
  HR_TRY(HR_CU(&cuda->driver, cuCtxGetDevice, (&device), error));
  if (device != cuda->device)
    return hr_fail(error, HR_ERROR_INVALID, "%s: the %s given is of another GPU, cuda:%d", name,
                   stream ? "stream" : "context", device);
  if (stream)
    HR_TRY(HR_CU(&cuda->driver, cuStreamGetCtx, (stream, &of_stream), error));
  if (of_stream != context)
    return hr_fail(error, HR_ERROR_INVALID, "%s: the stream given is not one of the context given", name);
  return HR_OK;
}

static hr_status take_given(hr_cuda *cuda, const char *name, cu_context context, cu_stream stream, hr_error *error)
{
  if (stream == CU_STREAM_PER_THREAD)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected a stream, found the per-thread default stream", name);
  if (!context)
    HR_TRY(HR_CU(&cuda->driver, cuStreamGetCtx, (stream, &context), error));
  HR_TRY(HR_CU(&cuda->driver, cuCtxPushCurrent_v2, (context), error));
  hr_status status = check_given(cuda, name, context, stream, error);
  hr_cuda_leave(cuda);
  HR_TRY(status);
  cuda->context = context;
  cuda->stream = stream;
  return HR_OK;
}

static hr_status take_context(hr_cuda *cuda, const hr_device *device, hr_error *error)
{
  if (device->context || device->stream)
    return take_given(cuda, device->name, device->context, device->stream, error);
  HR_TRY(HR_CU(&cuda->driver, cuDevicePrimaryCtxRetain, (&cuda->context, cuda->device), error));
  cuda->retained = true;
  return HR_OK;
}

static hr_status make_stream(hr_cuda *cuda, hr_error *error)
{
  if (!cuda->stream) {
    HR_TRY(HR_CU(&cuda->driver, cuStreamCreate, (&cuda->stream, CU_STREAM_DEFAULT), error));
    cuda->own_stream = true;
  }
  HR_TRY(HR_CU(&cuda->driver, cuEventCreate, (&cuda->start, 0), error));
  return HR_CU(&cuda->driver, cuEventCreate, (&cuda->end, 0), error);
}

/* A missing library is no error here: kernels that need it say so, `headroom devices` says why it is missing. */
static hr_status open_optional_libraries(hr_cuda *cuda, hr_error *error)
{
  char bus[32];
  if (hr_nvml_open(&cuda->nvml, NULL) == HR_OK &&
      (cuda->driver.cuDeviceGetPCIBusId(bus, sizeof bus, cuda->device) != CU_SUCCESS ||
       cuda->nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, &cuda->nvml_device) != NVML_SUCCESS))
    cuda->nvml_device = NULL;
  hr_nvrtc_open(&cuda->nvrtc, NULL);
  if (hr_cublaslt_open(&cuda->cublaslt, NULL) != HR_OK)
    return HR_OK;
  return HR_LT(&cuda->cublaslt, cublasLtCreate, (&cuda->lt), error);
}

hr_status hr_cuda_open(hr_cuda *cuda, hr_device *device, hr_error *error)
{
  hr_error reason = {.message = ""};
  hr_status status = hr_driver_open(&cuda->driver, &reason);
  if (status != HR_OK)
    return hr_fail(error, status, "%s: %s", device->name, reason.message);
  int64_t l2 = 0;
  hr_cache_folder(cuda->cache_folder);
  HR_TRY(find_device(cuda, device->name, error));
  HR_TRY(hr_cuda_attribute(cuda, CU_L2_BYTES, &l2, error));
  device->cache_bytes = (size_t)l2;
  HR_TRY(take_context(cuda, device, error));
  HR_TRY(hr_cuda_enter(cuda, error));
  status = make_stream(cuda, error);
  if (status == HR_OK)
    status = open_optional_libraries(cuda, error);
  hr_cuda_leave(cuda);
  return status;
}

static void close_context(hr_cuda *cuda)
{
  const hr_driver *driver = &cuda->driver;
  if (hr_cuda_enter(cuda, NULL) == HR_OK) {
    if (cuda->stream)
      driver->cuStreamSynchronize(cuda->stream);
    if (cuda->lt)
      cuda->cublaslt.cublasLtDestroy(cuda->lt);
    if (cuda->start)
      driver->cuEventDestroy_v2(cuda->start);
    if (cuda->end)
      driver->cuEventDestroy_v2(cuda->end);
    if (cuda->own_stream)
      driver->cuStreamDestroy_v2(cuda->stream);
    hr_cuda_leave(cuda);
  }
  if (cuda->retained)
    driver->cuDevicePrimaryCtxRelease_v2(cuda->device);
}

void hr_cuda_close(hr_cuda *cuda)
{
  if (cuda->context)
    close_context(cuda);
  hr_nvml_close(&cuda->nvml);
  hr_cublaslt_close(&cuda->cublaslt);
  hr_nvrtc_close(&cuda->nvrtc);
  hr_driver_close(&cuda->driver);
}
