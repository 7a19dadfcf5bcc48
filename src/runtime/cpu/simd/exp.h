/* SPDX-License-Identifier: Apache-2.0 */
/* exp(), exp2() and tanh() of a vector in fp32. */
#ifndef HR_RUNTIME_CPU_SIMD_EXP_H
#define HR_RUNTIME_CPU_SIMD_EXP_H

#include "runtime/cpu/simd/simd.h"

/* ---- 2^x = 2^n · p(f), n = floor(x), f = x − n in [0, 1) ---- */

/** Where p(f) = 1 + c[0] f + … + c[degree − 1] f^degree. Exact at whole x; 0 and infinite beyond fp32's range, NaN
 *  stays. */
HR_INLINE simd_f32 simd_exp2_by(const float *c, int degree, simd_f32 x)
{
  simd_f32 f = simd_exp2_fraction(x), p = simd_set1(c[degree - 1]);
#pragma GCC unroll 6
  for (int i = degree - 2; i >= 0; i--)
    p = simd_fma(p, f, simd_set1(c[i]));
  return simd_exp2_scale(simd_fma(p, f, simd_set1(1)), x);
}

/* Coefficients are minimax in relative error, by Remez' algorithm, and then rounded to fp32. The errors are of the
 * polynomial alone, and of the result over [−126, 0] (tests/unit/test_flash.c measures it). */

/** For fp32: degree 6, 2.0e-9; 1.1 ulp of fp32, 1.5 where multiply-adds are not fused. */
HR_INLINE simd_f32 simd_exp2(simd_f32 x)
{
  static const float c[] = {0x1.62e42cp-1F, 0x1.ebfd58p-3F,  0x1.c68912p-5F,
                            0x1.3d0b92p-7F, 0x1.46d64ep-10F, 0x1.c54174p-13F};
  return simd_exp2_by(c, 6, x);
}

/* 2^(i/8), less i in the lowest of the bits that simd_exp2_weight() adds. */
#define SIMD_EIGHTHS                                                                               \
  {                                                                                                \
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7 \
  }

/** An exponent of 2, x = d · scale + add: scale is positive, add a whole number, and x is −127 where d is `least`. */
typedef struct simd_exponent {
  simd_f32 scale, add, least;
} simd_exponent;

HR_INLINE simd_f32 simd_exponent_of(const simd_exponent *e, simd_f32 d)
{
  return simd_fma(d, e->scale, e->add);
}

/** 2^x for x up to 127, or NaN; 0 below −127, and from −126 on as accurate as simd_exp2(), in about half as many
 *  instructions where none scales. 2^add where d is 0, exactly. Adding shifter rounds x to 1/8 or 1: the sum's lowest
 *  bits are that number, which become the exponent. 2^f takes degree 3 for |f| ≤ 1/16, 2.6e-8, and degree 6 for
 *  |f| ≤ 1/2, 3.0e-9. */
HR_INLINE simd_f32 simd_exp2_weight(const simd_exponent *e, simd_f32 d)
{
#if defined(SIMD_MASK_REGISTERS)
  return simd_exp2(simd_exponent_of(e, d));
#elif defined(SIMD_LOOKUP)
  static const uint32_t eighths[8] = SIMD_EIGHTHS;
  simd_f32 shifter = e->add + 0x1.8p20F, y = simd_max(e->least, d), n = simd_fma(y, e->scale, shifter);
  simd_f32 f = simd_fma(y, e->scale, shifter - n);
  simd_f32 power = (simd_f32)((simd_u32)simd_lookup(simd_load(eighths), (simd_u32)n) + ((simd_u32)n << 20));
  simd_f32 p = simd_fma(simd_set1(0x1.c690cap-5F), f, simd_set1(0x1.ec0c22p-3F));
  return simd_fma(power, simd_fma(p, f, simd_set1(0x1.62e432p-1F)) * f, power);
#else
  simd_f32 shifter = e->add + (0x1.8p23F + 127);
  static const float c[] = {0x1.62e430p-1F, 0x1.ebfbdcp-3F,  0x1.c6af7cp-5F,
                            0x1.3b2de0p-7F, 0x1.5f082ep-10F, 0x1.416b5ep-13F};
  simd_f32 y = simd_max(e->least, d), n = simd_fma(y, e->scale, shifter), p = simd_set1(c[5]);
  simd_f32 f = simd_fma(y, e->scale, shifter - n);
#pragma GCC unroll 6
  for (int i = 4; i >= 0; i--)
    p = simd_fma(p, f, simd_set1(c[i]));
  return simd_fma(p, f, simd_set1(1)) * (simd_f32)((simd_u32)n << 23);
#endif
}

