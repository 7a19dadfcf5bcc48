/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of plans by problem, for programs whose calls come in any order: a framework's operators, a server's batches.
 *
 * Thread safety: several threads may ask a cache at the same time, except for hr_plans_free(). A plan that is there is
 * found without a lock; a plan that is not is made while others that are not there either wait. */
#ifndef HEADROOM_PLANS_H
#define HEADROOM_PLANS_H

#include <headroom/decode.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_plans hr_plans;

/** Makes a cache without plans. It keeps about `capacity` plans (rounded up to a power of two, at least 8); of the
 *  eight places that a problem may take the one asked for longest ago goes first. The caller owns *plans and frees it
 *  before closing the device. HR_ERROR_INVALID for a capacity of 0 or above 2^20, HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_plans_create(hr_device *device, size_t capacity, hr_plans **plans, hr_error *error);

/** Frees a cache; NULL is allowed. Plans that were taken from it live on until hr_plan_free(). */
HR_API void hr_plans_free(hr_plans *plans);

/** The plan that hr_plan_gemm() would make with the best kernel, which is made if it is not there. The caller has a
 *  share in *plan and gives it back by hr_plan_free(); the plan lives on, whatever the cache does, until nobody has
 *  one. Errors of hr_plan_gemm(), which are not kept: a later call tries again. */
HR_API hr_status hr_plans_gemm(hr_plans *plans, const hr_gemm *gemm, hr_plan **plan, hr_error *error);

/** The same of hr_plan_attention(). */
HR_API hr_status hr_plans_attention(hr_plans *plans, const hr_attention *attention, hr_plan **plan, hr_error *error);

/** The same of hr_plan_decode(). */
HR_API hr_status hr_plans_decode(hr_plans *plans, const hr_decode *decode, hr_plan **plan, hr_error *error);

/** The same of hr_plan_rowwise(). */
HR_API hr_status hr_plans_rowwise(hr_plans *plans, const hr_rowwise *rows, hr_plan **plan, hr_error *error);

/** How often a plan was there, and how often it was made. */
typedef struct hr_plans_counts {
  int64_t found, made;
} hr_plans_counts;

/** Since the cache was made; of threads that ask now some may be missing. */
HR_API hr_plans_counts hr_plans_count(const hr_plans *plans);

#ifdef __cplusplus
}
#endif
#endif
