/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: a problem prepared for one kernel of a device. */
#ifndef HR_RUNTIME_DEVICE_PLAN_H
#define HR_RUNTIME_DEVICE_PLAN_H

#include "runtime/device/kernel.h"

#include <stdatomic.h>

struct hr_plan {
  atomic_int shares; /* of those who free it */
  hr_device *device;
  const hr_kernel *kernel;
  hr_problem problem;
  hr_operands operands;   /* hr_problem_operands() */
  size_t workspace_bytes; /* counters included */
  void *state;            /* the kernel's own, hr_kernel_functions.state_bytes */
  hr_summation summation; /* from hr_kernel_functions.summation */
  int64_t choices;        /* hr_plan_choices() */
  char passed_over[512];
  char configuration[128];
};

/** Chooses a kernel and prepares the problem, which has been checked. The public hr_plan_gemm() and its siblings check
 *  theirs and call this. (dispatch.c) */
hr_status hr_plan_create(hr_device *device, const hr_problem *problem, const char *kernel, hr_plan **plan,
                         hr_error *error);

/** Gives another owner a share, who calls hr_plan_free(), too. */
void hr_plan_share(hr_plan *plan);

/** Prepares the problem for this kernel. On failure the plan holds nothing that has to be freed. */
hr_status hr_plan_prepare(hr_plan *plan, hr_device *device, const hr_kernel *kernel, const hr_problem *problem,
                          hr_error *error);

/** Switches a plan that is not running to another configuration; arguments and errors as hr_plan_gemm_choice(). */
hr_status hr_plan_choose(hr_plan *plan, int64_t choice, int64_t choices, hr_error *error);

/** Runs any plan on hr_device_stream(); `part` as in hr_run. The arguments are not checked. */
hr_status hr_plan_run(const hr_plan *plan, hr_operand_addresses operands, void *workspace, int part, hr_error *error);

#endif
