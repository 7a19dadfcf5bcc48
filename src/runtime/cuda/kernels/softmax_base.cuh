/* SPDX-License-Identifier: Apache-2.0 */
/* Bases of kernels that fuse the scaling of a score with the subtraction of its row's base.
 *
 * P = 2^(s · factor − base). For the score that set the base, the exponent is what was rounded off the base: up to
 * 2^(n − 25) for a base of 2^n, which 2^x of the P format stands up to BASE_MAX. Beyond, the factor is replaced by a
 * power of 2, so that the base is exact; other scores are so far below there that their P is about 0 with either. */

#ifdef HR_DTYPE_fp8
#define BASE_MAX 0x1p23f
#else
#define BASE_MAX 0x1p27f
#endif

/* Up to twice the factor, and more by so much that a base of it is beyond BASE_MAX, whatever is added to others. */
__device__ inline float power_of_two_above(float factor)
{
  return __uint_as_float((__float_as_uint(factor * 1.001f) & 0x7F800000u) + 0x00800000u);
}

__device__ inline bool is_large(float base)
{
  return fabsf(base) > BASE_MAX + 64;
}

/* What the scores of a row with this base are multiplied by. */
__device__ inline float factor_of_row(float base, float factor)
{
  return is_large(base) ? power_of_two_above(factor) : factor;
}

/* The base of a row, `above` its maximum. */
__device__ inline float base_of_row(float row_max, float factor, float above)
{
  float exponent = row_max * factor;
  return fabsf(exponent) > BASE_MAX ? row_max * power_of_two_above(factor) : exponent + above;
}

/* The score above which the base of a row moves. */
__device__ inline float limit_of_row(float row_max, float base, float factor, float threshold)
{
  return is_large(base) ? row_max : row_max + threshold / factor;
}

/* Gives what the scores that a base stands for are times `factor`. */
__device__ inline float exponent_of_base(float base, float factor)
{
  return is_large(base) && base != minus_infinity() ? base / power_of_two_above(factor) * factor : base;
}
