/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of points in the store. */
#ifndef HR_EXPERIMENT_POINTS_STORED_H
#define HR_EXPERIMENT_POINTS_STORED_H

#include <headroom/experimental/points.h>

/** The latest row of a point. */
typedef struct hr_stored_point {
  char problem[512], kernel[64]; /* hr_result.problem, the kernels asked for */
  bool found;
  hr_status status;
  double median_ns;
} hr_stored_point;

/** The fields that all rows of a run share. */
hr_result hr_points_base_row(const hr_device *device, const hr_points_options *options, hr_hardware *hardware);

/** Sets kind, problem and kernels of a point's row. HR_ERROR_INVALID or HR_ERROR_UNSUPPORTED, with the reason, if it is
 *  no problem that kernels know. */
hr_status hr_points_set_problem(hr_result *result, const hr_point *point, hr_error *error);

/** Finds the latest row of each point. The caller frees *stored, one for each point. Errors of hr_store_query(),
 *  HR_ERROR_OUT_OF_MEMORY, those of hr_points_set_problem(). */
hr_status hr_points_find(hr_store *store, const hr_result *base, const hr_point *points, size_t count,
                         hr_stored_point **stored, hr_error *error);

/** HR_ERROR_INVALID for options of another size or texts that do not fit a row. */
hr_status hr_points_check(const hr_points_options *options, hr_error *error);

#endif
