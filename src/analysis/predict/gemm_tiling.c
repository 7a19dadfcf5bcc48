/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles, waves, splits of k, and the clock. docs/prediction.md has the model. */
#include "analysis/predict/gemm_tiling.h"

#include "base/checked.h"

#include <math.h>

/* Split-K: each split has at least so many bytes of each row, where the device's file does not say. */
#define SPLIT_BYTES_LEAST 2048
/* The tile that alignment shares refer to. */
#define REFERENCE_TILE_M 128.0
#define REFERENCE_TILE_N 256.0
/* A burst: the clock falls to the settled one as calls approach this time. */
#define BURST_NS 1e6

/* Misaligned rows need narrow loads or stores, which then bound a tile: its time grows with its edge instead of its
 * area, so small tiles lose more. Plain GEMMs with misaligned operands lose the same share with every tile
 * (docs/prediction.md). */
static double slowdown_of(const hr_tiling_problem *problem, hr_tile tile)
{
  double alignment_share = problem->alignment_share;
  if (alignment_share >= 1 || problem->edge_exponent == 0)
    return 1 / fmin(alignment_share, 1);
  double edge = (double)(tile.m + tile.n) / ((double)tile.m * (double)tile.n);
  double reference = (REFERENCE_TILE_M + REFERENCE_TILE_N) / (REFERENCE_TILE_M * REFERENCE_TILE_N);
  return 1 + (1 / alignment_share - 1) * pow(edge / reference, problem->edge_exponent);
}

/* Bytes read from memory. If neither operand fits into half of the last-level cache, the result is computed in squares,
 * each of which reads the rows and columns that cross it. A square is one wave of tiles or, if larger, the square whose
 * operands stay in the cache. */
static double traffic_bytes(const hr_tiling_problem *problem, const hr_tiling *way)
{
  const hr_gemm *gemm = problem->gemm;
  double row_bytes = (double)gemm->k * (double)problem->element_bytes;
  double m = (double)gemm->m, n = (double)gemm->n, cache = (double)problem->hardware->l2_bytes / 2;
  if (way->waves <= 1 || gemm->batch > 1 || fmin(m, n) * row_bytes <= cache)
    return problem->loaded_bytes;
  double wave = (double)way->tiles / (double)way->waves * (double)way->tile.m * (double)way->tile.n;
  double side = fmax(sqrt(wave), cache / 2 / row_bytes);
  double rows = fmin(side, m), columns = fmin(side * side / rows, n);
  return fmax(problem->loaded_bytes, m * n / (rows * columns) * (rows + columns) * row_bytes);
}

/* Few multiprocessors cannot draw the whole bandwidth. */
static double memory_ns(const hr_tiling_problem *problem, const hr_tiling *way)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm *gemm = problem->gemm;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)problem->result_bytes;
  double loaded = traffic_bytes(problem, way);
  double active = fmin((double)(way->tiles * way->splits), (double)problem->slots);
  double drawn = hardware->reach > 0 ? fmin(1, active / (double)problem->slots * hardware->reach) : 1;
  double store_ns = hr_transfer_ns(hardware, stored, problem->store_share);
  if (hr_is_cached(hardware, loaded + stored))
    return loaded / drawn * 1e9 / hr_cache_rate(hardware) + fmin(stored * 1e9 / hr_cache_rate(hardware), store_ns);
  return hr_transfer_ns(hardware, loaded, hardware->load_share) / drawn + store_ns;
}

/* Multiprocessors share the power: if some idle or wait for narrow loads, the others clock higher. Power grows with the
 * cube of the clock, so the clock rises by the cube root of the saved share, up to its own limit. */
static double clock_of(const hr_tiling_problem *problem, double slow_ns)
{
  const hr_hardware *hardware = problem->hardware;
  double clock = hardware->boost > 1 ? cbrt(fmax(slow_ns / problem->matrix_ns, 1)) : 1;
  double late = slow_ns / BURST_NS;
  if (hardware->clock == HR_CLOCK_BURST && hardware->burst > 1)
    clock *= 1 + (hardware->burst - 1) / (1 + late * late);
  return fmin(clock, fmax(hardware->boost, fmax(hardware->burst, 1)));
}

