/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned GEMMs of 16 bits on Hopper: tiles and clusters of cuBLASLt's kernels, and which of them is the fastest. */
#include "analysis/predict/gemm_tma.h"
#include "analysis/predict/gemm_family.h"
#include "analysis/predict/gemm_tile_time.h"

#include "base/checked.h"

#include <math.h>

/* Tiles of a TMA kernel whose operand is not contiguous along k are multiples of this. */
#define WIDE_GRANULE 32
/* Clusters of more matrices could have more tiles than can be counted. */
#define BATCH_MAX ((int64_t)1 << 40)

/* A tile of cuBLASLt's kernels for Hopper and the cluster that it runs in. */
typedef struct tma_kernel {
  double m, n, part_m, part_n;           /* part: 1 over the size */
  double cluster_part_m, cluster_part_n; /* the same of the cluster */
  int64_t cluster_m, cluster_n;
} tma_kernel;

/* What the lower bound of a kernel's time needs of a problem. */
typedef struct tma_bound {
  double m, n, batch_part;   /* batch over slots */
  double steps, split_steps; /* of a tile, and of one of the most splits at least */
  double arithmetic_ns;      /* of a step: of an element of the tile */
  double a_ns, b_ns;         /* of a step: of a row that it loads */
  double stored_ns;          /* of an element of the result */
  double memory_cubed;
  double fastest_part, matrix_ns; /* the clock is at most 1 over the first, and the root of the time over the second */
  double burst_part;              /* 1 over the burst to the third power */
  bool may_split, may_cluster;
} tma_bound;

#define NEARLY_ONE 0.999999
#define COUNTABLE 1e15 /* a larger double counts as a whole number */

static double floor_of(double count)
{
  return count < COUNTABLE ? (double)(int64_t)count : count;
}

static tma_bound bound_of(const hr_tiling_problem *problem)
{
  const hr_gemm *gemm = problem->gemm;
  const hr_hardware *hardware = problem->hardware;
  double depth = (double)problem->depth_step;
  double rate = problem->cost->matrix_share > 0 ? problem->cost->matrix_share : 1;
  double memory_ns = problem->memory_min_ns;
  double burst = hardware->about.clock == HR_CLOCK_BURST ? fmax(hardware->burst, 1) : 1;
  return (tma_bound){.m = (double)gemm->m,
                     .n = (double)gemm->n,
                     .batch_part = (double)gemm->batch / (double)problem->slots,
                     .steps = ((double)gemm->k / depth),
                     .split_steps = floor_of((double)problem->family->split_part / depth),
                     .arithmetic_ns = 2 * depth * problem->slot_ns_per_flop / rate,
                     .a_ns = problem->load_a * problem->cost->row_ns,
                     .b_ns = problem->load_b * problem->cost->row_ns,
                     .stored_ns = (double)problem->result_bytes / problem->cost->store_bytes_per_ns,
                     .memory_cubed = memory_ns * memory_ns * memory_ns,
                     .fastest_part = 1 / fmax(hardware->boost, fmax(hardware->burst, 1)),
                     .matrix_ns = problem->matrix_ns,
                     .burst_part = 1 / (burst * burst * burst),
                     .may_cluster = gemm->batch < BATCH_MAX,
                     .may_split = gemm->batch == 1 && gemm->k >= problem->family->split_from};
}

/* The least that a kernel computes, to the third power, and the part of its time that is its launch's. */
typedef struct tma_min {
  double compute_cubed, started_ns;
} tma_min;

/* A lower bound of hr_overlap_step() without its latency, exact where one of the times is 0 and where both are equal:
 * 2^(-3/4) of their sum. */
static double min_step(double arithmetic_ns, double loads_ns)
{
  double longer = arithmetic_ns > loads_ns ? arithmetic_ns : loads_ns, both = 0.594603 * (arithmetic_ns + loads_ns);
  return longer > both ? longer : both;
}

/* Bounds a kernel's time by arithmetic, loads and stores alone. It makes no calls and few divisions, because it runs
 * for a hundred kernels, of which few need a closer look. */
