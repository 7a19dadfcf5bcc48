/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which tiles the library takes for a GEMM, and how it splits k. docs/prediction-model.md has the model. */
#include "analysis/predict/gemm_tiling.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

/* ---- tiles of the device's file ---- */

/* Split-K: each split has at least so many bytes of each row, where the device's file does not say. */
#define SPLIT_BYTES_MIN 2048
/* Some libraries leave k of the smallest GEMMs whole: up to this k it was measured (an L40S). */
#define WHOLE_K_MAX 65536

static bool stays_whole(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  double size = (double)gemm->m * (double)gemm->n * (double)gemm->k;
  return gemm->k <= WHOLE_K_MAX && size <= (double)problem->hardware->split_gemm_size;
}

/* A GPU with at least twice as many slots as tiles may split k among them. */
int64_t hr_max_splits(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  int64_t units = problem->slots, tiles = tiling->tiles;
  if (problem->whole_k || tiles * 2 > units || hardware->about.kind != HR_HARDWARE_GPU || stays_whole(problem))
    return 1;
  int64_t bytes = hardware->split_k_bytes > 0 ? hardware->split_k_bytes : SPLIT_BYTES_MIN;
  int64_t least = hr_max64(1, bytes / problem->element_bytes);
  return hr_max64(1, hr_min64(units / tiles, problem->gemm->k / least));
}

static void keep_faster(const hr_tiling_problem *problem, hr_tiling *tiling, hr_tiling *best)
{
  const double busy = fmin(1, (double)(tiling->tiles * tiling->splits) / (double)problem->slots);
  tiling->started_ns = problem->family ? problem->cost->busy_ns * busy : 0;
  const double max_ns = best->busy_ns + best->started_ns - tiling->started_ns;
  if (hr_set_tiling_time(problem, max_ns, tiling) && tiling->busy_ns < max_ns)
    *best = *tiling;
}

/* Doubles the splits up to the most. */
static void keep_faster_doubled(const hr_tiling_problem *problem, hr_tiling *tiling, hr_tiling *best)
{
  int64_t most = hr_max_splits(problem, tiling);
  for (tiling->splits = problem->split_ns > 0 ? 1 : most; tiling->splits <= most;
       tiling->splits = tiling->splits < most ? hr_min64(tiling->splits * 2, most) : most + 1)
    keep_faster(problem, tiling, best);
}

static hr_tiling best_of_device(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    hr_tiling tiling = {.tile = tile, .cluster_m = 1, .cluster_n = 1, .blocks = 1};
    tiling.tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
    keep_faster_doubled(problem, &tiling, &best);
  }
  return best;
}

/* ---- tiles of a family ---- */

/* Clusters of more matrices could have more tiles than can be counted. */
#define CLUSTERED_BATCH_MAX ((int64_t)1 << 40)

/* A step of the smallest misaligned tile, of bf16's: fp16 presumably has kernels of before Ampere. Fitted to every
 * other row of data/results/h200/random-seed-301-fp16.csv. */
#define FP16_STEP_SHARE 0.6

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
  tiling->step_share = tile->smallest && gemm->dtype == HR_FP16 ? FP16_STEP_SHARE : 1;
  tiling->tiles = in_clusters(hr_ceil_div(gemm->m, tile->m), tiling->cluster_m) *
                  in_clusters(hr_ceil_div(gemm->n, tile->n), tiling->cluster_n) * gemm->batch;
}

static bool has_kernel(const hr_tiling_problem *problem, const hr_family_tile *tile)
{
  const hr_gemm *gemm = problem->gemm;
  const int64_t part = problem->family->granule - 1; /* of a power of two */
  return (!tile->smallest || gemm->batch > 1 || gemm->dtype == HR_FP16) &&
         (!gemm->transpose_a || (tile->m & part) == 0) && (gemm->transpose_b || (tile->n & part) == 0);
}

/* Parts of k of which the library makes so many in its smallest GEMMs, however short they are. */
#define SMALL_GEMM 2097152.0 /* m · n · k */
#define SMALL_SPLITS 16
#define SMALL_RESULT_SPLITS 2

/* The parts of k that the library makes however short they are. */
static int64_t least_parts(const hr_gemm_family *family, const hr_gemm *gemm, bool splits)
{
  const double result = (double)gemm->m * (double)gemm->n;
  if (result <= (double)family->split_result)
    return hr_min64(SMALL_RESULT_SPLITS, gemm->k);
  const bool small = splits && family->splits_always && result * (double)gemm->k <= SMALL_GEMM;
  return small ? hr_min64(SMALL_SPLITS, gemm->k / 2) : 1;
}

/* The most parts of k. */
static int64_t parts_of(const hr_tiling_problem *problem)
{
  const hr_gemm_family *family = problem->family;
  const hr_gemm *gemm = problem->gemm;
  if (gemm->batch > 1)
    return 1;
  const int64_t row_bytes = gemm->k * problem->element_bytes;
  const bool splits = row_bytes >= family->split_from;
  return hr_max64(least_parts(family, gemm, splits), splits ? row_bytes / family->split_part : 1);
}

/* Whether a tile is slower than *best whatever the splits of k are, as most tiles of large GEMMs are: a multiprocessor
 * takes at least the arithmetic, the steps and the stores of its tiles. */
static bool is_slower_tile(const hr_tiling_problem *problem, const hr_tiling *tiling, const hr_tiling *best)
{
  if (problem->parts > 1 && tiling->tiles * 2 <= problem->slots * problem->family->split_waves)
    return false;
  const double waves = (double)hr_ceil_div(tiling->tiles, problem->slots);
  const double area = (double)(tiling->tile.m * tiling->tile.n);
  const double slot_ns = tiling->step_share * (area * problem->element_ns + problem->steps_ns);
  return hr_exceeds(problem, waves * slot_ns, 0, best->busy_ns + best->started_ns);
}

/* The library splits k until the tiles fill a number of whole waves. */
static void keep_faster_waves(const hr_tiling_problem *problem, hr_tiling *tiling, hr_tiling *best)
{
  const hr_gemm_family *family = problem->family;
  int64_t slots = problem->slots, most = problem->parts;
  bool whole = !family->splits_always || tiling->tiles * 2 > slots || most < 2;
  if (is_slower_tile(problem, tiling, best))
    return;
  tiling->splits = 1;
  if (whole)
    keep_faster(problem, tiling, best);
  for (int64_t waves = 1, last = 1; waves <= family->split_waves && last < most; waves++) {
    tiling->splits = hr_min64(slots * waves / tiling->tiles, most);
    if (tiling->splits > last)
      keep_faster(problem, tiling, best);
    last = hr_max64(last, tiling->splits);
  }
}

/* The library does not know of what filling pipelines again takes: where one step along k is all, it takes small tiles
 * in three and more waves. */
static hr_tiling best_of_family(const hr_tiling_problem *all)
{
  hr_tiling_problem problem = *all;
  hr_gemm_kernel_cost known = *all->cost;
  known.refill_ns = 0;
  problem.cost = &known;
  problem.parts = parts_of(all);
  hr_set_family_terms(&problem);
  hr_tiling best = {.busy_ns = INFINITY}, tiling = {.splits = 1};
  for (size_t i = 0; i < all->family->tile_count; i++) {
    const hr_family_tile *tile = &all->family->tiles[i];
    if (!has_kernel(all, tile))
      continue;
    set_tile(all->gemm, tile, &tiling);
    keep_faster_waves(&problem, &tiling, &best);
  }
  hr_set_tiling_time(all, INFINITY, &best);
  return best;
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  return problem->family ? best_of_family(problem) : best_of_device(problem);
}
