/* SPDX-License-Identifier: Apache-2.0 */
/* A part of decode_amx.c: S^T = K Q^T. */
#ifndef HR_RUNTIME_CPU_DECODE_DECODE_AMX_SCORES_H
#define HR_RUNTIME_CPU_DECODE_DECODE_AMX_SCORES_H

#include "runtime/cpu/decode/decode_amx_tiles.h"

typedef struct score_call {
  const key_tiles *k;
  int first; /* tile of keys */
  const char *q;
  int64_t q_tile; /* bytes */
  int groups;
  float *s;
  int64_t s_tile; /* floats of a tile of rows */
  prefetcher *ahead, *later;
} score_call;

HR_INLINE void prefetch_both(const score_call *c)
{
  prefetch(c->ahead, 1);
  prefetch(c->later, 1);
}

/* 16 query rows by `tiles` tiles of keys. */
HR_INLINE void multiply_one(int tiles, const score_call *c)
{
  const char *const *k = c->k->at + c->first;
  const int64_t *pitch = c->k->pitch + c->first;
  float *s = c->s + c->first * TILE_FLOATS;
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
#pragma GCC unroll 1
  for (int64_t at = 0; at < (int64_t)c->groups * ROW_BYTES; at += ROW_BYTES) {
    tile_load(4, c->q + at * TILE, ROW_BYTES);
    tile_load_once(5, k[0] + at, pitch[0]);
    tile_dpbf16ps(0, 5, 4);
    prefetch_both(c);
    if (tiles > 1) {
      tile_load_once(6, k[1] + at, pitch[1]);
      tile_dpbf16ps(1, 6, 4);
      prefetch_both(c);
    }
    if (tiles > 2) {
      tile_load_once(7, k[2] + at, pitch[2]);
      tile_dpbf16ps(2, 7, 4);
      prefetch_both(c);
    }
    if (tiles > 3) {
      tile_load_once(5, k[3] + at, pitch[3]);
      tile_dpbf16ps(3, 5, 4);
      prefetch_both(c);
    }
  }
  tile_store(0, s, ROW_BYTES);
  if (tiles > 1)
    tile_store(1, s + TILE_FLOATS, ROW_BYTES);
  if (tiles > 2)
    tile_store(2, s + 2 * TILE_FLOATS, ROW_BYTES);
  if (tiles > 3)
    tile_store(3, s + 3 * TILE_FLOATS, ROW_BYTES);
}

/* 32 query rows by one or two tiles of keys. */
HR_INLINE void multiply_two(int tiles, const score_call *c)
{
  const char *const *k = c->k->at + c->first;
  const int64_t *pitch = c->k->pitch + c->first;
  float *s = c->s + c->first * TILE_FLOATS;
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
#pragma GCC unroll 1
  for (int64_t at = 0; at < (int64_t)c->groups * ROW_BYTES; at += ROW_BYTES) {
    tile_load(4, c->q + at * TILE, ROW_BYTES);
    tile_load(6, k[0] + at, pitch[0]);
    tile_dpbf16ps(0, 6, 4);
    tile_load(5, c->q + c->q_tile + at * TILE, ROW_BYTES);
    tile_dpbf16ps(1, 6, 5);
    prefetch_both(c);
    if (tiles > 1) {
      tile_load(7, k[1] + at, pitch[1]);
      tile_dpbf16ps(2, 7, 4);
      tile_dpbf16ps(3, 7, 5);
      prefetch_both(c);
    }
  }
  tile_store(0, s, ROW_BYTES);
  tile_store(1, s + c->s_tile, ROW_BYTES);
  if (tiles > 1) {
    tile_store(2, s + TILE_FLOATS, ROW_BYTES);
    tile_store(3, s + c->s_tile + TILE_FLOATS, ROW_BYTES);
  }
}

/* Tiles of keys outside, so that they stay in L1 for the tiles of rows. */
static void multiply_row_pairs(score_call c, int64_t row_tiles)
{
  const char *q = c.q;
  float *s = c.s;
  for (c.first = 0; c.first < c.k->count; c.first += 2)
    for (int64_t i = 0; i + 2 <= row_tiles; i += 2) {
      c.q = q + i * c.q_tile, c.s = s + i * c.s_tile;
      if (c.first + 2 <= c.k->count)
        multiply_two(2, &c);
      else
        multiply_two(1, &c);
    }
}

static void multiply_row_tile(score_call c)
{
  for (c.first = 0; c.first < c.k->count; c.first += 4)
    switch (c.k->count - c.first) {
    case 1: multiply_one(1, &c); break;
    case 2: multiply_one(2, &c); break;
    case 3: multiply_one(3, &c); break;
    default: multiply_one(4, &c); break;
    }
}

static void multiply(const hr_split_step *step)
{
  key_tiles tiles = find_tiles(step);
  int64_t groups = hr_ceil_div(step->dim, GROUP), row_tiles = hr_ceil_div(step->rows, TILE);
  int64_t ticks = (row_tiles / 2 + row_tiles % 2) * tiles.count * groups;
  prefetcher ahead = prefetch_during(&step->ahead, ticks), later = prefetch_during(&step->later, ticks);
  score_call c = {.k = &tiles,
                  .q = (const char *)step->q,
                  .q_tile = groups * TILE_BYTES,
                  .groups = (int)groups,
                  .s = step->s,
                  .s_tile = (int64_t)step->block * TILE,
                  .ahead = &ahead,
                  .later = &later};
  multiply_row_pairs(c, row_tiles);
  if (row_tiles % 2 == 1) {
    c.q += (row_tiles - 1) * c.q_tile, c.s += (row_tiles - 1) * c.s_tile;
    multiply_row_tile(c);
  }
}

#endif
