/* Times by the GPU's own clock. */
#include "base/error.h"
#include "runtime/cuda/cuda.h"

#include <headroom/buffer.h>

#include <math.h>
#include <stdlib.h>

/* Runs shorter than this are preceded by one that is not timed: while it runs, the host hands in the start event, the
 * timed run and the end event, so that its own pace is not measured. */
#define LEAD_NS 1e6

/* What is kept from one sample of a subject to the next. */
typedef struct recording {
  cu_graph_exec graph; /* of the runs of a group, between two records of the events; NULL until there is one */
  double last_ns;
} recording;

static hr_status elapsed_ns(const hr_cuda *cuda, double *time_ns, hr_error *error)
{
  float ms = 0;
  HR_TRY(HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error));
  HR_TRY(HR_CU(&cuda->driver, cuEventElapsedTime, (&ms, cuda->start, cuda->end), error));
  *time_ns = (double)ms * 1e6;
  return HR_OK;
}

static hr_status time_one(const hr_cuda *cuda, hr_run_fn run, void *context, recording *kept, double *time_ns,
                          hr_error *error)
{
  if (kept->last_ns < LEAD_NS)
    HR_TRY(run(context, error));
  HR_TRY(HR_CU(&cuda->driver, cuEventRecord, (cuda->start, cuda->stream), error));
  HR_TRY(run(context, error));
  HR_TRY(HR_CU(&cuda->driver, cuEventRecord, (cuda->end, cuda->stream), error));
  HR_TRY(elapsed_ns(cuda, time_ns, error));
  kept->last_ns = *time_ns;
  return HR_OK;
}

static hr_status record_runs(const hr_cuda *cuda, hr_run_fn run, void *context, int64_t count, hr_error *error)
{
  const hr_driver *driver = &cuda->driver;
  HR_TRY(HR_CU(driver, cuEventRecordWithFlags, (cuda->start, cuda->stream, CU_EVENT_RECORD_EXTERNAL), error));
  for (int64_t i = 0; i < count; i++)
    HR_TRY(run(context, error));
  return HR_CU(driver, cuEventRecordWithFlags, (cuda->end, cuda->stream, CU_EVENT_RECORD_EXTERNAL), error);
}

/* Captures `count` runs as a graph, and launches it once, which moves it to the device. */
static hr_status make_graph(const hr_cuda *cuda, hr_run_fn run, void *context, int64_t count, recording *kept,
                            hr_error *error)
{
  const hr_driver *driver = &cuda->driver;
  cu_graph graph = NULL;
  HR_TRY(HR_CU(driver, cuStreamBeginCapture_v2, (cuda->stream, CU_CAPTURE_THREAD_LOCAL), error));
  hr_status status = record_runs(cuda, run, context, count, error);
  cu_result ended = driver->cuStreamEndCapture(cuda->stream, &graph); /* in any case: the stream is used again */
  if (status == HR_OK)
    status = hr_driver_check(driver, ended, "cuStreamEndCapture", error);
  if (status == HR_OK)
    status = HR_CU(driver, cuGraphInstantiateWithFlags, (&kept->graph, graph, 0), error);
  if (graph)
    driver->cuGraphDestroy(graph);
  HR_TRY(status);
  HR_TRY(HR_CU(driver, cuGraphLaunch, (kept->graph, cuda->stream), error));
  return HR_CU(driver, cuStreamSynchronize, (cuda->stream), error);
}

static hr_status time_group(const hr_cuda *cuda, hr_run_fn run, void *context, int64_t count, recording *kept,
                            double *time_ns, hr_error *error)
{
  if (!kept->graph)
    HR_TRY(make_graph(cuda, run, context, count, kept, error));
  HR_TRY(HR_CU(&cuda->driver, cuGraphLaunch, (kept->graph, cuda->stream), error));
  HR_TRY(elapsed_ns(cuda, time_ns, error));
  *time_ns /= (double)count;
  return HR_OK;
}

hr_status hr_cuda_time_runs(hr_device *device, hr_run_fn run, void *context, int64_t count, void **kept,
                            double *time_ns, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  if (!*kept && !(*kept = calloc(1, sizeof(recording))))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: no memory to time runs", device->name);
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = count == 1 ? time_one(cuda, run, context, *kept, time_ns, error)
                                : time_group(cuda, run, context, count, *kept, time_ns, error);
  hr_cuda_leave(cuda);
  return status;
}

void hr_cuda_forget(hr_device *device, void *recorded)
{
  const hr_cuda *cuda = device->state;
  recording *kept = recorded;
  if (kept && kept->graph && hr_cuda_enter(cuda, NULL) == HR_OK) {
    cuda->driver.cuGraphExecDestroy(kept->graph);
    hr_cuda_leave(cuda);
  }
  free(kept);
}

#define COPY_BYTES ((size_t)1 << 30) /* far beyond any cache */
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
