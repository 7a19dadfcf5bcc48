/* SPDX-License-Identifier: Apache-2.0 */
/* The axes of a sweep file: lists, ranges, expressions, and cases, which set several axes together. */
#ifndef HR_EXPERIMENT_SWEEP_READ_AXES_H
#define HR_EXPERIMENT_SWEEP_READ_AXES_H

#include "experiment/sweep/sweep.h"

#include <jansson.h>
#include <stdbool.h>

/** Reads `count` objects of axes, each replacing those of the same name before it, and the cases (NULL: none) into the
 *  sweep. NULL among the objects is skipped. */
hr_status hr_read_axes(hr_sweep *sweep, const json_t *cases, const json_t *const *objects, size_t count,
                       const char *input, hr_error *error);

/** An integer, true, false, or a string with an expression over the sweep's axes. */
hr_status hr_read_expression(const hr_sweep *sweep, const json_t *value, const char *input, const char *path,
                             hr_expression *expression, hr_error *error);

#endif
