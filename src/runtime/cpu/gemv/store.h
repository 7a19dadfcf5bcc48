/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a GEMV in the format of y. */
#ifndef HR_RUNTIME_CPU_GEMV_STORE_H
#define HR_RUNTIME_CPU_GEMV_STORE_H

#include "runtime/cpu/simd/elements.h"

/* Where the lanes of simd_store_pair() have element i. */
HR_INLINE int lane_of(hr_dtype dtype, int i)
{
  return dtype == HR_BF16 ? i % 2 * SIMD_LANES + i / 2 : i;
}

/* `bias`: of the first sum; NULL: none. */
HR_INLINE void store_sums(hr_dtype dtype, const float *sums, const void *bias, void *to, int64_t count)
{
  for (int64_t at = 0; at < count; at += SIMD_PAIR) {
    float lanes[SIMD_PAIR] = {0};
    int64_t here = count - at < SIMD_PAIR ? count - at : SIMD_PAIR;
    for (int i = 0; i < (int)here; i++)
      lanes[lane_of(dtype, i)] = sums[at + i];
    simd_pair pair = {simd_load(lanes), simd_load(lanes + SIMD_LANES)};
    if (bias) {
      const simd_pair added = simd_load_span(dtype, bias, at, here);
      pair = (simd_pair){pair.a + added.a, pair.b + added.b};
    }
    simd_store_span(dtype, to, at, pair, here, false);
  }
}

#endif
