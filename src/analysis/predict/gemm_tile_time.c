/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling: of a tile on its slot by each kind of kernel, waves, splits of k, memory, and the clock. */
#include "analysis/predict/gemm_tile_time.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

/* Split-K: each split has at least so many bytes of each row, where the device's file does not say. */
#define SPLIT_BYTES_MIN 2048
/* The tile that alignment shares refer to. */
#define REFERENCE_TILE_M 128.0
#define REFERENCE_TILE_N 256.0
/* Tiles of a cluster that leaves multiprocessors idle. */
#define LARGE_CLUSTER 4
/* A burst: the clock falls to the settled one as calls approach this time. */
#define BURST_NS 1e6

/* Misaligned rows need narrow loads or stores, which then bound a tile: its time grows with its edge instead of its
 * area, so small tiles lose more. Plain GEMMs with misaligned operands lose the same share with every tile
 * (docs/notes/prediction.md). */
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
static double traffic_bytes(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_gemm *gemm = problem->gemm;
  double row_bytes = (double)gemm->k * (double)problem->element_bytes;
  double m = (double)gemm->m, n = (double)gemm->n, cache = (double)problem->hardware->l2_bytes / 2;
  if (tiling->waves <= 1 || gemm->batch > 1 || fmin(m, n) * row_bytes <= cache)
    return problem->loaded_bytes;
  double wave = (double)tiling->tiles / (double)tiling->waves * (double)tiling->tile.m * (double)tiling->tile.n;
  double side = fmax(sqrt(wave), cache / 2 / row_bytes);
  double rows = fmin(side, m), columns = fmin(side * side / rows, n);
  return fmax(problem->loaded_bytes, m * n / (rows * columns) * (rows + columns) * row_bytes);
}

/* Few multiprocessors cannot draw the whole bandwidth. A TMA kernel's tile has the rate of its loads already. */
static double memory_ns(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm *gemm = problem->gemm;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)problem->result_bytes;
  double loaded = traffic_bytes(problem, tiling);
  double active = fmin((double)(tiling->tiles * tiling->splits), (double)problem->slots);
  double drawn = hardware->reach > 0 && !problem->tma ? fmin(1, active / (double)problem->slots * hardware->reach) : 1;
  double store_ns = hr_transfer_ns(hardware, stored, problem->store_share);
  if (hr_is_cached(hardware, loaded + stored))
    return loaded / drawn * 1e9 / hr_cache_rate(hardware) + fmin(stored * 1e9 / hr_cache_rate(hardware), store_ns);
  double sector_ns = stored * problem->sector_ns_per_byte;
  double whole_ns = hr_transfer_ns(hardware, loaded * problem->row_loads, hardware->load_share) / drawn + store_ns;
  return sqrt(whole_ns * whole_ns + sector_ns * sector_ns) + problem->fill_ns;
}

/* Multiprocessors share the power: if some idle or wait for narrow loads, the others clock higher. Power grows with the
 * cube of the clock, so the clock rises by the cube root of the saved share, up to its own limit. */
static double clock_of(const hr_tiling_problem *problem, double slow_ns)
{
  const hr_hardware *hardware = problem->hardware;
  double clock = hardware->boost > 1 ? cbrt(fmax(slow_ns / problem->matrix_ns, 1)) : 1;
  double late = slow_ns / BURST_NS;
  if (hardware->about.clock == HR_CLOCK_BURST && hardware->burst > 1)
    clock *= 1 + (hardware->burst - 1) / (1 + late * late);
  return fmin(clock, fmax(hardware->boost, fmax(hardware->burst, 1)));
}

static double reduction_ns(const hr_tiling_problem *problem, int64_t splits)
{
  const hr_gemm *gemm = problem->gemm;
  bool rounded = problem->kernels && !problem->simt; /* parts of misaligned GEMMs are in the format of the result */
  double part_bytes = rounded ? (double)problem->result_bytes : 4;
  double bytes = 2.0 * part_bytes * (double)splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  double parts_ns = problem->split_ns + (double)splits * problem->part_ns;
  return splits > 1 ? bytes * 1e9 / hr_cache_rate(problem->hardware) + parts_ns : 0;
}

/* A tile of a split on its slot. */
static void set_slot(const hr_tiling_problem *problem, double steps, hr_tiling *tiling)
{
  double area = (double)tiling->tile.m * (double)tiling->tile.n, stored_ns = area * problem->slot_ns_per_stored;
  double arithmetic_ns = 2.0 * area * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  tiling->slot_ns = arithmetic_ns * problem->rate_slowdown / tiling->tile.share + steps * problem->step_ns + stored_ns;
  tiling->slowdown = slowdown_of(problem, tiling->tile);
  if (problem->misaligned_store > 0) { /* a batched GEMM */
    double misaligned_ns = (tiling->slot_ns - stored_ns) * tiling->slowdown + stored_ns * problem->misaligned_store;
    tiling->slowdown = fmax(misaligned_ns / tiling->slot_ns, 1);
  }
}

