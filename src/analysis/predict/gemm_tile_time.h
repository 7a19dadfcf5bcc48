/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a tiling of a GEMM. docs/prediction-model.md has the model. */
#ifndef HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H
#define HR_ANALYSIS_PREDICT_GEMM_TILE_TIME_H

#include "analysis/predict/gemm_tiling.h"
#include "hardware/hardware.h"

/** Sets the terms that all tiles of the problem's family have in common. */
void hr_set_family_terms(hr_tiling_problem *problem);

/** Whether a family's tile of `area` elements, which cuts the result into so many, is slower than *best whatever the
 *  splits of k are: most tiles of large GEMMs are, by a bound that takes no division. False: it may be faster. */
bool hr_is_slower_tile(const hr_tiling_problem *problem, int64_t area, int64_t tiles, const hr_tiling *best);

/** Sets the time of a tiling of given tile, splits and tiles; false, without it, if that is more than `max_ns`
 *  anyway. */
bool hr_set_tiling_time(const hr_tiling_problem *problem, double max_ns, hr_tiling *tiling);

/** Sets *best to the fastest split of k with the tile of `tiling`, if that is faster than *best. Changes *tiling. */
void hr_keep_faster_tiling(const hr_tiling_problem *problem, hr_tiling *tiling, hr_tiling *best);

#endif
