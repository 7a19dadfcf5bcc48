/* What an instruction reaches at most, in the vectors of simd.h; included once for each width, with LOOP(name) as
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
#include "runtime/cpu/simd/simd.h"

#define SUMS LOOP(loop_sums)
#define CHAINS LOOP(loop_chains)
_Static_assert(SIMD_LANES == LOOP(loop_lanes), "compiled for another width than the name says");

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
  simd_f32 x[SUMS];
  const simd_f32 stretch = simd_set1(STRETCH), added = simd_set1(ADDED), shrink = simd_set1(SHRINK),
                 taken = simd_set1(TAKEN);
  float values[SIMD_LANES * SUMS];
  begin(values, SIMD_LANES * SUMS);
#pragma GCC unroll 24
  for (int i = 0; i < SUMS; i++)
    memcpy(&x[i], values + SIMD_LANES * i, sizeof *x);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
      x[i] = simd_fma(x[i], stretch, added);
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
      x[i] = simd_fma(x[i], shrink, taken);
  }
#pragma GCC unroll 24
  for (int i = 0; i < SUMS; i++)
    memcpy(values + SIMD_LANES * i, &x[i], sizeof *x);
  return hr_loop_sum(values, SIMD_LANES * SUMS);
}

/* y 2^n for y in [1/2, 2] and n, rounded by simd_round(), in [-125, 0]: simd_ldexp() goes further than is needed here, and
 * takes longer where there is no instruction for it. */
HR_INLINE simd_f32 scale(simd_f32 y, simd_f32 n)
{
#if SIMD_LANES == 16
  return simd_ldexp(y, n);
#else
  const float magic = 12582912.0f; /* 1.5 · 2^23: the low bits of the sum are n */
  return (simd_f32)((simd_u32)y + ((simd_u32)(n + magic) << 23));
#endif
}

/* The polynomial for 2^f on [-1/2, 1/2] of degree 5 with the least relative error (Remez), 7.5e-8 before its
 * coefficients are rounded. */
HR_INLINE simd_f32 exp2_of(simd_f32 x)
{
  simd_f32 n = simd_round(x), f = x - n;
  simd_f32 p = simd_fma(simd_set1(0.00132764725f), f, simd_set1(0.00967554096f));
  p = simd_fma(p, f, simd_set1(0.0555071309f));
  p = simd_fma(p, f, simd_set1(0.240221202f));
  p = simd_fma(p, f, simd_set1(0.693146944f));
  p = simd_fma(p, f, simd_set1(1.0f));
  return scale(p, n);
}

float LOOP(exponentials)(int64_t steps)
{
  simd_f32 x[CHAINS];
  float values[SIMD_LANES * CHAINS];
  begin(values, SIMD_LANES * CHAINS);
#pragma GCC unroll 24
  for (int i = 0; i < CHAINS; i++)
    memcpy(&x[i], values + SIMD_LANES * i, sizeof *x);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++)
      x[i] = exp2_of(-x[i]);
  }
#pragma GCC unroll 24
  for (int i = 0; i < CHAINS; i++)
    memcpy(values + SIMD_LANES * i, &x[i], sizeof *x);
  return hr_loop_sum(values, SIMD_LANES * CHAINS);
}

#define READS (64 / (4 * SIMD_LANES)) /* vectors in 64 bytes */

uint64_t LOOP(read)(const void *from, size_t bytes)
{
  const char *at = from;
  simd_u32 mixed[READS] = {{0}};
  for (size_t i = 0; i < bytes; i += 64) {
#pragma GCC unroll 4
    for (size_t k = 0; k < READS; k++) {
      simd_u32 words;
      memcpy(&words, at + i + k * sizeof words, sizeof words);
      mixed[k] ^= words;
    }
  }
  for (size_t k = 1; k < READS; k++)
    mixed[0] ^= mixed[k];
  uint32_t all = 0;
  for (int i = 0; i < SIMD_LANES; i++)
    all ^= mixed[0][i];
  return all;
}
