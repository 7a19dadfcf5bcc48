/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/flash_tiles.h"

#include "base/checked.h"

#include <headroom/dtype.h>

#define FP8_SHORT_MOST 2048 /* keys */
#define SHORT_MOST 1024     /* keys, or rows of a head */
#define FEW_TILES_MOST 512  /* keys of few tiles, of which the last may be nearly empty */
#define TILE_KEYS 16
#define BAND_ROWS_MOST 2048     /* of a head, for bands that the L2 holds */
#define CLUSTER_ROWS_LEAST 4096 /* of a head */

/* The first row that fits a problem is taken. Registers of a thread: v / 2 accumulators of O, kv_tile / 2 of S and
 * kv_tile / 4 of P, of 240 with two consumer warpgroups, 160 with three and 112 with four (of both teams). Each row
 * where it was faster on an H200 (docs/attention-hopper.md). Between least_tile and kv_tile, the tile that fits the
 * number of keys best. */
typedef struct tiling {
  int qk_most, v_most;
  bool causal;
  int64_t q_most, kv_most;
  int teams, consumers, kv_tile, least_tile;
  bool ping_pong;
} tiling;

static const tiling tilings[] = {
    {64, 64, true, 64, SHORT_MOST, 2, 1, 64, 64, false},
    {64, 64, false, 64, SHORT_MOST, 2, 1, 64, 64, false},
    {64, 64, true, 128, SHORT_MOST, 2, 2, 64, 64, false},
    {64, 64, false, 128, SHORT_MOST, 2, 2, 64, 64, false},
    {64, 64, true, INT64_MAX, SHORT_MOST, 1, 4, 64, 64, false},
    {64, 64, false, SHORT_MOST, SHORT_MOST, 1, 4, 64, 64, false},
    {64, 64, true, INT64_MAX, INT64_MAX, 1, 3, 128, 128, true},
    {64, 64, false, INT64_MAX, INT64_MAX, 1, 3, 128, 128, true},
    {128, 128, true, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false},
    {128, 128, false, INT64_MAX, FEW_TILES_MOST, 1, 2, 128, 112, true},
    {128, 128, false, INT64_MAX, INT64_MAX, 1, 2, 128, 128, true},
    {192, 128, true, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false},
    {192, 128, false, INT64_MAX, INT64_MAX, 1, 2, 128, 128, true},
    {256, 128, true, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false},
    {256, 128, false, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false},
    {192, 192, true, INT64_MAX, INT64_MAX, 1, 2, 80, 80, false},
    {192, 192, false, INT64_MAX, INT64_MAX, 1, 2, 112, 112, false},
    {128, 256, true, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false},
    {128, 256, false, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false},
    {256, 256, true, INT64_MAX, SHORT_MOST, 1, 2, 64, 64, true},
    {256, 256, false, INT64_MAX, FEW_TILES_MOST, 1, 2, 80, 64, false},
    {256, 256, false, INT64_MAX, SHORT_MOST, 1, 2, 64, 64, true},
    {256, 256, true, INT64_MAX, INT64_MAX, 1, 2, 80, 80, false},
    {256, 256, false, INT64_MAX, INT64_MAX, 1, 2, 80, 80, false},
};

/* fp8: tiles are multiples of 32 keys; P takes kv_tile / 8 registers. Each row where it was faster on an H100
 * (docs/attention-fp8.md). */
static const tiling fp8_tilings[] = {
    {64, 64, true, INT64_MAX, FP8_SHORT_MOST, 1, 4, 64, 64, false},
    {64, 64, true, INT64_MAX, INT64_MAX, 1, 3, 128, 128, false},
    {64, 64, false, INT64_MAX, INT64_MAX, 1, 3, 128, 128, false},
    {256, 128, true, INT64_MAX, INT64_MAX, 1, 3, 96, 96, false},
    {256, 128, false, INT64_MAX, INT64_MAX, 1, 3, 96, 96, false},
    {256, 256, true, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false},
    {256, 256, false, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false},
};

/* Keys of a K/V tile, from `least` to `most`. A tile costs its keys and about TILE_KEYS more; the larger of two tiles
 * that cost the same. */
static int fit_tile(int64_t kv_len, int most, int least)
{
  int best = most;
  for (int tile = most - 16; tile >= least; tile -= 16)
    if (hr_ceil_div(kv_len, tile) * (tile + TILE_KEYS) < hr_ceil_div(kv_len, best) * (best + TILE_KEYS))
      best = tile;
  return best;
}

