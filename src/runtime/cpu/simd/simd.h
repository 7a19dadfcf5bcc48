/* SPDX-License-Identifier: Apache-2.0 */
/* One vector of fp32 lanes, as wide as the instruction set that the including file is compiled for
 * (cmake/instruction_sets.cmake):
 *
 *   header       lanes   compiled with
 *   avx512.h     16      AVX-512 F, BW, DQ, VL
 *   avx2.h        8      AVX2, FMA, F16C
 *   neon.h        4      SIMD_NEON defined, aarch64
 *   portable.h    4      nothing but the compiler's vector extension
 *
 * Flash attention, decode, the row-wise kernels, softmax around oneDNN's GEMMs and the ceiling loops are templates over
 * these primitives. Arithmetic and comparisons are the vector extension: a + b, a * scalar, (simd_u32)a >> 16.
 *
 * A header for another instruction set defines, for SIMD_LANES lanes:
 *   simd_fma(a, b, c)       a · b + c
 *   simd_max, simd_min      of two values of which one is NaN, the second
 *   simd_round              to the nearest whole number, ties to even; at least for |x| < 2^22
 *   simd_floor              at least for −128 ≤ x < 128
 *   simd_sqrt               correctly rounded
 *   simd_select(mask, a, b) a where the mask is set, elsewhere b
 *   simd_bits(mask)         bit i of lane i
 *   simd_reduce_add, simd_reduce_max          over the lanes
 *   simd_reduce_add_four(x, to)               of each of four vectors
 *   simd_f32_from_fp16, simd_fp16_from_f32    a vector of fp16 is a simd_u16; rounded to nearest, ties to even
 *   simd_stream, simd_stream_u16, simd_stream_fence    non-temporal stores to aligned addresses
 *   simd_transpose(rows)    SIMD_LANES rows become columns
 * With SIMD_LOOKUP it also defines
 *   simd_lookup(table, i)   lane i, modulo SIMD_LANES, of a table
 * With SIMD_MASK_REGISTERS it also defines the mask and exp2 primitives that this file otherwise has for masks of 32
 * bits a lane. Number formats of memory are in elements.h, exponentials in exp.h. */
#ifndef HR_RUNTIME_CPU_SIMD_SIMD_H
#define HR_RUNTIME_CPU_SIMD_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The sanitizers take half a minute, clang's several, for a template in which every case is inlined. */
#if defined(__SANITIZE_ADDRESS__) || defined(HR_SANITIZED)
#define HR_INLINE static __attribute__((unused))
#else
#define HR_INLINE static inline __attribute__((always_inline, unused))
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define SIMD_LANES 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SIMD_LANES 8
#else
#define SIMD_LANES 4
#endif

typedef float simd_f32 __attribute__((vector_size(4 * SIMD_LANES)));
typedef int32_t simd_i32 __attribute__((vector_size(4 * SIMD_LANES)));
typedef uint32_t simd_u32 __attribute__((vector_size(4 * SIMD_LANES)));
typedef uint16_t simd_u16 __attribute__((vector_size(2 * SIMD_LANES))); /* as many lanes, half as wide */

HR_INLINE simd_f32 simd_load(const void *from)
{
  simd_f32 x;
  memcpy(&x, from, sizeof x);
  return x;
}

HR_INLINE simd_u16 simd_load_u16(const void *from)
{
  simd_u16 x;
  memcpy(&x, from, sizeof x);
  return x;
}

HR_INLINE void simd_store(void *to, simd_f32 x)
{
  memcpy(to, &x, sizeof x);
}

HR_INLINE void simd_store_u16(void *to, simd_u16 x)
{
  memcpy(to, &x, sizeof x);
}

HR_INLINE simd_f32 simd_set1(float x)
{
  return x - (simd_f32){0};
}

