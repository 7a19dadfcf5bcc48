/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h's primitives in AVX-512: 16 lanes, masks in registers of their own. Included by simd.h. */
#include <immintrin.h>

#define SIMD_MASK_REGISTERS
typedef __mmask16 simd_mask;

HR_INLINE simd_f32 simd_fma(simd_f32 a, simd_f32 b, simd_f32 c)
{
  return _mm512_fmadd_ps(a, b, c);
}

HR_INLINE simd_f32 simd_max(simd_f32 a, simd_f32 b)
{
  return _mm512_max_ps(a, b);
}

HR_INLINE simd_f32 simd_min(simd_f32 a, simd_f32 b)
{
  return _mm512_min_ps(a, b);
}

HR_INLINE simd_f32 simd_round(simd_f32 x)
{
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

HR_INLINE simd_f32 simd_floor(simd_f32 x)
{
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

HR_INLINE simd_f32 simd_sqrt(simd_f32 x)
{
  return _mm512_sqrt_ps(x);
}

HR_INLINE simd_mask simd_less(simd_f32 a, simd_f32 b)
{
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

HR_INLINE simd_mask simd_is_nan(simd_f32 x)
{
  return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}

HR_INLINE simd_mask simd_lanes_between(int first, int end)
{
  __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(first)) &
         _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
}

HR_INLINE simd_f32 simd_select(simd_mask mask, simd_f32 a, simd_f32 b)
{
  return _mm512_mask_blend_ps(mask, b, a);
}

HR_INLINE uint32_t simd_bits(simd_mask mask)
{
  return mask;
}

HR_INLINE simd_f32 simd_zero_where(simd_mask mask, simd_f32 x)
{
  return _mm512_maskz_mov_ps((simd_mask)~mask, x);
}

HR_INLINE simd_f32 simd_ldexp(simd_f32 a, simd_f32 n)
{
  return _mm512_scalef_ps(a, n);
}

/* Takes any x: the result is 0 for ±inf, and NaN stays. */
HR_INLINE simd_f32 simd_exp2_fraction(simd_f32 x)
{
  return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Takes any x; results may be denormal and infinite. */
HR_INLINE simd_f32 simd_exp2_scale(simd_f32 y, simd_f32 x)
{
  return _mm512_scalef_ps(y, x);
}

HR_INLINE float simd_reduce_add(simd_f32 x)
{
  return _mm512_reduce_add_ps(x);
}

HR_INLINE void simd_reduce_add_four(const simd_f32 x[4], float *to)
{
  __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
  __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

HR_INLINE float simd_reduce_max(simd_f32 x)
{
  return _mm512_reduce_max_ps(x);
}

HR_INLINE simd_f32 simd_f32_from_fp16(simd_u16 x)
{
  return _mm512_cvtph_ps((__m256i)x);
}

HR_INLINE simd_u16 simd_fp16_from_f32(simd_f32 x)
{
  return (simd_u16)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

HR_INLINE void simd_stream(void *to, simd_f32 x)
{
  _mm512_stream_ps(to, x);
}

HR_INLINE void simd_stream_u16(void *to, simd_u16 x)
{
  _mm256_stream_si256(to, (__m256i)x);
}

HR_INLINE void simd_stream_fence(void)
{
  _mm_sfence();
}

HR_INLINE void simd_transpose(simd_f32 r[SIMD_LANES])
{
  simd_f32 t[SIMD_LANES];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { /* each 128-bit quarter now holds four rows of one column */
    __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
    __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
    r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { /* quarters 0 2 and 1 3 of rows 0–7 and of rows 8–15 */
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
  }
}
