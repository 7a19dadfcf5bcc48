/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"
#include "shape/number.h"
#include "shape/rowwise_operands.h"

#include <math.h>

#define PRODUCTS_OF_ELEMENT 16

/* Rows of the table in no order. */
static void make_rows(const hr_rowwise *r, uint64_t seed, size_t count, int32_t *to)
{
  for (size_t i = 0; i < count; i++)
    to[i] = (int32_t)((i * 2654435761u + seed) % (uint64_t)r->period);
}

/* Some targets are outside of the row, as those of padding are. */
static void make_targets(const hr_rowwise *r, uint64_t seed, size_t count, int32_t *to)
{
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = (seed + i) * 0x9E3779B97F4A7C15u >> 32;
    to[i] = bits % 16 == 0 ? -100 : (int32_t)(bits / 16 % (uint64_t)hr_min64(r->columns, INT32_MAX));
  }
}

static void make_table(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to)
{
  const size_t count = bytes / sizeof(float);
  float *numbers = to;
  if (kind == HR_OPERAND_TARGETS || kind == HR_OPERAND_ROWS) {
    (kind == HR_OPERAND_ROWS ? make_rows : make_targets)(&problem->rows, seed, count, to);
    return;
  }
  hr_numbers_uniform(HR_FP32, seed, 0, count, to);
  for (size_t i = 0; kind == HR_OPERAND_VARIANCES && i < count; i++)
    numbers[i] = fabsf(numbers[i]);
}

static bool needs_all(const hr_rowwise *r)
{
  return r->operation == HR_ROWWISE_ADAMW || r->operation == HR_ROWWISE_GATHER_BACKWARD;
}

/* The products of a row of the output, which may need all rows of the inputs. */
static int64_t products_of(const hr_rowwise *r, int output)
{
  const bool all = hr_rowwise_output_rows(r, output) < r->rows || needs_all(r);
  return PRODUCTS_OF_ELEMENT * r->columns * (all ? r->rows : 1);
}

static hr_sample sample(const hr_problem *problem, size_t output)
{
  const hr_rowwise *r = &problem->rows;
  const int of = (int)output;
  return hr_sample_of_rows(hr_rowwise_output_rows(r, of), hr_rowwise_output_length(r, of), products_of(r, of),
                           hr_reference_rowwise_scratch(r));
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  return hr_rowwise_output_at(&problem->rows, (int)output, row);
}

/* A row of a tensor, or its number of a column, unless all rows are needed: by sums over them, and by the norm of
 * gradients that are clipped. */
static hr_operand_part part_of(const hr_checked_range *range, const hr_rowwise_operand *operand, size_t bytes)
{
  const hr_rowwise *r = &range->runner->problem.rows;
  const bool packed = operand->extent == HR_EXTENT_TENSOR ||
                      (operand->extent == HR_EXTENT_STRIDED && r->x_stride == 0 && r->x_row == 0);
  const bool column = operand->extent == HR_EXTENT_COLUMN && r->operation != HR_ROWWISE_SINK; /* in another order */
  const bool by_row = packed || column || operand->extent == HR_EXTENT_TERMS;
  if (!by_row || range->of->rows < r->rows || needs_all(r))
    return (hr_operand_part){0, bytes};
  const size_t one = bytes / (size_t)r->rows;
  return (hr_operand_part){one * (size_t)range->row, one};
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  const hr_runner *s = range->runner;
  const hr_rowwise_operands of = hr_rowwise_operands_of(&s->problem.rows);
  const size_t output = s->operands.inputs + range->of->output;
  const size_t row = s->operands.bytes[output] / (size_t)range->of->rows;
  HR_TRY(hr_host_set_fetch(s, host, output, (hr_operand_part){row * (size_t)range->row, row}, error));
  for (size_t i = 0; i < s->operands.inputs; i++)
    HR_TRY(hr_host_set_fetch(s, host, i, part_of(range, &of.input[i], s->operands.bytes[i]), error));
  return HR_OK;
}

static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  const hr_rowwise_output_row at = {(int)range->of->output, range->row, 0, 0};
  query->output = at.output;
  hr_reference_rowwise(&range->runner->problem.rows, host->operands, at, scratch, query->out, query->norm);
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  return hr_rowwise_error_bound(&plan->problem.rows, query->output, query->out[column], query->norm[column]);
}

const hr_check hr_check_rowwise = {.make_table = make_table,
                                   .sample = sample,
                                   .row_start = row_start,
                                   .fetch = fetch,
                                   .reference = reference,
                                   .bound = bound};
