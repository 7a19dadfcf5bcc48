/* What the files of src/layer share. */
#ifndef HR_LAYER_LAYERING_H
#define HR_LAYER_LAYERING_H

#include "runtime/device/device.h"

#include <headroom/layer.h>

/** The problem that an operator is on a device. HR_ERROR_UNSUPPORTED, with the reason, where no kernel is for it: the
 *  backward pass of what has no products, an exchange between devices, a sum of three. (problem.c) */
hr_status hr_layer_problem(const hr_model *model, const hr_workload *workload, const hr_operator *op,
                           hr_problem *problem, hr_error *error);

#endif
