/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of KV caches on the host, and how rows are quantized (<headroom/kv_cache.h>). */
#ifndef HR_RUNTIME_DEVICE_KV_FORMAT_H
#define HR_RUNTIME_DEVICE_KV_FORMAT_H

#include <headroom/decode.h>

/** Reads `count` elements from `first` on, without scales. `dtype`: of an unquantized cache. */
void hr_kv_elements_load(hr_kv_format format, hr_dtype dtype, const void *from, size_t first, size_t count, double *to);

/** The scale of a row that has one of its own: its largest absolute value becomes that of the format. 1 if that would
 *  be below 2^-126, so that all elements become 0; NaN if the row has a NaN or an infinity. */
float hr_kv_row_scale(hr_kv_format format, const float *row, size_t count);

/** Writes row / scale. fp8 saturates at ±448, infinities become NaN. int8 saturates at ±127, NaN becomes 0. */
void hr_kv_quantize(hr_kv_format format, const float *row, size_t count, float scale, void *to);

#endif