/* A step of only a few elements takes this share of a whole one. */
#define PARTIAL_STEP 0.5

/* Counts the steps of a split of k: a last step that is not a whole one loads less. */
static double misaligned_steps(const hr_tiling_problem *problem, int64_t splits)
{
  int64_t depth = problem->depth_step, k = hr_ceil_div(problem->gemm->k, splits);
  double rest = (double)(k % depth) / (double)depth;
  return (double)(k / depth) + (rest > 0 ? PARTIAL_STEP + (1 - PARTIAL_STEP) * rest : 0);
}

/* The blocks that a multiprocessor runs at once wait for the same latencies, in which it loads for each of them. */
static double together_ns(double latency_ns, double loads_ns, double blocks)
{
  return sqrt(latency_ns * latency_ns + blocks * loads_ns * blocks * loads_ns);
}

/* Tiles at the edge of a misaligned GEMM load the part that is within the matrix. The loss is counted against aligned
 * tiles at the full rate. */
static void set_misaligned_slot(const hr_tiling_problem *problem, double steps, hr_tiling *tiling)
{
  const hr_gemm_kernel_cost *kernels = problem->kernels;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)tiling->tile.m, n = (double)tiling->tile.n, waves = (double)tiling->waves;
  double full_ns = 2.0 * m * n * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  double stored_ns = fmin(m, (double)gemm->m) * fmin(n, (double)gemm->n) * problem->slot_ns_per_stored;
  double rows = (double)gemm->m / (double)hr_ceil_div(gemm->m, tiling->tile.m);
  double columns = (double)gemm->n / (double)hr_ceil_div(gemm->n, tiling->tile.n);
  double loaded = misaligned_steps(problem, tiling->splits), latency_ns = loaded * tiling->latency_ns;
  double edge_ns = (rows * problem->load_a + columns * problem->load_b) / tiling->tile.share;
  double loads_ns = loaded * (edge_ns + kernels->step_ns);
  int64_t blocks = hr_max64(1, tiling->blocks), rest = tiling->waves % blocks;
  double waves_ns =
      (double)(tiling->waves / blocks) * (together_ns(latency_ns, loads_ns, (double)blocks) + kernels->wave_ns);
  waves_ns += rest > 0 ? together_ns(latency_ns, loads_ns, (double)rest) + kernels->wave_ns : 0;
  tiling->slot_ns = full_ns + stored_ns;
  tiling->slowdown = fmax((waves_ns / waves + m * n * kernels->element_ns) / tiling->slot_ns, 1);
}

/* SIMT kernels wait once a step for each wave of blocks. The steps of a multiprocessor's blocks share its arithmetic
 * and its loads, which overlap. */
static void set_simt_slot(const hr_tiling_problem *problem, double steps, hr_tiling *tiling)
{
  const hr_gemm_kernel_cost *kernels = problem->kernels;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)tiling->tile.m, n = (double)tiling->tile.n;
  double arithmetic_ns = 2.0 * m * n * (double)problem->depth_step * problem->slot_ns_per_flop / tiling->tile.share;
  if (kernels->matrix_share > 0)
    arithmetic_ns /= kernels->matrix_share;
  double used_m = fmin(m, (double)gemm->m), used_n = fmin(n, (double)gemm->n);
  double stored_ns = used_m * used_n * problem->slot_ns_per_stored;
  double loads_ns = used_m * problem->load_a + used_n * problem->load_b;
  double together = (double)hr_ceil_div(tiling->waves, hr_max64(1, tiling->blocks)) / (double)tiling->waves;
  double wave_ns = together * (steps * tiling->latency_ns + kernels->wave_ns) + kernels->tile_ns;
  double rest_ns = wave_ns + steps * kernels->step_ns;
  tiling->slot_ns = steps * arithmetic_ns + rest_ns + stored_ns;
  double loaded_ns = steps * hr_tma_step(arithmetic_ns, loads_ns, 0) + rest_ns + stored_ns * problem->misaligned_store;
  tiling->slowdown = fmax(loaded_ns / tiling->slot_ns, 1);
}

