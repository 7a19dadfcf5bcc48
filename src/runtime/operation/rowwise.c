/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/operation/operation.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <inttypes.h>
#include <stddef.h>

void hr_rowwise_arguments_init(hr_rowwise_arguments *arguments, size_t size)
{
  HR_INIT(arguments, size, (hr_rowwise_arguments){0});
}

static const hr_operand_kind kinds[] = {[HR_CONTENT_NUMBERS] = HR_OPERAND_NUMBERS,
                                        [HR_CONTENT_FP32] = HR_OPERAND_FP32,
                                        [HR_CONTENT_VARIANCES] = HR_OPERAND_VARIANCES,
                                        [HR_CONTENT_TARGETS] = HR_OPERAND_TARGETS,
                                        [HR_CONTENT_ROWS] = HR_OPERAND_ROWS};

static size_t input_member(int i)
{
  return i < 3 ? offsetof(hr_rowwise_arguments, inputs) + (size_t)i * sizeof(void *)
               : offsetof(hr_rowwise_arguments, more_inputs) + (size_t)(i - 3) * sizeof(void *);
}

static size_t output_member(int i)
{
  return i < 1 ? offsetof(hr_rowwise_arguments, output)
               : offsetof(hr_rowwise_arguments, more_outputs) + (size_t)(i - 1) * sizeof(void *);
}

static size_t bytes_of(const hr_rowwise *r, const hr_rowwise_operand *operand)
{
  return (size_t)hr_rowwise_span(r, operand).value * (size_t)hr_rowwise_element_bytes(r, operand);
}

static hr_operands operands(const hr_problem *problem)
{
  const hr_rowwise *r = &problem->rows;
  const hr_rowwise_operands of = hr_rowwise_operands_of(r);
  hr_operands all = {.count = 0};
  for (int i = 0; i < of.inputs; i++)
    hr_add_input(&all, input_member(i), kinds[of.input[i].content], bytes_of(r, &of.input[i]));
  for (int i = 0; i < of.outputs; i++) {
    hr_add_output(&all, output_member(i), kinds[of.output[i].content], bytes_of(r, &of.output[i]));
    all.replaces[all.count - 1] = (size_t)of.output[i].replaces;
  }
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
  const hr_rowwise_operation operation = problem->rows.operation;
  if (x->row_count && !hr_rowwise_by_element(operation) && operation != HR_ROWWISE_GATHER)
    return hr_fail(error, HR_ERROR_INVALID, "row_count: %s computes all rows", hr_rowwise_operation_name(operation));
  const hr_rowwise_operands of = hr_rowwise_operands_of(&problem->rows);
  const hr_needed_address addresses[] = {{"inputs[0]", x->inputs[0], of.inputs > 0},
                                         {"inputs[1]", x->inputs[1], of.inputs > 1},
                                         {"inputs[2]", x->inputs[2], of.inputs > 2},
                                         {"more_inputs[0]", x->more_inputs[0], of.inputs > 3},
                                         {"output", x->output, true},
                                         {"more_outputs[0]", x->more_outputs[0], of.outputs > 1},
                                         {"more_outputs[1]", x->more_outputs[1], of.outputs > 2},
                                         {"more_outputs[2]", x->more_outputs[2], of.outputs > 3}};
  return hr_check_needed(addresses, sizeof addresses / sizeof *addresses, error);
}

static hr_status check_tables(const hr_problem *problem, const hr_arguments *arguments, hr_error *error)
{
  const hr_rowwise *r = &problem->rows;
  const hr_rowwise_operand first = hr_rowwise_operands_of(r).input[0];
  const int64_t count = first.content == HR_CONTENT_ROWS ? hr_rowwise_elements(r, &first).value : 0;
  const int32_t *numbers = arguments->rows.inputs[0];
  for (int64_t i = 0; i < count; i++) {
    if ((numbers[i] < 0 && !hr_rowwise_skips_rows(r->operation)) || numbers[i] >= r->period)
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
