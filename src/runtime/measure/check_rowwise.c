/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"

#define PRODUCTS_OF_ELEMENT 16

/* Rows of the table in no order. */
static void make_table(const hr_problem *problem, hr_operand_kind kind, uint64_t seed, size_t bytes, void *to)
{
  (void)kind;
  int32_t *numbers = to;
  for (size_t i = 0; i < bytes / sizeof *numbers; i++)
    numbers[i] = (int32_t)((i * 2654435761u + seed) % (uint64_t)problem->rows.period);
}

static hr_sample sample(const hr_problem *problem, size_t output)
{
  (void)output;
  const hr_rowwise *r = &problem->rows;
  return hr_sample_of_rows(r->rows, r->columns, r->columns * PRODUCTS_OF_ELEMENT, hr_reference_rowwise_scratch(r));
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  (void)output;
  return row * problem->rows.columns;
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  int64_t start = row_start(&range->runner->problem, 0, range->row);
  bool by_row = range->runner->problem.rows.operation != HR_ROWWISE_GATHER; /* which reads any row of its table */
  return hr_host_set_fetch_row(range->runner, host, range->of, range->row, start, by_row, error);
}

static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  hr_reference_rowwise_row(&range->runner->problem.rows, host->operands, range->row, scratch, query->out, query->norm);
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_problem *p = &plan->problem;
  return hr_rowwise_error_bound(p->dtype, p->rows.columns, query->out[column], query->norm[column]);
}

const hr_check hr_check_rowwise = {.make_table = make_table,
                                   .sample = sample,
                                   .row_start = row_start,
                                   .fetch = fetch,
                                   .reference = reference,
                                   .bound = bound};
