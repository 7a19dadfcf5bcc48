/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "runtime/measure/checks.h"
#include "shape/number.h"

void call_open(hr_device *device, const char *kernel, const hr_problem *problem, const size_t *shifts, uint64_t seed,
               call *c)
{
  *c = (call){.device = device, .kernel = kernel, .problem = *problem, .operands = hr_problem_operands(problem)};
  for (size_t i = 0; i < c->operands.count; i++) {
    const bool numbers = c->operands.kinds[i] == HR_OPERAND_NUMBERS;
    const size_t element = hr_dtype_bytes(numbers ? problem->dtype : HR_FP32);
    placing at = {.alignment = element, .at_start = true, .shift = shifts ? shifts[i] * element : 0};
    c->places[i] = place_make(device, c->operands.bytes[i], at);
    if (!numbers)
      hr_check_of(problem->operation)
          ->make_table(problem, c->operands.kinds[i], seed + i, c->operands.bytes[i], c->places[i].host);
    else if (i < c->operands.inputs)
      hr_numbers_uniform(problem->dtype, seed + i, 0, c->operands.bytes[i] / element, c->places[i].host);
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
  for (size_t i = 0; i < c->operands.inputs; i++)
    inputs[i] = c->places[i].data;
  return hr_problem_arguments(&c->problem, &c->operands, (hr_operand_addresses){inputs, &c->output->data});
}

void call_run_with(call *c, const hr_plan *plan, const hr_arguments *arguments, const bool *written)
{
  hr_error error;
  char text[512];
  for (size_t i = 0; i < c->operands.count; i++)
    place_send(&c->places[i]);
  if (run_arguments(plan, arguments, true, &error) != HR_OK)
    fail_msg("%s %s: %s", c->kernel, problem_words(&c->problem, text), error.message);
  place_bring(c->output);
  place_assert_rest(c->output, written, hr_dtype_bytes(hr_problem_output_dtype(&c->problem)),
                    problem_words(&c->problem, text));
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
  return hr_number_load(c->problem.dtype, c->places[operand].host, index);
}
