/* exp() of a vector, for arithmetic in fp32.
 *
 * e^x = 2^n e^r with n = round(x / ln 2) and |r| ≤ ln(2) / 2, r by two steps of a fused multiply and add so that the
 * product n ln 2 has no error that counts; e^r ≈ 1 + r p(r), p of degree 4, fitted for the least largest relative
 * error, 9.2e-8. Over all floats in [-87.3, 88.7], where the result is a normal number, the largest error is 1.9e-7,
 * relative (tests/unit/test_scores.c measures it up to 0). Below, results are denormal and then 0; above, infinite.
 * exp(NaN) is NaN, exp(0) is 1. */
#ifndef HR_RUNTIME_CPU_SIMD_EXP_H
#define HR_RUNTIME_CPU_SIMD_EXP_H

#include "runtime/cpu/simd/vector.h"

/* For x in [-104, 89], or NaN. */
HR_INLINE hr_floats hr_exp_within(hr_floats x)
{
  hr_floats n = hr_round(x * 1.44269504f);
  hr_floats r = hr_fma(n, hr_all(-0.693359375f), x); /* 9 bits: n times it is exact */
  r = hr_fma(n, hr_all(2.12194440e-4f), r);
  hr_floats p = hr_fma(hr_all(8.290224852e-3f), r, hr_all(4.189839228e-2f));
  p = hr_fma(p, r, hr_all(0.1666764014f));
  p = hr_fma(p, r, hr_all(0.4999914613f));
  p = hr_fma(p, r, hr_all(0.9999997054f));
  return hr_scale(hr_fma(p, r, hr_all(1.0f)), n);
}

/* e^-104 is less than half of the smallest denormal, e^89 more than the largest float. */
#define HR_EXP_LEAST (-104.0f)
#define HR_EXP_MOST 89.0f

HR_INLINE hr_floats hr_exp(hr_floats x)
{
  return hr_exp_within(hr_smaller(hr_all(HR_EXP_MOST), hr_larger(hr_all(HR_EXP_LEAST), x)));
}

/* For x ≤ 0, or NaN. */
HR_INLINE hr_floats hr_exp_negative(hr_floats x)
{
  return hr_exp_within(hr_larger(hr_all(HR_EXP_LEAST), x));
}

/* For results of 16 bits, of any x: with AVX-512 in three quarters of the instructions, as its floor and scale take
 * every number. x log2 e is rounded, so that the relative error is 5e-8 |x|, and 2e-7 at least. 2^f ≈ 1 + f p(f) on
 * [0, 1], fitted for the least largest relative error, 8.3e-8. */
HR_INLINE hr_floats hr_exp_coarse(hr_floats x)
{
#if HR_LANES == 16
  hr_floats t = x * 1.44269504f, f = hr_fraction(t);
  hr_floats p = hr_fma(hr_all(1.867130072e-3f), f, hr_all(9.017030316e-3f));
  p = hr_fma(p, f, hr_all(5.579991311e-2f));
  p = hr_fma(p, f, hr_all(0.2401644502f));
  p = hr_fma(p, f, hr_all(0.6931513118f));
  return hr_scale(hr_fma(p, f, hr_all(1.0f)), t);
#else
  return hr_exp(x);
#endif
}

#endif
