/* SPDX-License-Identifier: Apache-2.0 */
/* A problem prepared for one kernel, and its runs. */
#include "runtime/device/attention.h"
#include "runtime/device/decode.h"

#include "base/error.h"

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

hr_status hr_plan_prepare(hr_plan *plan, hr_device *device, const hr_kernel *kernel, const hr_problem *problem,
                          hr_error *error)
{
  plan->device = device;
  plan->kernel = kernel;
  plan->problem = *problem;
  const hr_kernel_functions *functions = kernel->functions;
  if (functions->state_bytes > 0 && !(plan->state = calloc(1, functions->state_bytes)))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a plan");
  hr_status status =
      functions->prepare ? functions->prepare(device, problem, plan->state, &plan->workspace_bytes, error) : HR_OK;
  if (status != HR_OK) {
    release(plan);
    return status;
  }
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
  if (functions->choose)
    HR_TRY(functions->choose(plan->state, choice, choices, &found, &plan->workspace_bytes, error));
  else if (choice > 0)
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

void hr_plan_free(hr_plan *plan)
{
  if (!plan)
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

hr_attention_arguments hr_plan_attention_arguments(const hr_plan *plan, const void *const *inputs, void *output)
{
  hr_attention_arguments arguments = hr_attention_arguments_default();
  hr_operands operands = hr_problem_operands(&plan->problem);
  arguments.q = inputs[0];
  arguments.k = inputs[1];
  arguments.v = inputs[2];
  for (size_t i = 3; i + 1 < operands.count; i++) {
    if (operands.kinds[i] == HR_OPERAND_SLOPES)
      arguments.alibi_slopes = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_Q_SCALES)
      arguments.q_scales = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_K_SCALES)
      arguments.k_scales = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_V_SCALES)
      arguments.v_scales = inputs[i];
  }
  arguments.o = output;
  return arguments;
}

hr_decode_arguments hr_plan_decode_arguments(const hr_plan *plan, const void *const *inputs, void *output)
{
  hr_decode_arguments arguments = hr_decode_arguments_default();
  hr_operands operands = hr_problem_operands(&plan->problem);
  arguments.q = inputs[0];
  arguments.k = inputs[1];
  if (!plan->problem.decode.latent)
    arguments.v = inputs[2];
  for (size_t i = 2; i + 1 < operands.count; i++) {
    if (operands.kinds[i] == HR_OPERAND_PAGES)
      arguments.pages = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_SINKS)
      arguments.sinks = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_K_SCALES)
      arguments.k_scales = inputs[i];
    else if (operands.kinds[i] == HR_OPERAND_V_SCALES)
      arguments.v_scales = inputs[i];
  }
  arguments.o = output;
  return arguments;
}

hr_status hr_plan_run_part(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, int part,
                           hr_error *error)
{
  const hr_kernel_functions *functions = plan->kernel->functions;
  if (plan->problem.operation != HR_OPERATION_DECODE || !functions->run_decode_part)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s has one launch", plan->kernel->info->name);
  hr_decode_arguments decode = hr_plan_decode_arguments(plan, inputs, output);
  return functions->run_decode_part(plan, &decode, workspace, part, error);
}

hr_status hr_plan_run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  if (plan->problem.operation == HR_OPERATION_DECODE) {
    hr_decode_arguments decode = hr_plan_decode_arguments(plan, inputs, output);
    return plan->kernel->functions->run_decode(plan, &decode, workspace, error);
  }
  if (plan->problem.operation != HR_OPERATION_ATTENTION)
    return plan->kernel->functions->run(plan, inputs, output, workspace, error);
  hr_attention_arguments arguments = hr_plan_attention_arguments(plan, inputs, output);
  return plan->kernel->functions->run_attention(plan, &arguments, workspace, error);
}

