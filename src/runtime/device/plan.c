/* SPDX-License-Identifier: Apache-2.0 */
/* A problem prepared for one kernel, and its runs. */
#include "runtime/device/plan.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "runtime/device/kv_cache.h"

#include <headroom/experimental/plan.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE_ALIGNMENT 64 /* promised by headroom/plan.h */

static void read_settings(hr_plan *plan)
{
  const hr_kernel_functions *functions = plan->kernel->functions;
  if (functions->summation)
    plan->summation = functions->summation(plan->state);
  if (functions->describe)
    functions->describe(plan->state, plan->configuration, sizeof plan->configuration);
}

static void release(hr_plan *plan)
{
  if (plan->kernel->functions->release)
    plan->kernel->functions->release(plan->state);
  free(plan->state);
  plan->state = NULL;
  plan->workspace_bytes = 0;
}

static void set_workspace(hr_plan *plan, size_t scratch)
{
  bool needed = scratch > 0 || plan->kernel->functions->counters;
  plan->workspace_bytes = needed ? plan->device->backend->counter_bytes + scratch : 0;
}

hr_status hr_plan_prepare(hr_plan *plan, hr_device *device, const hr_kernel *kernel, const hr_problem *problem,
                          hr_error *error)
{
  plan->device = device;
  plan->kernel = kernel;
  plan->problem = *problem;
  plan->operands = hr_problem_operands(problem);
  const hr_kernel_functions *functions = kernel->functions;
  if (functions->state_bytes > 0 && !(plan->state = calloc(1, functions->state_bytes)))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a plan");
  size_t scratch = 0;
  hr_status status = functions->prepare ? functions->prepare(device, problem, plan->state, &scratch, error) : HR_OK;
  if (status != HR_OK) {
    release(plan);
    return status;
  }
  set_workspace(plan, scratch);
  plan->choices = 1;
  read_settings(plan);
  return HR_OK;
}

hr_status hr_plan_choose(hr_plan *plan, int64_t choice, int64_t choices, hr_error *error)
{
  const hr_kernel_functions *functions = plan->kernel->functions;
  int64_t found = 1;
  if (choice < 0 || choice >= choices)
    return hr_fail(error, HR_ERROR_INVALID, "choice: expected 0 to %" PRId64 ", found %" PRId64, choices - 1, choice);
  size_t scratch = 0;
  if (functions->choose) {
    HR_TRY(functions->choose(plan->state, choice, choices, &found, &scratch, error));
    set_workspace(plan, scratch);
  } else if (choice > 0)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: has one configuration, found choice %" PRId64,
                   plan->kernel->info->name, choice);
  plan->choices = found;
  read_settings(plan);
  size_t length = strlen(plan->configuration);
  if (found > 1)
    snprintf(plan->configuration + length, sizeof plan->configuration - length, "%schoice %" PRId64 " of %" PRId64,
             length > 0 ? ", " : "", choice + 1, found);
  return HR_OK;
}

int64_t hr_plan_choices(const hr_plan *plan)
{
  return plan->choices;
}

void hr_plan_share(hr_plan *plan)
{
  atomic_fetch_add_explicit(&plan->shares, 1, memory_order_relaxed);
}

void hr_plan_free(hr_plan *plan)
{
  if (!plan || atomic_fetch_sub(&plan->shares, 1) > 1)
    return;
  release(plan);
  free(plan);
}

const char *hr_plan_kernel(const hr_plan *plan)
{
  return plan->kernel->info->name;
}

const char *hr_plan_passed_over(const hr_plan *plan)
{
  return plan->passed_over;
}

const char *hr_plan_configuration(const hr_plan *plan)
{
  return plan->configuration;
}

size_t hr_plan_workspace_bytes(const hr_plan *plan)
{
  return plan->workspace_bytes;
}

