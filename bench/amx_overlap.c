/* SPDX-License-Identifier: Apache-2.0 */
/* Not in tests/kernels/harness: it times instructions.
 *
 * What runs beside AMX tile products: ns for a product and `count` instructions behind it, and for the instructions
 * alone. CSV; needs AMX. While a product is in flight, instructions on 16 floats run at half their rate and those on 8
 * floats at their own, which decides how attention_flash_amx computes its weights (docs/notes/attention-cpu.md).
 *   amx_overlap */
#include "base/error.h"
#include "runtime/cpu/host/host.h"
#include "runtime/cpu/simd/amx_tiles.h"
#include "runtime/device/clock.h"

#include <headroom/experimental/headroom.h>
#include <math.h>
#include <stdio.h>

#if defined(__x86_64__)

#define STEPS 2000 /* of four products */
#define ROUNDS 40  /* interleaved; the best counts */

static char operands[4096] __attribute__((aligned(64))), results[4096] __attribute__((aligned(64)));

/* Eight instructions on registers of their own, so that latency does not count. The compiler does not use registers
 * from 16 on, for this file is not compiled for AVX-512. */
#define EIGHT(before, after)                                                                                    \
  before "16" after "\n" before "17" after "\n" before "18" after "\n" before "19" after "\n" before "20" after \
         "\n" before "21" after "\n" before "22" after "\n" before "23" after "\n"

#define STRING(x) #x
#define TIMES(count, text) ".rept " STRING(count) " / 8\n" text ".endr\n"

/* Four products of independent accumulators, as in a GEMM of 32 × 32, with the instructions behind each. */
#define STEP_LOOP(p0, p1, p2, p3, text) \
  for (int i = 0; i < STEPS; i++)       \
  __asm__ volatile(p0 text p1 text p2 text p3 text : : "r"(operands), "r"(results) : "memory")

#define PRODUCT(sums, a, b) "tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums "\n"

#define CASE(name, count, eight)                                                                            \
  static void name##_##count##_beside(void)                                                                 \
  {                                                                                                         \
    STEP_LOOP(PRODUCT(0, 4, 6), PRODUCT(1, 4, 7), PRODUCT(2, 5, 6), PRODUCT(3, 5, 7), TIMES(count, eight)); \
  }                                                                                                         \
  static void name##_##count##_alone(void)                                                                  \
  {                                                                                                         \
    STEP_LOOP("", "", "", "", TIMES(count, eight));                                                         \
  }

#define COUNTS(ROW, name, text, eight) \
  ROW(name, 8, text, eight)            \
  ROW(name, 16, text, eight)           \
  ROW(name, 24, text, eight)           \
  ROW(name, 32, text, eight)           \
  ROW(name, 48, text, eight)           \
  ROW(name, 64, text, eight)

#define CASES(ROW)                                                                                 \
  COUNTS(ROW, fma16, "FMA of 16 floats", EIGHT("vfmadd231ps %%zmm30, %%zmm31, %%zmm", ""))         \
  COUNTS(ROW, fma8, "FMA of 8 floats", EIGHT("vfmadd231ps %%ymm30, %%ymm31, %%ymm", ""))           \
  COUNTS(ROW, scale16, "vscalefps of 16 floats", EIGHT("vscalefps %%zmm30, %%zmm31, %%zmm", ""))   \
  COUNTS(ROW, scale8, "vscalefps of 8 floats", EIGHT("vscalefps %%ymm30, %%ymm31, %%ymm", ""))     \
  COUNTS(ROW, permute16, "permutation of 16 floats", EIGHT("vpermps %%zmm30, %%zmm31, %%zmm", "")) \
  COUNTS(ROW, permute8, "permutation of 8 floats", EIGHT("vpermps %%ymm30, %%ymm31, %%ymm", ""))   \
  COUNTS(ROW, load16, "load of 16 floats", EIGHT("vmovups (%0), %%zmm", ""))                       \
  COUNTS(ROW, store16, "store of 16 floats", EIGHT("vmovups %%zmm", ", (%1)"))                     \
  COUNTS(ROW, store8, "store of 8 floats", EIGHT("vmovups %%ymm", ", (%1)"))

#define DEFINE(name, count, text, eight) CASE(name, count, eight)
CASES(DEFINE)

typedef struct overlap_case {
  const char *instruction;
  int count;
  void (*beside)(void), (*alone)(void);
} overlap_case;

static void products_alone(void)
{
  STEP_LOOP(PRODUCT(0, 4, 6), PRODUCT(1, 4, 7), PRODUCT(2, 5, 6), PRODUCT(3, 5, 7), "");
}

static void nothing(void)
{
}

#define ROW(name, count, text, eight) {text, count, name##_##count##_beside, name##_##count##_alone},
static const overlap_case cases[] = {{"", 0, products_alone, nothing}, CASES(ROW)};
#define CASE_COUNT (sizeof cases / sizeof *cases)

static void begin_tiles(void)
{
  tile_palette palette = {.palette = 1};
  for (int tile = 0; tile < 8; tile++) {
    palette.row_bytes[tile] = 64;
    palette.rows[tile] = 16;
  }
  tile_configure(&palette);
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
  tile_load(4, operands, 64);
  tile_load(5, operands + 1024, 64);
  tile_load(6, operands + 2048, 64);
  tile_load(7, operands + 3072, 64);
  /* operands of the vectors: 0 in all */
  __asm__ volatile("vpxord %%zmm30, %%zmm30, %%zmm30\nvpxord %%zmm31, %%zmm31, %%zmm31\n" : :);
}

static double best_of(double best, void (*run)(void))
{
  double start = hr_clock_ns();
  run();
  return fmin(best, (hr_clock_ns() - start) / (4.0 * STEPS));
}

int main(void)
{
  static double beside[CASE_COUNT], alone[CASE_COUNT];
  hr_device *device;
  hr_error error;
  if (hr_device_open("cpu", 1, &device, &error) != HR_OK) {
    fprintf(stderr, "amx_overlap: %s\n", error.message);
    return 1;
  }
  if (!hr_isa_has(&hr_cpu_of(device)->isa, "amx_bf16")) {
    fprintf(stderr, "amx_overlap: this processor lacks amx_bf16\n");
    hr_device_close(device);
    return 1;
  }
  for (size_t i = 0; i < sizeof operands; i += 2) { /* bf16 near 1, of both signs */
    operands[i] = (char)(i * 37 % 101);
    operands[i + 1] = (char)(i % 4 == 0 ? 0x3f : -0x41);
  }
  begin_tiles();
  for (size_t i = 0; i < CASE_COUNT; i++)
    beside[i] = alone[i] = INFINITY;
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < CASE_COUNT; i++) {
      beside[i] = best_of(beside[i], cases[i].beside);
      alone[i] = best_of(alone[i], cases[i].alone);
    }
  printf("instruction,count,beside_product_ns,alone_ns\n");
  for (size_t i = 0; i < CASE_COUNT; i++)
    printf("%s,%d,%.3f,%.3f\n", cases[i].instruction, cases[i].count, beside[i], alone[i]);
  tile_release();
  hr_device_close(device);
  return 0;
}

#else

int main(void)
{
  fprintf(stderr, "amx_overlap: for x86-64\n");
  return 1;
}

#endif