/* A tile of a TMA kernel. Tiles of a cluster load each row once. */
static void set_tma_slot(const hr_tiling_problem *problem, double steps, hr_tiling *tiling)
{
  const hr_tma_gemm_cost *tma = problem->tma;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)tiling->tile.m, n = (double)tiling->tile.n, depth = (double)problem->depth_step;
  double used_m = fmin(m, (double)gemm->m), used_n = fmin(n, (double)gemm->n);
  double busy = fmin(1, (double)(tiling->tiles * tiling->splits) / (double)problem->slots);
  double row_ns = tma->row_ns * hr_tma_crowding(tma, busy);
  double a_ns = row_ns * hr_tma_rows(used_m, depth, !gemm->transpose_a) / (double)tiling->cluster_n;
  double b_ns = row_ns * hr_tma_rows(used_n, depth, gemm->transpose_b) / (double)tiling->cluster_m;
  double arithmetic_ns = 2.0 * m * n * depth * problem->slot_ns_per_flop;
  if (tma->matrix_share > 0)
    arithmetic_ns /= tma->matrix_share;
  double stored_ns = used_m * used_n * (double)problem->result_bytes / tma->store_bytes_per_ns;
  double rest_ns = steps * tma->step_ns + stored_ns;
  double latency_ns = fmax(tma->latency_ns, (m + n) * tma->row_latency_ns);
  double slow_ns = a_ns * problem->load_a + b_ns * problem->load_b;
  slow_ns = steps * hr_tma_step(arithmetic_ns, slow_ns, latency_ns) + rest_ns;
  tiling->slot_ns = steps * hr_tma_step(arithmetic_ns, a_ns + b_ns, latency_ns) + rest_ns;
  tiling->slowdown = fmax(slow_ns / tiling->slot_ns, 1);
  tiling->refill_ns = tiling->waves > HR_TMA_WAVES ? tma->refill_ns : 0;
}

/* A cluster lies within a group of multiprocessors, whose number large ones do not divide. */
static int64_t slots_of(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  bool large = problem->tma && tiling->cluster_m * tiling->cluster_n >= LARGE_CLUSTER;
  return large ? hr_max64(1, problem->slots - (int64_t)problem->tma->cluster_idle) : problem->slots;
}

bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  double steps = (double)hr_ceil_div(hr_ceil_div(problem->gemm->k, tiling->splits), problem->depth_step);
  tiling->waves = hr_ceil_div(tiling->tiles * tiling->splits, slots_of(problem, tiling));
  tiling->refill_ns = 0;
  if (problem->tma)
    set_tma_slot(problem, steps, tiling);
  else if (problem->simt)
    set_simt_slot(problem, steps, tiling);
  else if (problem->kernels)
    set_misaligned_slot(problem, steps, tiling);
  else
    set_slot(problem, steps, tiling);
  tiling->reduction_ns = reduction_ns(problem, tiling->splits);
  double slow_ns = (double)tiling->waves * tiling->slot_ns * tiling->slowdown + tiling->refill_ns;
  bool fixed_clock = problem->kernels && !problem->simt; /* theirs is measured at its limit */
  double fastest = fixed_clock ? 1 : fmax(hardware->boost, fmax(hardware->burst, 1));
  double min_ns = slow_ns / fastest + tiling->reduction_ns, memory_min_ns = problem->memory_min_ns;
  if (min_ns * min_ns * min_ns + memory_min_ns * memory_min_ns * memory_min_ns > max_ns * max_ns * max_ns)
    return false;
  tiling->clock = fixed_clock ? 1 : clock_of(problem, slow_ns);
  tiling->compute_ns = slow_ns / tiling->clock + tiling->reduction_ns;
  tiling->memory_ns = memory_ns(problem, tiling);
  tiling->busy_ns = hr_overlap(tiling->compute_ns, tiling->memory_ns);
  return true;
}

/* Some libraries leave k of the smallest GEMMs whole, however long it is. */
static bool stays_whole(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  return (double)gemm->m * (double)gemm->n * (double)gemm->k <= (double)problem->hardware->split_gemm_size;
}

/* A GPU with at least twice as many slots as tiles may split k among them; some kernels fill several waves so. */
static int64_t max_splits(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  int64_t units = slots_of(problem, tiling) * problem->split_waves * hr_max64(1, tiling->blocks), tiles = tiling->tiles;
  if (tiles * 2 > units || hardware->about.kind != HR_HARDWARE_GPU || stays_whole(problem))
    return 1;
  int64_t bytes = problem->split_k_bytes > 0 ? problem->split_k_bytes : SPLIT_BYTES_MIN;
  int64_t least = hr_max64(1, bytes / problem->element_bytes);
  return hr_max64(1, hr_min64(units / tiles, problem->gemm->k / least));
}

double hr_tma_started_ns(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  double busy = fmin(1, (double)(tiling->tiles * tiling->splits) / (double)problem->slots);
  return problem->tma ? problem->tma->busy_ns * busy : 0;
}

void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling tiling, hr_tiling *best)
{
  int64_t most = max_splits(problem, &tiling);
  /* cuBLASLt 13.1's heuristic left 61 of 32,900 aligned GEMMs that it could have split whole; 89% have the most
   * splits, and most others one fewer. */
  for (tiling.splits = problem->split_ns > 0 && !problem->tma ? 1 : most; tiling.splits <= most;
       tiling.splits = tiling.splits < most ? hr_min64(tiling.splits * 2, most) : most + 1) {
    double max_ns = best->busy_ns + hr_tma_started_ns(problem, best) - hr_tma_started_ns(problem, &tiling);
    if (hr_set_tiling_time(problem, max_ns, &tiling) && tiling.busy_ns < max_ns)
      *best = tiling;
  }
}
