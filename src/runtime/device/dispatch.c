/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: a plan gets the first kernel of the table that supports its problem, and the reasons why the kernels before
 * it do not. */
#include "runtime/device/plan.h"

#include "base/error.h"
#include "base/kernel_names.h"
#include "base/struct_size.h"

#include <headroom/experimental/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool needs_met(const hr_device *device, const hr_kernel_info *info, char *why, size_t why_size)
{
  char need[32];
  for (const char *at = info->needs; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    snprintf(need, sizeof need, "%.*s", (int)strcspn(at, " "), at);
    if (!device->backend->has(device, need)) {
      snprintf(why, why_size, "needs %s, which this machine or build lacks", need);
      return false;
    }
  }
  return true;
}

static bool can_run(const hr_device *device, const hr_kernel *kernel, const hr_problem *problem, char *why,
                    size_t why_size)
{
  if (strcmp(kernel->info->operation, hr_operation_name(problem->operation)) != 0) {
    snprintf(why, why_size, "is a kernel for %s", kernel->info->operation);
    return false;
  }
  if (!hr_has_word(kernel->info->dtypes, hr_dtype_name(problem->dtype))) {
    snprintf(why, why_size, "takes %s, not %s", kernel->info->dtypes, hr_dtype_name(problem->dtype));
    return false;
  }
  return needs_met(device, kernel->info, why, why_size) &&
         (!kernel->functions->supports || kernel->functions->supports(device, problem, why, why_size));
}

bool hr_kernel_runs(const hr_device *device, const char *kernel, char *why, size_t why_size)
{
  char current[HR_KERNEL_NAME_SIZE];
  hr_kernel_current_name(kernel, current);
  for (size_t i = 0; i < device->kernel_count; i++) {
    const hr_kernel_info *info = device->kernels[i].info;
    if (strcmp(info->name, current) != 0)
      continue;
    if (strcmp(info->device, device->backend->name) == 0)
      return needs_met(device, info, why, why_size);
    snprintf(why, why_size, "runs on %s, not on %s", info->device, device->name);
    return false;
  }
  snprintf(why, why_size, "no kernel is called \"%.64s\"", kernel);
  return false;
}

static void add_reason(char *list, size_t size, const char *kernel, const char *why)
{
  size_t length = strlen(list);
  if (length < size)
    snprintf(list + length, size - length, "%s%s %.160s", length ? "; " : "", kernel, why);
}

bool hr_kernel_is(const hr_kernel_info *kernel, const char *name)
{
  char current[HR_KERNEL_NAME_SIZE];
  hr_kernel_current_name(name, current);
  size_t length = strlen(current);
  return length > 0 && strncmp(kernel->name, current, length) == 0 &&
         (kernel->name[length] == '\0' || kernel->name[length] == '_');
}

/* Whether `name` means one kernel rather than a family: a kernel of this device has that name, or one of another device
 * has it and no family of this device. */
static bool names_one_kernel(const hr_device *device, const char *name)
{
  bool elsewhere = false, family = false;
  for (size_t i = 0; i < device->kernel_count; i++) {
    const hr_kernel_info *info = device->kernels[i].info;
    bool same = strcmp(info->name, name) == 0, here = strcmp(info->device, device->backend->name) == 0;
    if (same && here)
      return true;
    elsewhere = elsewhere || same;
    family = family || (here && hr_kernel_is(info, name));
  }
  return elsewhere && !family;
}

static hr_status prepare_named(hr_device *device, const hr_problem *problem, const char *name, hr_plan *plan,
                               hr_error *error)
{
  for (size_t i = 0; i < device->kernel_count; i++) {
    const hr_kernel *kernel = &device->kernels[i];
    if (strcmp(kernel->info->name, name) != 0)
      continue;
    char why[160] = "";
    if (strcmp(kernel->info->device, device->backend->name) != 0)
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s runs on %s, not on %s", name, kernel->info->device, device->name);
    if (!can_run(device, kernel, problem, why, sizeof why))
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s %s", name, why);
    return hr_plan_prepare(plan, device, kernel, problem, error);
  }
  return hr_fail(error, HR_ERROR_NOT_FOUND, "no kernel is called \"%.64s\"", name);
}

static bool is_family(const hr_device *device, const char *name)
{
  for (size_t i = 0; i < device->kernel_count; i++) {
    if (hr_kernel_is(device->kernels[i].info, name))
      return true;
  }
  return false;
}

static bool is_candidate(const hr_device *device, const hr_kernel *kernel, const hr_problem *problem,
                         const char *family)
{
  return strcmp(kernel->info->device, device->backend->name) == 0 &&
         strcmp(kernel->info->operation, hr_operation_name(problem->operation)) == 0 &&
         (!family || hr_kernel_is(kernel->info, family));
}

