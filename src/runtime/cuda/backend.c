/* An NVIDIA GPU as a device: its libraries are loaded when it is opened, by name "cuda:N". */
#include "base/error.h"
#include "base/quantity.h"
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#define CAPABILITY_LEAST 70 /* Volta: the first with matrix units */

hr_status hr_cuda_enter(const hr_cuda *cuda, hr_error *error)
{
  return HR_CU(&cuda->driver, cuCtxPushCurrent_v2, (cuda->context), error);
}

void hr_cuda_leave(const hr_cuda *cuda)
{
  cu_context popped;
  cuda->driver.cuCtxPopCurrent_v2(&popped);
}

static void close_cuda(hr_device *device)
{
  hr_cuda *cuda = device->state;
  const hr_driver *driver = &cuda->driver;
  if (cuda->context && hr_cuda_enter(cuda, NULL) == HR_OK) {
    if (cuda->stream)
      driver->cuStreamSynchronize(cuda->stream);
    if (cuda->lt)
      cuda->cublaslt.cublasLtDestroy(cuda->lt);
    hr_cuda_modules_free(cuda);
    if (cuda->start)
      driver->cuEventDestroy_v2(cuda->start);
    if (cuda->end)
      driver->cuEventDestroy_v2(cuda->end);
    if (cuda->stream)
      driver->cuStreamDestroy_v2(cuda->stream);
    hr_cuda_leave(cuda);
  }
  if (cuda->context)
    driver->cuDevicePrimaryCtxRelease_v2(cuda->device);
  hr_nvml_close(&cuda->nvml);
  hr_cublaslt_close(&cuda->cublaslt);
  hr_nvrtc_close(&cuda->nvrtc);
  hr_driver_close(&cuda->driver);
  free(cuda->modules);
  free(cuda);
}

static hr_status find_device(hr_cuda *cuda, const char *name, hr_error *error)
{
  int count = 0, major = 0, minor = 0;
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetCount, (&count), error));
  long ordinal = strtol(name + strlen("cuda:"), NULL, 10);
  if (ordinal >= count)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s: this machine has %d CUDA device%s", name, count,
                   count == 1 ? ", cuda:0" : "s");
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGet, (&cuda->device, (int)ordinal), error));
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&major, CU_CAPABILITY_MAJOR, cuda->device), error));
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&minor, CU_CAPABILITY_MINOR, cuda->device), error));
  cuda->capability = 10 * major + minor;
  if (cuda->capability < CAPABILITY_LEAST)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: compute capability %d.%d has no matrix units", name, major, minor);
  return HR_OK;
}

static hr_status make_stream(hr_cuda *cuda, hr_error *error)
{
  HR_TRY(HR_CU(&cuda->driver, cuStreamCreate, (&cuda->stream, CU_STREAM_NON_BLOCKING), error));
  HR_TRY(HR_CU(&cuda->driver, cuEventCreate, (&cuda->start, 0), error));
  return HR_CU(&cuda->driver, cuEventCreate, (&cuda->end, 0), error);
}

/* What is missing of these does without: kernels say so, `headroom devices` says why. */
static hr_status open_others(hr_cuda *cuda, hr_error *error)
{
  char bus[32];
  if (hr_nvml_open(&cuda->nvml, NULL) == HR_OK &&
      (cuda->driver.cuDeviceGetPCIBusId(bus, sizeof bus, cuda->device) != CU_SUCCESS ||
       cuda->nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, &cuda->watched) != NVML_SUCCESS))
    cuda->watched = NULL;
  hr_nvrtc_open(&cuda->nvrtc, NULL);
  if (hr_cublaslt_open(&cuda->cublaslt, NULL) != HR_OK)
    return HR_OK;
  return HR_LT(&cuda->cublaslt, cublasLtCreate, (&cuda->lt), error);
}

static hr_status open_parts(hr_device *device, hr_cuda *cuda, hr_error *error)
{
  int l2 = 0;
  HR_TRY(find_device(cuda, device->name, error));
  HR_TRY(HR_CU(&cuda->driver, cuDeviceGetAttribute, (&l2, CU_L2_BYTES, cuda->device), error));
  device->cache_bytes = (size_t)l2;
  HR_TRY(HR_CU(&cuda->driver, cuDevicePrimaryCtxRetain, (&cuda->context, cuda->device), error));
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = make_stream(cuda, error);
  if (status == HR_OK)
    status = open_others(cuda, error);
  hr_cuda_leave(cuda);
  return status;
}

