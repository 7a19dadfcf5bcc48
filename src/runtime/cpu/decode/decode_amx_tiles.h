/* SPDX-License-Identifier: Apache-2.0 */
/* A part of decode_amx.c: tiles of K and V as they are in memory, or copied, and their rows in O. */
#ifndef HR_RUNTIME_CPU_DECODE_DECODE_AMX_TILES_H
#define HR_RUNTIME_CPU_DECODE_DECODE_AMX_TILES_H

#include "runtime/cpu/decode/decode_prefetch.h"
#include "runtime/cpu/simd/amx_tiles.h"
#include "runtime/cpu/simd/avx512_bf16.h"

#include <string.h>

#define TILE HR_SPLIT_TILE
#define TILE_FLOATS (TILE * TILE)
#define TILE_BYTES 1024
#define GROUP 32     /* elements of a product of K and Q, keys of a product of P and V */
#define ROW_BYTES 64 /* of a tile */

/* Configures tiles: 0 to 5 have `rows` rows, the others 16. */
static void configure(int rows)
{
  tile_palette palette = {.palette = 1};
  for (int tile = 0; tile < 8; tile++) {
    palette.row_bytes[tile] = ROW_BYTES;
    palette.rows[tile] = (uint8_t)(tile <= 5 ? rows : TILE);
  }
  tile_configure(&palette);
}

typedef struct key_tiles {
  const char *at[HR_SPLIT_BLOCK_MAX / TILE];
  int64_t pitch[HR_SPLIT_BLOCK_MAX / TILE];
  int count;
} key_tiles;

/* A copy of 16 rows, zeros behind their elements and behind the last row. */
static void copy_keys(const hr_split_step *step, int first, int64_t pitch, char *to)
{
  size_t bytes = (size_t)step->from.bytes;
  memset(to, 0, (size_t)(TILE * pitch));
  for (int key = first; key < step->from.keys && key < first + TILE; key++, to += pitch)
    memcpy(to, step->from.at[key] + step->from.offset, bytes);
}

/* Finds the tiles of K or V. */
static key_tiles find_tiles(const hr_split_step *step)
{
  const hr_split_rows *from = &step->from;
  key_tiles tiles = {.count = (int)hr_ceil_div(from->keys, TILE)};
  int64_t padded = 2 * hr_round_up(step->dim, GROUP);
  char *copy = (char *)step->scratch;
  for (int i = 0; i < tiles.count; i++) {
    tiles.at[i] = from->at[i * TILE] + from->offset, tiles.pitch[i] = from->pitch[i];
    if (from->pitch[i] != 0 && from->bytes == padded)
      continue;
    copy_keys(step, i * TILE, padded, copy);
    tiles.at[i] = copy, tiles.pitch[i] = padded;
    copy += TILE * padded;
  }
  return tiles;
}

/* `pitch` and `group_pitch`: floats of O from row to row, and from 32 columns to the next. */
static void rescale(const hr_split_step *step, int64_t pitch, int64_t group_pitch)
{
  for (int64_t row = 0; row < step->rows; row++)
    for (int64_t group = 0; group < hr_ceil_div(step->dim, GROUP) && step->factor[row] != 1; group++) {
      float *o = step->o + row * pitch + group * group_pitch;
      simd_store(o, simd_load(o) * simd_set1(step->factor[row]));
      simd_store(o + TILE, simd_load(o + TILE) * simd_set1(step->factor[row]));
    }
}

#endif
