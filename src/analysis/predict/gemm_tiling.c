/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which tiles the library takes for a GEMM. docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"
#include "analysis/predict/gemm_tile_time.h"
#include "analysis/predict/gemm_tma.h"
#include "analysis/predict/misaligned_choice.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

/* A device whose tiles are all smaller has its largest here. */
static int64_t min_area(const hr_tiling_problem *problem)
{
  int64_t largest = 0;
  for (size_t i = 0; i < problem->shape_count; i++)
    largest = hr_max64(largest, problem->shapes[i].m * problem->shapes[i].n);
  return hr_min64(problem->min_area, largest);
}

/* What kernels for misaligned GEMMs have of their own for each tile. */
static void set_misaligned_tile(const hr_tiling_problem *problem, size_t i, hr_tiling *tiling)
{
  double latency_ns = problem->latencies_ns ? problem->latencies_ns[i] : 0;
  tiling->blocks = problem->blocks ? problem->blocks[i] : 1;
  tiling->latency_ns = latency_ns > 0 || !problem->kernels ? latency_ns : problem->kernels->latency_ns;
}

/* The tiling that the library takes for a misaligned GEMM; false where the device has no such tile. */
static bool learned_tiling(const hr_tiling_problem *problem, hr_tiling *tiling)
{
  const hr_gemm *gemm = problem->gemm;
  const hr_hardware *hardware = problem->hardware;
  hr_misaligned_choice choice = hr_choose_misaligned(gemm, problem->kernels == &hardware->aligned_2);
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    if (tile.m != choice.m || tile.n != choice.n)
      continue;
    *tiling = (hr_tiling){.tile = tile, .cluster_m = 1, .cluster_n = 1};
    set_misaligned_tile(problem, i, tiling);
    tiling->tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
    /* More splits than steps along k have nothing to do, but the second kernel that adds them runs. */
    tiling->splits = hr_min64(choice.splits, hr_max64(2, hr_ceil_div(gemm->k, problem->depth_step)));
    return hr_set_tiling_time(problem, INFINITY, tiling);
  }
  return false;
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  hr_tiling learned;
  if (problem->tma)
    return hr_best_tma_tiling(problem);
  if (problem->kernels && !problem->simt && problem->hardware->tma.launch_ns > 0 && learned_tiling(problem, &learned))
    return learned;
  const hr_gemm *gemm = problem->gemm;
  const int64_t least = min_area(problem);
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    if (tile.m * tile.n < least)
      continue;
    hr_tiling tiling = {.tile = tile, .cluster_m = 1, .cluster_n = 1};
    set_misaligned_tile(problem, i, &tiling);
    tiling.tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
    hr_keep_faster_tiling(problem, tiling, &best);
  }
  return best;
}
