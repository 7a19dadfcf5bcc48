/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/flash_tiles.h"

#include "base/checked.h"

#include <headroom/dtype.h>

#define FP8_SHORT_MAX 2048 /* keys */
#define SHORT_MAX HR_FLASH_SHORT_MAX
#define FEW_TILES_MAX 512 /* keys of few tiles, of which the last may be nearly empty */
#define TILE_KEYS 16
#define CAUSAL_SHARE 0.15 /* of the L2, for a band of causal calls */
#define LENGTH(table) (sizeof(table) / sizeof *(table))
#define BAND_ROWS_MAX 2048    /* of a head, for bands that the L2 holds */
#define CAUSAL_ROWS_MAX 4096  /* the same of causal calls */
#define CLUSTER_ROWS_MIN 4096 /* of a head */

/* The first row that fits a problem is taken, or of rows with the same limits the one with the fewest Q tiles, the last
 * of as few. Registers of a thread: v / 2 accumulators of O, kv_tile / 2 of S and kv_tile / 4 of P, of 240
 * with two consumer warpgroups, 160 with three and 112 with four (of both teams). Each row where it was faster on an
 * H200 (docs/notes/attention-hopper.md). Between min_tile and kv_tile, the tile that fits the number of keys best. */
typedef struct tiling {
  int qk_max, v_max;
  bool causal;
  int64_t q_max, kv_max;
  int teams, consumers, kv_tile, min_tile;
  bool ping_pong, left_to_right;
  bool own_heads; /* each query head has its own K and V heads */
} tiling;

static const tiling tilings[] = {
    {64, 64, true, 64, SHORT_MAX, 2, 1, 64, 64, false, true, false},
    {64, 64, false, 64, SHORT_MAX, 2, 1, 64, 64, false, false, false},
    {64, 64, true, 128, SHORT_MAX, 2, 2, 64, 64, false, true, false},
    {64, 64, true, 256, 256, 1, 4, 64, 64, false, true, true},
    {64, 64, true, INT64_MAX, SHORT_MAX, 2, 2, 64, 64, false, true, false},
    {64, 64, false, SHORT_MAX, SHORT_MAX, 2, 2, 64, 64, false, false, false},
    {64, 64, true, INT64_MAX, INT64_MAX, 1, 3, 128, 128, true, false, false},
    {64, 64, false, INT64_MAX, INT64_MAX, 1, 3, 128, 128, true, false, false},
    {128, 128, true, SHORT_MAX, SHORT_MAX, 1, 3, 64, 64, false, true, false},
    {128, 128, true, SHORT_MAX, SHORT_MAX, 1, 2, 64, 64, false, true, false},
    {128, 128, true, INT64_MAX, INT64_MAX, 1, 3, 64, 64, false, false, false},
    {128, 128, false, FEW_TILES_MAX, FEW_TILES_MAX, 1, 3, 64, 64, false, false, false},
    {128, 128, false, FEW_TILES_MAX, FEW_TILES_MAX, 1, 2, 128, 112, true, false, false},
    {128, 128, false, INT64_MAX, INT64_MAX, 1, 3, 64, 64, false, false, false},
    {192, 128, true, INT64_MAX, INT64_MAX, 1, 3, 64, 64, false, false, false},
    {192, 128, false, INT64_MAX, INT64_MAX, 1, 3, 64, 64, false, false, false},
    {256, 128, true, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false, true, false},
    {256, 128, false, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false, false, false},
    {192, 192, true, INT64_MAX, INT64_MAX, 1, 2, 80, 80, false, true, false},
    {192, 192, false, INT64_MAX, INT64_MAX, 1, 2, 112, 112, false, false, false},
    {128, 256, true, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false, true, false},
    {128, 256, false, INT64_MAX, INT64_MAX, 1, 2, 96, 96, false, false, false},
    {256, 256, true, INT64_MAX, INT64_MAX, 1, 2, 64, 64, true, true, false},
    {256, 256, false, INT64_MAX, FEW_TILES_MAX, 1, 2, 80, 64, false, false, false},
    {256, 256, false, INT64_MAX, SHORT_MAX, 1, 2, 64, 64, true, false, false},
    {256, 256, false, INT64_MAX, INT64_MAX, 1, 2, 80, 80, false, false, false},
};

/* fp8: tiles are multiples of 32 keys; P takes kv_tile / 8 registers. Each row where it was faster on an H100
 * (docs/notes/attention-fp8.md). */
