/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CUDA backend's hr_backend that stand on top of its folders. */
#ifndef HR_RUNTIME_CUDA_CUDA_H
#define HR_RUNTIME_CUDA_CUDA_H

#include "runtime/device/device.h"

/** hr_backend.fill_uniform (fill.c). */
hr_status hr_cuda_fill_uniform(hr_device *device, void *to, hr_dtype dtype, uint64_t seed, size_t count,
                               hr_error *error);

/** Writes numbers on the stream as parameters of launches: copied by the launch, whereas a copy from memory that is not
 *  page-locked may wait for the stream (kv_cache.c). */
hr_status hr_cuda_put_numbers(hr_device *device, int32_t *to, const int32_t *from, size_t count, hr_error *error);

/** hr_backend.append_tokens (kv_cache.c). */
hr_status hr_cuda_append_tokens(hr_device *device, const hr_kv_writes *writes, hr_error *error);

/** hr_backend.detect (detect.c). */
hr_status hr_cuda_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** hr_backend.conditions (conditions.c). */
void hr_cuda_conditions(const hr_device *device, hr_conditions *conditions);

/** hr_backend.energy_j (conditions.c). */
double hr_cuda_energy_j(const hr_device *device);

#endif
