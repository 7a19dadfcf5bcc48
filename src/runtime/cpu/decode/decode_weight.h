/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of scores: 2^top e^d, d the difference to the base, which is exact for the base itself, however large. */
#ifndef HR_RUNTIME_CPU_DECODE_WEIGHT_H
#define HR_RUNTIME_CPU_DECODE_WEIGHT_H

#include "runtime/cpu/simd/exp.h"

HR_INLINE simd_exponent weight_exponent(float top)
{
  return (simd_exponent){.scale = simd_set1(1.44269504F), .add = simd_set1(top)};
}

HR_INLINE simd_f32 weight_of(const simd_exponent *exponent, simd_f32 d)
{
  return simd_exp2(simd_exponent_of(exponent, d));
}

#endif
