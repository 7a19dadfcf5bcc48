/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling of a GEMM. docs/prediction-model.md has the model. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H
#define HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H

#include "analysis/predict/gemm_tiling.h"
#include "hardware/hardware.h"

#include <math.h>

/** Waves of a TMA kernel's tiles beyond which hr_tma_gemm_cost.refill_ns is added. */
#define HR_TMA_WAVES 2

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `max_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling);

/** Rows of an operand that a step of a TMA kernel's tile loads: `size` of them, as long as the step is deep, where the
 *  operand is contiguous along k; else those of the step, once for so many elements of the tile. */
static inline double hr_tma_rows(double size, double depth, bool along_k)
{
  return along_k ? size : depth * ceil(size / depth);
}

/** Part of a TMA kernel's loads that are left where the multiprocessors are busy to this share, 0 … 1. */
static inline double hr_tma_crowding(const hr_tma_gemm_cost *tma, double busy)
{
  return 1 - tma->idle_share * (1 - busy);
}

/** Arithmetic, loads and the wait for loads of a step overlap; where one is much longer, it alone counts. */
static inline double hr_tma_step(double arithmetic_ns, double loads_ns, double latency_ns)
{
  double product = arithmetic_ns * arithmetic_ns, loads = loads_ns * loads_ns, latency = latency_ns * latency_ns;
  return sqrt(sqrt(product * product + loads * loads + latency * latency));
}

/** The launch of a TMA kernel takes longer the more multiprocessors have a tile. 0 for other kernels. */
double hr_tma_started_ns(const hr_tiling_problem *problem, const hr_tiling *tiling);

/** Sets *best to the fastest split of k with the tile of `tiling`, if that is faster than *best. */
void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling tiling, hr_tiling *best);

#endif
