/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a point, for running a sweep and for finding its rows. */
#ifndef HR_EXPERIMENT_SWEEP_RUN_H
#define HR_EXPERIMENT_SWEEP_RUN_H

#include "experiment/progress.h"

#include <headroom/experimental/sweep.h>

/** The fields that all rows of a run share; *hardware is the device as detected. */
hr_result hr_sweep_base_row(const hr_sweep *sweep, const hr_device *device, const hr_sweep_options *options,
                            hr_hardware *hardware);

/** Sets series, axes, kind and problem. */
void hr_sweep_set_point(hr_result *result, const hr_sweep_point *point);

/** Measures a point of the kind step, with all its ranks. What cannot be measured is *measurement's status;
 *  HR_ERROR_INTERRUPTED. (measure_step.c) */
hr_status hr_sweep_measure_step(hr_device *device, const hr_sweep_point *point, const hr_sweep_options *options,
                                hr_progress *progress, hr_measurement *measurement, char *parts, size_t parts_size,
                                hr_error *error);

#endif