hr_status hr_check_stream(const hr_device *device, const void *stream, hr_error *error)
{
  if (stream && !device->backend->stream)
    return hr_fail(error, HR_ERROR_INVALID, "stream: %s has no streams, expected NULL", device->name);
  return HR_OK;
}

hr_status hr_workspace_clear(hr_device *device, void *workspace, void *stream, hr_error *error)
{
  HR_NEED(error, device, workspace);
  const hr_backend *backend = device->backend;
  HR_TRY(hr_check_stream(device, stream, error));
  return backend->counter_bytes > 0 ? backend->queue_zeros(device, workspace, backend->counter_bytes, stream, error)
                                    : HR_OK;
}

/* ---- runs ---- */

/* The parts of a workspace. */
static hr_run run_of(const hr_plan *plan, const void *arguments, void *workspace, void *stream)
{
  const size_t counters = plan->workspace_bytes > 0 ? plan->device->backend->counter_bytes : 0;
  return (hr_run){.problem = &plan->problem,
                  .arguments = arguments,
                  .counters = workspace,
                  .workspace = workspace ? (char *)workspace + counters : NULL,
                  .stream = stream};
}

hr_status hr_plan_run(const hr_plan *plan, hr_operand_addresses operands, void *workspace, int part, hr_error *error)
{
  hr_arguments arguments = hr_problem_arguments(&plan->problem, &plan->operands, operands);
  hr_run run = run_of(plan, &arguments, workspace, hr_device_stream(plan->device));
  run.part = part;
  if (part > 0 && !plan->kernel->functions->parts)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has one launch", plan->kernel->info->name);
  return plan->kernel->functions->run(plan, &run, error);
}

static hr_status check_workspace(const hr_plan *plan, const void *workspace, hr_error *error)
{
  const char *kernel = plan->kernel->info->name;
  if (plan->workspace_bytes > 0 && !workspace)
    return hr_fail(error, HR_ERROR_INVALID, "%s: workspace: an address is needed, found NULL", kernel);
  if (plan->workspace_bytes > 0 && (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: workspace: expected an address that is a multiple of %d, found %p",
                   kernel, WORKSPACE_ALIGNMENT, workspace);
  return HR_OK;
}

static hr_status run_checked(const hr_plan *plan, const hr_operation_row *row, const void *arguments, void *workspace,
                             void *stream, hr_error *error)
{
  const hr_backend *backend = plan->device->backend;
  if (hr_operation_of(plan->problem.operation) != row)
    return hr_fail(error, HR_ERROR_INVALID, "a plan for %s is run as one for %s",
                   hr_operation_name(plan->problem.operation), row->name);
  HR_TRY(hr_check_stream(plan->device, stream, error));
  hr_arguments taken;
  if (!(arguments = hr_take_struct(&taken, row->arguments_bytes, arguments, row->arguments_name, error)))
    return HR_ERROR_INVALID;
  hr_run run = run_of(plan, arguments, workspace, stream);
  hr_problem bounded;
  bool smaller = false;
  HR_TRY(hr_bound_problem(&plan->problem, arguments, &bounded, &smaller, error));
  if (smaller && plan->kernel->functions->whole)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: runs all sequences and rows of its plan",
                   plan->kernel->info->name);
  if (smaller)
    run.problem = &bounded;
  HR_TRY(hr_check_arguments(run.problem, &plan->operands, arguments, !backend->own_memory, error));
  HR_TRY(check_workspace(plan, workspace, error));
  return plan->kernel->functions->run(plan, &run, error);
}

#define RUN(name)                                                                                            \
  hr_status hr_plan_run_##name(const hr_plan *plan, const hr_##name##_arguments *arguments, void *workspace, \
                               void *stream, hr_error *error)                                                \
  {                                                                                                          \
    HR_NEED(error, plan, arguments);                                                                         \
    return run_checked(plan, &hr_operation_##name, arguments, workspace, stream, error);                     \
  }

RUN(gemm)
RUN(attention)
RUN(decode)
RUN(rowwise)
RUN(attention_backward)
