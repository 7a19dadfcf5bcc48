/* bf16 in AVX-512 registers, two in each lane; included after flash_vector_avx512.h. */
#ifndef HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_BF16_H
#define HR_RUNTIME_CPU_SIMD_FLASH_VECTOR_BF16_H

/** To nearest, ties to even; numbers below 2^-126 become 0. */
static inline void vector_store_pairs(uint16_t *to, vector x)
{
  _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(x));
}

/** The same for x and, behind them, y. */
static inline void vector_store_two(uint16_t *to, vector x, vector y)
{
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

/** sum + a · b for the first of each pair, then for the second; fp32 sums, numbers below 2^-126 taken as 0. */
static inline vector vector_multiply_pairs(vector sum, vector a, vector b)
{
  return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}

/** The pairs (a_i, b_i), i from 0 to 15. */
static inline vector vector_pair_low(vector a, vector b)
{
  const __m512i places = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                                          37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(a), places, _mm512_castps_si512(b)));
}

/** The pairs (a_i, b_i), i from 16 to 31. */
static inline vector vector_pair_high(vector a, vector b)
{
  const __m512i places = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55, 23, 54,
                                          22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(a), places, _mm512_castps_si512(b)));
}

#endif