/* Clusters save the energy of reading K and V from the L2 twice. At head size 64, with the static schedule in causal
 * calls, and with fp8's half as many bytes they lose more than they save. */
static bool clusters_pay(const hr_attention *a, int64_t qk, int64_t v)
{
  return hr_dtype_bytes(a->dtype) == 2 && (qk > 64 || v > 64) && a->mask != HR_MASK_CAUSAL && a->window == 0 &&
         !a->variable_lengths && a->q_len >= CLUSTER_ROWS_LEAST && a->kv_len > FEW_TILES_MOST;
}

hr_flash_tiles hr_flash_sm90_tiles(const hr_attention *a)
{
  int64_t qk = hr_round_up(a->qk_dim, 32 / (int64_t)hr_dtype_bytes(a->dtype)), v = hr_round_up(a->v_dim, 16);
  bool causal = a->mask == HR_MASK_CAUSAL;
  const tiling *row = a->dtype == HR_FP8_E4M3 ? fp8_tilings : tilings;
  while (qk > row->qk_most || v > row->v_most || causal != row->causal || a->q_len > row->q_most ||
         a->kv_len > row->kv_most)
    row++;
  return (hr_flash_tiles){.teams = row->teams,
                          .consumers = row->consumers,
                          .cluster = clusters_pay(a, qk, v) ? 2 : 1,
                          .keys = fit_tile(a->kv_len, row->kv_tile, row->least_tile),
                          .ping_pong = row->ping_pong};
}

int32_t hr_flash_sm90_band(const hr_attention *a, int64_t q_tiles, int64_t blocks, size_t cache_bytes)
{
  bool causal = a->mask == HR_MASK_CAUSAL;
  int64_t heads = (causal ? 8 : 4) * blocks / q_tiles, least = hr_ceil_div((causal ? 2 : 1) * blocks, q_tiles);
  double entry = (double)a->kv_len * (double)(a->k_heads * a->qk_dim + a->v_heads * a->v_dim) *
                 (double)hr_dtype_bytes(a->dtype) / (double)a->q_heads;
  bool wide = a->qk_dim > 64;
  double share = a->q_len > SHORT_MOST && (causal || !wide) ? 0.4 : causal ? 0.5 : 0.2;
  bool pays = !causal || wide; /* causal 8 x 2048: 64 gains 2% sustained, loses 1% */
  if (a->q_len <= SHORT_MOST || (pays && a->q_len <= BAND_ROWS_MOST))
    heads = hr_min64(heads, (int64_t)((double)cache_bytes * share / entry));
  return (int32_t)hr_min64(hr_max64(heads, least), a->q_heads * a->batch);
}

static hr_flash_grid grid_of(const hr_attention *a, hr_flash_tiles tiles, int64_t multiprocessors, size_t cache_bytes)
{
  hr_flash_grid grid = {.tiles = tiles, .rows = (int64_t)HR_FLASH_GROUP_ROWS * tiles.consumers * tiles.cluster};
  int64_t clusters = multiprocessors / tiles.cluster;
  grid.q_tiles = hr_ceil_div(a->q_len, grid.rows);
  grid.work_items = grid.q_tiles * a->q_heads * a->batch;
  grid.at_once = clusters * tiles.teams;
  grid.blocks = hr_min64(grid.work_items, clusters) * tiles.cluster;
  grid.band_heads = hr_flash_sm90_band(a, grid.q_tiles, grid.at_once, cache_bytes);
  return grid;
}

hr_flash_grid hr_flash_sm90_grid(const hr_attention *a, int64_t multiprocessors, size_t cache_bytes)
{
  hr_flash_tiles tiles = hr_flash_sm90_tiles(a);
  hr_flash_grid grid = grid_of(a, tiles, multiprocessors, cache_bytes);
  if (tiles.cluster == 1)
    return grid;
  tiles.cluster = 1;
  hr_flash_grid alone = grid_of(a, tiles, multiprocessors, cache_bytes);
  bool more = multiprocessors < grid.tiles.cluster ||
              hr_ceil_div(grid.work_items, grid.at_once) > hr_ceil_div(alone.work_items, alone.at_once);
  return more ? alone : grid;
}
