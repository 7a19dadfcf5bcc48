/* SPDX-License-Identifier: Apache-2.0 */
/* Template: the rate that one instruction, or 2^x, reaches with all operands in registers. Included once for each
 * instruction set, with LOOP(name) as the set's name for `name`.
 *
 * FMAs: x = t x + c and x = (x − c) / t alternate, in as many registers as there are. The chains are independent and
 * neither settle nor grow, so that bits keep changing as they do in a model's GEMMs.
 *
 * Exponentials: simd_exp2(), which flash attention in fp32 weighs its scores by. Each takes the last one's negative
 * result, so that 2^-x stays in (0, 1]. */
#include "runtime/cpu/ceilings/loops.h"
#include "runtime/cpu/simd/exp.h"

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
      x[i] = simd_exp2(-x[i]);
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
