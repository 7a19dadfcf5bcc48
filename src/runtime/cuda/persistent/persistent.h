/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of a decode step in one kernel, kernels/persistent.cu. */
#ifndef HR_RUNTIME_CUDA_PERSISTENT_PERSISTENT_H
#define HR_RUNTIME_CUDA_PERSISTENT_PERSISTENT_H

#include "runtime/device/device.h"
#include "runtime/device/persistent.h"

/** hr_backend.persists, persist, run_persistent and forget_persistent. */
bool hr_cuda_persists(const hr_device *device, const hr_persistent_part *part);
hr_status hr_cuda_persist(hr_device *device, const hr_persistent_part *parts, size_t count, void **kernel,
                          hr_error *error);
hr_status hr_cuda_run_persistent(hr_device *device, void *kernel, void *stream, hr_error *error);
void hr_cuda_forget_persistent(hr_device *device, void *kernel);

#endif
