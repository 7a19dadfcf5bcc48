/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/workload.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_WORKLOAD_H
#define HEADROOM_EXPERIMENTAL_WORKLOAD_H

#include <headroom/workload.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Microbatches of a step: workload->microbatches; if that is 0, p in training with p stages, the fewest with which the
 *  1F1B schedule has work for all stages at once, and else 1. */
HR_API int64_t hr_workload_microbatches(const hr_workload *workload);

/** Whether the step drops elements: phase and `dropout` together. */
HR_API bool hr_workload_drops(const hr_workload *workload);

#ifdef __cplusplus
}
#endif
#endif
