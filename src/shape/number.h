/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of elements between double and the bits of a dtype, and generated values. */
#ifndef HR_SHAPE_NUMBER_H
#define HR_SHAPE_NUMBER_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Reads `count` elements from `first` on. Exact: double holds every value of every dtype. */
void hr_numbers_load(hr_dtype dtype, const void *from, size_t first, size_t count, double *to);

/** Reads one element. */
double hr_number_load(hr_dtype dtype, const void *from, size_t index);

/** Writes one element, rounded once, to nearest even. Overflow gives an infinity. fp8 (E4M3) has none: finite values
 *  saturate at 448 and infinities become NaN. tf32 is stored as fp32. */
void hr_number_store(hr_dtype dtype, void *to, size_t index, double value);

/** Writes `count` elements from `first` on, as hr_number_store() does. */
void hr_floats_store(hr_dtype dtype, void *to, size_t first, size_t count, const float *from);

/** The value before it is rounded to a dtype: fp8 (E4M3) saturates at ±448, other dtypes leave it. */
double hr_dtype_saturate(hr_dtype dtype, double value);

/** Unit roundoff: half the distance from 1 to the next number. tf32 has that of fp32, as which it is stored. */
double hr_dtype_rounding(hr_dtype dtype);

/** The largest error of rounding `value` to the dtype; for subnormal numbers half the smallest step. */
double hr_dtype_rounding_error(hr_dtype dtype, double value);

/** Writes elements first … first + count − 1 of the sequence of uniform values in [-1, 1] given by `seed` to the start
 *  of `to`. Element i depends on seed and i only. */
void hr_numbers_uniform(hr_dtype dtype, uint64_t seed, size_t first, size_t count, void *to);

/** The start of SplitMix64's counter for `seed`: elements 2i and 2i + 1 are the halves of output key + i. */
uint64_t hr_numbers_key(uint64_t seed);

#endif
