/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling of a GEMM. docs/prediction-model.md has the model. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H
#define HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H

#include "analysis/predict/gemm_tiling.h"

#include <math.h>

/** Waves of a wide kernel's tiles beyond which hr_wide_cost.refill_ns is added. */
#define HR_WIDE_WAVES 2

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `most_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double most_ns, hr_tiling *way);

/** Rows of an operand that a step of a wide kernel's tile loads: `size` of them, as long as the step is deep, where the
 *  operand is contiguous along k; else those of the step, once for so many elements of the tile. */
static inline double hr_wide_rows(double size, double depth, bool along_k)
{
  return along_k ? size : depth * ceil(size / depth);
}

/** Part of a wide kernel's loads that are left where the multiprocessors are busy to this share, 0 … 1. */
static inline double hr_wide_crowding(const hr_wide_cost *wide, double busy)
{
  return 1 - wide->idle_share * (1 - busy);
}

/** Arithmetic, loads and the wait for loads of a step overlap; where one is much longer, it alone counts. */
static inline double hr_wide_step(double product_ns, double loads_ns, double latency_ns)
{
  double product = product_ns * product_ns, loads = loads_ns * loads_ns, latency = latency_ns * latency_ns;
  return sqrt(sqrt(product * product + loads * loads + latency * latency));
}

/** The launch of a wide kernel takes longer the more multiprocessors have a tile. 0 for other kernels. */
double hr_wide_started_ns(const hr_tiling_problem *problem, const hr_tiling *way);

/** Sets *best to the fastest split of k with the tile of `way`, if that is faster than *best. */
void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling way, hr_tiling *best);

#endif