static double reduction_ns(const hr_tiling_problem *problem, int64_t splits)
{
  const hr_gemm *gemm = problem->gemm;
  double bytes = 2.0 * 4.0 * (double)splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  return splits > 1 ? bytes * 1e9 / hr_cache_rate(problem->hardware) + problem->split_ns : 0;
}

/* A tile of a split on its slot. Kernels for misaligned GEMMs have rates and stores of their own; the loss is that
 * against an aligned tile at the full rate. */
static void set_slot(const hr_tiling_problem *problem, double steps, hr_tiling *way)
{
  const hr_narrow_cost *kernels = problem->kernels;
  double area = (double)way->tile.m * (double)way->tile.n, stored_ns = area * problem->slot_ns_per_stored;
  double product_ns = 2.0 * area * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  if (kernels) {
    double narrow_ns = product_ns / (way->tile.share * problem->result_share) + steps * kernels->step_ns +
                       stored_ns * (kernels->store > 0 ? kernels->store : 1);
    way->slot_ns = product_ns + stored_ns;
    way->slowdown = fmax(narrow_ns / way->slot_ns, 1);
    return;
  }
  way->slot_ns = product_ns / way->tile.share + steps * problem->step_ns + stored_ns;
  way->slowdown = slowdown_of(problem, way->tile);
  if (problem->narrow_store > 0) {
    double narrow_ns = (way->slot_ns - stored_ns) * way->slowdown + stored_ns * problem->narrow_store;
    way->slowdown = fmax(narrow_ns / way->slot_ns, 1);
  }
}

static hr_tiling make_tiling(const hr_tiling_problem *problem, hr_tile tile, int64_t tiles, int64_t splits)
{
  hr_tiling way = {.tile = tile, .tiles = tiles, .splits = splits};
  double steps = (double)hr_ceil_div(hr_ceil_div(problem->gemm->k, splits), problem->depth_step);
  way.waves = hr_ceil_div(tiles * splits, problem->slots);
  set_slot(problem, steps, &way);
  way.reduction_ns = reduction_ns(problem, splits);
  double slow_ns = (double)way.waves * way.slot_ns * way.slowdown;
  way.clock = clock_of(problem, slow_ns);
  way.compute_ns = slow_ns / way.clock + way.reduction_ns;
  way.memory_ns = memory_ns(problem, &way);
  way.busy_ns = hr_overlap(way.compute_ns, way.memory_ns);
  return way;
}

/* A GPU with at least twice as many slots as tiles may split k among them; some kernels fill several waves so. */
static int64_t most_splits(const hr_tiling_problem *problem, int64_t tiles)
{
  const hr_hardware *hardware = problem->hardware;
  int64_t units = problem->slots * problem->split_waves;
  if (tiles * 2 > units || hardware->kind != HR_HARDWARE_GPU)
    return 1;
  int64_t bytes = problem->split_k_bytes > 0 ? problem->split_k_bytes : SPLIT_BYTES_LEAST;
  int64_t least = hr_max64(1, bytes / problem->element_bytes);
  return hr_max64(1, hr_min64(units / tiles, problem->gemm->k / least));
}

static void keep_faster(hr_tiling *best, hr_tiling way)
{
  if (way.busy_ns < best->busy_ns)
    *best = way;
}

/* Of a device whose tiles are all smaller: its largest. */
static int64_t least_area(const hr_tiling_problem *problem)
{
  int64_t largest = 0;
  for (size_t i = 0; i < problem->shape_count; i++)
    largest = hr_max64(largest, problem->shapes[i].m * problem->shapes[i].n);
  return hr_min64(problem->least_area, largest);
}

hr_tiling hr_best_tiling(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  const int64_t least = least_area(problem);
  hr_tiling best = {.busy_ns = INFINITY};
  for (size_t i = 0; i < problem->shape_count; i++) {
    hr_tile tile = problem->shapes[i];
    if (tile.m * tile.n < least)
      continue;
    int64_t tiles = hr_ceil_div(gemm->m, tile.m) * hr_ceil_div(gemm->n, tile.n) * gemm->batch;
    int64_t most = most_splits(problem, tiles);
    for (int64_t splits = problem->split_ns > 0 ? 1 : most; splits < most; splits *= 2)
      keep_faster(&best, make_tiling(problem, tile, tiles, splits));
    keep_faster(&best, make_tiling(problem, tile, tiles, most));
  }
  return best;
}
