/* SPDX-License-Identifier: Apache-2.0 */
/* E4M3: 4 bits of exponent, 3 of mantissa, no infinity, all ones is NaN. fp16 represents all of its values, so that the
 * instructions of compute capability 8.9 convert by way of fp16, two elements at a time. */

#if __CUDA_ARCH__ >= 890
__device__ inline float half_in(unsigned two, int i)
{
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(two >> 16 * i)));
  return value;
}

/* Two of fp16 from two elements. */
__device__ inline unsigned halves_of(unsigned short two)
{
  unsigned halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
  return halves;
}

__device__ inline unsigned short two_of(float low, float high)
{
  unsigned short two;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
  return two;
}

__device__ inline float fp8_to_float(unsigned char bits)
{
  return half_in(halves_of(bits), 0);
}

#ifdef PAIR
/* Two of a 16-bit dtype from two elements, exactly. */
__device__ inline unsigned pair_of(unsigned bytes)
{
  const unsigned halves = halves_of((unsigned short)bytes);
#ifdef HR_DTYPE_fp16
  return halves;
#else
  const float values[2] = {half_in(halves, 0), half_in(halves, 1)};
  return word_of(values);
#endif
}
#endif

/* Rounds to nearest, ties to even; larger values become ±448. */
__device__ inline unsigned char fp8_from_float(float value)
{
  return (unsigned char)two_of(value, 0.0f);
}

#else
/* The exponent bias of a float is larger by 120. */
__device__ inline float fp8_to_float(unsigned char bits)
{
  unsigned size = bits & 0x7F, sign = (unsigned)(bits & 0x80) << 24;
  if (size == 0x7F)
    return __uint_as_float(0x7FC00000u);
  float value = size < 8 ? (float)size * 0x1p-9f : __uint_as_float((size + (120u << 3)) << 20);
  return __uint_as_float(__float_as_uint(value) | sign);
}

/* Rounds to nearest, ties to even; larger values become ±448. */
__device__ inline unsigned char fp8_from_float(float value)
{
  unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80;
  float size = fabsf(value);
  if (size != size)
    return (unsigned char)(sign | 0x7F);
  if (size >= 448.0f)
    return (unsigned char)(sign | 0x7E);
  if (size < 0x1p-6f)
    return (unsigned char)(sign | (unsigned)rintf(size * 0x1p9f));
  bits &= 0x7FFFFFFFu;
  unsigned rounded = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20;
  return (unsigned char)(sign | (rounded - (120u << 3)));
}
#endif
