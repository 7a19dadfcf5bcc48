/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling of a GEMM. docs/prediction.md has the model. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H
#define HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H

#include "analysis/predict/gemm_tiling.h"

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `most_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double most_ns, hr_tiling *way);

/** The launch of a wide kernel takes longer the more multiprocessors have a tile. 0 for other kernels. */
double hr_wide_started_ns(const hr_tiling_problem *problem, const hr_tiling *way);

/** Sets *best to the fastest split of k with the tile of `way`, if that is faster than *best. */
void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling way, hr_tiling *best);

#endif
