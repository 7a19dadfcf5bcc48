/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/operators.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_OPERATORS_H
#define HEADROOM_EXPERIMENTAL_OPERATORS_H

#include <headroom/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Lists the operators of one step on the most loaded device of the tensor-parallel group.
 *
 *  Sizes as in Anthony et al. 2024, Table II, generalized to unequal K and V heads: with b·s rows,
 *  qkv_transform is (b·s, h) × (h, (a·d_qk + a_k·d_qk + a_v·d_v) / t), attention_score is b·a/t GEMMs
 *  (s, d_qk) × (d_qk, s), attention_over_value b·a/t GEMMs (s, s) × (s, d_v), linear_projection
 *  (b·s, a·d_v / t) × (a·d_v / t, h). Divisions by t round up; each device holds at least one K and V head.
 *  Unfused attention counts the whole s × s square, as the paper does; the fused operator counts unmasked entries.
 *  Bytes count a shared K or V head once. Errors: those of hr_model_check() and hr_workload_check(),
 *  HR_ERROR_OVERFLOW, and HR_ERROR_UNSUPPORTED if the layers differ so much that the list is too long. *operators is
 *  then undefined. */
HR_API hr_status hr_operators_list(const hr_model *model, const hr_workload *workload, hr_operators *operators,
                                   hr_error *error);

/** The first operator with this id and pass, NULL if the step has none. */
HR_API const hr_operator *hr_operators_find(const hr_operators *operators, hr_operator_id id, hr_pass pass);

/** Whether the operator is communication between replicas, of which a step shows only what its passes do not hide. */
HR_API bool hr_operator_between_replicas(hr_operator_id id);

/** The name of a tensor of hr_operator.reads and writes: "hidden"; "unknown" outside the list. Static storage. */
HR_API const char *hr_step_tensor_name(hr_step_tensor tensor);

/** What a weight of hr_operator.weights is for, whatever checkpoints call it: "mlp_norm", "q_bias", "none" for 0;
 *  "unknown" outside the list. Static storage. */
HR_API const char *hr_weight_role_name(int role);

/** The name of an id without its pass: "mlp_up"; "unknown" for another value. Static storage. */
HR_API const char *hr_operator_id_name(hr_operator_id id);

/** What an operator is computed as: "bmm"; "unknown" for another value. Static storage. */
HR_API const char *hr_operator_kind_name(hr_operator_kind kind);

/** The pass of a step that an operator belongs to: "wgrad"; "unknown" for another value. Static storage. */
HR_API const char *hr_pass_name(hr_pass pass);

#ifdef __cplusplus
}
#endif
#endif
