/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that were captured as a graph, which launches all their kernels at once. */
#ifndef HR_RUNTIME_CUDA_DRIVER_GRAPH_H
#define HR_RUNTIME_CUDA_DRIVER_GRAPH_H

#include "runtime/cuda/driver/context.h"

/** State that is kept from one launch or sample of a subject to the next. */
typedef struct hr_cuda_recording {
  cu_graph_exec graph; /* NULL: nothing has been captured */
  double last_ns;      /* timing.c: of the last single run */
} hr_cuda_recording;

/** Captures what `run` puts on the device's stream, which is not the default stream. In the device's context. */
hr_status hr_cuda_capture(const hr_cuda *cuda, hr_run_fn run, void *context, cu_graph_exec *graph, hr_error *error);

/** hr_backend.record, .replay, .time_parts and .forget. */
hr_status hr_cuda_record(hr_device *device, hr_run_fn run, void *context, void **recording, hr_error *error);
hr_status hr_cuda_replay(hr_device *device, void *recording, hr_error *error);
hr_status hr_cuda_time_parts(hr_device *device, hr_part_fn run, void *context, size_t count, double *times_ns,
                             hr_error *error);
void hr_cuda_forget(hr_device *device, void *recording);

#endif
