/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which tiles the library takes for a GEMM. docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"
#include "analysis/predict/gemm_family.h"
#include "analysis/predict/gemm_tile_time.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

static int64_t tiles_in(const hr_gemm *gemm, hr_tile tile)
{
  return hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
}

static hr_tiling best_of_device(const hr_tiling_problem *problem)
{
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    hr_tiling tiling = {.tile = tile, .cluster_m = 1, .cluster_n = 1, .blocks = 1};
    tiling.tiles = tiles_in(problem->gemm, tile);
    hr_keep_faster_tiling(problem, &tiling, &best);
  }
  return best;
}

/* Clusters of more matrices could have more tiles than can be counted. */
#define CLUSTERED_BATCH_MAX ((int64_t)1 << 40)

/* Sides of tiles are multiples of SIDE_UNIT up to SIDE_UNIT · SIDES_MAX elements, with few exceptions. */
#define SIDE_UNIT 8
#define SIDES_MAX 64

/* Tiles along m and n by their side, of which there are fewer than tiles; 0: not counted yet. */
typedef struct side_counts {
  int64_t m[SIDES_MAX + 1], n[SIDES_MAX + 1];
} side_counts;

static int64_t count_side(int64_t *counts, int64_t size, int side)
{
  if (side % SIDE_UNIT != 0 || side > SIDE_UNIT * SIDES_MAX)
    return hr_ceil_div(size, side);
  int64_t *count = &counts[side / SIDE_UNIT];
  if (*count == 0)
    *count = hr_ceil_div(size, side);
  return *count;
}

/* In whole clusters, whose sizes are powers of two. */
static int64_t in_clusters(int64_t tiles, int64_t cluster)
{
  return (tiles + cluster - 1) & -cluster;
}

static hr_tiling tiling_of(const hr_family_tile *tile, int64_t cluster_m, int64_t cluster_n, int64_t tiles)
{
  return (hr_tiling){.tile = {tile->m, tile->n, 1},
                     .cluster_m = cluster_m,
                     .cluster_n = cluster_n,
                     .blocks = tile->blocks,
                     .tiles = tiles};
}

static void keep_faster(const hr_tiling_problem *problem, const hr_family_tile *tile, side_counts *sides,
                        hr_tiling *best)
{
  const hr_gemm *gemm = problem->gemm;
  const bool clusters = gemm->batch < CLUSTERED_BATCH_MAX;
  const int64_t cluster_m = clusters ? tile->cluster_m : 1, cluster_n = clusters ? tile->cluster_n : 1;
  const int64_t tiles = in_clusters(count_side(sides->m, gemm->m, tile->m), cluster_m) *
                        in_clusters(count_side(sides->n, gemm->n, tile->n), cluster_n) * gemm->batch;
  if (hr_is_slower_tile(problem, tile->m * tile->n, tiles, best))
    return;
  hr_tiling tiling = tiling_of(tile, cluster_m, cluster_n, tiles);
  hr_keep_faster_tiling(problem, &tiling, best);
}

static bool has_kernel(const hr_tiling_problem *problem, const hr_family_tile *tile)
{
  const hr_gemm *gemm = problem->gemm;
  const int64_t part = problem->family->granule - 1; /* of a power of two */
  return (!tile->batched || gemm->batch > 1) && (!gemm->transpose_a || (tile->m & part) == 0) &&
         (gemm->transpose_b || (tile->n & part) == 0);
}

/* The time of memory that no tiling goes below. */
static double memory_min_ns(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)problem->result_bytes;
  if (hr_is_cached(problem->hardware, problem->loaded_bytes + stored))
    return 0;
  double whole_ns = hr_transfer_ns(problem->hardware, problem->loaded_bytes, problem->hardware->load_share) +
                    hr_transfer_ns(problem->hardware, stored, problem->store_share);
  const double sector_ns = stored * problem->sector_ns_per_byte;
  return sqrt(whole_ns * whole_ns + sector_ns * sector_ns); /* hypot() of Debian 12 needs glibc 2.35 */
}

/* The library does not know of what filling pipelines again takes: where one step along k is all, it takes small tiles
 * in three and more waves. */
static hr_tiling best_of_family(const hr_tiling_problem *all)
{
  hr_tiling_problem problem = *all;
  hr_gemm_kernel_cost known = *all->cost;
  known.refill_ns = 0;
  problem.cost = &known;
  problem.memory_min_ns = memory_min_ns(all);
  hr_set_family_terms(&problem);
  side_counts sides = {.m = {0}};
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < all->family->tile_count; i++) {
    const hr_family_tile *tile = &all->family->tiles[i];
    if (has_kernel(all, tile))
      keep_faster(&problem, tile, &sides, &best);
  }
  hr_set_tiling_time(all, INFINITY, &best);
  return best;
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  return problem->family ? best_of_family(problem) : best_of_device(problem);
}
