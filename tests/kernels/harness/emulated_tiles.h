/* SPDX-License-Identifier: Apache-2.0 */
/* AMX's tile instructions in plain C: a source that uses amx_tiles.h is included behind this. */
#ifndef HR_TEST_EMULATED_TILES_H
#define HR_TEST_EMULATED_TILES_H

#include <string.h>

#define HR_TILES_EMULATED
#include "runtime/cpu/simd/amx_tiles.h"

static _Thread_local struct {
  tile_palette palette;
  uint32_t words[8][16][16];
} unit;

static void tile_configure(const tile_palette *palette)
{
  unit.palette = *palette;
  memset(unit.words, 0, sizeof unit.words);
}

static void tile_release(void)
{
  memset(&unit, 0, sizeof unit);
}

static void tile_zero(int tile)
{
  memset(unit.words[tile], 0, sizeof unit.words[tile]);
}

static void tile_load(int tile, const void *from, int64_t stride)
{
  tile_zero(tile);
  for (int row = 0; row < unit.palette.rows[tile]; row++)
    memcpy(unit.words[tile][row], (const char *)from + row * stride, unit.palette.row_bytes[tile]);
}

#define tile_load_once tile_load

static void tile_store(int tile, void *to, int64_t stride)
{
  for (int row = 0; row < unit.palette.rows[tile]; row++)
    memcpy((char *)to + row * stride, unit.words[tile][row], unit.palette.row_bytes[tile]);
}

static float as_float(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Intel's manual, TDPBF16PS: pair by pair, the first elements before the second ones. Accumulator rows beyond the tile
 * become 0. */
static void tile_dpbf16ps(int sums, int a, int b)
{
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 16; column++) {
      float sum = as_float(unit.words[sums][row][column]);
      for (int pair = 0; pair < 16 && row < unit.palette.rows[sums]; pair++) {
        uint32_t left = unit.words[a][row][pair], right = unit.words[b][pair][column];
        sum += as_float(left << 16) * as_float(right << 16);
        sum += as_float(left & 0xffff0000u) * as_float(right & 0xffff0000u);
      }
      if (row >= unit.palette.rows[sums])
        sum = 0;
      memcpy(&unit.words[sums][row][column], &sum, sizeof sum);
    }
}

#endif
