/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling of a GEMM. docs/prediction-model.md has the model. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H
#define HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H

#include "analysis/predict/gemm_tiling.h"
#include "hardware/hardware.h"

#include <math.h>

/** Waves of a family's tiles beyond which refill_ns is added. */
#define HR_REFILL_WAVES 2

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `max_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling);

/** Arithmetic, loads and the wait for loads of a step overlap; where one is much longer, it alone counts. */
static inline double hr_overlap_step(double arithmetic_ns, double loads_ns, double latency_ns)
{
  double product = arithmetic_ns * arithmetic_ns, loads = loads_ns * loads_ns, latency = latency_ns * latency_ns;
  return sqrt(sqrt(product * product + loads * loads + latency * latency));
}

/** What a launch takes more than the shortest, by the multiprocessors that have a tile. 0 without a family. */
double hr_started_ns(const hr_tiling_problem *problem, const hr_tiling *tiling);

/** Sets *best to the fastest split of k with the tile of `tiling`, if that is faster than *best. */
void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling tiling, hr_tiling *best);

#endif
