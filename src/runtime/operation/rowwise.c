/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "base/struct_size.h"

#include <stddef.h>

void hr_rowwise_arguments_init(hr_rowwise_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_rowwise_arguments){0});
}

/* Bytes of the second input, weights or a table or a second x, and of the third; x has `tensor`. */
static size_t input_bytes(const hr_rowwise *r, int input, size_t tensor)
{
  size_t row = (size_t)r->columns * hr_dtype_bytes(r->dtype);
  bool weights = r->operation == HR_ROWWISE_LAYER_NORM || r->operation == HR_ROWWISE_RMS_NORM;
  if (input == 0)
    return tensor;
  return weights ? row : r->operation == HR_ROWWISE_ROTARY ? (size_t)r->period * row : tensor;
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_rowwise *r = &problem->rows;
  const size_t tensor = (size_t)r->rows * (size_t)r->columns * hr_dtype_bytes(r->dtype);
  const size_t inputs = offsetof(hr_rowwise_arguments, inputs);
  hr_operands all = {.count = 0};
  for (int i = 0; i < hr_rowwise_inputs(r->operation); i++)
    hr_add_input(&all, inputs + (size_t)i * sizeof(void *), HR_OPERAND_NUMBERS, input_bytes(r, i, tensor));
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
                                               .bytes = bytes};
