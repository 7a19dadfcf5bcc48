/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling: of a tile on its slot by each kind of kernel, waves, splits of k, memory, and the clock. */
#include "analysis/predict/gemm_tile_time.h"

#include "base/checked.h"

#include <math.h>

/* Split-K: each split has at least so many bytes of each row, where the device's file does not say. */
#define SPLIT_BYTES_LEAST 2048
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

/* Few multiprocessors cannot draw the whole bandwidth. A wide kernel's tile has the rate of its loads already. */
static double memory_ns(const hr_tiling_problem *problem, const hr_tiling *way)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm *gemm = problem->gemm;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)problem->result_bytes;
  double loaded = traffic_bytes(problem, way);
  double active = fmin((double)(way->tiles * way->splits), (double)problem->slots);
  double drawn = hardware->reach > 0 && !problem->wide ? fmin(1, active / (double)problem->slots * hardware->reach) : 1;
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
  if (hardware->clock == HR_CLOCK_BURST && hardware->burst > 1)
    clock *= 1 + (hardware->burst - 1) / (1 + late * late);
  return fmin(clock, fmax(hardware->boost, fmax(hardware->burst, 1)));
}

static double reduction_ns(const hr_tiling_problem *problem, int64_t splits)
{
  const hr_gemm *gemm = problem->gemm;
  bool rounded = problem->kernels && !problem->vector; /* parts of misaligned GEMMs are in the format of the result */
  double part_bytes = rounded ? (double)problem->result_bytes : 4;
  double bytes = 2.0 * part_bytes * (double)splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  double parts_ns = problem->split_ns + (double)splits * problem->part_ns;
  return splits > 1 ? bytes * 1e9 / hr_cache_rate(problem->hardware) + parts_ns : 0;
}

/* A tile of a split on its slot. */
static void set_slot(const hr_tiling_problem *problem, double steps, hr_tiling *way)
{
  double area = (double)way->tile.m * (double)way->tile.n, stored_ns = area * problem->slot_ns_per_stored;
  double product_ns = 2.0 * area * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  way->slot_ns = product_ns * problem->rate_slowdown / way->tile.share + steps * problem->step_ns + stored_ns;
  way->slowdown = slowdown_of(problem, way->tile);
  if (problem->narrow_store > 0) { /* a batched GEMM */
    double narrow_ns = (way->slot_ns - stored_ns) * way->slowdown + stored_ns * problem->narrow_store;
    way->slowdown = fmax(narrow_ns / way->slot_ns, 1);
  }
}

/* A step of only a few elements takes this share of a whole one. */
#define PARTIAL_STEP 0.5

/* Counts the steps of a split of k: a last step that is not a whole one loads less. */
static double narrow_steps(const hr_tiling_problem *problem, int64_t splits)
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
static void set_narrow_slot(const hr_tiling_problem *problem, double steps, hr_tiling *way)
{
  const hr_narrow_cost *kernels = problem->kernels;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)way->tile.m, n = (double)way->tile.n, waves = (double)way->waves;
  double full_ns = 2.0 * m * n * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  double stored_ns = fmin(m, (double)gemm->m) * fmin(n, (double)gemm->n) * problem->slot_ns_per_stored;
  double rows = (double)gemm->m / (double)hr_ceil_div(gemm->m, way->tile.m);
  double columns = (double)gemm->n / (double)hr_ceil_div(gemm->n, way->tile.n);
  double loaded = narrow_steps(problem, way->splits), latency_ns = loaded * way->latency_ns;
  double edge_ns = (rows * problem->load_a + columns * problem->load_b) / way->tile.share;
  double loads_ns = loaded * (edge_ns + kernels->step_ns);
  int64_t blocks = hr_max64(1, way->blocks), rest = way->waves % blocks;
  double waves_ns =
      (double)(way->waves / blocks) * (together_ns(latency_ns, loads_ns, (double)blocks) + kernels->wave_ns);
  waves_ns += rest > 0 ? together_ns(latency_ns, loads_ns, (double)rest) + kernels->wave_ns : 0;
  way->slot_ns = full_ns + stored_ns;
  way->slowdown = fmax((waves_ns / waves + m * n * kernels->element_ns) / way->slot_ns, 1);
}

/* SIMT kernels wait once a step for each wave of blocks. The steps of a multiprocessor's blocks share its arithmetic
 * and its loads, which overlap. */
static void set_vector_slot(const hr_tiling_problem *problem, double steps, hr_tiling *way)
{
  const hr_narrow_cost *kernels = problem->kernels;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)way->tile.m, n = (double)way->tile.n;
  double product_ns = 2.0 * m * n * (double)problem->depth_step * problem->slot_ns_per_flop / way->tile.share;
  if (kernels->matrix_share > 0)
    product_ns /= kernels->matrix_share;
  double used_m = fmin(m, (double)gemm->m), used_n = fmin(n, (double)gemm->n);
  double stored_ns = used_m * used_n * problem->slot_ns_per_stored;
  double loads_ns = used_m * problem->load_a + used_n * problem->load_b;
  double together = (double)hr_ceil_div(way->waves, hr_max64(1, way->blocks)) / (double)way->waves;
  double wave_ns = together * (steps * way->latency_ns + kernels->wave_ns) + kernels->tile_ns;
  double rest_ns = wave_ns + steps * kernels->step_ns;
  way->slot_ns = steps * product_ns + rest_ns + stored_ns;
  double loaded_ns = steps * hr_wide_step(product_ns, loads_ns, 0) + rest_ns + stored_ns * problem->narrow_store;
  way->slowdown = fmax(loaded_ns / way->slot_ns, 1);
}

