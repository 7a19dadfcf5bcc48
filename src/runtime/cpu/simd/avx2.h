/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h's primitives in AVX2, FMA and F16C: 8 lanes. Included by simd.h. */
#include <immintrin.h>

HR_INLINE simd_f32 simd_fma(simd_f32 a, simd_f32 b, simd_f32 c)
{
  return _mm256_fmadd_ps(a, b, c);
}

HR_INLINE simd_f32 simd_max(simd_f32 a, simd_f32 b)
{
  return _mm256_max_ps(a, b);
}

HR_INLINE simd_f32 simd_min(simd_f32 a, simd_f32 b)
{
  return _mm256_min_ps(a, b);
}

HR_INLINE simd_f32 simd_round(simd_f32 x)
{
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

HR_INLINE simd_f32 simd_floor(simd_f32 x)
{
  return _mm256_floor_ps(x);
}

HR_INLINE simd_f32 simd_sqrt(simd_f32 x)
{
  return _mm256_sqrt_ps(x);
}

HR_INLINE uint32_t simd_bits(simd_u32 mask)
{
  return (uint32_t)_mm256_movemask_ps((simd_f32)mask);
}

HR_INLINE simd_f32 simd_select(simd_u32 mask, simd_f32 a, simd_f32 b)
{
  return _mm256_blendv_ps(b, a, (simd_f32)mask);
}

#define SIMD_LOOKUP

HR_INLINE simd_f32 simd_lookup(simd_f32 table, simd_u32 index)
{
  return _mm256_permutevar8x32_ps(table, (__m256i)index);
}

HR_INLINE float simd_reduce_add(simd_f32 x)
{
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

HR_INLINE void simd_reduce_add_four(const simd_f32 x[4], float *to)
{
  __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
  __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
  __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

HR_INLINE float simd_reduce_max(simd_f32 x)
{
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

HR_INLINE simd_f32 simd_f32_from_fp16(simd_u16 x)
{
  return _mm256_cvtph_ps((__m128i)x);
}

HR_INLINE simd_u16 simd_fp16_from_f32(simd_f32 x)
{
  return (simd_u16)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

HR_INLINE void simd_stream(void *to, simd_f32 x)
{
  _mm256_stream_ps(to, x);
}

HR_INLINE void simd_stream_u16(void *to, simd_u16 x)
{
  _mm_stream_si128(to, (__m128i)x);
}

HR_INLINE void simd_stream_fence(void)
{
  _mm_sfence();
}

HR_INLINE void simd_transpose(simd_f32 r[SIMD_LANES])
{
  simd_f32 t[SIMD_LANES];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++)
    r[i] = t[i];
}
