/* SPDX-License-Identifier: Apache-2.0 */
/* An NVIDIA GPU as a device "cuda:N". Its libraries are loaded when it is opened. */
#include "base/error.h"
#include "base/quantity.h"
#include "runtime/cuda/ceilings/ceilings.h"
#include "runtime/cuda/collective/collective.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/graph.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/driver/timing.h"
#include "runtime/cuda/experts/experts.h"
#include "runtime/cuda/gemm/fp8.h"
#include "runtime/cuda/gemm/linear.h"
#include "runtime/cuda/persistent/persistent.h"

#include <headroom/plan.h>

#include <stdlib.h>
#include <string.h>

static void close_cuda(hr_device *device)
{
  hr_cuda *cuda = device->state;
  hr_modules_free(cuda, cuda->modules);
  hr_cuda_close_side(cuda);
  hr_cuda_close(cuda);
  free(cuda);
}

static hr_status open_cuda(hr_device *device, hr_error *error)
{
  hr_cuda *cuda = calloc(1, sizeof *cuda);
  if (!cuda || !(cuda->modules = hr_modules_create())) {
    free(cuda);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to open it", device->name);
  }
  device->threads = 1;
  device->state = cuda;
  hr_status status = hr_cuda_open(cuda, device, error);
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
  cuda->driver.cuMemFree_v2(hr_cuda_address(data));
  hr_cuda_leave(cuda);
}

/* Waits for work that was queued in the current context, and leaves it; an error of a kernel shows here. */
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
  return finish(
      cuda, HR_CU(&cuda->driver, cuMemcpyHtoDAsync_v2, (hr_cuda_address(to), from, bytes, cuda->stream), error), error);
}

static hr_status read(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(
      cuda, HR_CU(&cuda->driver, cuMemcpyDtoHAsync_v2, (to, hr_cuda_address(from), bytes, cuda->stream), error), error);
}

static hr_status set_bytes(hr_device *device, void *to, unsigned char value, size_t bytes, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  return finish(cuda, HR_CU(&cuda->driver, cuMemsetD8Async, (hr_cuda_address(to), value, bytes, cuda->stream), error),
                error);
}

static hr_status queue_zeros(hr_device *device, void *to, size_t bytes, void *stream, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuMemsetD8Async, (hr_cuda_address(to), 0, bytes, stream), error);
  hr_cuda_leave(cuda);
  return status;
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
    .prepare_cache = hr_cuda_prepare_cache,
    .queue_numbers = hr_cuda_queue_numbers,
    .append_tokens = hr_cuda_append_tokens,
    .appends_heads = true,
    .route = hr_cuda_route,
    .routes_few = hr_cuda_routes_few,
    .route_few = hr_cuda_route_few,
    .multiply_groups = hr_cuda_multiply_groups,
    .route_backward = hr_cuda_route_backward,
    .group_gradients = hr_cuda_group_gradients,
    .multiply_linear = hr_cuda_multiply_linear,
    .persists = hr_cuda_persists,
    .persist = hr_cuda_persist,
    .run_persistent = hr_cuda_run_persistent,
    .forget_persistent = hr_cuda_forget_persistent,
    .keeps_fp8 = hr_cuda_keeps_fp8,
    .widen_fp8 = hr_cuda_widen_fp8,
    .quantize_fp8 = hr_cuda_quantize_fp8,
    .plan_fp8 = hr_cuda_plan_fp8,
    .multiply_fp8 = hr_cuda_multiply_fp8,
    .free_fp8 = hr_cuda_free_fp8,
    .connect = hr_cuda_connect,
    .disconnect = hr_cuda_disconnect,
    .prepare_call = hr_cuda_prepare_call,
    .communicate = hr_cuda_communicate,
    .takes_norm = hr_cuda_takes_norm,
    .sends_beside = hr_cuda_sends_beside,
    .await_ranks = hr_cuda_await_ranks,
    .queue_zeros = queue_zeros,
    .set_bytes = set_bytes,
    .find_largest = hr_cuda_find_largest,
    .add_squares = hr_cuda_add_squares,
    .fill_uniform = hr_cuda_fill_uniform,
    .time_runs = hr_cuda_time_runs,
    .group_below_ns = hr_cuda_group_below_ns,
    .wait = wait_for_runs,
    .fork = hr_cuda_fork,
    .mark = hr_cuda_mark,
    .join = hr_cuda_join,
    .record = hr_cuda_record,
    .replay = hr_cuda_replay,
    .time_parts = hr_cuda_time_parts,
    .forget = hr_cuda_forget,
    .stream = stream_of,
    .conditions = hr_cuda_conditions,
    .energy_j = hr_cuda_energy_j,
    .energy_step_ns = 100e6, /* of NVML's counter on an H200 */
    .sets_max = 4096,
    .settle_ns = 3e9,
    .own_memory = true,
    .counter_bytes = HR_WORKSPACE_COUNTER_BYTES,
};
