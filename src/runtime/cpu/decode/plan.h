/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's functions for a version: decode.c has them for those of the kernel table. */
#ifndef HR_RUNTIME_CPU_DECODE_PLAN_H
#define HR_RUNTIME_CPU_DECODE_PLAN_H

#include "runtime/cpu/decode/task.h"
#include "runtime/device/kernel.h"

/** `state` is an hr_split_plan. */
hr_status hr_split_prepare(hr_device *device, const hr_problem *problem, const hr_split_version *version, void *state,
                           size_t *workspace_bytes, hr_error *error);

hr_status hr_split_run_plan(const hr_plan *plan, const hr_run *run, hr_error *error);

#endif
