/* SPDX-License-Identifier: Apache-2.0 */
/* A part of decode_amx.c: O += P V with V as it is in memory. */
#ifndef HR_RUNTIME_CPU_DECODE_DECODE_AMX_DIRECT_H
#define HR_RUNTIME_CPU_DECODE_DECODE_AMX_DIRECT_H

#include "runtime/cpu/decode/decode_amx_tiles.h"

typedef struct direct_call {
  const key_tiles *v;
  const char *p;
  int64_t p_pitch; /* bytes, from row to row; half of it to the weights in upper halves */
  float *o;
  int64_t o_pitch; /* bytes */
  prefetcher *ahead, *later;
} direct_call;

/* `groups` times 32 columns. */
HR_INLINE void add_direct_columns(int groups, const direct_call *c, int64_t at)
{
  float *o = c->o + at;
  tile_load(0, o, c->o_pitch);
  tile_load(1, o + TILE, c->o_pitch);
  if (groups > 1) {
    tile_load(2, o + 2 * TILE, c->o_pitch);
    tile_load(3, o + 3 * TILE, c->o_pitch);
  }
#pragma GCC unroll 1
  for (int i = 0; i < c->v->count; i++) {
    const char *p = c->p + (int64_t)i * ROW_BYTES, *v = c->v->at[i] + 2 * at;
    tile_load(4, p, c->p_pitch);
    tile_load_once(6, v, c->v->pitch[i]);
    tile_dpbf16ps(0, 4, 6);
    tile_load(5, p + c->p_pitch / 2, c->p_pitch);
    tile_dpbf16ps(1, 5, 6);
    prefetch(c->ahead, 1);
    prefetch(c->later, 1);
    if (groups > 1) {
      tile_load_once(7, v + ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(2, 4, 7);
      tile_dpbf16ps(3, 5, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
  }
  tile_store(0, o, c->o_pitch);
  tile_store(1, o + TILE, c->o_pitch);
  if (groups > 1) {
    tile_store(2, o + 2 * TILE, c->o_pitch);
    tile_store(3, o + 3 * TILE, c->o_pitch);
  }
}

/* One tile holds both kinds of weights of up to 8 query rows, and both even and odd columns: while steps are direct,
 * O is [32 columns][row][even, odd columns]. `groups` times 32 columns. */
HR_INLINE void add_paired_columns(int groups, const direct_call *c, int64_t at)
{
  const int64_t tile = c->o_pitch / (int64_t)sizeof(float);
  float *o = c->o + at / GROUP * tile;
  tile_load(0, o, ROW_BYTES);
  if (groups > 1)
    tile_load(1, o + tile, ROW_BYTES);
  if (groups > 2)
    tile_load(2, o + 2 * tile, ROW_BYTES);
  if (groups > 3)
    tile_load(3, o + 3 * tile, ROW_BYTES);
#pragma GCC unroll 1
  for (int i = 0; i < c->v->count; i++) {
    const char *v = c->v->at[i] + 2 * at;
    tile_load(4, c->p + (int64_t)i * ROW_BYTES, c->p_pitch / 2);
    tile_load_once(6, v, c->v->pitch[i]);
    tile_dpbf16ps(0, 4, 6);
    prefetch(c->ahead, 1);
    prefetch(c->later, 1);
    if (groups > 1) {
      tile_load_once(7, v + ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(1, 4, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
    if (groups > 2) {
      tile_load_once(6, v + 2 * ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(2, 4, 6);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
    if (groups > 3) {
      tile_load_once(7, v + 3 * ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(3, 4, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
  }
  tile_store(0, o, ROW_BYTES);
  if (groups > 1)
    tile_store(1, o + tile, ROW_BYTES);
  if (groups > 2)
    tile_store(2, o + 2 * tile, ROW_BYTES);
  if (groups > 3)
    tile_store(3, o + 3 * tile, ROW_BYTES);
}

static bool is_paired(const hr_split_step *step)
{
  return step->rows <= TILE / 2;
}

static void add_paired(const hr_split_step *step, direct_call c)
{
  int64_t padded = hr_round_up(step->dim, GROUP), tile = step->rows * GROUP;
  c.o_pitch = tile * (int64_t)sizeof(float);
  rescale(step, GROUP, tile);
  if (step->rows < TILE / 2)
    configure(2 * (int)step->rows);
  for (int64_t at = 0; at < padded; at += 4 * (int64_t)GROUP)
    switch ((padded - at) / GROUP) {
    case 1: add_paired_columns(1, &c, at); break;
    case 2: add_paired_columns(2, &c, at); break;
    case 3: add_paired_columns(3, &c, at); break;
    default: add_paired_columns(4, &c, at); break;
    }
  if (step->rows < TILE / 2)
    configure(TILE);
}

/* Turns O into rows, by way of scratch memory. */
static void end_direct(const hr_split_step *step)
{
  int64_t pitch = hr_round_up(step->dim, HR_SPLIT_PAD);
  if (!is_paired(step))
    return;
  memcpy(step->scratch, step->o, (size_t)(step->rows * pitch) * sizeof(float));
  for (int64_t row = 0; row < step->rows; row++)
    for (int64_t group = 0; group < pitch / GROUP; group++)
      memcpy(step->o + row * pitch + group * GROUP, step->scratch + (group * step->rows + row) * GROUP,
             GROUP * sizeof(float));
}

static void add_direct(const hr_split_step *step)
{
  key_tiles tiles = find_tiles(step);
  int64_t padded = hr_round_up(step->dim, GROUP), ticks = tiles.count * (padded / GROUP), at = 0;
  prefetcher ahead = prefetch_during(&step->ahead, ticks), later = prefetch_during(&step->later, ticks);
  direct_call c = {.v = &tiles,
                   .p = step->p,
                   .p_pitch = step->p_pitch,
                   .o = step->o,
                   .o_pitch = padded * (int64_t)sizeof(float),
                   .ahead = &ahead,
                   .later = &later};
  if (is_paired(step)) {
    add_paired(step, c);
    return;
  }
  rescale(step, padded, GROUP);
  if (step->rows < TILE)
    configure((int)step->rows);
  for (; at + 2 * GROUP <= padded; at += 2 * (int64_t)GROUP)
    add_direct_columns(2, &c, at);
  if (at < padded)
    add_direct_columns(1, &c, at);
  if (step->rows < TILE)
    configure(TILE);
}

#endif
