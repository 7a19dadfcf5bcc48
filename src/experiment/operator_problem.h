/* What an operator of a step is as a problem for a kernel. */
#ifndef HR_EXPERIMENT_OPERATOR_PROBLEM_H
#define HR_EXPERIMENT_OPERATOR_PROBLEM_H

#include "runtime/device/device.h"
#include "runtime/device/problem.h"

#include <headroom/operators.h>

/** The problem that an operator of the step of `workload` is on a device. HR_ERROR_UNSUPPORTED, with the reason, where
 *  no kernel is for it: the backward pass of what has no products, an exchange between devices, a sum of three. */
hr_status hr_operator_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                              hr_problem *problem, hr_error *error);

#endif
