/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between float and the dtype that a program is compiled for (HR_DTYPE_…). No CUDA header is included, so
 * that NVRTC alone is enough.
 *
 * A word of 32 bits has PER_WORD elements in memory order: value_in() and word_of(). A maximum over words begins with
 * LOWEST_WORD and continues with larger_words(most, word); largest_in(most) is its value. NaN is ignored. */

#if defined(HR_DTYPE_fp32) || defined(HR_DTYPE_tf32)
typedef float element;

__device__ inline float to_float(element value)
{
  return value;
}
__device__ inline element from_float(float value)
{
  return value;
}

#define PER_WORD 1

__device__ inline unsigned bits_of(element value)
{
  return __float_as_uint(value);
}
__device__ inline float value_in(unsigned word, int)
{
  return __uint_as_float(word);
}
__device__ inline unsigned word_of(const float *values)
{
  return __float_as_uint(values[0]);
}

#define LOWEST_WORD 0xFF800000u
__device__ inline unsigned larger_words(unsigned most, unsigned word)
{
  return __float_as_uint(fmaxf(__uint_as_float(most), __uint_as_float(word)));
}
__device__ inline float largest_in(unsigned most)
{
  return __uint_as_float(most);
}

#elif defined(HR_DTYPE_fp16)
typedef unsigned short element;

__device__ inline float to_float(element bits)
{
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline element from_float(float value)
{
  element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline float value_in(unsigned word, int i)
{
  return to_float((element)(i == 0 ? word : word >> 16));
}

#define PAIR "f16x2"
#define LOWEST_WORD 0xFC00FC00u

#elif defined(HR_DTYPE_bf16)
typedef unsigned short element;

__device__ inline float to_float(element bits)
{
  return __uint_as_float((unsigned)bits << 16);
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
__device__ inline element from_float(float value)
{
#if __CUDA_ARCH__ >= 800
  element rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return (element)(bits >> 16 | 0x40);
  return (element)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
#endif
}

__device__ inline float value_in(unsigned word, int i)
{
  return __uint_as_float(i == 0 ? word << 16 : word & 0xFFFF0000u);
}

#define PAIR "bf16x2"
#define LOWEST_WORD 0xFF80FF80u

#elif defined(HR_DTYPE_fp8)
typedef unsigned char element;

#include "runtime/cuda/kernels/fp8.cuh"

#define PER_WORD 4

__device__ inline unsigned bits_of(element value)
{
  return value;
}
__device__ inline float to_float(element bits)
{
  return fp8_to_float(bits);
}
__device__ inline element from_float(float value)
{
  return fp8_from_float(value);
}

#if __CUDA_ARCH__ >= 890
__device__ inline float value_in(unsigned word, int i)
{
  return half_in(halves_of((unsigned short)(i < 2 ? word : word >> 16)), i % 2);
}

#define LOWEST_WORD 0xFC00FC00u /* the maximum is kept as two fp16 */
__device__ inline unsigned larger_words(unsigned most, unsigned word)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    unsigned two = halves_of((unsigned short)(word >> 16 * half));
    asm("max.f16x2 %0, %0, %1;" : "+r"(most) : "r"(two));
  }
  return most;
}
__device__ inline float largest_in(unsigned most)
{
  return fmaxf(half_in(most, 0), half_in(most, 1));
}

__device__ inline unsigned word_of(const float *values)
{
  return two_of(values[0], values[1]) | (unsigned)two_of(values[2], values[3]) << 16;
}
#else
__device__ inline float value_in(unsigned word, int i)
{
  return to_float((element)(word >> (8 * i)));
}

__device__ inline unsigned word_of(const float *values)
{
  unsigned word = 0;
  for (int i = 0; i < 4; i++)
    word |= (unsigned)from_float(values[i]) << (8 * i);
  return word;
}

#define LOWEST_WORD 0xFEFEFEFEu /* −448 */
__device__ inline unsigned larger_words(unsigned most, unsigned word)
{
  float values[4];
  for (int i = 0; i < 4; i++)
    values[i] = fmaxf(value_in(most, i), value_in(word, i));
  return word_of(values);
}
__device__ inline float largest_in(unsigned most)
{
  return fmaxf(fmaxf(value_in(most, 0), value_in(most, 1)), fmaxf(value_in(most, 2), value_in(most, 3)));
}
#endif

#else
#error "no dtype is defined"
#endif

/* Elements of the result: those of the operands, or where HR_OUT_… is defined of that dtype. */
#if defined(HR_OUT_bf16) || defined(HR_OUT_fp16)
typedef unsigned short out_element;

__device__ inline out_element out_from_float(float value)
{
  out_element rounded;
#ifdef HR_OUT_fp16
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
#endif
  return rounded;
}
#else
typedef element out_element;

__device__ inline out_element out_from_float(float value)
{
  return from_float(value);
}
#endif

#ifdef PAIR /* 16-bit dtypes: the PTX name of two in a word */
#define PER_WORD 2

__device__ inline unsigned bits_of(element value)
{
  return value;
}

__device__ inline unsigned word_of(const float *values)
{
#if __CUDA_ARCH__ >= 800
  unsigned word;
  asm("cvt.rn." PAIR ".f32 %0, %1, %2;" : "=r"(word) : "f"(values[1]), "f"(values[0]));
  return word;
#else
  return from_float(values[0]) | (unsigned)from_float(values[1]) << 16;
#endif
}

__device__ inline unsigned larger_words(unsigned most, unsigned word)
{
#if __CUDA_ARCH__ >= 800
  asm("max." PAIR " %0, %0, %1;" : "+r"(most) : "r"(word));
  return most;
#else
  float values[2] = {fmaxf(value_in(most, 0), value_in(word, 0)), fmaxf(value_in(most, 1), value_in(word, 1))};
  return word_of(values);
#endif
}

__device__ inline float largest_in(unsigned most)
{
  return fmaxf(value_in(most, 0), value_in(most, 1));
}
#endif
