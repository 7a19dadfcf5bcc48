/* Eight floats in an AVX register, with AVX2, FMA and F16C; the same names as in flash_vector_avx512.h. */
#ifndef HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_AVX2_H
#define HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define LANES 8

typedef __m256 vector;

static inline vector vector_load(const float *from)
{
  return _mm256_loadu_ps(from);
}

static inline void vector_store(float *to, vector x)
{
  _mm256_storeu_ps(to, x);
}

static inline vector vector_set(float x)
{
  return _mm256_set1_ps(x);
}

/** a · b + c, rounded once. */
static inline vector vector_multiply_add(vector a, vector b, vector c)
{
  return _mm256_fmadd_ps(a, b, c);
}

/** The larger; b where a is NaN. */
static inline vector vector_larger(vector a, vector b)
{
  return _mm256_max_ps(a, b);
}

/** The smaller; b where a is NaN. */
static inline vector vector_smaller(vector a, vector b)
{
  return _mm256_min_ps(a, b);
}

/** Where x < limit `then`, elsewhere `otherwise`. */
static inline vector vector_if_less(vector x, vector limit, vector then, vector otherwise)
{
  return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(x, limit, _CMP_LT_OQ));
}

static inline float vector_largest(vector x)
{
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

static inline float vector_sum(vector x)
{
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

/** 0, 1, 2 … */
static inline vector vector_count(void)
{
  return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

/** The lanes from `first` to `end` - 1; −inf in the others. */
static inline vector vector_between(vector x, int first, int end)
{
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                                _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(end - 1)));
  return _mm256_blendv_ps(x, _mm256_set1_ps(-__builtin_inff()), _mm256_castsi256_ps(out));
}

/* From here on x is brought into a range where 2^x is a normal number: below −126 vector_scale() gives 0, above 127.99
 * it gives +inf. */
static inline vector vector_in_range(vector x)
{
  return _mm256_max_ps(_mm256_set1_ps(-126.0F), _mm256_min_ps(_mm256_set1_ps(127.99F), x));
}

/** x as f + n, n whole and 0 ≤ f < 1: returns f; vector_scale(y, x) is y · 2^n. For ±inf f is in [0, 1), NaN stays. */
static inline vector vector_fraction(vector x)
{
  __m256 y = vector_in_range(x);
  return _mm256_sub_ps(y, _mm256_floor_ps(y));
}

static inline vector vector_scale(vector y, vector x)
{
  __m256i n = _mm256_cvttps_epi32(_mm256_floor_ps(vector_in_range(x)));
  __m256 scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(n, 23)));
  __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q), over = _mm256_cmp_ps(x, _mm256_set1_ps(127.99F), _CMP_GT_OQ);
  scaled = _mm256_blendv_ps(scaled, _mm256_set1_ps(__builtin_inff()), over);
  scaled = _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-126.0F), _CMP_LT_OQ), scaled);
  return _mm256_blendv_ps(scaled, x, nan);
}

static inline vector vector_load_bf16(const uint16_t *from)
{
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vector vector_load_fp16(const uint16_t *from)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

/* To nearest, ties to even; NaN stays NaN, made quiet. */
static inline void vector_store_bf16(uint16_t *to, vector x)
{
  __m256i bits = _mm256_castps_si256(x);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  rounded = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan));
  rounded = _mm256_srli_epi32(rounded, 16);
  _mm_storeu_si128((__m128i *)to,
                   _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}

static inline void vector_store_fp16(uint16_t *to, vector x)
{
  _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/** Rows become columns. */
static inline void vector_transpose(vector r[LANES])
{
  __m256 t[LANES];
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

#endif
