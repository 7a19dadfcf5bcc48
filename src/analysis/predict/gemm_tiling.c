/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which tiles the library takes for a GEMM. docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"
#include "analysis/predict/gemm_family.h"
#include "analysis/predict/gemm_tile_time.h"
#include "analysis/predict/gemm_tma.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

/* Families of more tiles than this have clusters, and are searched by lower bounds. */
#define FEW_TILES 32

/* A device whose tiles are all smaller has its largest here. */
static int64_t min_area(const hr_tiling_problem *problem)
{
  int64_t largest = 0;
  for (size_t i = 0; i < problem->shape_count; i++)
    largest = hr_max64(largest, problem->shapes[i].m * problem->shapes[i].n);
  return hr_min64(problem->min_area, largest);
}

static int64_t tiles_in(const hr_gemm *gemm, hr_tile tile)
{
  return hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
}

static hr_tiling best_of_device(const hr_tiling_problem *problem)
{
  const int64_t least = min_area(problem);
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    if (tile.m * tile.n < least)
      continue;
    hr_tiling tiling = {.tile = tile, .cluster_m = 1, .cluster_n = 1, .blocks = 1};
    tiling.tiles = tiles_in(problem->gemm, tile);
    hr_keep_faster_tiling(problem, tiling, &best);
  }
  return best;
}

static hr_tiling best_of_family(const hr_tiling_problem *problem)
{
  const hr_gemm_family *family = problem->family;
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < family->tile_count; i++) {
    const hr_family_tile *tile = &family->tiles[i];
    if (tile->batched && problem->gemm->batch == 1)
      continue;
    hr_tiling tiling = {.tile = {tile->m, tile->n, 1}, .cluster_m = 1, .cluster_n = 1, .blocks = tile->blocks};
    tiling.tiles = tiles_in(problem->gemm, tiling.tile);
    hr_keep_faster_tiling(problem, tiling, &best);
  }
  return best;
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  if (!problem->family)
    return best_of_device(problem);
  return problem->family->tile_count > FEW_TILES ? hr_best_tma_tiling(problem) : best_of_family(problem);
}
