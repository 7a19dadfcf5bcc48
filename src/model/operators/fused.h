/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_OPERATORS_FUSED_H
#define HR_MODEL_OPERATORS_FUSED_H

#include <headroom/operators.h>

/** Sets hr_operator.fused of a step's operators, whose other members are complete. */
void hr_fuse_operators(const hr_model *model, const hr_workload *workload, hr_operators *operators);

#endif
