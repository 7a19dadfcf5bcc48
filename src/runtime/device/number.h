/* Number formats, element by element: the host's double on one side, a format's bits on the other. */
#ifndef HR_RUNTIME_NUMBER_H
#define HR_RUNTIME_NUMBER_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Reads `count` elements from `first` on. Exact: every format is a subset of double. */
void hr_numbers_load(hr_dtype dtype, const void *from, size_t first, size_t count, double *to);

/** Reads one element. */
double hr_number_load(hr_dtype dtype, const void *from, size_t index);

/** Writes one element, rounded once, to nearest, ties to even. Too large becomes infinite; fp8 (E4M3) has no infinity:
 *  finite values stop at 448 and an infinity becomes NaN. tf32 is stored as fp32. */
void hr_number_store(hr_dtype dtype, void *to, size_t index, double value);

/** What becomes of a value in a format before it is rounded: beyond ±448 fp8 (E4M3) stays there, all else is itself. */
double hr_dtype_saturate(hr_dtype dtype, double value);

/** Half the distance from 1 to the next number of the format: the largest relative error of rounding to it. For tf32
 *  that of fp32, as stored. */
double hr_dtype_rounding(hr_dtype dtype);

/** The largest error of rounding `value` to the format: relative for normal numbers, half the smallest step below. */
double hr_dtype_rounding_error(hr_dtype dtype, double value);

/** Writes elements first … first + count − 1 of the uniform sequence in [-1, 1] that `seed` names to the start of `to`.
 *  Element i depends on seed and i alone. */
void hr_numbers_uniform(hr_dtype dtype, uint64_t seed, size_t first, size_t count, void *to);

/** What SplitMix64 counts on from for `seed`: elements 2i and 2i + 1 are the halves of number key + i. */
uint64_t hr_numbers_key(uint64_t seed);

#endif
