/* SPDX-License-Identifier: Apache-2.0 */
/* A part of decode_amx.c: O += P V with V packed by pairs of keys. */
#ifndef HR_RUNTIME_CPU_DECODE_DECODE_AMX_PACKED_H
#define HR_RUNTIME_CPU_DECODE_DECODE_AMX_PACKED_H

#include "runtime/cpu/decode/decode_amx_tiles.h"

static bool is_finite(const void *row, int64_t dim)
{
  const uint16_t *elements = row;
  unsigned bad = 0;
  for (int64_t i = 0; i < dim; i++)
    bad |= (elements[i] & 0x7f80) == 0x7f80;
  return !bad;
}

/* Keys that not all query rows see, and whose V is not finite: a weight of 0 would make NaN of it. Their V is added row
 * by row, and 0 in the tiles. */
typedef struct apart_keys {
  int count, keys[HR_SPLIT_BLOCK_MAX];
} apart_keys;

static apart_keys find_apart(const hr_split_step *step, const char **rows)
{
  int first = 0, end = step->keys;
  apart_keys apart = {.count = 0};
  for (int64_t query = 0; query < step->q_len; query++) {
    first = step->first[query] > first ? step->first[query] : first;
    end = step->end[query] < end ? step->end[query] : end;
  }
  for (int key = 0; key < step->keys && end - first < step->keys; key++)
    if ((key < first || key >= end) && !is_finite(rows[key], step->dim)) {
      apart.keys[apart.count++] = key;
      rows[key] = NULL;
    }
  return apart;
}

static float value_of(uint16_t element)
{
  uint32_t bits = (uint32_t)element << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns where O has a column of V. */
static int64_t place_of(int64_t d)
{
  return d / GROUP * GROUP + d % 2 * TILE + d % GROUP / 2;
}

static void add_apart(const hr_split_step *step, const apart_keys *apart)
{
  int64_t pitch = hr_round_up(step->dim, HR_SPLIT_PAD);
  for (int i = 0; i < apart->count; i++)
    for (int64_t row = 0; row < step->rows; row++) {
      int key = apart->keys[i];
      if (key < step->first[row % step->q_len] || key >= step->end[row % step->q_len])
        continue;
      const uint16_t *v = (const void *)(step->from.at[key] + step->from.offset);
      const uint16_t *p = (const void *)((const char *)step->p + row * step->p_pitch);
      for (int64_t d = 0; d < step->dim; d++)
        step->o[row * pitch + place_of(d)] += value_of(p[key]) * value_of(v[d]);
    }
}

/* Bytes from 16 columns of packed V to the next: [pair of keys][column], and a line more, as a power of 2 is slower
 * (cache sets). */
static int64_t panel_bytes(const hr_split_step *step)
{
  return (int64_t)(step->block / 2 + 1) * ROW_BYTES;
}

/* 32 elements of a row, zeros behind the last; zeros where there is no row. */
HR_INLINE simd_f32 load_values(const char *row, int64_t d, int64_t dim)
{
  if (!row)
    return simd_set1(0);
  if (d + GROUP <= dim)
    return simd_load(row + 2 * d);
  char elements[2 * GROUP] = {0};
  memcpy(elements, row + 2 * d, (size_t)(2 * (dim - d)));
  return simd_load(elements);
}

/* Rows of two keys, elements interleaved: of 32 columns first the even ones, then the odd ones, as simd_load_pair() has
 * them. Keys without V, and those behind the last up to whole groups, are 0. */
static void pack_values(const hr_split_step *step, const char *const *rows, prefetcher *ahead, prefetcher *later)
{
  int64_t panel = panel_bytes(step);
  char *to = (char *)step->scratch;
  for (int key = 0; key < (int)hr_round_up(step->keys, GROUP); key += 2, to += ROW_BYTES) {
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): as many rows as keys */
    const char *even = key < step->keys ? rows[key] : NULL;
    const char *odd = key + 1 < step->keys ? rows[key + 1] : NULL;
    prefetch(ahead, 2);
    prefetch(later, 2);
    for (int64_t d = 0; d < step->dim; d += GROUP) {
      simd_f32 a = load_values(even, d, step->dim), b = load_values(odd, d, step->dim);
      simd_store(to + d / TILE * panel, simd_even_pairs_u16(a, b));
      simd_store(to + (d / TILE + 1) * panel, simd_odd_pairs_u16(a, b));
    }
  }
}

typedef struct value_call {
  const char *p, *v;
  int64_t p_pitch, panel; /* bytes */
  float *o;
  int64_t o_pitch; /* bytes */
  int groups;
  prefetcher *ahead, *later;
} value_call;

HR_INLINE void prefetch_values(const value_call *c)
{
  prefetch(c->ahead, 1);
  prefetch(c->later, 1);
}

