/* SPDX-License-Identifier: Apache-2.0 */
/* Measured ceilings of a GPU: hr_backend.measure_ceilings and copy_rate. */
#ifndef HR_RUNTIME_CUDA_CEILINGS_CEILINGS_H
#define HR_RUNTIME_CUDA_CEILINGS_CEILINGS_H

#include "hardware/hardware.h"
#include "runtime/device/device.h"

hr_status hr_cuda_measure_ceilings(hr_device *device, const hr_progress_range *range, hr_ceiling *ceilings,
                                   size_t *count, hr_error *error);

/** Bytes read plus bytes written per second by the driver's device-to-device copy. */
hr_status hr_cuda_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error);

#endif