static tma_min min_of(const hr_gemm_kernel_cost *tma, const tma_bound *b, const tma_kernel *kernel)
{
  double rows = floor_of(b->m * kernel->part_m + NEARLY_ONE), columns = floor_of(b->n * kernel->part_n + NEARLY_ONE);
  if (b->may_cluster) {
    rows = floor_of(rows * kernel->cluster_part_m + NEARLY_ONE) * (double)kernel->cluster_m;
    columns = floor_of(columns * kernel->cluster_part_n + NEARLY_ONE) * (double)kernel->cluster_n;
  }
  double full = rows * columns * b->batch_part;
  double steps = b->may_split && full * 2 <= 2 - NEARLY_ONE ? b->split_steps : b->steps;
  double used_m = kernel->m < b->m ? kernel->m : b->m, used_n = kernel->n < b->n ? kernel->n : b->n;
  double a_ns = used_m * b->a_ns;
  double b_ns = used_n * b->b_ns;
  double loads_ns = a_ns * kernel->cluster_part_n + b_ns * kernel->cluster_part_m;
  double arithmetic_ns = kernel->m * kernel->n * b->arithmetic_ns;
  double slot_ns = steps * (min_step(arithmetic_ns, loads_ns) + tma->step_ns) + used_m * used_n * b->stored_ns;
  double slow_ns = floor_of(full + NEARLY_ONE) * slot_ns, at_most = slow_ns * b->fastest_part;
  double rising = slow_ns * slow_ns * (slow_ns < b->matrix_ns ? slow_ns : b->matrix_ns) * b->burst_part;
  at_most = at_most * at_most * at_most;
  return (tma_min){at_most > rising ? at_most : rising, tma->busy_ns * (full < 1 ? full : 1)};
}

static const tma_kernel tma_kernels[] = {
#define TILE(m, n, cluster_m, cluster_n) \
  {m, n, 1.0 / (m), 1.0 / (n), 1.0 / (cluster_m), 1.0 / (cluster_n), cluster_m, cluster_n},
#include "analysis/predict/tma_kernels.inc"
#include "hardware/hardware.h"
#undef TILE
};

#define TMA_KERNELS (sizeof tma_kernels / sizeof *tma_kernels)

static void try_tma(const hr_tiling_problem *problem, const tma_kernel *kernel, hr_tiling *best)
{
  const hr_gemm *gemm = problem->gemm;
  hr_tiling tiling = {.tile = {.m = (int64_t)kernel->m, .n = (int64_t)kernel->n, .share = 1},
                      .blocks = 1,
                      .cluster_m = gemm->batch < BATCH_MAX ? kernel->cluster_m : 1,
                      .cluster_n = gemm->batch < BATCH_MAX ? kernel->cluster_n : 1};
  tiling.tiles = hr_round_up(hr_ceil_div(gemm->m, tiling.tile.m), tiling.cluster_m) *
                 hr_round_up(hr_ceil_div(gemm->n, tiling.tile.n), tiling.cluster_n) * gemm->batch;
  hr_keep_faster_tiling(problem, tiling, best);
}

/* WGMMA has tiles of any multiple of 8 only along k. */
static bool has_layout(const hr_gemm *gemm, const tma_kernel *kernel)
{
  return (!gemm->transpose_a || (int)kernel->m % WIDE_GRANULE == 0) &&
         (gemm->transpose_b || (int)kernel->n % WIDE_GRANULE == 0);
}

/* The fastest of the kernels that the library has for the layout: first the one whose least time is the shortest, then
 * those whose least time is shorter than its time. The library does not know of what filling pipelines again takes:
 * where one step along k is all, it takes small tiles in three and more waves. */
hr_tiling hr_best_tma_tiling(const hr_tiling_problem *all)
{
  const double result = (double)all->gemm->m * (double)all->gemm->n * (double)all->gemm->batch;
  const double stored = result * (double)all->result_bytes;
  hr_tiling_problem problem = *all;
  hr_gemm_kernel_cost known = *all->cost;
  known.refill_ns = 0;
  problem.cost = &known;
  if (!hr_is_cached(all->hardware, all->loaded_bytes + stored)) {
    double whole_ns = hr_transfer_ns(all->hardware, all->loaded_bytes, all->hardware->load_share) +
                      hr_transfer_ns(all->hardware, stored, all->store_share);
    double sector_ns = stored * all->sector_ns_per_byte;
    problem.memory_min_ns = sqrt(whole_ns * whole_ns + sector_ns * sector_ns);
  }
  const tma_bound bound = bound_of(&problem);
  tma_min least[TMA_KERNELS];
  size_t first = TMA_KERNELS;
  for (size_t i = 0; i < TMA_KERNELS; i++) {
    least[i] =
        has_layout(all->gemm, &tma_kernels[i]) ? min_of(all->cost, &bound, &tma_kernels[i]) : (tma_min){INFINITY, 0};
    if (first == TMA_KERNELS || least[i].compute_cubed < least[first].compute_cubed)
      first = i;
  }
  hr_tiling best = {.busy_ns = INFINITY};
  try_tma(&problem, &tma_kernels[first], &best);
  for (size_t i = 0; i < TMA_KERNELS; i++) {
    double max_ns = best.busy_ns + hr_started_ns(&problem, &best) - least[i].started_ns;
    if (i != first && least[i].compute_cubed + bound.memory_cubed <= max_ns * max_ns * max_ns)
      try_tma(&problem, &tma_kernels[i], &best);
  }
  hr_set_tiling_time(all, INFINITY, &best);
  return best;
}
