/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention plans: the same for every row of the kernel table but for the version. */
#ifndef HR_RUNTIME_CPU_FLASH_PLAN_H
#define HR_RUNTIME_CPU_FLASH_PLAN_H

#include "runtime/cpu/flash/blocks.h"
#include "runtime/cpu/flash/flash.h"
#include "runtime/cpu/host/thread_pool.h"
#include "runtime/device/plan.h"

/** State of a plan. */
typedef struct hr_flash_plan {
  const hr_flash_version *version;
  hr_flash_blocks blocks;
  hr_flash_scores scores;
  bool negate; /* Q: the scale is negative, and to_log2 is not */
  hr_strides q, k, v, o;
  hr_thread_pool *pool;
} hr_flash_plan;

/** `scale` is positive. */
hr_flash_scores hr_flash_score_rules(const hr_attention *attention, float scale);

/** Whether lengths are as short as the common parts need; if not, `why` says so. */
bool hr_flash_takes_lengths(const hr_attention *attention, char *why, size_t why_size);

/** Implements hr_kernel_functions.prepare; `state` is an hr_flash_plan. */
hr_status hr_flash_prepare(hr_device *device, const hr_problem *problem, const hr_flash_version *version, void *state,
                           size_t *workspace_bytes, hr_error *error);

/** Implements hr_kernel_functions.run_attention. */
hr_status hr_flash_run(const hr_plan *plan, const hr_run *run, hr_error *error);

#endif