/* Up to 16 query rows by two or four tiles of columns. */
HR_INLINE void add_one(int columns, const value_call *c)
{
  const char *v = c->v;
  tile_load(0, c->o, c->o_pitch);
  tile_load(1, c->o + TILE, c->o_pitch);
  if (columns > 2) {
    tile_load(2, c->o + 2 * TILE, c->o_pitch);
    tile_load(3, c->o + 3 * TILE, c->o_pitch);
  }
#pragma GCC unroll 1
  for (int i = 0; i < c->groups; i++, v += TILE_BYTES) {
    tile_load(4, c->p + (int64_t)i * ROW_BYTES, c->p_pitch);
    tile_load(6, v, ROW_BYTES);
    tile_dpbf16ps(0, 4, 6);
    prefetch_values(c);
    tile_load(7, v + c->panel, ROW_BYTES);
    tile_dpbf16ps(1, 4, 7);
    prefetch_values(c);
    if (columns > 2) {
      tile_load(6, v + 2 * c->panel, ROW_BYTES);
      tile_dpbf16ps(2, 4, 6);
      prefetch_values(c);
      tile_load(7, v + 3 * c->panel, ROW_BYTES);
      tile_dpbf16ps(3, 4, 7);
      prefetch_values(c);
    }
  }
  tile_store(0, c->o, c->o_pitch);
  tile_store(1, c->o + TILE, c->o_pitch);
  if (columns > 2) {
    tile_store(2, c->o + 2 * TILE, c->o_pitch);
    tile_store(3, c->o + 3 * TILE, c->o_pitch);
  }
}

/* 32 query rows by two tiles of columns. */
static void add_two(const value_call *c)
{
  const char *v = c->v;
  float *below = (float *)(void *)((char *)c->o + TILE * c->o_pitch);
  tile_load(0, c->o, c->o_pitch);
  tile_load(1, below, c->o_pitch);
  tile_load(2, c->o + TILE, c->o_pitch);
  tile_load(3, below + TILE, c->o_pitch);
#pragma GCC unroll 1
  for (int i = 0; i < c->groups; i++, v += TILE_BYTES) {
    const char *p = c->p + (int64_t)i * ROW_BYTES;
    tile_load(4, p, c->p_pitch);
    tile_load(6, v, ROW_BYTES);
    tile_dpbf16ps(0, 4, 6);
    tile_load(5, p + TILE * c->p_pitch, c->p_pitch);
    tile_dpbf16ps(1, 5, 6);
    prefetch_values(c);
    tile_load(7, v + c->panel, ROW_BYTES);
    tile_dpbf16ps(2, 4, 7);
    tile_dpbf16ps(3, 5, 7);
    prefetch_values(c);
  }
  tile_store(0, c->o, c->o_pitch);
  tile_store(1, below, c->o_pitch);
  tile_store(2, c->o + TILE, c->o_pitch);
  tile_store(3, below + TILE, c->o_pitch);
}

static void add_row_tile(value_call c, int64_t columns)
{
  for (; columns > 0; columns -= 4, c.o += 4 * TILE, c.v += 4 * c.panel)
    if (columns > 2)
      add_one(4, &c);
    else
      add_one(2, &c);
}

/* Columns outside, so that V stays in L1 for the tiles of rows. */
static void add_row_pairs(value_call c, int64_t pairs, int64_t columns)
{
  for (; columns > 0; columns -= 2, c.o += 2 * TILE, c.v += 2 * c.panel) {
    value_call rows = c;
    for (int64_t i = 0; i < pairs; i++) {
      add_two(&rows);
      rows.p += 2 * TILE * c.p_pitch;
      rows.o = (float *)(void *)((char *)rows.o + 2 * TILE * c.o_pitch);
    }
  }
}

static void add_tiles(const hr_split_step *step, prefetcher *ahead, prefetcher *later)
{
  int64_t columns = 2 * hr_ceil_div(step->dim, GROUP), pairs = step->rows / (2 * TILE),
          pitch = hr_round_up(step->dim, GROUP);
  value_call c = {.p = step->p,
                  .v = (const char *)step->scratch,
                  .p_pitch = step->p_pitch,
                  .panel = panel_bytes(step),
                  .o = step->o,
                  .o_pitch = pitch * (int64_t)sizeof(float),
                  .groups = (int)hr_ceil_div(step->keys, GROUP),
                  .ahead = ahead,
                  .later = later};
  add_row_pairs(c, pairs, columns);
  for (int64_t row = pairs * 2 * TILE; row < step->rows; row += TILE) {
    int rows = (int)hr_min64(TILE, step->rows - row);
    value_call some = c;
    some.p += row * c.p_pitch, some.o += row * pitch;
    if (rows < TILE)
      configure(rows);
    add_row_tile(some, columns);
    if (rows < TILE)
      configure(TILE);
  }
}

static void add_packed(const hr_split_step *step)
{
  const char *rows[HR_SPLIT_BLOCK_MAX];
  for (int key = 0; key < step->keys; key++)
    rows[key] = step->from.at[key] + step->from.offset;
  apart_keys apart = find_apart(step, rows);
  rescale(step, hr_round_up(step->dim, HR_SPLIT_PAD), GROUP);
  prefetcher ahead = prefetch_during(&step->ahead, 2 * step->keys);
  prefetcher later = prefetch_during(&step->later, 2 * step->keys);
  pack_values(step, rows, &ahead, &later);
  int64_t row_tiles = hr_ceil_div(step->rows, TILE), columns = 2 * hr_ceil_div(step->dim, GROUP);
  int64_t ticks = (row_tiles / 2 + row_tiles % 2) * columns * hr_ceil_div(step->keys, GROUP);
  prefetch_rest(&ahead, ticks);
  prefetch_rest(&later, ticks);
  add_tiles(step, &ahead, &later);
  if (apart.count > 0)
    add_apart(step, &apart);
}

#endif