/* Without optimisation gcc's intrinsics are macros, whose masks of -1 its own warnings dislike. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#if SIMD_LANES == 16
#include "runtime/cpu/simd/avx512.h"
#elif SIMD_LANES == 8
#include "runtime/cpu/simd/avx2.h"
#elif defined(SIMD_NEON)
#include "runtime/cpu/simd/neon.h"
#else
#include "runtime/cpu/simd/portable.h"
#endif
#pragma GCC diagnostic pop

HR_INLINE simd_i32 simd_lane_numbers(void)
{
  static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  simd_i32 lanes;
  memcpy(&lanes, numbers, sizeof lanes);
  return lanes;
}

#ifndef SIMD_MASK_REGISTERS

typedef simd_u32 simd_mask; /* all bits of a lane, or none */

HR_INLINE simd_mask simd_less(simd_f32 a, simd_f32 b)
{
  return (simd_mask)(a < b);
}

HR_INLINE simd_mask simd_is_nan(simd_f32 x)
{
  return (simd_mask)(x != x); /* NOLINT(misc-redundant-expression): NaN */
}

/** Lanes first … end − 1. */
HR_INLINE simd_mask simd_lanes_between(int first, int end)
{
  simd_i32 lane = simd_lane_numbers();
  return (simd_mask)((lane >= first) & (lane < end));
}

/** x, 0 where x is set in the mask. */
HR_INLINE simd_f32 simd_zero_where(simd_mask mask, simd_f32 x)
{
  return (simd_f32)(~mask & (simd_u32)x);
}

/** a · 2^n for whole n in [−250, 250]; in two steps, as 2^−150 and 2^128 are no floats. */
HR_INLINE simd_f32 simd_ldexp(simd_f32 a, simd_f32 n)
{
  simd_u32 biased = (simd_u32)(n + 12582912.0f) - 0x4b400000u + 256, first = biased >> 1, second = biased - first;
  return a * (simd_f32)((first - 1) << 23) * (simd_f32)((second - 1) << 23); /* bias 127 of the 128 in each */
}

/* Where 2^x is a normal number; a NaN becomes a number, so that no conversion meets it. */
HR_INLINE simd_f32 simd_exp2_range(simd_f32 x)
{
  return simd_min(simd_max(x, simd_set1(-126.0f)), simd_set1(127.99f));
}

/** x − floor(x), within rounding, of x in the range of simd_exp2_scale(). */
HR_INLINE simd_f32 simd_exp2_fraction(simd_f32 x)
{
  simd_f32 y = simd_exp2_range(x);
  return y - simd_floor(y);
}

/** y · 2^floor(x) for y in [1, 2]: 0 for x below −126, +inf above 127.99, NaN stays. */
HR_INLINE simd_f32 simd_exp2_scale(simd_f32 y, simd_f32 x)
{
  simd_u32 n = (simd_u32) __builtin_convertvector(simd_floor(simd_exp2_range(x)), simd_i32);
  simd_f32 scaled = (simd_f32)((simd_u32)y + (n << 23));
  scaled = simd_select(simd_less(simd_set1(127.99f), x), simd_set1(__builtin_inff()), scaled);
  scaled = simd_zero_where(simd_less(x, simd_set1(-126.0f)), scaled);
  return simd_select(simd_is_nan(x), x, scaled);
}

#endif

HR_INLINE simd_f32 simd_f32_from_bf16(simd_u16 x)
{
  return (simd_f32)(__builtin_convertvector(x, simd_u32) << 16);
}

/** The bits of fp32 rounded to the upper half, to nearest, ties to even; the lower half is left over. A NaN must keep a
 *  bit among its upper 16, as every NaN does that comes from bf16 or from arithmetic. */
HR_INLINE simd_u32 simd_round_to_bf16(simd_f32 x)
{
  simd_u32 bits = (simd_u32)x;
  return bits + 0x7fff + ((bits >> 16) & 1);
}

/** Rounds to nearest, ties to even; a NaN stays a NaN and becomes quiet. */
HR_INLINE simd_u16 simd_bf16_from_f32(simd_f32 x)
{
  simd_f32 quiet = (simd_f32)((simd_u32)x | 0x400000u);
  simd_u32 rounded = (simd_u32)simd_select(simd_is_nan(x), quiet, (simd_f32)simd_round_to_bf16(x));
  return __builtin_convertvector(rounded >> 16, simd_u16);
}

#endif
