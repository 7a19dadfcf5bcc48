/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "shape/rowwise.h"

#include <inttypes.h>
#include <stddef.h>

void hr_rowwise_arguments_init(hr_rowwise_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_rowwise_arguments){0});
}

/* Elements of an input: x, weights, a table, or a second x. */
static int64_t input_elements(const hr_rowwise *r, int input)
{
  switch (r->operation) {
  case HR_ROWWISE_GATHER: return input == 0 ? r->rows : r->period * r->columns;
  case HR_ROWWISE_ROTARY: return input == 0 ? hr_rowwise_x_span(r) : r->period * hr_rowwise_rotated(r);
  case HR_ROWWISE_LAYER_NORM:
  case HR_ROWWISE_RMS_NORM:
  case HR_ROWWISE_BIAS: return input == 0 ? hr_rowwise_x_span(r) : r->columns;
  default: return hr_rowwise_x_span(r);
  }
}

static bool is_numbers_of_rows(const hr_rowwise *r, int input)
{
  return r->operation == HR_ROWWISE_GATHER && input == 0;
}

static void add_input(const hr_rowwise *r, int input, hr_operands *to)
{
  const size_t member = offsetof(hr_rowwise_arguments, inputs) + (size_t)input * sizeof(void *);
  const bool numbers = is_numbers_of_rows(r, input);
  const size_t element = numbers ? sizeof(int32_t) : hr_dtype_bytes(r->dtype);
  hr_add_input(to, member, numbers ? HR_OPERAND_ROWS : HR_OPERAND_NUMBERS, (size_t)input_elements(r, input) * element);
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_rowwise *r = &problem->rows;
  const size_t tensor = (size_t)r->rows * (size_t)r->columns * hr_dtype_bytes(r->dtype);
  hr_operands all = {.count = 0};
  for (int i = 0; i < hr_rowwise_inputs(r->operation); i++)
    add_input(r, i, &all);
  hr_add_output(&all, offsetof(hr_rowwise_arguments, output), HR_OPERAND_NUMBERS, tensor);
  return all;
}

static hr_status check(const hr_problem *problem, hr_error *error)
{
  return hr_rowwise_check(&problem->rows, error);
}

static int64_t alignment(const hr_problem *problem)
{
  return problem->rows.alignment;
}

static hr_status check_addresses(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_rowwise_arguments *x = &arguments->rows;
  for (int i = 0; i < hr_rowwise_inputs(problem->rows.operation); i++) {
    if (!x->inputs[i])
      return hr_fail(error, HR_ERROR_INVALID, "inputs[%d]: an address is needed, found NULL", i);
  }
  return x->output ? HR_OK : hr_fail(error, HR_ERROR_INVALID, "output: an address is needed, found NULL");
}

static hr_status check_tables(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_rowwise *r = &problem->rows;
  const int32_t *numbers = arguments->rows.inputs[0];
  for (int64_t i = 0; r->operation == HR_ROWWISE_GATHER && i < r->rows; i++) {
    if (numbers[i] < 0 || numbers[i] >= r->period)
      return hr_fail(error, HR_ERROR_INVALID, "inputs[0][%" PRId64 "]: %d is no row of a table of %" PRId64, i,
                     (int)numbers[i], r->period);
  }
  return HR_OK;
}

static hr_status bytes(const hr_problem *problem, int64_t *count)
{
  return hr_rowwise_bytes(&problem->rows, count);
}

const hr_operation_row hr_operation_rowwise = {.name = "rowwise",
                                               .arguments_name = "hr_rowwise_arguments",
                                               .arguments_bytes = sizeof(hr_rowwise_arguments),
                                               .check = check,
                                               .operands = operands,
                                               .alignment = alignment,
                                               .check_addresses = check_addresses,
                                               .check_tables = check_tables,
                                               .bytes = bytes};