static const tiling fp8_tilings[] = {
    {64, 64, true, INT64_MAX, FP8_SHORT_MAX, 1, 4, 64, 64, false, false, false},
    {64, 64, true, INT64_MAX, INT64_MAX, 1, 3, 128, 128, false, false, false},
    {64, 64, false, INT64_MAX, INT64_MAX, 1, 3, 128, 128, false, false, false},
    {256, 128, true, INT64_MAX, INT64_MAX, 1, 3, 96, 96, false, false, false},
    {256, 128, false, INT64_MAX, INT64_MAX, 1, 3, 96, 96, false, false, false},
    {256, 256, true, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false, false, false},
    {256, 256, false, INT64_MAX, INT64_MAX, 1, 2, 128, 128, false, false, false},
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

/* Q tiles of a head. */
static int64_t tiles_of_rows(const tiling *t, int64_t q_len)
{
  return hr_ceil_div(q_len, (int64_t)HR_FLASH_GROUP_ROWS * t->consumers);
}

static bool same_limits(const tiling *a, const tiling *b)
{
  return a->qk_max == b->qk_max && a->v_max == b->v_max && a->causal == b->causal && a->q_max == b->q_max &&
         a->kv_max == b->kv_max;
}

static bool fits(const tiling *t, const hr_attention *a, int64_t qk, int64_t v)
{
  return qk <= t->qk_max && v <= t->v_max && (a->mask == HR_MASK_CAUSAL) == t->causal && a->q_len <= t->q_max &&
         a->kv_len <= t->kv_max && (!t->own_heads || (a->k_heads == a->q_heads && a->v_heads == a->q_heads));
}

static const tiling *tiling_of(const hr_attention *a, int64_t qk, int64_t v)
{
  bool fp8 = a->dtype == HR_FP8_E4M3;
  const tiling *row = fp8 ? fp8_tilings : tilings,
               *end = fp8 ? fp8_tilings + LENGTH(fp8_tilings) : tilings + LENGTH(tilings);
  while (!fits(row, a, qk, v))
    row++;
  const tiling *best = row;
  for (const tiling *other = row + 1; other < end && same_limits(row, other); other++)
    if (tiles_of_rows(other, a->q_len) <= tiles_of_rows(best, a->q_len))
      best = other;
  return best;
}

/* Clusters save the energy of reading K and V from the L2 twice. At head size 64, with the static schedule in causal
 * calls, and with fp8's half as many bytes they lose more than they save. */
static bool clusters_pay(const hr_attention *a, int64_t qk, int64_t v)
{
  return hr_dtype_bytes(a->dtype) == 2 && (qk > 64 || v > 64) && a->mask != HR_MASK_CAUSAL && a->window == 0 &&
         !a->variable_lengths && a->q_len >= CLUSTER_ROWS_MIN && a->kv_len > FEW_TILES_MAX;
}

hr_flash_tiles hr_flash_sm90_tiles(const hr_attention *a)
{
  int64_t qk = hr_round_up(a->qk_dim, 32 / (int64_t)hr_dtype_bytes(a->dtype)), v = hr_round_up(a->v_dim, 16);
  const tiling *row = tiling_of(a, qk, v);
  return (hr_flash_tiles){.teams = row->teams,
                          .consumers = row->consumers,
                          .cluster = clusters_pay(a, qk, v) ? 2 : 1,
                          .keys = fit_tile(a->kv_len, row->kv_tile, row->min_tile),
                          .ping_pong = row->ping_pong,
                          .left_to_right = row->left_to_right};
}

/* Heads whose K and V fill a share of the L2. */
static int64_t heads_held(const hr_attention *a, double share, size_t cache_bytes)
{
  double entry = (double)a->kv_len * (double)(a->k_heads * a->qk_dim + a->v_heads * a->v_dim) *
                 (double)hr_dtype_bytes(a->dtype) / (double)a->q_heads;
  return (int64_t)((double)cache_bytes * share / entry);
}

hr_flash_bands hr_flash_sm90_bands(const hr_attention *a, int64_t q_tiles, int64_t blocks, size_t cache_bytes)
{
  int64_t all = a->q_heads * a->batch, of_each = hr_ceil_div(blocks, q_tiles), heads;
  bool causal = a->mask == HR_MASK_CAUSAL, few_rows = a->q_len <= (causal ? CAUSAL_ROWS_MAX : BAND_ROWS_MAX);
  if (causal)
    heads = few_rows ? hr_min64(of_each, heads_held(a, CAUSAL_SHARE, cache_bytes))
                     : hr_max64(8 * blocks / q_tiles, 2 * of_each);
  else if (few_rows)
    heads =
        hr_min64(4 * blocks / q_tiles, heads_held(a, a->q_len > SHORT_MAX && a->qk_dim <= 64 ? 0.4 : 0.2, cache_bytes));
  else
    heads = 4 * blocks / q_tiles;
  heads = hr_min64(hr_max64(heads, causal ? 1 : of_each), all);
  int64_t last = causal ? hr_min64(of_each, all) : 0;
  return (hr_flash_bands){.heads = (int32_t)heads, .count = (int32_t)((all - last) / heads)};
}

hr_flash_grid hr_flash_sm90_grid_of(const hr_attention *a, hr_flash_tiles tiles, int64_t multiprocessors,
                                    size_t cache_bytes)
{
  hr_flash_grid grid = {.tiles = tiles, .rows = (int64_t)HR_FLASH_GROUP_ROWS * tiles.consumers * tiles.cluster};
  int64_t clusters = multiprocessors / tiles.cluster;
  grid.q_tiles = hr_ceil_div(a->q_len, grid.rows);
  grid.work_items = grid.q_tiles * a->q_heads * a->batch;
  grid.at_once = clusters * tiles.teams;
  grid.blocks = hr_min64(grid.work_items, clusters) * tiles.cluster;
  hr_flash_bands bands = hr_flash_sm90_bands(a, grid.q_tiles, grid.at_once, cache_bytes);
  grid.band_heads = bands.heads;
  grid.bands = bands.count;
  return grid;
}

hr_flash_grid hr_flash_sm90_grid(const hr_attention *a, int64_t multiprocessors, size_t cache_bytes)
{
  hr_flash_tiles tiles = hr_flash_sm90_tiles(a);
  if (tiles.cluster > multiprocessors)
    tiles.cluster = 1;
  hr_flash_grid grid = hr_flash_sm90_grid_of(a, tiles, multiprocessors, cache_bytes);
  if (tiles.cluster == 1)
    return grid;
  tiles.cluster = 1;
  hr_flash_grid alone = hr_flash_sm90_grid_of(a, tiles, multiprocessors, cache_bytes);
  bool more = multiprocessors < grid.tiles.cluster ||
              hr_ceil_div(grid.work_items, grid.at_once) > hr_ceil_div(alone.work_items, alone.at_once);
  return more ? alone : grid;
}
