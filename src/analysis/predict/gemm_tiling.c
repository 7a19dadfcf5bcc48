/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which tiles the library takes for a GEMM. docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"
#include "analysis/predict/gemm_family.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

static hr_tiling best_of_device(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    hr_tiling tiling = {.tile = tile, .cluster_m = 1, .cluster_n = 1, .blocks = 1};
    tiling.tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
    hr_keep_faster_doubled(problem, &tiling, &best);
  }
  return best;
}

/* Clusters of more matrices could have more tiles than can be counted. */
#define CLUSTERED_BATCH_MAX ((int64_t)1 << 40)

/* In whole clusters, whose sizes are powers of two. */
static int64_t in_clusters(int64_t tiles, int64_t cluster)
{
  return (tiles + cluster - 1) & -cluster;
}

/* Most tiles are passed over by these members alone. */
static void set_tile(const hr_gemm *gemm, const hr_family_tile *tile, hr_tiling *tiling)
{
  const bool clusters = gemm->batch < CLUSTERED_BATCH_MAX;
  tiling->tile = (hr_tile){tile->m, tile->n, 1};
  tiling->cluster_m = clusters ? tile->cluster_m : 1;
  tiling->cluster_n = clusters ? tile->cluster_n : 1;
  tiling->blocks = tile->blocks;
  tiling->tiles = in_clusters(hr_ceil_div(gemm->m, tile->m), tiling->cluster_m) *
                  in_clusters(hr_ceil_div(gemm->n, tile->n), tiling->cluster_n) * gemm->batch;
}

static bool has_kernel(const hr_tiling_problem *problem, const hr_family_tile *tile)
{
  const hr_gemm *gemm = problem->gemm;
  const int64_t part = problem->family->granule - 1; /* of a power of two */
  return (!tile->batched || gemm->batch > 1) && (!gemm->transpose_a || (tile->m & part) == 0) &&
         (gemm->transpose_b || (tile->n & part) == 0);
}

/* The library does not know of what filling pipelines again takes: where one step along k is all, it takes small tiles
 * in three and more waves. */
static hr_tiling best_of_family(const hr_tiling_problem *all)
{
  hr_tiling_problem problem = *all;
  hr_gemm_kernel_cost known = *all->cost;
  known.refill_ns = 0;
  problem.cost = &known;
  hr_set_family_terms(&problem);
  hr_tiling best = {.busy_ns = INFINITY}, tiling = {.splits = 1};
  for (size_t i = 0; i < all->family->tile_count; i++) {
    const hr_family_tile *tile = &all->family->tiles[i];
    if (!has_kernel(all, tile))
      continue;
    set_tile(all->gemm, tile, &tiling);
    hr_keep_faster_waves(&problem, &tiling, &best);
  }
  hr_set_tiling_time(all, INFINITY, &best);
  return best;
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  return problem->family ? best_of_family(problem) : best_of_device(problem);
}
