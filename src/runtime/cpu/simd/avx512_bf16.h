/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 in AVX-512 registers, a pair in each 32-bit lane (AVX512_BF16). Included after simd.h. */
#ifndef HR_RUNTIME_CPU_SIMD_AVX512_BF16_H
#define HR_RUNTIME_CPU_SIMD_AVX512_BF16_H

#include "runtime/cpu/simd/simd.h"

#if defined(__AVX512BF16__)

/** Stores a vector as bf16: to nearest, ties to even; numbers below 2^-126 become 0. */
HR_INLINE void simd_store_bf16(void *to, simd_f32 x)
{
  _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh(x));
}

/** Stores x and, behind it, y as bf16. */
HR_INLINE void simd_store_bf16_two(void *to, simd_f32 x, simd_f32 y)
{
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

/** sum + a · b for the first of each pair, then for the second; fp32 accumulators, numbers below 2^-126 taken as 0. */
HR_INLINE simd_f32 simd_dot_bf16(simd_f32 sum, simd_f32 a, simd_f32 b)
{
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/** Rounded to bf16, in the lower halves of words whose upper halves are 0. */
HR_INLINE simd_u32 simd_words_bf16(simd_f32 x)
{
  return (simd_u32)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
}

/** Pairs (a_i, b_i), rounded to bf16. */
HR_INLINE simd_f32 simd_pairs_bf16(simd_f32 a, simd_f32 b)
{
  const __m512i places = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                          21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(places, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
}

#else /* tests of what needs nothing else of AVX512_BF16, on processors without it */

HR_INLINE void simd_store_bf16(void *to, simd_f32 x)
{
  simd_store_u16(to, simd_bf16_from_f32(x));
}

HR_INLINE void simd_store_bf16_two(void *to, simd_f32 x, simd_f32 y)
{
  simd_store_bf16(to, x);
  simd_store_bf16((simd_u16 *)to + 1, y);
}

HR_INLINE simd_u32 simd_words_bf16(simd_f32 x)
{
  return __builtin_convertvector(simd_bf16_from_f32(x), simd_u32);
}

HR_INLINE simd_f32 simd_pairs_bf16(simd_f32 a, simd_f32 b)
{
  return (simd_f32)((simd_round_to_bf16(a) >> 16) | (simd_round_to_bf16(b) & 0xffff0000u));
}

#endif

/** Pairs (a_i, b_i) of bf16 elements, of even i. */
HR_INLINE simd_f32 simd_even_pairs_u16(simd_f32 a, simd_f32 b)
{
  return (simd_f32)_mm512_mask_blend_epi16(0xaaaaaaaau, (__m512i)a, (__m512i)((simd_u32)b << 16));
}

/** Pairs (a_i, b_i) of bf16 elements, of odd i. */
HR_INLINE simd_f32 simd_odd_pairs_u16(simd_f32 a, simd_f32 b)
{
  return (simd_f32)_mm512_mask_blend_epi16(0xaaaaaaaau, (__m512i)((simd_u32)a >> 16), (__m512i)b);
}

/** Pairs (a_i, b_i) of bf16 elements, i from 0 to 15. */
HR_INLINE simd_f32 simd_interleave_low_u16(simd_f32 a, simd_f32 b)
{
  const __m512i places = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                                          37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(a), places, _mm512_castps_si512(b)));
}

/** Pairs (a_i, b_i) of bf16 elements, i from 16 to 31. */
HR_INLINE simd_f32 simd_interleave_high_u16(simd_f32 a, simd_f32 b)
{
  const __m512i places = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55, 23, 54,
                                          22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(a), places, _mm512_castps_si512(b)));
}

#endif
