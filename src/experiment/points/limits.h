/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_EXPERIMENT_POINTS_LIMITS_H
#define HR_EXPERIMENT_POINTS_LIMITS_H

#include <headroom/experimental/points.h>

/** Whether a point computes and moves no more than a GPU does in `gpu_most_s` at its peak rates, and fits into its
 *  memory. CPUs differ too much for their reported clock to say it, and have limits of their own. */
bool hr_point_keeps_limits(const hr_hardware *hardware, const hr_point *point, double gpu_most_s);

#endif
