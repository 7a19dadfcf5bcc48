/* SPDX-License-Identifier: Apache-2.0 */
/* Unequal loads of experts, as published rows have them. */
#ifndef HR_ANALYSIS_VALIDATE_LOADS_H
#define HR_ANALYSIS_VALIDATE_LOADS_H

#include <headroom/experimental/predict.h>

/** Tokens of a layer and its experts on all devices. */
typedef struct hr_expert_loads {
  int64_t tokens, top_k, experts, devices;
  double exponent; /* of the power law that the experts' loads are drawn from, above 1 */
} hr_expert_loads;

/** Sets rows and experts of the call to those of the device with the most tokens, in the mean of several draws. Leaves
 *  the call as it is where the devices' experts are not as many, or are too many. */
void hr_expert_loads_take(const hr_expert_loads *loads, hr_expert_call *call);

#endif