/* Whether the kernel's turn is this round: the second is of those behind others. If not, `why` says why. */
static bool has_turn(const hr_device *device, const hr_kernel *kernel, const hr_problem *problem, bool second,
                     char *why, size_t why_size)
{
  if (!can_run(device, kernel, problem, why, why_size))
    return false;
  return second == (kernel->functions->behind && kernel->functions->behind(problem, why, why_size));
}

/* HR_ERROR_UNSUPPORTED: no kernel of this round. A kernel whose preparation fails so is passed over: some libraries
 * report it only then. */
static hr_status prepare_round(hr_device *device, const hr_problem *problem, const char *family, bool second,
                               hr_plan *plan, hr_error *error)
{
  for (size_t i = 0; i < device->kernel_count; i++) {
    const hr_kernel *kernel = &device->kernels[i];
    hr_error reason = {.message = ""};
    if (!is_candidate(device, kernel, problem, family))
      continue;
    if (has_turn(device, kernel, problem, second, reason.message, sizeof reason.message)) {
      hr_status status = hr_plan_prepare(plan, device, kernel, problem, &reason);
      if (status == HR_OK)
        return HR_OK;
      if (status != HR_ERROR_UNSUPPORTED)
        return hr_fail(error, status, "%s", reason.message);
    } else if (second) {
      continue; /* for a reason of the first round */
    }
    add_reason(plan->passed_over, sizeof plan->passed_over, kernel->info->name, reason.message);
  }
  return HR_ERROR_UNSUPPORTED;
}

/* Prepares the first kernel of the device (and of `family`, if not NULL) that supports the problem; those behind others
 * come last. */
static hr_status prepare_best(hr_device *device, const hr_problem *problem, const char *family, hr_plan *plan,
                              hr_error *error)
{
  for (int round = 0; round < 2; round++) {
    hr_status status = prepare_round(device, problem, family, round == 1, plan, error);
    if (status != HR_ERROR_UNSUPPORTED)
      return status;
  }
  const char *reasons = plan->passed_over[0] ? plan->passed_over : "it has none for this operation";
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no %s kernel for this problem: %.400s", device->name,
                 family ? family : hr_operation_name(problem->operation), reasons);
}

hr_status hr_plan_create(hr_device *device, const hr_problem *problem, const char *kernel, hr_plan **plan,
                         hr_error *error)
{
  hr_plan *created = calloc(1, sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a plan");
  char name[HR_KERNEL_NAME_SIZE] = "";
  if (kernel)
    hr_kernel_current_name(kernel, name);
  bool one = kernel && (names_one_kernel(device, name) || !is_family(device, name));
  hr_status status = one ? prepare_named(device, problem, name, created, error)
                         : prepare_best(device, problem, kernel ? name : NULL, created, error);
  if (status != HR_OK) {
    free(created);
    return status;
  }
  atomic_init(&created->shares, 1);
  *plan = created;
  return HR_OK;
}

#define MAKE(name, type, problem)                                                                      \
  hr_status hr_plan_##name(hr_device *device, const type *problem, const char *kernel, hr_plan **plan, \
                           hr_error *error)                                                            \
  {                                                                                                    \
    HR_NEED(error, device, problem, plan);                                                             \
    HR_TAKE(type, problem, error);                                                                     \
    HR_TRY(hr_##name##_check(problem, error));                                                         \
    hr_problem of_any = hr_##name##_problem(problem);                                                  \
    return hr_plan_create(device, &of_any, kernel, plan, error);                                       \
  }

MAKE(gemm, hr_gemm, gemm)
MAKE(attention, hr_attention, attention)
MAKE(rowwise, hr_rowwise, rows)
MAKE(decode, hr_decode, decode)

hr_status hr_plan_attention_backward(hr_device *device, const hr_attention *forward,
                                     const hr_attention_backward *backward, const char *kernel, hr_plan **plan,
                                     hr_error *error)
{
  hr_backward both;
  HR_NEED(error, device, forward, plan);
  HR_TRY(hr_backward_take(forward, backward, &both, error));
  HR_TRY(hr_attention_backward_check(&both.forward, &both.options, error));
  hr_problem of_any = hr_attention_backward_problem(&both);
  return hr_plan_create(device, &of_any, kernel, plan, error);
}

hr_status hr_plan_gemm_choice(hr_device *device, const hr_gemm *gemm, const hr_plan_choice *choice, hr_plan **plan,
                              hr_error *error)
{
  HR_NEED(error, device, gemm, choice, plan);
  HR_TAKE(hr_gemm, gemm, error);
  hr_plan *created;
  HR_TRY(hr_plan_gemm(device, gemm, choice->kernel, &created, error));
  hr_status status = hr_plan_choose(created, choice->choice, choice->choices, error);
  if (status == HR_OK)
    *plan = created;
  else
    hr_plan_free(created);
  return status;
}
