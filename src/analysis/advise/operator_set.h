/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of operators, and their time and rate in a step. */
#ifndef HR_ANALYSIS_ADVISE_OPERATOR_SET_H
#define HR_ANALYSIS_ADVISE_OPERATOR_SET_H

#include <headroom/predict.h>

/** Bit i is number i of hr_operator_id. */
__extension__ typedef unsigned __int128 hr_operator_set;
#define HR_OPERATOR_BIT(id) ((hr_operator_set)1 << (id))
_Static_assert(HR_OPERATOR_ID_COUNT <= 128, "hr_operator_set has a bit for each operator");

/** The operators of a set that the step has. */
hr_operator_set hr_operators_present(const hr_step *step, hr_operator_set operators);

/** The GEMMs with weights: of the whole step, and of the layers alone. */
hr_operator_set hr_weight_gemms(const hr_step *step);
hr_operator_set hr_layer_gemms(const hr_step *step);

/** The matmuls of attention that the step runs: score and attention over value (AOV), or the fused kernel. */
hr_operator_set hr_attention_matmuls(const hr_step *step);

/** Time of the operators of a set in a step, all executions and passes, ns. With stages, layers count as in hr_step. */
double hr_time_of(const hr_step *step, const hr_model *model, int64_t pipeline_stages, hr_operator_set operators);

/** FLOP/s of the operators of a set; 0 if they take no time. */
double hr_flops_per_s_of(const hr_step *step, hr_operator_set operators);

#endif
