/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/plan.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_PLAN_H
#define HEADROOM_EXPERIMENTAL_PLAN_H

#include <headroom/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Number `choice`, from 0, of the `choices` configurations that a kernel estimates best. */
typedef struct hr_plan_choice {
  const char *kernel; /* as hr_plan_gemm()'s */
  int64_t choice, choices;
} hr_plan_choice;

/** Prepares C = A B as hr_plan_gemm() does, but with the configuration of *choice. cuBLASLt's heuristic lists several;
 *  the first, which hr_plan_gemm() uses, is not always the fastest. HR_ERROR_INVALID unless 0 ≤ choice < choices,
 *  HR_ERROR_NOT_FOUND if the kernel has fewer. */
HR_API hr_status hr_plan_gemm_choice(hr_device *device, const hr_gemm *gemm, const hr_plan_choice *choice,
                                     hr_plan **plan, hr_error *error);

/** How many configurations the kernel has: 1 to `choices` of hr_plan_gemm_choice(); 1 for other plans. */
HR_API int64_t hr_plan_choices(const hr_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
