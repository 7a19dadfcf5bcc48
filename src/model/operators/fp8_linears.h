/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_MODEL_OPERATORS_FP8_LINEARS_H
#define HR_MODEL_OPERATORS_FP8_LINEARS_H

#include <headroom/operators.h>

/** Sets what a training step's linear layers read in fp8 (hr_workload.fp8_linears); its operators are complete but for
 *  the sums. */
void hr_multiply_in_fp8(const hr_workload *workload, hr_operators *operators);

#endif
