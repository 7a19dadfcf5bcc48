/* SPDX-License-Identifier: Apache-2.0 */
/* Run times from the GPU's own event timer. */
#ifndef HR_RUNTIME_CUDA_DRIVER_TIMING_H
#define HR_RUNTIME_CUDA_DRIVER_TIMING_H

#include "runtime/device/device.h"

/** hr_backend.time_runs: CUDA events around one run, or around a captured graph of `count` runs. */
hr_status hr_cuda_time_runs(hr_device *device, hr_run_fn run, void *context, int64_t count, void **kept,
                            double *time_ns, hr_error *error);

/** hr_backend.group_below_ns: 200 µs; 0 on the default stream, which cannot be captured. */
double hr_cuda_group_below_ns(const hr_device *device);

#endif
