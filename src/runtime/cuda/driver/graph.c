/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/graph.h"

#include "base/error.h"

#include <stdlib.h>

/* ---- capture ---- */

hr_status hr_cuda_capture(const hr_cuda *cuda, hr_run_fn run, void *context, cu_graph_exec *graph, hr_error *error)
{
  const hr_driver *driver = &cuda->driver;
  cu_graph captured = NULL;
  HR_TRY(HR_CU(driver, cuStreamBeginCapture_v2, (cuda->stream, CU_CAPTURE_THREAD_LOCAL), error));
  hr_status status = run(context, error);
  cu_result ended =
      driver->cuStreamEndCapture(cuda->stream, &captured); /* also after an error: the stream is used again */
  if (status == HR_OK)
    status = hr_driver_check(driver, ended, "cuStreamEndCapture", error);
  if (status == HR_OK)
    status = HR_CU(driver, cuGraphInstantiateWithFlags, (graph, captured, 0), error);
  if (captured)
    driver->cuGraphDestroy(captured);
  return status;
}

hr_status hr_cuda_record(hr_device *device, hr_run_fn run, void *context, void **recording, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  if (cuda->stream == CU_STREAM_LEGACY)
    return HR_OK;
  hr_cuda_recording *kept = calloc(1, sizeof *kept);
  if (!kept)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to record runs", device->name);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = hr_cuda_capture(cuda, run, context, &kept->graph, error);
    hr_cuda_leave(cuda);
  }
  if (status == HR_OK)
    *recording = kept;
  else
    hr_cuda_forget(device, kept);
  return status;
}

hr_status hr_cuda_replay(hr_device *device, void *recording, hr_error *error)
{
  const hr_cuda *cuda = device->state;
  const hr_cuda_recording *kept = recording;
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = HR_CU(&cuda->driver, cuGraphLaunch, (kept->graph, cuda->stream), error);
  hr_cuda_leave(cuda);
  return status;
}

void hr_cuda_forget(hr_device *device, void *recording)
{
  const hr_cuda *cuda = device->state;
  hr_cuda_recording *kept = recording;
  if (kept && kept->graph && hr_cuda_enter(cuda, NULL) == HR_OK) {
    cuda->driver.cuGraphExecDestroy(kept->graph);
    hr_cuda_leave(cuda);
  }
  free(kept);
}

/* ---- parts ---- */

/* Parts and the events before, between and behind them. */
typedef struct timed_parts {
  const hr_cuda *cuda;
  hr_part_fn run;
  void *context;
  size_t count;
  cu_event *events; /* [count + 1] */
} timed_parts;

static hr_status run_parts(void *context, hr_error *error)
{
  const timed_parts *p = context;
  const hr_driver *driver = &p->cuda->driver;
  for (size_t i = 0; i <= p->count; i++) {
    HR_TRY(HR_CU(driver, cuEventRecordWithFlags, (p->events[i], p->cuda->stream, CU_EVENT_RECORD_EXTERNAL), error));
    if (i < p->count)
      HR_TRY(p->run(p->context, i, error));
  }
  return HR_OK;
}

/* The first launch uploads the graph to the device. */
static hr_status launch_twice(const hr_cuda *cuda, cu_graph_exec graph, hr_error *error)
{
  for (int i = 0; i < 2; i++) {
    HR_TRY(HR_CU(&cuda->driver, cuGraphLaunch, (graph, cuda->stream), error));
    HR_TRY(HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error));
  }
  return HR_OK;
}

static hr_status time_with_events(timed_parts *p, double *times_ns, hr_error *error)
{
  const hr_driver *driver = &p->cuda->driver;
  cu_graph_exec graph = NULL;
  for (size_t i = 0; i <= p->count; i++)
    HR_TRY(HR_CU(driver, cuEventCreate, (&p->events[i], 0), error));
  HR_TRY(hr_cuda_capture(p->cuda, run_parts, p, &graph, error));
  hr_status status = launch_twice(p->cuda, graph, error);
  for (size_t i = 0; i < p->count && status == HR_OK; i++) {
    float ms = 0;
    status = HR_CU(driver, cuEventElapsedTime, (&ms, p->events[i], p->events[i + 1]), error);
    times_ns[i] = (double)ms * 1e6;
  }
  driver->cuGraphExecDestroy(graph);
  return status;
}

hr_status hr_cuda_time_parts(hr_device *device, hr_part_fn run, void *context, size_t count, double *times_ns,
                             hr_error *error)
{
  const hr_cuda *cuda = device->state;
  timed_parts p = {cuda, run, context, count, NULL};
  if (cuda->stream == CU_STREAM_LEGACY)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: parts are timed in a graph, which the default stream cannot make",
                   device->name);
  if (!(p.events = calloc(count + 1, sizeof *p.events)))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "%s: not enough memory to time %zu parts", device->name, count);
  hr_status status = hr_cuda_enter(cuda, error);
  if (status == HR_OK) {
    status = time_with_events(&p, times_ns, error);
    for (size_t i = 0; i <= count; i++) {
      if (p.events[i])
        cuda->driver.cuEventDestroy_v2(p.events[i]);
    }
    hr_cuda_leave(cuda);
  }
  free(p.events);
  return status;
}
