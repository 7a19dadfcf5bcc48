/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "runtime/device/plan.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include <math.h>
#include <string.h>

size_t hr_reference_gemm_scratch(const hr_gemm *gemm)
{
  return (size_t)gemm->k + (size_t)hr_max64(gemm->k, gemm->n);
}

static void load_a_row(const hr_gemm *g, const void *a, int64_t batch, int64_t row, double *to)
{
  hr_matrix matrix = hr_gemm_a(g);
  int64_t start = batch * matrix.batch_stride;
  if (!g->transpose_a) {
    hr_numbers_load(g->dtype, a, (size_t)(start + row * matrix.leading_dimension), (size_t)g->k, to);
    return;
  }
  for (int64_t p = 0; p < g->k; p++)
    to[p] = hr_number_load(g->dtype, a, (size_t)(start + p * matrix.leading_dimension + row));
}

#define LANES 8 /* independent accumulators, so that additions need not wait for each other */

static double dot(const double *a, const double *b, int64_t k, double *squares)
{
  double sums[LANES] = {0}, square_sums[LANES] = {0};
  int64_t whole = k - k % LANES;
  for (int64_t p = 0; p < whole; p += LANES)
    for (int lane = 0; lane < LANES; lane++) {
      double product = a[p + lane] * b[p + lane];
      sums[lane] += product;
      square_sums[lane] += product * product;
    }
  for (int64_t p = whole; p < k; p++) {
    sums[p - whole] += a[p] * b[p];
    square_sums[p - whole] += (a[p] * b[p]) * (a[p] * b[p]);
  }
  double sum = 0;
  for (int lane = 0; lane < LANES; lane++) {
    sum += sums[lane];
    *squares += square_sums[lane];
  }
  return sum;
}

/* B is [n, k]: each element is a dot product. */
static void row_times_transposed(const hr_gemm *g, const double *a_row, const void *b, int64_t batch, double *b_row,
                                 double *out, double *norm)
{
  hr_matrix matrix = hr_gemm_b(g);
  int64_t start = batch * matrix.batch_stride;
  for (int64_t j = 0; j < g->n; j++) {
    hr_numbers_load(g->dtype, b, (size_t)(start + j * matrix.leading_dimension), (size_t)g->k, b_row);
    double squares = 0;
    out[j] = dot(a_row, b_row, g->k, &squares);
    if (norm)
      norm[j] = sqrt(squares);
  }
}

/* B is [k, n]: scaled rows of B are accumulated. */
static void row_times_plain(const hr_gemm *g, const double *a_row, const void *b, int64_t batch, double *b_row,
                            double *out, double *norm)
{
  hr_matrix matrix = hr_gemm_b(g);
  int64_t start = batch * matrix.batch_stride;
  memset(out, 0, (size_t)g->n * sizeof *out);
  if (norm)
    memset(norm, 0, (size_t)g->n * sizeof *norm);
  for (int64_t p = 0; p < g->k; p++) {
    hr_numbers_load(g->dtype, b, (size_t)(start + p * matrix.leading_dimension), (size_t)g->n, b_row);
    for (int64_t j = 0; j < g->n; j++)
      out[j] += a_row[p] * b_row[j];
    for (int64_t j = 0; norm && j < g->n; j++)
      norm[j] += (a_row[p] * b_row[j]) * (a_row[p] * b_row[j]);
  }
  for (int64_t j = 0; norm && j < g->n; j++)
    norm[j] = sqrt(norm[j]);
}

void hr_reference_gemm_row(const hr_gemm *g, const void *a, const void *b, int64_t batch, int64_t row, double *scratch,
                           double *out, double *norm)
{
  double *a_row = scratch, *b_row = scratch + g->k;
  load_a_row(g, a, batch, row, a_row);
  if (g->transpose_b)
    row_times_transposed(g, a_row, b, batch, b_row, out, norm);
  else
    row_times_plain(g, a_row, b, batch, b_row, out, norm);
}

void hr_reference_gemm_bias(const hr_gemm *g, const void *bias, int64_t first, double *out, double *norm)
{
  for (int64_t j = 0; j < g->n; j++) {
    const double b = hr_number_load(g->dtype, bias, (size_t)(first + j));
    out[j] += b;
    if (norm)
      norm[j] = sqrt(norm[j] * norm[j] + b * b);
  }
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  *workspace_bytes = (hr_reference_gemm_scratch(&problem->gemm) + (size_t)problem->gemm.n) * sizeof(double);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const hr_gemm_arguments *x = run->arguments;
  const hr_gemm *g = &plan->problem.gemm;
  hr_matrix c = hr_gemm_c(g);
  double *scratch = run->workspace, *row_out = scratch + hr_reference_gemm_scratch(g);
  for (int64_t batch = 0; batch < g->batch; batch++) {
    for (int64_t row = 0; row < g->m; row++) {
      hr_reference_gemm_row(g, x->a, x->b, batch, row, scratch, row_out, NULL);
      if (g->bias)
        hr_reference_gemm_bias(g, x->bias, 0, row_out, NULL);
      int64_t start = batch * c.batch_stride + row * c.leading_dimension;
      for (int64_t j = 0; j < g->n; j++)
        hr_number_store(g->dtype, x->c, (size_t)(start + j), row_out[j]);
    }
  }
  return HR_OK;
}

const hr_kernel_functions hr_kernel_gemm_reference = {.prepare = prepare, .run = run};
