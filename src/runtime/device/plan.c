/* Dispatch: the first row of the kernel table that can run a problem, and why the rows before it cannot. */
#include "runtime/device/attention.h"

#include "base/error.h"
#include "base/kernel_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE_ALIGNMENT 64 /* promised in device.h */

static const char *const operation_names[HR_OPERATION_COUNT] = {"gemm", "attention", "rowwise"};

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
  if (strcmp(kernel->info->operation, operation_names[problem->operation]) != 0) {
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

/* What a kernel says of how it is set. */
static void look(hr_plan *plan)
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

static hr_status take(hr_device *device, const hr_kernel *kernel, const hr_problem *problem, hr_plan *plan,
                      hr_error *error)
{
  plan->device = device;
  plan->kernel = kernel;
  plan->problem = *problem;
  const hr_kernel_functions *functions = kernel->functions;
  if (functions->state_bytes > 0 && !(plan->state = calloc(1, functions->state_bytes)))
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a plan");
  hr_status status =
      functions->prepare ? functions->prepare(device, problem, plan->state, &plan->workspace_bytes, error) : HR_OK;
  if (status != HR_OK) {
    release(plan);
    return status;
  }
  plan->choices = 1;
  look(plan);
  return HR_OK;
}

static void remember(char *list, size_t size, const char *kernel, const char *why)
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

/* Whether one kernel is meant: the name is that of one here, or of one elsewhere and of no family here. */
static bool is_exact(const hr_device *device, const char *name)
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

static hr_status take_named(hr_device *device, const hr_problem *problem, const char *name, hr_plan *plan,
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
    return take(device, kernel, problem, plan, error);
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

/* Walks the rows of the device, those of a family where one is asked for. A row that says it can and then fails to
 * prepare as "unsupported" is passed over too: some libraries tell only then. */
static hr_status take_best(hr_device *device, const hr_problem *problem, const char *family, hr_plan *plan,
                           hr_error *error)
{
  for (size_t i = 0; i < device->kernel_count; i++) {
    const hr_kernel *kernel = &device->kernels[i];
    char why[160] = "";
    if (strcmp(kernel->info->device, device->backend->name) != 0 ||
        strcmp(kernel->info->operation, operation_names[problem->operation]) != 0 ||
        (family && !hr_kernel_is(kernel->info, family)))
      continue;
    if (!can_run(device, kernel, problem, why, sizeof why)) {
      remember(plan->passed_over, sizeof plan->passed_over, kernel->info->name, why);
      continue;
    }
    hr_error reason = {.message = ""};
    hr_status status = take(device, kernel, problem, plan, &reason);
    if (status == HR_OK)
      return HR_OK;
    if (status != HR_ERROR_UNSUPPORTED)
      return hr_fail(error, status, "%s", reason.message);
    remember(plan->passed_over, sizeof plan->passed_over, kernel->info->name, reason.message);
  }
  const char *reasons = plan->passed_over[0] ? plan->passed_over : "it has none for this operation";
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: no %s kernel for this problem: %.400s", device->name,
                 family ? family : operation_names[problem->operation], reasons);
}

hr_status hr_plan_create(hr_device *device, const hr_problem *problem, const char *kernel, hr_plan **plan,
                         hr_error *error)
{
  hr_plan *created = calloc(1, sizeof *created);
  if (!created)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a plan");
  char name[HR_KERNEL_NAME_SIZE] = "";
  if (kernel)
    hr_kernel_current_name(kernel, name);
  bool one = kernel && (is_exact(device, name) || !is_family(device, name));
  hr_status status = one ? take_named(device, problem, name, created, error)
                         : take_best(device, problem, kernel ? name : NULL, created, error);
  if (status != HR_OK) {
    free(created);
    return status;
  }
  *plan = created;
  return HR_OK;
}

hr_status hr_plan_gemm(hr_device *device, const hr_gemm *gemm, const char *kernel, hr_plan **plan, hr_error *error)
{
  HR_NEED(error, device, gemm, plan);
  HR_TRY(hr_gemm_check(gemm, error));
  hr_problem problem = hr_gemm_problem(gemm);
  return hr_plan_create(device, &problem, kernel, plan, error);
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
    return hr_fail(error, HR_ERROR_NOT_FOUND, "%s: knows one configuration, there is no choice %" PRId64,
                   plan->kernel->info->name, choice);
  plan->choices = found;
  look(plan);
  size_t length = strlen(plan->configuration);
  if (found > 1)
    snprintf(plan->configuration + length, sizeof plan->configuration - length, "%schoice %" PRId64 " of %" PRId64,
             length > 0 ? ", " : "", choice + 1, found);
  return HR_OK;
}

hr_status hr_plan_gemm_choice(hr_device *device, const hr_gemm *gemm, const char *kernel, int64_t choice,
                              int64_t choices, hr_plan **plan, hr_error *error)
{
  HR_NEED(error, device, gemm, plan);
  hr_plan *created;
  HR_TRY(hr_plan_gemm(device, gemm, kernel, &created, error));
  hr_status status = hr_plan_choose(created, choice, choices, error);
  if (status == HR_OK)
    *plan = created;
  else
    hr_plan_free(created);
  return status;
}

int64_t hr_plan_choices(const hr_plan *plan)
{
  return plan->choices;
}

hr_status hr_plan_attention(hr_device *device, const hr_attention *attention, const char *kernel, hr_plan **plan,
                            hr_error *error)
{
  HR_NEED(error, device, attention, plan);
  HR_TRY(hr_attention_check(attention, error));
  hr_problem problem = hr_attention_problem(attention);
  return hr_plan_create(device, &problem, kernel, plan, error);
}

hr_status hr_plan_rowwise(hr_device *device, const hr_rowwise *rows, const char *kernel, hr_plan **plan,
                          hr_error *error)
{
  HR_NEED(error, device, rows, plan);
  HR_TRY(hr_rowwise_check(rows, error));
  hr_problem problem = hr_rowwise_problem(rows);
  return hr_plan_create(device, &problem, kernel, plan, error);
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

hr_status hr_plan_run(const hr_plan *plan, const void *const *inputs, void *output, void *workspace, hr_error *error)
{
  if (plan->problem.operation != HR_OPERATION_ATTENTION)
    return plan->kernel->functions->run(plan, inputs, output, workspace, error);
  hr_attention_arguments arguments = hr_attention_arguments_default();
  arguments.q = inputs[0];
  arguments.k = inputs[1];
  arguments.v = inputs[2];
  arguments.o = output;
  if (plan->problem.attention.alibi)
    arguments.alibi_slopes = inputs[3];
  return plan->kernel->functions->run_attention(plan, &arguments, workspace, error);
}

static hr_status check_run(const hr_plan *plan, hr_operation operation, bool addresses, const void *workspace,
                           hr_error *error)
{
  if (plan->problem.operation != operation)
    return hr_fail(error, HR_ERROR_INVALID, "a plan for %s is run as one for %s",
                   operation_names[plan->problem.operation], operation_names[operation]);
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
  if (!plan->device->backend->own_memory)
    HR_TRY(hr_attention_check_offsets(attention, arguments, error));
  return plan->kernel->functions->run_attention(plan, arguments, workspace, error);
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

/* x, then weights or a table or a second x, then the result. */
static hr_operands rows_operands(const hr_rowwise *r)
{
  size_t row = (size_t)r->columns * hr_dtype_bytes(r->dtype), tensor = (size_t)r->rows * row;
  switch (r->operation) {
  case HR_ROWWISE_LAYER_NORM: return (hr_operands){4, {tensor, row, row, tensor}};
  case HR_ROWWISE_RMS_NORM: return (hr_operands){3, {tensor, row, tensor}};
  case HR_ROWWISE_ROTARY: return (hr_operands){3, {tensor, (size_t)r->period * row, tensor}};
  case HR_ROWWISE_SWIGLU:
  case HR_ROWWISE_RESIDUAL: return (hr_operands){3, {tensor, tensor, tensor}};
  case HR_ROWWISE_SOFTMAX:
  case HR_ROWWISE_GELU:
  case HR_ROWWISE_COUNT: break;
  }
  return (hr_operands){2, {tensor, tensor}};
}

/* Gaps between strides are there too. An empty operand has one element, as buffers are not empty. */
static size_t attention_operand(const hr_attention *a, hr_attention_operand operand)
{
  int64_t elements = 0;
  if (hr_attention_span(a, operand, &elements) != HR_OK || elements == 0)
    elements = 1;
  return (size_t)elements * hr_dtype_bytes(a->dtype);
}

static hr_operands attention_operands(const hr_attention *a)
{
  size_t q = attention_operand(a, HR_OPERAND_Q), k = attention_operand(a, HR_OPERAND_K);
  size_t v = attention_operand(a, HR_OPERAND_V), o = attention_operand(a, HR_OPERAND_O);
  if (a->alibi)
    return (hr_operands){5, {q, k, v, (size_t)a->q_heads * sizeof(float), o}};
  return (hr_operands){4, {q, k, v, o}};
}

hr_problem hr_gemm_problem(const hr_gemm *gemm)
{
  return (hr_problem){.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
}

hr_problem hr_attention_problem(const hr_attention *attention)
{
  return (hr_problem){.operation = HR_OPERATION_ATTENTION, .dtype = attention->dtype, .attention = *attention};
}

hr_problem hr_rowwise_problem(const hr_rowwise *rows)
{
  return (hr_problem){.operation = HR_OPERATION_ROWWISE, .dtype = rows->dtype, .rows = *rows};
}

hr_operands hr_problem_operands(const hr_problem *problem)
{
  size_t element = hr_dtype_bytes(problem->dtype);
  if (problem->operation == HR_OPERATION_ROWWISE)
    return rows_operands(&problem->rows);
  if (problem->operation == HR_OPERATION_ATTENTION)
    return attention_operands(&problem->attention);
  const hr_gemm *g = &problem->gemm;
  return (hr_operands){3,
                       {element * (size_t)hr_gemm_a(g).elements, element * (size_t)hr_gemm_b(g).elements,
                        element * (size_t)hr_gemm_c(g).elements}};
}
