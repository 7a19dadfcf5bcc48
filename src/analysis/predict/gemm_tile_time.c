/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling: of a tile on its slot by each kind of kernel, waves, splits of k, memory, and the clock. */
#include "analysis/predict/gemm_tiling.h"

#include "base/checked.h"
#include "hardware/hardware.h"

#include <math.h>

/* The tile that shares of misaligned results refer to. */
#define REFERENCE_TILE_M 128.0
#define REFERENCE_TILE_N 256.0
/* A burst: the clock falls to the settled one as calls approach this time. */
#define BURST_NS 1e6

/* Misaligned rows of a result need narrow stores, which then bound a tile: its time grows with its edge instead of its
 * area, so small tiles lose more. GEMMs with misaligned operands lose the same share with every tile
 * (docs/notes/prediction.md). */
static double slowdown_of(const hr_tiling_problem *problem, hr_tile tile)
{
  double alignment_share = problem->alignment_share;
  if (alignment_share >= 1 || !problem->by_edge)
    return 1 / fmin(alignment_share, 1);
  double edge = (double)(tile.m + tile.n) / ((double)tile.m * (double)tile.n);
  double reference = (REFERENCE_TILE_M + REFERENCE_TILE_N) / (REFERENCE_TILE_M * REFERENCE_TILE_N);
  return 1 + (1 / alignment_share - 1) * edge / reference;
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

/* Few multiprocessors cannot draw the whole bandwidth. A family's tile has the rate of its loads already. */
double hr_tiling_memory_ns(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_hardware *hardware = problem->hardware;
  const hr_gemm *gemm = problem->gemm;
  double stored = (double)gemm->m * (double)gemm->n * (double)gemm->batch * (double)problem->result_bytes;
  double loaded = traffic_bytes(problem, tiling);
  double active = fmin((double)(tiling->tiles * tiling->splits), (double)problem->slots);
  bool by_reach = hardware->reach > 0 && !problem->family;
  double drawn = by_reach ? fmin(1, active / (double)problem->slots * hardware->reach) : 1;
  double store_ns = hr_transfer_ns(hardware, stored, hardware->store_share);
  if (hr_is_cached(hardware, loaded + stored))
    return loaded / drawn * 1e9 / hr_cache_rate(hardware) + fmin(stored * 1e9 / hr_cache_rate(hardware), store_ns);
  double sector_ns = stored * problem->sector_ns_per_byte;
  double whole_ns = hr_transfer_ns(hardware, loaded * problem->row_loads, hardware->load_share) / drawn + store_ns;
  return sqrt(whole_ns * whole_ns + sector_ns * sector_ns);
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
  return fmin(clock, problem->highest_clock);
}

/* The parts of misaligned GEMMs are in the format of the result. */
static double reduction_ns(const hr_tiling_problem *problem, int64_t splits)
{
  const hr_gemm *gemm = problem->gemm;
  double part_bytes = problem->family && problem->family->misaligned ? (double)problem->result_bytes : 4;
  double bytes = 2.0 * part_bytes * (double)splits * (double)gemm->m * (double)gemm->n * (double)gemm->batch;
  double parts_ns = problem->split_ns + (problem->cost ? (double)splits * problem->cost->part_ns : 0);
  return splits > 1 ? bytes * 1e9 / hr_cache_rate(problem->hardware) + parts_ns : 0;
}

/* A tile of a split on its slot. */
static void set_slot(const hr_tiling_problem *problem, hr_tiling *tiling)
{
  double steps = (double)hr_ceil_div(hr_ceil_div(problem->gemm->k, tiling->splits), problem->depth_step);
  double area = (double)tiling->tile.m * (double)tiling->tile.n, stored_ns = area * problem->slot_ns_per_stored;
  double arithmetic_ns = 2.0 * area * steps * (double)problem->depth_step * problem->slot_ns_per_flop;
  tiling->slot_ns = arithmetic_ns * problem->rate_slowdown / tiling->tile.share + stored_ns;
  tiling->slowdown = slowdown_of(problem, tiling->tile);
}

/* ---- kernels of a family ---- */

/* Waves of tiles beyond which refill_ns is added. */
#define REFILL_WAVES 2

/* Arithmetic, loads and the wait for loads of a step overlap; where one is much longer, it alone counts. */
static double overlap_step(double arithmetic_ns, double loads_ns, double latency_ns)
{
  double product = arithmetic_ns * arithmetic_ns, loads = loads_ns * loads_ns, latency = latency_ns * latency_ns;
  return sqrt(sqrt(product * product + loads * loads + latency * latency));
}

/* Terms of a block's step along k, and of its end. */
typedef struct block_terms {
  double arithmetic_ns, loads_ns, aligned_ns, latency_ns; /* aligned: loads of operands that are aligned */
  double stores_ns, wave_ns, step_share;
} block_terms;

/* The load of an operand in a step: `size` rows along k, or the step's elements of k in rows of whole steps. */
static double load_ns(const hr_tiling_problem *problem, double size, bool along_k)
{
  const hr_gemm_kernel_cost *cost = problem->cost;
  double depth = (double)problem->depth_step;
  if (along_k) /* short rows share cache lines */
    return size * cost->row_ns * (cost->short_k > 0 ? 1 - exp(-(double)problem->gemm->k / cost->short_k) : 1);
  double times = problem->family->column_times > 0 ? problem->family->column_times : 1;
  return depth * ceil(size / depth) * (cost->column_ns > 0 ? cost->column_ns : cost->row_ns) * times;
}

static block_terms terms_of(const hr_tiling_problem *problem, const hr_tiling *tiling)
{
  const hr_gemm_kernel_cost *cost = problem->cost;
  const hr_gemm *gemm = problem->gemm;
  double m = (double)tiling->tile.m, n = (double)tiling->tile.n;
  double a_ns = load_ns(problem, fmin(m, (double)gemm->m), !gemm->transpose_a) / (double)tiling->cluster_n;
  double b_ns = load_ns(problem, fmin(n, (double)gemm->n), gemm->transpose_b) / (double)tiling->cluster_m;
  double rate = cost->matrix_share > 0 ? cost->matrix_share : 1;
  double stored = m * n * (double)problem->result_bytes;
  return (block_terms){
      .arithmetic_ns = 2.0 * m * n * (double)problem->depth_step * problem->slot_ns_per_flop / rate,
      .loads_ns = a_ns * problem->load_a + b_ns * problem->load_b,
      .aligned_ns = problem->family->simt ? 0 : a_ns + b_ns,
      .latency_ns = cost->latency_ns + (m + n) * cost->row_latency_ns,
      .stores_ns = cost->store_bytes_per_ns > 0 ? stored / cost->store_bytes_per_ns : 0,
      .wave_ns = cost->wave_ns,
      .step_share = tiling->step_share,
  };
}

/* Blocks of a multiprocessor share its arithmetic and loads, and wait for the same latencies. */
static double together_ns(const hr_gemm_kernel_cost *cost, const block_terms *t, double loads_ns, double steps,
                          double blocks)
{
  double step_ns = overlap_step(blocks * t->arithmetic_ns, blocks * loads_ns, t->latency_ns) + blocks * cost->step_ns;
  return steps * step_ns * t->step_share + t->wave_ns + blocks * t->stores_ns;
}

/* All tiles of a multiprocessor, of which it runs `blocks` at once. */
static double waves_ns(const hr_gemm_kernel_cost *cost, const block_terms *t, double loads_ns, double steps,
                       const hr_tiling *tiling)
{
  const int64_t full = tiling->waves / tiling->blocks, rest = tiling->waves % tiling->blocks;
  return (double)full * together_ns(cost, t, loads_ns, steps, (double)tiling->blocks) +
         (rest > 0 ? together_ns(cost, t, loads_ns, steps, (double)rest) : 0);
}

/* The loss of misaligned kernels counts against aligned tiles at the full rate. */
static double aligned_slot_ns(const hr_tiling_problem *problem, const block_terms *t, double steps,
                              const hr_tiling *tiling)
{
  const hr_gemm_kernel_cost *cost = problem->cost;
  if (!problem->family->misaligned)
    return waves_ns(cost, t, t->aligned_ns, steps, tiling) / (double)tiling->waves;
  double rate = cost->matrix_share > 0 ? cost->matrix_share : 1;
  double area = (double)tiling->tile.m * (double)tiling->tile.n;
  return steps * t->arithmetic_ns * rate + area * problem->slot_ns_per_stored;
}

/* A step of only a few elements takes this share of a whole one. */
#define PARTIAL_STEP 0.5

/* Counts the steps of a split of k: a last step that is not a whole one loads less. */
static double steps_of(const hr_tiling_problem *problem, int64_t splits)
{
  int64_t depth = problem->depth_step, k = hr_ceil_div(problem->gemm->k, splits);
  const int64_t whole = k / depth;
  double rest = (double)(k % depth) / (double)depth;
  return (double)whole + (rest > 0 ? PARTIAL_STEP + (1 - PARTIAL_STEP) * rest : 0);
}

static void set_family_slot(const hr_tiling_problem *problem, hr_tiling *tiling)
{
  double steps = steps_of(problem, tiling->splits);
  block_terms t = terms_of(problem, tiling);
  double slow_ns = waves_ns(problem->cost, &t, t.loads_ns, steps, tiling) / (double)tiling->waves;
  tiling->slot_ns = fmin(aligned_slot_ns(problem, &t, steps, tiling), slow_ns);
  tiling->slowdown = slow_ns / tiling->slot_ns;
  tiling->refill_ns = tiling->waves > REFILL_WAVES ? problem->cost->refill_ns : 0;
}

/* Rounding decides about a tiling that is exactly as fast. */
#define ROUNDING 1e-12

/* Compute and memory overlap, and the clock is that of clock_of(). */
bool hr_exceeds(const hr_tiling_problem *problem, double slow_ns, double reduction_ns, double max_ns)
{
  double clock = problem->highest_clock, memory_ns = problem->memory_min_ns;
  double compute_ns = slow_ns / clock + reduction_ns;
  double cube = compute_ns * compute_ns * compute_ns;
  if (clock > 1 && problem->hardware->about.clock != HR_CLOCK_BURST) {
    double faster = slow_ns * slow_ns * (slow_ns < problem->matrix_ns ? slow_ns : problem->matrix_ns);
    cube = cube > faster ? cube : faster;
  }
  return cube + memory_ns * memory_ns * memory_ns > max_ns * max_ns * max_ns * (1 + ROUNDING);
}

bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling)
{
  tiling->waves = hr_ceil_div(tiling->tiles * tiling->splits, problem->slots);
  tiling->refill_ns = 0;
  if (problem->family)
    set_family_slot(problem, tiling);
  else
    set_slot(problem, tiling);
  tiling->reduction_ns = reduction_ns(problem, tiling->splits);
  double slow_ns = (double)tiling->waves * tiling->slot_ns * tiling->slowdown + tiling->refill_ns;
  if (max_ns < INFINITY && hr_exceeds(problem, slow_ns, tiling->reduction_ns, max_ns))
    return false;
  tiling->clock = clock_of(problem, slow_ns);
  tiling->compute_ns = slow_ns / tiling->clock + tiling->reduction_ns;
  tiling->memory_ns = hr_tiling_memory_ns(problem, tiling);
  tiling->busy_ns = hr_overlap(tiling->compute_ns, tiling->memory_ns);
  return true;
}

void hr_set_family_terms(hr_tiling_problem *problem)
{
  const hr_gemm_kernel_cost *cost = problem->cost;
  const int64_t steps = problem->gemm->k / problem->depth_step;
  const double share = cost->matrix_share > 0 ? cost->matrix_share : 1, bytes = (double)problem->result_bytes;
  problem->memory_min_ns = hr_tiling_memory_ns(problem, &(hr_tiling){.waves = 1});
  problem->element_ns = 2 * (double)problem->gemm->k * problem->slot_ns_per_flop / share +
                        (cost->store_bytes_per_ns > 0 ? bytes / cost->store_bytes_per_ns : 0);
  problem->steps_ns = (double)steps * cost->step_ns;
}
