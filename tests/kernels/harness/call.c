/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "runtime/measure/checks.h"
#include "shape/number.h"
#include "shape/rowwise_operands.h"

/* Operations that take a negative number for no row get some. */
static void drop_rows(const hr_problem *problem, size_t count, int32_t *numbers)
{
  for (size_t i = 3; hr_rowwise_skips_rows(problem->rows.operation) && i < count; i += 7)
    numbers[i] = -1;
}

static void fill(call *c, size_t i, hr_dtype dtype, uint64_t seed)
{
  const hr_operand_kind kind = c->operands.kinds[i];
  const size_t bytes = c->operands.bytes[i];
  if (kind == HR_OPERAND_NUMBERS || kind == HR_OPERAND_FP32)
    hr_numbers_uniform(dtype, seed, 0, bytes / hr_dtype_bytes(dtype), c->places[i].host);
  else
    hr_check_of(c->problem.operation)->make_table(&c->problem, kind, seed, bytes, c->places[i].host);
  if (kind == HR_OPERAND_ROWS)
    drop_rows(&c->problem, bytes / sizeof(int32_t), (int32_t *)(void *)c->places[i].host);
}

void call_open(hr_device *device, const char *kernel, const hr_problem *problem, const size_t *shifts, uint64_t seed,
               call *c)
{
  *c = (call){.device = device, .kernel = kernel, .problem = *problem, .operands = hr_problem_operands(problem)};
  for (size_t i = 0; i < c->operands.count; i++) {
    const hr_dtype dtype = hr_operand_dtype(problem, &c->operands, i);
    const size_t element = hr_dtype_bytes(dtype);
    placing at = {.alignment = element, .at_start = true, .shift = shifts ? shifts[i] * element : 0};
    c->places[i] = place_make(device, c->operands.bytes[i], at);
    if (i < c->operands.inputs)
      fill(c, i, dtype, seed + i);
  }
  c->output = &c->places[c->operands.inputs];
}

void call_close(call *c)
{
  for (size_t i = 0; i < c->operands.count; i++)
    place_free(&c->places[i]);
}

hr_arguments call_arguments(const call *c)
{
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  void *outputs[HR_OPERANDS_MAX] = {NULL};
  for (size_t i = 0; i < c->operands.count; i++) {
    if (i < c->operands.inputs)
      inputs[i] = c->places[i].data;
    else
      outputs[i - c->operands.inputs] = c->places[i].data;
  }
  return hr_problem_arguments(&c->problem, &c->operands, (hr_operand_addresses){inputs, outputs});
}

void call_run_with(call *c, const hr_plan *plan, const hr_arguments *arguments, const bool *written)
{
  hr_error error;
  char text[512];
  for (size_t i = 0; i < c->operands.count; i++)
    place_send(&c->places[i]);
  if (run_arguments(plan, arguments, true, &error) != HR_OK)
    fail_msg("%s %s: %s", c->kernel, problem_words(&c->problem, text), error.message);
  for (size_t i = c->operands.inputs; i < c->operands.count; i++) {
    place_bring(&c->places[i]);
    place_assert_rest(&c->places[i], written, hr_dtype_bytes(hr_operand_dtype(&c->problem, &c->operands, i)),
                      problem_words(&c->problem, text));
  }
}

void call_run_plan(call *c, const hr_plan *plan, const bool *written)
{
  const hr_arguments arguments = call_arguments(c);
  call_run_with(c, plan, &arguments, written);
}

bool call_run(call *c, const bool *written)
{
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  char text[512];
  hr_status status = hr_plan_create(c->device, &c->problem, c->kernel, &plan, &error);
  if (status == HR_ERROR_UNSUPPORTED)
    return false;
  if (status != HR_OK)
    fail_msg("%s %s: %s", c->kernel, problem_words(&c->problem, text), error.message);
  assert_string_equal(hr_plan_kernel(plan), c->kernel);
  call_run_plan(c, plan, written);
  hr_plan_free(plan);
  return true;
}

double call_element(const call *c, size_t operand, size_t index)
{
  return hr_number_load(hr_operand_dtype(&c->problem, &c->operands, operand), c->places[operand].host, index);
}
