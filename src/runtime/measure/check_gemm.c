/* SPDX-License-Identifier: Apache-2.0 */
/* A GEMM's result: of large ones a sample of their columns, too. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/measure/checks.h"
#include "runtime/measure/error_bounds.h"

#define COLUMNS 32    /* width of a range of columns */
#define COLUMNS_MIN 8 /* per row */

static hr_sample sample(const hr_problem *problem, size_t output)
{
  (void)output;
  const hr_gemm *g = &problem->gemm;
  hr_sample result = {.rows = g->batch * g->m, .length = g->n, .scratch = hr_reference_gemm_scratch(g)};
  result.count = hr_min64(HR_CHECKED_ROWS_MAX, result.rows);
  int64_t columns = hr_min64(g->n, hr_max64(COLUMNS_MIN, HR_CHECKED_PRODUCTS_MAX / result.count / g->k));
  result.width = columns == g->n ? g->n : hr_min64(COLUMNS, columns);
  result.ranges = columns / result.width;
  return result;
}

static int64_t row_start(const hr_problem *problem, size_t output, int64_t row)
{
  (void)output;
  const hr_gemm *g = &problem->gemm;
  hr_matrix c = hr_gemm_c(g);
  return row / g->m * c.batch_stride + row % g->m * c.leading_dimension;
}

/* `rows` rows of a GEMM's matrix, from row `row` of a batch on. */
static hr_operand_part rows_of(const hr_gemm *g, hr_matrix matrix, int64_t batch, int64_t row, int64_t rows)
{
  size_t element = hr_dtype_bytes(g->dtype);
  int64_t start = batch * matrix.batch_stride + row * matrix.leading_dimension;
  return (hr_operand_part){(size_t)start * element,
                           (size_t)((rows - 1) * matrix.leading_dimension + matrix.columns) * element};
}

/* The part of B for `width` columns from `column` on. It is all of a batch, and is reused for the next ranges, if
 * columns are not contiguous or if the ranges of its rows add up to as much. */
static hr_operand_part columns_of_b(const hr_gemm *g, const hr_sample *of, int64_t batch, int64_t column)
{
  hr_matrix b = hr_gemm_b(g);
  int64_t rows_of_batch = hr_ceil_div(of->count, g->broadcast_b ? 1 : g->batch);
  if (!g->transpose_b || rows_of_batch * of->ranges * of->width >= g->n)
    return rows_of(g, b, batch, 0, b.rows);
  return rows_of(g, b, batch, column, of->width);
}

static hr_status fetch(const hr_checked_range *range, hr_host_set *host, hr_error *error)
{
  const hr_runner *s = range->runner;
  const hr_gemm *g = &s->problem.gemm;
  const int64_t row = range->row, batch = row / g->m;
  hr_matrix a = hr_gemm_a(g);
  hr_operand_part of_a = g->transpose_a ? rows_of(g, a, batch, 0, a.rows) : rows_of(g, a, batch, row % g->m, 1);
  HR_TRY(hr_host_set_fetch(s, host, 0, of_a, error));
  HR_TRY(hr_host_set_fetch(s, host, 1, columns_of_b(g, range->of, batch, range->column), error));
  if (g->bias)
    HR_TRY(hr_host_set_fetch(s, host, 2, (hr_operand_part){0, s->operands.bytes[2]}, error));
  return hr_host_set_fetch(s, host, s->operands.inputs, rows_of(g, hr_gemm_c(g), batch, row % g->m, 1), error);
}

/* A range of columns is computed as a row of the GEMM with only these columns of B. */
static void reference(const hr_checked_range *range, const hr_host_set *host, double *scratch,
                      hr_reference_query *query)
{
  const hr_gemm *g = &range->runner->problem.gemm;
  const int64_t row = range->row, column = range->column;
  hr_gemm some = *g;
  hr_matrix b = hr_gemm_b(g);
  size_t skipped = (size_t)(g->transpose_b ? column * b.leading_dimension : column) * hr_dtype_bytes(g->dtype);
  some.n = range->of->width;
  some.ldb = b.leading_dimension;
  some.stride_b = b.batch_stride;
  hr_reference_gemm_row(&some, host->operands[0], (const char *)host->operands[1] + skipped, row / g->m, row % g->m,
                        scratch, query->out, query->norm);
  if (g->bias)
    hr_reference_gemm_bias(&some, host->operands[2], column, query->out, query->norm);
}

static double bound(const hr_plan *plan, const hr_reference_query *query, int64_t column)
{
  const hr_problem *p = &plan->problem;
  return hr_gemm_error_bound(p->dtype, p->gemm.k, &plan->summation, query->out[column], query->norm[column]);
}

const hr_check hr_check_gemm = {
    .sample = sample, .row_start = row_start, .fetch = fetch, .reference = reference, .bound = bound};