/* Kernels read inputs after they have written part of the output. */
static hr_status check_output(const hr_plan *plan, const void *const *inputs, int count, const void *output,
                              hr_error *error)
{
  for (int i = 0; output && i < count; i++) {
    if (inputs[i] == output)
      return hr_fail(error, HR_ERROR_INVALID, "%s: the output has the address of an input, %p",
                     plan->kernel->info->name, output);
  }
  return HR_OK;
}

static hr_status check_run(const hr_plan *plan, hr_operation operation, bool addresses, const void *workspace,
                           hr_error *error)
{
  if (plan->problem.operation != operation)
    return hr_fail(error, HR_ERROR_INVALID, "a plan for %s is run as one for %s",
                   hr_operation_name(plan->problem.operation), hr_operation_name(operation));
  if (!addresses || (plan->workspace_bytes > 0 && !workspace))
    return hr_fail(error, HR_ERROR_INVALID, "%s: an address is NULL", plan->kernel->info->name);
  if (plan->workspace_bytes > 0 && (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
    return hr_fail(error, HR_ERROR_INVALID, "%s: workspace: expected an address that is a multiple of %d, found %p",
                   plan->kernel->info->name, WORKSPACE_ALIGNMENT, workspace);
  return HR_OK;
}

hr_status hr_plan_run_gemm(const hr_plan *plan, const void *a, const void *b, void *c, void *workspace, hr_error *error)
{
  HR_NEED(error, plan);
  HR_TRY(check_run(plan, HR_OPERATION_GEMM, a && b && c, workspace, error));
  const void *inputs[] = {a, b};
  HR_TRY(check_output(plan, inputs, 2, c, error));
  return plan->kernel->functions->run(plan, inputs, c, workspace, error);
}

hr_status hr_plan_run_attention(const hr_plan *plan, const hr_attention_arguments *arguments, void *workspace,
                                hr_error *error)
{
  HR_NEED(error, plan, arguments);
  const hr_attention *attention = &plan->problem.attention;
  HR_TRY(check_run(plan, HR_OPERATION_ATTENTION, arguments != NULL, workspace, error));
  HR_TRY(hr_check_struct_size("hr_attention_arguments", arguments->struct_size, sizeof *arguments, error));
  HR_TRY(hr_attention_check_addresses(attention, arguments, error));
  const void *inputs[] = {arguments->q, arguments->k, arguments->v};
  HR_TRY(check_output(plan, inputs, 3, arguments->o, error));
  if (!plan->device->backend->own_memory)
    HR_TRY(hr_attention_check_offsets(attention, arguments, error));
  return plan->kernel->functions->run_attention(plan, arguments, workspace, error);
}

hr_status hr_plan_run_decode(const hr_plan *plan, const hr_decode_arguments *arguments, void *workspace,
                             hr_error *error)
{
  HR_NEED(error, plan, arguments);
  HR_TRY(check_run(plan, HR_OPERATION_DECODE, true, workspace, error));
  HR_TRY(hr_check_struct_size("hr_decode_arguments", arguments->struct_size, sizeof *arguments, error));
  HR_TRY(hr_decode_check_addresses(&plan->problem.decode, arguments, error));
  const void *inputs[] = {arguments->q, arguments->k, arguments->v};
  HR_TRY(check_output(plan, inputs, 3, arguments->o, error));
  if (!plan->device->backend->own_memory)
    HR_TRY(hr_decode_check_tables(&plan->problem.decode, arguments, error));
  return plan->kernel->functions->run_decode(plan, arguments, workspace, error);
}

hr_status hr_plan_run_rowwise(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                              hr_error *error)
{
  HR_NEED(error, plan, inputs);
  int count = hr_rowwise_inputs(plan->problem.rows.operation);
  bool addresses = inputs && output;
  for (int i = 0; addresses && plan->problem.operation == HR_OPERATION_ROWWISE && i < count; i++)
    addresses = inputs[i] != NULL;
  HR_TRY(check_run(plan, HR_OPERATION_ROWWISE, addresses, workspace, error));
  return plan->kernel->functions->run(plan, inputs, output, workspace, error);
}
