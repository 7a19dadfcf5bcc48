/* Sixteen floats in an AVX-512 register; the same names as in flash_vector_avx2.h and flash_vector_portable.h, for the
 * templates that a version of a kernel includes after one of them. */
#ifndef HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_AVX512_H
#define HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define LANES 16

typedef __m512 vector;

static inline vector vector_load(const float *from)
{
  return _mm512_loadu_ps(from);
}

static inline void vector_store(float *to, vector x)
{
  _mm512_storeu_ps(to, x);
}

static inline vector vector_set(float x)
{
  return _mm512_set1_ps(x);
}

/** a · b + c, rounded once. */
static inline vector vector_multiply_add(vector a, vector b, vector c)
{
  return _mm512_fmadd_ps(a, b, c);
}

/** The larger; b where a is NaN. */
static inline vector vector_larger(vector a, vector b)
{
  return _mm512_max_ps(a, b);
}

/** The smaller; b where a is NaN. */
static inline vector vector_smaller(vector a, vector b)
{
  return _mm512_min_ps(a, b);
}

/** Where x < limit `then`, elsewhere `otherwise`. */
static inline vector vector_if_less(vector x, vector limit, vector then, vector otherwise)
{
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), otherwise, then);
}

static inline bool vector_any_above_zero(vector x)
{
  return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ) != 0;
}

static inline float vector_largest(vector x)
{
  return _mm512_reduce_max_ps(x);
}

static inline float vector_sum(vector x)
{
  return _mm512_reduce_add_ps(x);
}

/** 0, 1, 2 … */
static inline vector vector_count(void)
{
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/** The lanes from `first` to `end` - 1; −inf in the others. */
static inline vector vector_between(vector x, int first, int end)
{
  __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __mmask16 in =
      _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(first)) & _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
  return _mm512_mask_blend_ps(in, _mm512_set1_ps(-__builtin_inff()), x);
}

/** x as f + n, n whole and 0 ≤ f < 1: returns f; vector_scale(y, x) is y · 2^n. For ±inf f is 0, and NaN stays. */
static inline vector vector_fraction(vector x)
{
  return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline vector vector_scale(vector y, vector x)
{
  return _mm512_scalef_ps(y, x);
}

static inline vector vector_load_bf16(const uint16_t *from)
{
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline vector vector_load_fp16(const uint16_t *from)
{
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

/* To nearest, ties to even; NaN stays NaN, made quiet. */
static inline void vector_store_bf16(uint16_t *to, vector x)
{
  __m512i bits = _mm512_castps_si512(x);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

static inline void vector_store_fp16(uint16_t *to, vector x)
{
  _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/** Rows become columns. */
static inline void vector_transpose(vector r[LANES])
{
  __m512 t[LANES];
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

#endif
