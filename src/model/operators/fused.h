/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_OPERATORS_FUSED_H
#define HR_MODEL_OPERATORS_FUSED_H

#include <headroom/operators.h>

/** Sets hr_operator.fused of a step's operators, whose other members are complete. */
void hr_fuse_operators(const hr_model *model, const hr_workload *workload, hr_operators *operators);

/** Whether one kernel runs the decode step on a device that has it: of up to four rows in 16 bits, or of one row where
 *  there are experts, with few keys and no wider rows than fit. Formats of weights and caches are for the caller to
 *  ask. */
bool hr_is_persistent(const hr_model *model, const hr_workload *workload);

/** Sets hr_operator.persistent of such a step's operators, and fused of those that are a part of another. */
void hr_persist_operators(hr_operators *operators);

#endif