/* A tile of a wide kernel. Tiles of a cluster load each row once. */
static void set_wide_slot(const hr_tiling_problem *problem, double steps, hr_tiling *way)
{
  const hr_wide_cost *wide = problem->wide;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)way->tile.m, n = (double)way->tile.n, depth = (double)problem->depth_step;
  double used_m = fmin(m, (double)gemm->m), used_n = fmin(n, (double)gemm->n);
  double busy = fmin(1, (double)(way->tiles * way->splits) / (double)problem->slots);
  double row_ns = wide->row_ns * hr_wide_crowding(wide, busy);
  double a_ns = row_ns * hr_wide_rows(used_m, depth, !gemm->transpose_a) / (double)way->cluster_n;
  double b_ns = row_ns * hr_wide_rows(used_n, depth, gemm->transpose_b) / (double)way->cluster_m;
  double product_ns = 2.0 * m * n * depth * problem->slot_ns_per_flop;
  if (wide->matrix_share > 0)
    product_ns /= wide->matrix_share;
  double stored_ns = used_m * used_n * (double)problem->result_bytes / wide->store_bytes_per_ns;
  double rest_ns = steps * wide->step_ns + stored_ns;
  double latency_ns = fmax(wide->latency_ns, (m + n) * wide->row_latency_ns);
  double slow_ns = a_ns * problem->load_a + b_ns * problem->load_b;
  slow_ns = steps * hr_wide_step(product_ns, slow_ns, latency_ns) + rest_ns;
  way->slot_ns = steps * hr_wide_step(product_ns, a_ns + b_ns, latency_ns) + rest_ns;
  way->slowdown = fmax(slow_ns / way->slot_ns, 1);
  way->refill_ns = way->waves > HR_WIDE_WAVES ? wide->refill_ns : 0;
}

/* A cluster lies within a group of multiprocessors, whose number large ones do not divide. */
static int64_t slots_of(const hr_tiling_problem *problem, const hr_tiling *way)
{
  bool large = problem->wide && way->cluster_m * way->cluster_n >= LARGE_CLUSTER;
  return large ? hr_max64(1, problem->slots - (int64_t)problem->wide->cluster_idle) : problem->slots;
}

bool hr_set_tiling_time(const hr_tiling_problem *problem, double most_ns, hr_tiling *way)
{
  const hr_hardware *hardware = problem->hardware;
  double steps = (double)hr_ceil_div(hr_ceil_div(problem->gemm->k, way->splits), problem->depth_step);
  way->waves = hr_ceil_div(way->tiles * way->splits, slots_of(problem, way));
  way->refill_ns = 0;
  if (problem->wide)
    set_wide_slot(problem, steps, way);
  else if (problem->vector)
    set_vector_slot(problem, steps, way);
  else if (problem->kernels)
    set_narrow_slot(problem, steps, way);
  else
    set_slot(problem, steps, way);
  way->reduction_ns = reduction_ns(problem, way->splits);
  double slow_ns = (double)way->waves * way->slot_ns * way->slowdown + way->refill_ns;
  bool fixed_clock = problem->kernels && !problem->vector; /* theirs is measured at its limit */
  double fastest = fixed_clock ? 1 : fmax(hardware->boost, fmax(hardware->burst, 1));
  double least_ns = slow_ns / fastest + way->reduction_ns, memory_least_ns = problem->memory_least_ns;
  if (least_ns * least_ns * least_ns + memory_least_ns * memory_least_ns * memory_least_ns >
      most_ns * most_ns * most_ns)
    return false;
  way->clock = fixed_clock ? 1 : clock_of(problem, slow_ns);
  way->compute_ns = slow_ns / way->clock + way->reduction_ns;
  way->memory_ns = memory_ns(problem, way);
  way->busy_ns = hr_overlap(way->compute_ns, way->memory_ns);
  return true;
}

/* Some libraries leave k of the smallest GEMMs whole, however long it is. */
static bool stays_whole(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  return (double)gemm->m * (double)gemm->n * (double)gemm->k <= (double)problem->hardware->split_products;
}

/* A GPU with at least twice as many slots as tiles may split k among them; some kernels fill several waves so. */
static int64_t most_splits(const hr_tiling_problem *problem, const hr_tiling *way)
{
  const hr_hardware *hardware = problem->hardware;
  int64_t units = slots_of(problem, way) * problem->split_waves * hr_max64(1, way->blocks), tiles = way->tiles;
  if (tiles * 2 > units || hardware->kind != HR_HARDWARE_GPU || stays_whole(problem))
    return 1;
  int64_t bytes = problem->split_k_bytes > 0 ? problem->split_k_bytes : SPLIT_BYTES_LEAST;
  int64_t least = hr_max64(1, bytes / problem->element_bytes);
  return hr_max64(1, hr_min64(units / tiles, problem->gemm->k / least));
}

double hr_wide_started_ns(const hr_tiling_problem *problem, const hr_tiling *way)
{
  double busy = fmin(1, (double)(way->tiles * way->splits) / (double)problem->slots);
  return problem->wide ? problem->wide->busy_ns * busy : 0;
}

void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling way, hr_tiling *best)
{
  int64_t most = most_splits(problem, &way);
  /* cuBLASLt 13.1's heuristic left 61 of 32,900 aligned GEMMs that it could have split whole; 89% have the most
   * splits, and most others one fewer. */
  for (way.splits = problem->split_ns > 0 && !problem->wide ? 1 : most; way.splits <= most;
       way.splits = way.splits < most ? hr_min64(way.splits * 2, most) : most + 1) {
    double most_ns = best->busy_ns + hr_wide_started_ns(problem, best) - hr_wide_started_ns(problem, &way);
    if (hr_set_tiling_time(problem, most_ns, &way) && way.busy_ns < most_ns)
      *best = way;
  }
}
