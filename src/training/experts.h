/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of experts' gradients. */
#ifndef HR_TRAINING_EXPERTS_H
#define HR_TRAINING_EXPERTS_H

#include "run/program.h"

hr_status hr_launch_route_backward(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                   hr_error *error);

/** Without a plan the device multiplies all experts' copies at once. */
hr_status hr_launch_grouped_gradient(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                                     hr_error *error);

#endif