static hr_status open_cuda(hr_device *device, hr_error *error)
{
  hr_cuda *cuda = calloc(1, sizeof *cuda);
  if (!cuda)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory to open it", device->name);
  hr_error reason = {.message = ""};
  hr_status status = hr_driver_open(&cuda->driver, &reason);
  if (status != HR_OK) {
    free(cuda);
    return hr_fail(error, status, "%s: %s", device->name, reason.message);
  }
  device->threads = 1;
  device->state = cuda;
  hr_cache_folder(cuda->cache_folder);
  cuda->modules = hr_cuda_modules_create();
  status = cuda->modules ? open_parts(device, cuda, error)
                         : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory to open it", device->name);
  if (status != HR_OK)
    close_cuda(device);
  return status;
}

static void *stream_of(const hr_device *device)
{
  const hr_cuda *cuda = device->state;
  return cuda->stream;
}

static bool has(const hr_device *device, const char *need)
{
  const hr_cuda *cuda = device->state;
  if (strcmp(need, "cublaslt") == 0)
    return cuda->lt != NULL;
  if (strcmp(need, "nvrtc") == 0)
    return cuda->nvrtc.handle != NULL;
  return strncmp(need, "sm_", 3) == 0 && cuda->capability >= strtol(need + 3, NULL, 10);
}

static cu_address address_of(const void *data)
{
  return (cu_address)(uintptr_t)data;
}

static size_t memory_available(const hr_device *device)
{
  const hr_cuda *cuda = device->state;
  size_t available = 0, total = 0;
  if (hr_cuda_enter(cuda, NULL) != HR_OK)
    return 0;
  if (cuda->driver.cuMemGetInfo_v2(&available, &total) != CU_SUCCESS)
    available = 0;
  hr_cuda_leave(cuda);
  return available;
}

static hr_status allocate(hr_device *device, size_t bytes, void **data, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  cu_address address = 0;
  HR_TRY(hr_cuda_enter(cuda, error));
  cu_result result = cuda->driver.cuMemAlloc_v2(&address, bytes);
  hr_cuda_leave(cuda);
  if (result == CU_ERROR_OUT_OF_MEMORY) {
    char wanted[HR_NUMBER_SIZE], there[HR_NUMBER_SIZE];
    hr_write_bytes(wanted, sizeof wanted, (double)bytes);
    hr_write_bytes(there, sizeof there, (double)memory_available(device));
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: cuMemAlloc refused a buffer of %s; %s are free", device->name,
                   wanted, there);
  }
  HR_TRY(hr_driver_check(&cuda->driver, result, "cuMemAlloc", error));
  *data = (void *)(uintptr_t)address;
  return HR_OK;
}

static void release(hr_device *device, void *data, size_t bytes)
{
  (void)bytes;
  const hr_cuda *cuda = device->state;
  if (!data || hr_cuda_enter(cuda, NULL) != HR_OK)
    return;
  cuda->driver.cuMemFree_v2(address_of(data));
  hr_cuda_leave(cuda);
}

/* Waits for what was started in the context that is current; a kernel that went wrong is told here. */
static hr_status finish(const hr_cuda *cuda, hr_status started, hr_error *error)
{
  hr_status status = started;
  if (status == HR_OK)
    status = HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}

static hr_status write(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(cuda, HR_CU(&cuda->driver, cuMemcpyHtoDAsync_v2, (address_of(to), from, bytes, cuda->stream), error),
                error);
}

static hr_status read(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(cuda, HR_CU(&cuda->driver, cuMemcpyDtoHAsync_v2, (to, address_of(from), bytes, cuda->stream), error),
                error);
}

static hr_status set_bytes(hr_device *device, void *to, unsigned char value, size_t bytes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(cuda, HR_CU(&cuda->driver, cuMemsetD8Async, (address_of(to), value, bytes, cuda->stream), error),
                error);
}

static hr_status wait_for_runs(hr_device *device, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(cuda, HR_OK, error);
}

const hr_backend hr_backend_cuda = {
    .name = "cuda",
    .open = open_cuda,
    .close = close_cuda,
    .has = has,
    .detect = hr_cuda_detect,
    .copy_rate = hr_cuda_copy_rate,
    .measure_ceilings = hr_cuda_measure_ceilings,
    .memory_available = memory_available,
    .allocate = allocate,
    .release = release,
    .write = write,
    .read = read,
    .set_bytes = set_bytes,
    .fill_uniform = hr_cuda_fill_uniform,
    .time_runs = hr_cuda_time_runs,
    .wait = wait_for_runs,
    .forget = hr_cuda_forget,
    .stream = stream_of,
    .conditions = hr_cuda_conditions,
    .sets_max = 4096,
    .settle_ns = 3e9,
    .own_memory = true,
};
