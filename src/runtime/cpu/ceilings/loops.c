/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ceiling loops, and the loops over bf16 instructions. The fp32 loops are in loops_body.h. */
#include "runtime/cpu/ceilings/loops.h"

#include <string.h>

#if defined(__x86_64__)

#include "runtime/cpu/simd/amx_tiles.h"

#include <immintrin.h>

/* ---- AVX-512 BF16: pairs of bf16 into fp32 ---- */

#define SUMS_BF16 24

/* bf16 values of both signs, so that accumulators stay near 0. */
static void begin_bf16(uint16_t *values, int count)
{
  for (int i = 0; i < count; i++) {
    float value = (float)((i * 37 + 11) % 101 - 50) / 50.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    values[i] = (uint16_t)(bits >> 16);
  }
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) static float products_bf16(int64_t steps)
{
  __m512 sums[SUMS_BF16];
  uint16_t values[4 * 32];
  __m512bh a[2], b[2];
  begin_bf16(values, 4 * 32);
  memcpy(a, values, sizeof a);
  memcpy(b, values + 2 * 32, sizeof b);
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_BF16; i++) /* all different, or the compiler would merge some */
    sums[i] = _mm512_set1_ps((float)i);
  for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 24
    for (int i = 0; i < SUMS_BF16; i++)
      sums[i] = _mm512_dpbf16_ps(sums[i], a[i % 2], b[i / 2 % 2]);
  }
  __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 24
  for (int i = 0; i < SUMS_BF16; i++)
    all = _mm512_add_ps(all, sums[i]);
  float result[16];
  _mm512_storeu_ps(result, all);
  return hr_loop_sum(result, 16);
}

/* ---- AMX: tiles of 16 rows of 64 bytes ---- */

/* Accumulators in tiles 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7, as in a GEMM of 32 × 32. Four chains,
 * because a tile product has a throughput of 16 cycles and a latency of 52. Accumulators restart at 0 every 64
 * steps. */
static float products_amx(int64_t steps)
{
  tile_palette palette = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    palette.row_bytes[i] = 64;
    palette.rows[i] = 16;
  }
  uint16_t values[2 * 16 * 32];
  float sums[4 * 16 * 16];
  begin_bf16(values, 2 * 16 * 32);
  tile_configure(&palette);
  tile_load(4, values, 64);
  tile_load(5, values + 16 * 32, 64);
  tile_load(6, values + 16 * 32, 64);
  tile_load(7, values, 64);
  for (int64_t step = 0; step < steps; step++) {
    if (step % 64 == 0) {
      tile_zero(0);
      tile_zero(1);
      tile_zero(2);
      tile_zero(3);
    }
    tile_dpbf16ps(0, 4, 6);
    tile_dpbf16ps(1, 4, 7);
    tile_dpbf16ps(2, 5, 6);
    tile_dpbf16ps(3, 5, 7);
  }
  tile_store(0, sums, 64);
  tile_store(1, sums + 1 * 16 * 16, 64);
  tile_store(2, sums + 2 * 16 * 16, 64);
  tile_store(3, sums + 3 * 16 * 16, 64);
  tile_release();
  return hr_loop_sum(sums, 4 * 16 * 16);
}

#endif

/* The rows of a width of loops.h. */
#define PRODUCTS(width, needs, name)                                                                                   \
  {                                                                                                                    \
    HR_CEILING_GEMM, HR_FP32, needs, name, hr_products_##width, 2 * 2.0 * hr_loop_lanes_##width *hr_loop_sums_##width, \
        NULL                                                                                                           \
  }
#define EXPONENTIALS(width, needs, name)                                                                               \
  {                                                                                                                    \
    HR_CEILING_EXP, HR_FP32, needs, name, hr_exponentials_##width, hr_loop_lanes_##width *hr_loop_chains_##width, NULL \
  }
#define READS(width, needs, name)                                   \
  {                                                                 \
    HR_CEILING_READ, HR_FP32, needs, name, NULL, 0, hr_read_##width \
  }

static const hr_cpu_loop loops[] = {
    PRODUCTS(portable, NULL, "mul, add of 4 floats"),
#if defined(__x86_64__)
    PRODUCTS(avx2, "avx2", "vfmadd213ps ymm"),
    PRODUCTS(avx512, "avx512", "vfmadd213ps zmm"),
    {HR_CEILING_GEMM, HR_BF16, "avx512_bf16", "vdpbf16ps zmm", products_bf16, 2 * 2.0 * 16 * SUMS_BF16, NULL},
    {HR_CEILING_GEMM, HR_BF16, "amx_bf16", "tdpbf16ps", products_amx, 4 * 2.0 * 16 * 16 * 32, NULL},
#elif defined(__aarch64__)
    PRODUCTS(neon, "neon", "fmla 4s"),
#endif
    EXPONENTIALS(portable, NULL, "degree 6, 4 floats"),
#if defined(__x86_64__)
    EXPONENTIALS(avx2, "avx2", "degree 6, ymm"),
    EXPONENTIALS(avx512, "avx512", "degree 6, zmm"),
#elif defined(__aarch64__)
    EXPONENTIALS(neon, "neon", "degree 6, 4s"),
#endif
    READS(portable, NULL, "16 byte loads"),
#if defined(__x86_64__)
    READS(avx2, "avx2", "32 byte loads"),
    READS(avx512, "avx512", "64 byte loads"),
#elif defined(__aarch64__)
    READS(neon, "neon", "16 byte loads"),
#endif
};

const hr_cpu_loop *hr_cpu_loops(size_t *count)
{
  *count = sizeof loops / sizeof *loops;
  return loops;
}
