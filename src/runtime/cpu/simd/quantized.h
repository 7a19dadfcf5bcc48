/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of one byte, loaded as fp32 a pair of vectors at a time: int8, and fp8 (E4M3) times 2^-8. Vector `a` has the
 * first half.
 *
 * fp8 goes by way of fp16, whose exponent has one bit more and whose conversions are instructions: exponent and
 * mantissa are shifted to their places there, which leaves the difference of the biases, 8, to whoever scales the
 * result. */
#ifndef HR_RUNTIME_CPU_SIMD_QUANTIZED_H
#define HR_RUNTIME_CPU_SIMD_QUANTIZED_H

#include "runtime/cpu/simd/elements.h"

#define SIMD_FP8_FACTOR 256

#if SIMD_LANES == 16

HR_INLINE simd_pair simd_load_int8(const void *from)
{
  __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)from + 1);
  return (simd_pair){_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a)), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b))};
}

HR_INLINE simd_pair simd_load_fp8(const void *from)
{
  __m256i x = _mm256_loadu_si256((const __m256i *)from);
  __mmask32 nan = _mm256_cmpeq_epi8_mask(_mm256_or_si256(x, _mm256_set1_epi8((char)0x80)), _mm256_set1_epi8(-1));
  __m512i half = _mm512_slli_epi16(_mm512_cvtepi8_epi16(x), 7); /* two bits of sign */
  half = _mm512_and_si512(half, _mm512_set1_epi16((short)0xBFFF));
  half = _mm512_mask_mov_epi16(half, nan, _mm512_set1_epi16(0x7E00));
  return (simd_pair){_mm512_cvtph_ps(_mm512_castsi512_si256(half)),
                     _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1))};
}

#elif SIMD_LANES == 8

HR_INLINE simd_pair simd_load_int8(const void *from)
{
  __m128i a = _mm_loadl_epi64((const __m128i *)from), b = _mm_loadl_epi64((const __m128i *)((const char *)from + 8));
  return (simd_pair){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b))};
}

HR_INLINE simd_pair simd_load_fp8(const void *from)
{
  __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from)), sign = _mm256_set1_epi16((short)0x8000);
  __m256i half = _mm256_and_si256(_mm256_slli_epi16(x, 7), _mm256_set1_epi16((short)0xBFFF));
  __m256i nan = _mm256_cmpeq_epi16(_mm256_or_si256(half, sign), _mm256_set1_epi16((short)0xBF80));
  half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7E00)));
  return (simd_pair){_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}

#else

/* Eight bytes, each in the upper end of a lane. */
HR_INLINE void simd_spread_bytes(const void *from, simd_u32 to[2])
{
  typedef uint8_t bytes __attribute__((vector_size(16)));
  typedef uint16_t words __attribute__((vector_size(16)));
  bytes x = {0};
  memcpy(&x, from, 8);
  words w = (words)__builtin_shufflevector((bytes){0}, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  to[0] = (simd_u32)__builtin_shufflevector((words){0}, w, 0, 8, 1, 9, 2, 10, 3, 11);
  to[1] = (simd_u32)__builtin_shufflevector((words){0}, w, 4, 12, 5, 13, 6, 14, 7, 15);
}

HR_INLINE simd_pair simd_load_int8(const void *from)
{
  simd_u32 x[2];
  simd_spread_bytes(from, x);
  return (simd_pair){__builtin_convertvector((simd_i32)x[0] >> 24, simd_f32),
                     __builtin_convertvector((simd_i32)x[1] >> 24, simd_f32)};
}

/* Computes in fp32. The smallest numbers would be denormal there, so they get the exponent of the next larger ones, and
 * the excess is subtracted. */
HR_INLINE simd_f32 simd_f32_from_fp8(simd_u32 x)
{
  simd_u32 size = x & 0x7f000000u, sign = x & 0x80000000u;
  simd_f32 normal = (simd_f32)((size >> 4) + (112u << 23)), small = normal + normal - 0x1p-14f;
  simd_f32 value = simd_select((simd_u32)(size < 0x08000000u), small, normal);
  simd_u32 nan = (simd_u32)(size == 0x7f000000u) & 0x7fc00000u;
  return (simd_f32)((simd_u32)value | sign | nan);
}

HR_INLINE simd_pair simd_load_fp8(const void *from)
{
  simd_u32 x[2];
  simd_spread_bytes(from, x);
  return (simd_pair){simd_f32_from_fp8(x[0]), simd_f32_from_fp8(x[1])};
}

#endif

/** The first `count` elements to `bytes`, zeros behind them. */
HR_INLINE void simd_copy_bytes(const void *from, int64_t count, char bytes[SIMD_PAIR])
{
#ifdef SIMD_MASK_REGISTERS
  _mm256_storeu_si256((__m256i *)bytes, _mm256_maskz_loadu_epi8((__mmask32)(((uint64_t)1 << count) - 1), from));
#else
  memset(bytes, 0, SIMD_PAIR);
  memcpy(bytes, from, (size_t)count);
#endif
}

#endif
