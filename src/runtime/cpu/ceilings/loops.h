/* SPDX-License-Identifier: Apache-2.0 */
/* Ceiling loops: one instruction, or 2^x, with all operands in registers or tiles; memory reads. One version for each
 * instruction set. */
#ifndef HR_RUNTIME_CPU_CEILINGS_LOOPS_H
#define HR_RUNTIME_CPU_CEILINGS_LOOPS_H

#include <headroom/hardware.h>
#include <stddef.h>
#include <stdint.h>

/** Reads `bytes`, a multiple of 64, from a 64-byte aligned address; the result depends on every byte. */
typedef uint64_t (*hr_read_loop)(const void *from, size_t bytes);

/** One version. `needs` is a word of hr_isa_has(), NULL for plain C. */
typedef struct hr_cpu_loop {
  hr_ceiling_kind kind;
  hr_dtype dtype;
  const char *needs, *instruction;
  float (*run)(int64_t steps); /* the result depends on every step; NULL for reads */
  double count;                /* operations in a step: FLOPs, exponentials */
  hr_read_loop read;
} hr_cpu_loop;

/** The fp32 loops of each instruction set: lanes, then the independent chains of FMAs and of exponentials. Of 16
 *  registers, 32 with AVX-512 and NEON, four hold the FMAs' constants. The processor must have the instruction set. */
#define HR_LOOP_WIDTHS(ROW) ROW(portable, 4, 11, 4) ROW(neon, 4, 24, 12) ROW(avx2, 8, 12, 6) ROW(avx512, 16, 24, 12)

#define HR_LOOP_WIDTH(width, lanes, sums, chains)                                                       \
  enum { hr_loop_lanes_##width = lanes, hr_loop_sums_##width = sums, hr_loop_chains_##width = chains }; \
  float hr_products_##width(int64_t steps);                                                             \
  float hr_exponentials_##width(int64_t steps);                                                         \
  uint64_t hr_read_##width(const void *from, size_t bytes);
HR_LOOP_WIDTHS(HR_LOOP_WIDTH)
#undef HR_LOOP_WIDTH

/** Makes a loop's result depend on all of its values. */
static inline float hr_loop_sum(const float *values, int count)
{
  float sum = 0;
  for (int i = 0; i < count; i++)
    sum += values[i];
  return sum;
}

/** Within a kind and format the best instruction set is last. Static storage. */
const hr_cpu_loop *hr_cpu_loops(size_t *count);

#endif
