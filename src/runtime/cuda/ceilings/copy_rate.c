/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "runtime/cuda/ceilings/ceilings.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/graph.h"
#include "runtime/cuda/driver/timing.h"

#include <headroom/buffer.h>

#include <math.h>

#define COPY_BYTES ((size_t)1 << 30) /* far larger than any cache */
#define COPY_ROUNDS 10

typedef struct copy_job {
  const hr_cuda *cuda;
  cu_address to, from;
  size_t bytes;
} copy_job;

static hr_status copy_once(void *context, hr_error *error)
{
  const copy_job *job = context;
  return HR_CU(&job->cuda->driver, cuMemcpyDtoDAsync_v2, (job->to, job->from, job->bytes, job->cuda->stream), error);
}

static hr_status best_copy(hr_device *device, copy_job *job, double *bytes_per_s, hr_error *error)
{
  void *kept = NULL;
  double best_ns = INFINITY, time_ns = 0;
  hr_status status = HR_OK;
  for (int round = 0; round < COPY_ROUNDS && status == HR_OK; round++) {
    status = hr_cuda_time_runs(device, copy_once, job, 1, &kept, &time_ns, error);
    best_ns = fmin(best_ns, time_ns);
  }
  hr_cuda_forget(device, kept);
  if (status == HR_OK)
    *bytes_per_s = 2.0 * (double)job->bytes / best_ns * 1e9;
  return status;
}

hr_status hr_cuda_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error)
{
  size_t quarter = hr_device_memory_available(device) / 4;
  copy_job job = {.cuda = device->state, .bytes = quarter < COPY_BYTES ? quarter : COPY_BYTES};
  hr_buffer *from = NULL, *to = NULL;
  HR_TRY(hr_buffer_create(device, job.bytes, &from, error));
  hr_status status = hr_buffer_create(device, job.bytes, &to, error);
  if (status == HR_OK) {
    job.from = (cu_address)(uintptr_t)hr_buffer_data(from);
    job.to = (cu_address)(uintptr_t)hr_buffer_data(to);
    status = best_copy(device, &job, bytes_per_s, error);
  }
  hr_buffer_free(from);
  hr_buffer_free(to);
  return status;
}