/** For results rounded to bf16: degree 4, 2.9e-6; 0.001 ulp of bf16. */
HR_INLINE simd_f32 simd_exp2_for_bf16(simd_f32 x)
{
  static const float c[] = {0x1.62d6c6p-1F, 0x1.ee2450p-3F, 0x1.abf868p-5F, 0x1.b7f730p-7F};
  return simd_exp2_by(c, 4, x);
}

/** simd_exp2_weight() for results rounded to bf16. */
HR_INLINE simd_f32 simd_exp2_weight_for_bf16(const simd_exponent *e, simd_f32 d)
{
  return simd_exp2_for_bf16(simd_exponent_of(e, d));
}

/* ---- e^x = 2^n e^r, n = round(x / ln 2), |r| ≤ ln(2) / 2 ----
 *
 * r by two fused multiply-adds, so that n ln 2 has no error that counts; e^r ≈ 1 + r p(r), p of degree 4, fitted for
 * the least largest relative error, 9.2e-8. Over all floats in [-87.3, 88.7], where the result is a normal number, the
 * largest relative error is 1.9e-7 (tests/unit/test_scores.c measures it up to 0). Below, results are denormal and then
 * 0; above, infinite. exp(NaN) is NaN, exp(0) is 1. */

/** For x in [-104, 89], or NaN. */
HR_INLINE simd_f32 simd_exp_within(simd_f32 x)
{
  simd_f32 n = simd_round(x * 1.44269504f);
  simd_f32 r = simd_fma(n, simd_set1(-0.693359375f), x); /* 9 bits: n times it is exact */
  r = simd_fma(n, simd_set1(2.12194440e-4f), r);
  simd_f32 p = simd_fma(simd_set1(8.290224852e-3f), r, simd_set1(4.189839228e-2f));
  p = simd_fma(p, r, simd_set1(0.1666764014f));
  p = simd_fma(p, r, simd_set1(0.4999914613f));
  p = simd_fma(p, r, simd_set1(0.9999997054f));
  return simd_ldexp(simd_fma(p, r, simd_set1(1.0f)), n);
}

/* e^-104 is less than half of the smallest denormal, e^89 more than the largest float. */
#define SIMD_EXP_MIN (-104.0f)
#define SIMD_EXP_MAX 89.0f

HR_INLINE simd_f32 simd_exp(simd_f32 x)
{
  return simd_exp_within(simd_min(simd_set1(SIMD_EXP_MAX), simd_max(simd_set1(SIMD_EXP_MIN), x)));
}

/** For x ≤ 0, or NaN. */
HR_INLINE simd_f32 simd_exp_negative(simd_f32 x)
{
  return simd_exp_within(simd_max(simd_set1(SIMD_EXP_MIN), x));
}

/** e^x for results of 16 bits. With AVX-512 by exp2 of degree 5 (polynomial alone: 8.3e-8), in three quarters of the
 *  instructions, as its floor and scale take every number. x log2 e is rounded, so that the relative error is
 *  5e-8 |x|, and 2e-7 at least. */
HR_INLINE simd_f32 simd_exp_for_16_bits(simd_f32 x)
{
#if SIMD_LANES == 16
  static const float c[] = {0.6931513118f, 0.2401644502f, 5.579991311e-2f, 9.017030316e-3f, 1.867130072e-3f};
  return simd_exp2_by(c, 5, x * 1.44269504f);
#else
  return simd_exp(x);
#endif
}

/* ---- tanh ---- */

/** tanh(y): near 0 the odd polynomial y + y³ p(y²), interpolated at Chebyshev's points, relative error 1.7e-8;
 * elsewhere 1 − 2 / (e^2y + 1), which beyond ±16 is ±1 in fp32. NaN propagates as the second operand of min and max. */
HR_INLINE simd_f32 simd_tanh(simd_f32 y)
{
  const float c[] = {-0x1.555552p-2F, 0x1.110e1cp-3F, -0x1.b9258ap-5F, 0x1.58048ep-6F, -0x1.8f8de4p-8F};
  y = simd_max(simd_set1(-16), simd_min(simd_set1(16), y));
  simd_f32 square = y * y, p = simd_set1(c[4]);
  for (int i = 3; i >= 0; i--)
    p = simd_fma(p, square, simd_set1(c[i]));
  simd_f32 e = simd_exp2(y * simd_set1(2.8853900817779268F)); /* 2 / ln 2 */
  simd_f32 far = simd_set1(1) - simd_set1(2) / (e + simd_set1(1));
  return simd_select(simd_less(square, simd_set1(0.625F * 0.625F)), simd_fma(y * square, p, y), far);
}

#endif
