/* What an instruction reaches at most, in the vectors of vector.h; included once for each width, with LOOP(name) as
 * what something is called there.
 *
 * Sums of products stretch a value and shrink it again, x = t x + c and x = (x − c) / t by turns, in as many registers
 * as there are: independent of each other, and neither settling nor growing, so that bits keep changing as they do in a
 * model's products.
 *
 * Exponentials are 2^x as an attention kernel needs it: n = round(x), a polynomial of degree 5 in x − n on [-1/2, 1/2],
 * scaled by 2^n; relative error below 2.4e-7 (tests/unit/test_cpu_ceilings.c). Each takes the last one's negative
 * result, so that 2^-x runs on in (0, 1]. */
#include "runtime/cpu/ceilings/loops.h"
#include "runtime/cpu/simd/vector.h"

#define SUMS LOOP(loop_sums)
#define CHAINS LOOP(loop_chains)
_Static_assert(HR_LANES == LOOP(loop_lanes), "compiled for another width than the name says");

#define STRETCH 1.37f
#define ADDED 0.61f
#define SHRINK (1 / STRETCH)
#define TAKEN (-ADDED / STRETCH)

/* Values of (0, 1) to begin with, different in each place. */
static void begin(float *values, int count)
{
  for (int i = 0; i < count; i++)
    values[i] = (float)((i * 37 + 11) % 101) / 101.0f;
}

float LOOP(products)(int64_t steps)
{
  hr_floats x[SUMS];
  const hr_floats stretch = hr_all(STRETCH), added = hr_all(ADDED), shrink = hr_all(SHRINK), taken = hr_all(TAKEN);
  float values[HR_LANES * SUMS];
  begin(values, HR_LANES * SUMS);
#pragma GCC unroll 24
  for (int i = 0; i < SUMS; i++)
    memcpy(&x[i], values + HR_LANES * i, sizeof *x);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
      x[i] = hr_fma(x[i], stretch, added);
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
      x[i] = hr_fma(x[i], shrink, taken);
  }
#pragma GCC unroll 24
  for (int i = 0; i < SUMS; i++)
    memcpy(values + HR_LANES * i, &x[i], sizeof *x);
  return hr_loop_sum(values, HR_LANES * SUMS);
}

/* y 2^n for y in [1/2, 2] and n, rounded by hr_round(), in [-125, 0]: hr_scale() goes further than is needed here, and
 * takes longer where there is no instruction for it. */
HR_INLINE hr_floats scale(hr_floats y, hr_floats n)
{
#if HR_LANES == 16
  return hr_scale(y, n);
#else
  const float magic = 12582912.0f; /* 1.5 · 2^23: the low bits of the sum are n */
  return (hr_floats)((hr_words)y + ((hr_words)(n + magic) << 23));
#endif
}

/* The polynomial for 2^f on [-1/2, 1/2] of degree 5 with the least relative error (Remez), 7.5e-8 before its
 * coefficients are rounded. */
HR_INLINE hr_floats exp2_of(hr_floats x)
{
  hr_floats n = hr_round(x), f = x - n;
  hr_floats p = hr_fma(hr_all(0.00132764725f), f, hr_all(0.00967554096f));
  p = hr_fma(p, f, hr_all(0.0555071309f));
  p = hr_fma(p, f, hr_all(0.240221202f));
  p = hr_fma(p, f, hr_all(0.693146944f));
  p = hr_fma(p, f, hr_all(1.0f));
  return scale(p, n);
}

float LOOP(exponentials)(int64_t steps)
{
  hr_floats x[CHAINS];
  float values[HR_LANES * CHAINS];
  begin(values, HR_LANES * CHAINS);
#pragma GCC unroll 24
  for (int i = 0; i < CHAINS; i++)
    memcpy(&x[i], values + HR_LANES * i, sizeof *x);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++)
      x[i] = exp2_of(-x[i]);
  }
#pragma GCC unroll 24
  for (int i = 0; i < CHAINS; i++)
    memcpy(values + HR_LANES * i, &x[i], sizeof *x);
  return hr_loop_sum(values, HR_LANES * CHAINS);
}

#define READS (64 / (4 * HR_LANES)) /* vectors in 64 bytes */

uint64_t LOOP(read)(const void *from, size_t bytes)
{
  const char *at = from;
  hr_words mixed[READS] = {{0}};
  for (size_t i = 0; i < bytes; i += 64) {
#pragma GCC unroll 4
    for (size_t k = 0; k < READS; k++) {
      hr_words words;
      memcpy(&words, at + i + k * sizeof words, sizeof words);
      mixed[k] ^= words;
    }
  }
  for (size_t k = 1; k < READS; k++)
    mixed[0] ^= mixed[k];
  uint32_t all = 0;
  for (int i = 0; i < HR_LANES; i++)
    all ^= mixed[0][i];
  return all;
}
