/* SPDX-License-Identifier: Apache-2.0 */
/* AMX: eight tiles of up to 16 rows of 64 bytes, and their instructions. Source: Intel's Software Developer's Manual,
 * volume 2, TDPBF16PS and so on. In assembly, because compilers do not see that a tile is read from memory that they
 * have just written. A test defines HR_TILES_EMULATED and gives functions of these names instead. */
#ifndef HR_RUNTIME_CPU_SIMD_AMX_TILES_H
#define HR_RUNTIME_CPU_SIMD_AMX_TILES_H

#include <stdint.h>

/** A tile configuration: rows, and bytes of a row, of each tile. */
typedef struct tile_palette {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_palette;

#ifndef HR_TILES_EMULATED

static inline void tile_configure(const tile_palette *palette)
{
  __asm__ volatile("ldtilecfg %0" : : "m"(*palette));
}

static inline void tile_release(void)
{
  __asm__ volatile("tilerelease");
}

/** Tile numbers are literals. Strides are in bytes. */
#define tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define tile_load(tile, from, stride)                                  \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                  \
                   :                                                   \
                   : "r"((const void *)(from)), "r"((int64_t)(stride)) \
                   : "memor"                                           \
                     "y")
/** The same with a non-temporal hint: the lines are not kept in L1. */
#define tile_load_once(tile, from, stride)                             \
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile                \
                   :                                                   \
                   : "r"((const void *)(from)), "r"((int64_t)(stride)) \
                   : "memory")
#define tile_store(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"((void *)(to)), "r"((int64_t)(stride)) : "memory")
/** sums += a · b: rows of pairs of bf16 by columns of pairs, fp32 accumulators. */
#define tile_dpbf16ps(sums, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : :)

#endif
#endif
