/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/timing.h"

#include "base/error.h"
#include "runtime/cuda/driver/context.h"

#include <stdlib.h>

/* A run shorter than this is preceded by an untimed one. While that one executes, the host queues the start event, the
 * timed run and the end event, so that the host's launch latency is not measured. */
#define LEAD_NS 1e6

/* Between two events of a stream, GEMMs of 20 to 30 µs took 8% longer than in a graph on an H200, those of two kernels
 * (split along k) 13%; of 60 to 120 µs 1 and 3%. */
#define GROUP_BELOW_NS 200e3

/* State kept from one sample of a subject to the next. */
typedef struct recording {
  cu_graph_exec graph; /* the captured runs of a group between the two event records; NULL until captured */
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

/* Captures `count` runs as a graph, and launches it once, which uploads it to the device. */
static hr_status make_graph(const hr_cuda *cuda, hr_run_fn run, void *context, int64_t count, recording *kept,
                            hr_error *error)
{
  const hr_driver *driver = &cuda->driver;
  cu_graph graph = NULL;
  HR_TRY(HR_CU(driver, cuStreamBeginCapture_v2, (cuda->stream, CU_CAPTURE_THREAD_LOCAL), error));
  hr_status status = record_runs(cuda, run, context, count, error);
  cu_result ended =
      driver->cuStreamEndCapture(cuda->stream, &graph); /* also after an error: the stream is used again */
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
  if (count > 1 && cuda->stream == CU_STREAM_LEGACY)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "%s: short runs are measured as a captured graph, and the default stream cannot be captured",
                   device->name);
  if (!*kept && !(*kept = calloc(1, sizeof(recording))))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to time runs", device->name);
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = count == 1 ? time_one(cuda, run, context, *kept, time_ns, error)
                                : time_group(cuda, run, context, count, *kept, time_ns, error);
  hr_cuda_leave(cuda);
  return status;
}

double hr_cuda_group_below_ns(const hr_device *device)
{
  const hr_cuda *cuda = device->state;
  return cuda->stream == CU_STREAM_LEGACY ? 0 : GROUP_BELOW_NS;
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
