/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a sweep, measured between the ranks of teams that stay open from point to point. */
#ifndef HR_EXPERIMENT_SWEEP_RANKS_H
#define HR_EXPERIMENT_SWEEP_RANKS_H

#include "experiment/progress.h"

#include <headroom/experimental/sweep.h>

typedef struct hr_sweep_ranks hr_sweep_ranks;

/** Teams and results of collectives. NULL: out of memory. */
hr_sweep_ranks *hr_sweep_ranks_create(void);

/** Closes the teams; NULL is allowed. */
void hr_sweep_ranks_free(hr_sweep_ranks *ranks);

/** Measures a point of the kind collective. All libraries of an all-reduce are timed interleaved, and the point of the
 *  other one later takes what was found. What cannot be measured is *measurement's status; HR_ERROR_INTERRUPTED. */
hr_status hr_sweep_measure_collective(hr_sweep_ranks *ranks, hr_device *device, const hr_sweep_point *point,
                                      const hr_sweep_options *options, hr_progress *progress,
                                      hr_measurement *measurement, hr_error *error);

#endif
