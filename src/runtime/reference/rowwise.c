/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/number.h"
#include "runtime/device/plan.h"
#include "runtime/reference/reference.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-5

size_t hr_reference_rowwise_scratch(const hr_rowwise *r)
{
  return 3 * (size_t)r->columns;
}

/* Number of columns that row `row` of a softmax sees. */
static int64_t visible_columns(const hr_rowwise *r, int64_t row)
{
  return r->period > 0 ? row % r->period + r->columns - r->period + 1 : r->columns;
}

static void softmax(const hr_rowwise *r, int64_t row, const double *x, double *out, double *norm)
{
  int64_t seen = visible_columns(r, row);
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < seen; i++)
    most = x[i] > most ? x[i] : most;
  for (int64_t i = 0; i < seen; i++)
    sum += exp(x[i] - most);
  for (int64_t i = 0; i < r->columns; i++)
    out[i] = i < seen ? exp(x[i] - most) / sum : 0;
  memcpy(norm, out, (size_t)r->columns * sizeof *norm);
}

static void norm_row(const hr_rowwise *r, const double *x, const double *weight, const double *bias, double *out,
                     double *norm)
{
  double columns = (double)r->columns, mean = 0, squares = 0;
  for (int64_t i = 0; bias && i < r->columns; i++)
    mean += x[i] / columns;
  for (int64_t i = 0; i < r->columns; i++)
    squares += (x[i] - mean) * (x[i] - mean);
  double scale = 1 / sqrt(squares / columns + EPSILON);
  for (int64_t i = 0; i < r->columns; i++) {
    out[i] = (x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0);
    norm[i] = (fabs(x[i]) + fabs(mean)) * scale * fabs(weight[i]) + (bias ? fabs(bias[i]) : 0);
  }
}

static void rotary(const hr_rowwise *r, const double *x, const double *table, double *out, double *norm)
{
  int64_t half = r->columns / 2;
  for (int64_t i = 0; i < half; i++) {
    double u = x[i], v = x[half + i], c = table[i], s = table[half + i];
    out[i] = u * c - v * s;
    out[half + i] = v * c + u * s;
    norm[i] = fabs(u * c) + fabs(v * s);
    norm[half + i] = fabs(v * c) + fabs(u * s);
  }
}

/* ---- dropout ---- */

#define PHILOX_ROUNDS 7

/* Philox4x32: four words from the counter (index, 0, 0, 0 but for the high half of the index) and the seed as key.
 * Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3. */
static void philox(uint64_t index, uint64_t seed, uint32_t word[4])
{
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
    const uint32_t next[] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ key[1],
                             (uint32_t)a};
    memcpy(c, next, sizeof c);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  memcpy(word, c, sizeof c);
}

static void dropout(const hr_rowwise *r, int64_t row, const double *x, double *out, double *norm)
{
  int64_t dropped = hr_rowwise_dropped(r);
  double scale = 65536.0 / (double)(65536 - dropped);
  for (int64_t i = 0; i < r->columns; i++) {
    uint64_t element = (uint64_t)(row * r->columns + i);
    uint32_t word[4];
    philox(element / 8, r->seed, word);
    uint32_t bits = word[element % 8 / 2] >> (element % 2 * 16) & 0xFFFF;
    out[i] = (int64_t)bits < dropped ? 0 : x[i] * scale;
    norm[i] = fabs(out[i]);
  }
}

static void by_element(const hr_rowwise *r, const double *x, const double *z, double *out, double *norm)
{
  for (int64_t i = 0; i < r->columns; i++) {
    if (r->operation == HR_ROWWISE_GELU) {
      out[i] = x[i] * (1 + erf(x[i] / sqrt(2))) / 2;
      norm[i] = fabs(x[i]);
    } else if (r->operation == HR_ROWWISE_SWIGLU) {
      out[i] = x[i] / (1 + exp(-x[i])) * z[i];
      norm[i] = fabs(x[i] * z[i]);
    } else {
      out[i] = x[i] + z[i];
      norm[i] = fabs(x[i]) + fabs(z[i]);
    }
  }
}

void hr_reference_rowwise_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *scratch, double *out,
                              double *norm)
{
  size_t columns = (size_t)r->columns, at = (size_t)row * columns;
  double *x = scratch, *second = scratch + columns, *third = second + columns;
  bool weights = r->operation == HR_ROWWISE_LAYER_NORM || r->operation == HR_ROWWISE_RMS_NORM;
  size_t second_at = r->operation == HR_ROWWISE_ROTARY ? (size_t)(row / r->group % r->period) * columns
                     : weights                         ? 0
                                                       : at;
  hr_numbers_load(r->dtype, inputs[0], at, columns, x);
  if (hr_rowwise_inputs(r->operation) > 1)
    hr_numbers_load(r->dtype, inputs[1], second_at, columns, second);
  if (hr_rowwise_inputs(r->operation) > 2)
    hr_numbers_load(r->dtype, inputs[2], 0, columns, third);
  if (r->operation == HR_ROWWISE_SOFTMAX)
    softmax(r, row, x, out, norm);
  else if (weights)
    norm_row(r, x, second, r->operation == HR_ROWWISE_LAYER_NORM ? third : NULL, out, norm);
  else if (r->operation == HR_ROWWISE_ROTARY)
    rotary(r, x, second, out, norm);
  else if (r->operation == HR_ROWWISE_DROPOUT)
    dropout(r, row, x, out, norm);
  else
    by_element(r, x, second, out, norm);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace_bytes,
                         hr_error *error)
{
  (void)device;
  (void)state;
  (void)error;
  *workspace_bytes =
      (hr_reference_rowwise_scratch(&problem->rows) + 2 * (size_t)problem->rows.columns) * sizeof(double);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  double *scratch = run->workspace, *out = scratch + hr_reference_rowwise_scratch(r), *norm = out + r->columns;
  for (int64_t row = 0; row < r->rows; row++) {
    hr_reference_rowwise_row(r, x->inputs, row, scratch, out, norm);
    for (int64_t i = 0; i < r->columns; i++)
      hr_number_store(r->dtype, x->output, (size_t)(row * r->columns + i), out[i]);
  }
  return HR_OK;
}

const hr_kernel_functions hr_kernel_rowwise_reference = {.prepare = prepare, .run = run};
