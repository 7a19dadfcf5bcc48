/* SPDX-License-Identifier: Apache-2.0 */
/* How the tokens of a step spread over the routed experts of a layer. Thread safety: pure functions. */
#ifndef HR_MODEL_LAYERS_FFN_EXPERTS_H
#define HR_MODEL_LAYERS_FFN_EXPERTS_H

#include "base/checked.h"

#include <headroom/model.h>
#include <headroom/workload.h>

/** The load of the most loaded device. */
typedef struct hr_expert_load {
  int64_t tokens; /* that the device routes to experts */
  int64_t sent;   /* copies of them that it makes: for each of a token's experts, or of these for its own alone */
  int64_t rows;   /* copies, from all devices, that the device's experts process */
  int64_t hit;    /* its experts that process at least one, as expected if all are equally likely */
} hr_expert_load;

/** The load of a step with `rows` tokens in a tensor-parallel group. `m` is what one device has (hr_shard_layer()).
 *  HR_ERROR_OVERFLOW if the copies do not fit.
 *
 *  Each token goes to k of E experts, so that one of them is hit by n tokens with the probability 1 − (1 − k/E)ⁿ if
 *  routing is balanced and tokens are independent. */
hr_status hr_expert_load_of(const hr_ffn_experts *m, const hr_workload *workload, int64_t rows, hr_expert_load *load);

/** Experts on the device. */
int64_t hr_experts_held(const hr_ffn_experts *m);

/** HR_ERROR_INVALID naming the member if the experts of the layer cannot be spread as the workload says. */
hr_status hr_check_expert_workload(const hr_ffn_experts *m, const hr_workload *workload, hr_error *error);

#endif
