/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes that detects results above 63 bits. */
#ifndef HR_BASE_CHECKED_H
#define HR_BASE_CHECKED_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A number that remembers whether any step of its computation overflowed. Start with hr_checked(value). */
typedef struct hr_checked64 {
  int64_t value;
  bool overflow;
} hr_checked64;

static inline hr_checked64 hr_checked(int64_t value)
{
  return (hr_checked64){value, false};
}

static inline hr_checked64 hr_times(hr_checked64 a, int64_t b)
{
  hr_checked64 result;
  result.overflow = __builtin_mul_overflow(a.value, b, &result.value) || a.overflow;
  return result;
}

static inline hr_checked64 hr_plus(hr_checked64 a, hr_checked64 b)
{
  hr_checked64 result;
  result.overflow = __builtin_add_overflow(a.value, b.value, &result.value) || a.overflow || b.overflow;
  return result;
}

/** The larger of two; overflowed if either has. */
static inline hr_checked64 hr_larger(hr_checked64 a, hr_checked64 b)
{
  hr_checked64 result = a.value > b.value ? a : b;
  result.overflow = a.overflow || b.overflow;
  return result;
}

/** Places a block of `bytes` at the first multiple of 64 from *end on and moves *end behind it. Returns its offset. */
static inline size_t hr_place(hr_checked64 *end, hr_checked64 bytes)
{
  hr_checked64 first = hr_plus(*end, hr_checked(63));
  first.value = first.value / 64 * 64;
  *end = hr_plus(first, bytes);
  return (size_t)first.value;
}

/** Writes the result to *value. HR_ERROR_OVERFLOW leaves *value untouched. */
static inline hr_status hr_checked_take(hr_checked64 result, int64_t *value)
{
  if (result.overflow)
    return HR_ERROR_OVERFLOW;
  *value = result.value;
  return HR_OK;
}

/** ⌈a / b⌉ for a ≥ 0, b > 0, without overflow. */
static inline int64_t hr_ceil_div(int64_t a, int64_t b)
{
  return a / b + (a % b != 0);
}

/** The next multiple of b at or above a, for a ≥ 0, b > 0. Does not check for overflow. */
static inline int64_t hr_round_up(int64_t a, int64_t b)
{
  return hr_ceil_div(a, b) * b;
}

static inline int64_t hr_min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t hr_max64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/** The largest whole e ≤ 0 with count · 2^e ≤ 1/2, or 0 for a count of 1: numbers of at most 2^e, count of them, add up
 *  to less than 1, however they are rounded. */
static inline int hr_log2_of_share(int64_t count)
{
  int e = 0;
  while (count > 1 && (count - 1) >> -e > 0)
    e--;
  return count > 1 ? e - 1 : 0;
}

/** The largest power of two that divides a (a > 0), at most `limit`, itself a power of two. */
static inline int64_t hr_power_of_two_in(int64_t a, int64_t limit)
{
  return hr_min64(a & -a, limit);
}

#endif
