/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CUDA backend's hr_backend that stand on top of its folders. */
#ifndef HR_RUNTIME_CUDA_CUDA_H
#define HR_RUNTIME_CUDA_CUDA_H

#include "runtime/device/device.h"

/** hr_backend.find_largest (largest.c). */
hr_status hr_cuda_find_largest(hr_device *device, const hr_largest_arguments *largest, void *stream, hr_error *error);

/** hr_backend.add_squares (squares.c). */
hr_status hr_cuda_add_squares(hr_device *device, const hr_squares_arguments *squares, void *stream, hr_error *error);

/** hr_backend.fill_uniform (fill.c). */
hr_status hr_cuda_fill_uniform(hr_device *device, void *to, const hr_uniform *uniform, hr_error *error);

/** hr_backend.prepare_cache, queue_numbers and append_tokens (kv_cache.c). */
hr_status hr_cuda_prepare_cache(hr_device *device, hr_kv_cache *cache, hr_error *error);
hr_status hr_cuda_queue_numbers(const hr_kv_cache *cache, const hr_kv_numbers *ranges, size_t count, void *stream,
                                hr_error *error);
hr_status hr_cuda_append_tokens(const hr_kv_cache *cache, const hr_kv_writes *writes, void *stream, hr_error *error);

/** hr_backend.detect (detect.c). */
hr_status hr_cuda_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** hr_backend.conditions (conditions.c). */
void hr_cuda_conditions(const hr_device *device, hr_conditions *conditions);

/** hr_backend.energy_j (conditions.c). */
double hr_cuda_energy_j(const hr_device *device);

#endif
