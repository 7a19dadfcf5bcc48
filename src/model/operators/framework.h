/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_OPERATORS_FRAMEWORK_H
#define HR_MODEL_OPERATORS_FRAMEWORK_H

#include <headroom/operators.h>

/** Sets framework, kernels, moved_bytes and cached_bytes of a step's operators, whose other members are complete. */
void hr_apply_framework(const hr_model *model, const hr_workload *workload, hr_operators *operators);

/** Whether it is a norm, of whatever tensor. */
bool hr_is_norm(hr_operator_id id);

#endif
