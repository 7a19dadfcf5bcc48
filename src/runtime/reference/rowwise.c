/* SPDX-License-Identifier: Apache-2.0 */
#include "shape/rowwise.h"
#include "runtime/device/plan.h"
#include "runtime/reference/reference.h"
#include "shape/number.h"
#include "shape/rowwise_operands.h"

#include <math.h>
#include <string.h>

size_t hr_reference_rowwise_scratch(const hr_rowwise *r)
{
  return HR_ROWWISE_INPUTS_MAX * (size_t)r->columns;
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

/* `size`: of the terms of x; NULL: |x|. */
static void norm_row(const hr_rowwise *r, const double *x, const double *size, const double *weight, const double *bias,
                     double *out, double *norm)
{
  double columns = (double)r->columns, mean = 0, squares = 0;
  for (int64_t i = 0; bias && i < r->columns; i++)
    mean += x[i] / columns;
  for (int64_t i = 0; i < r->columns; i++)
    squares += (x[i] - mean) * (x[i] - mean);
  double scale = 1 / sqrt(squares / columns + hr_rowwise_epsilon(r));
  for (int64_t i = 0; i < r->columns; i++) {
    out[i] = (x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0);
    norm[i] = ((size ? size[i] : fabs(x[i])) + fabs(mean)) * scale * fabs(weight[i]) + (bias ? fabs(bias[i]) : 0);
  }
}

static void rotary(const hr_rowwise *r, const double *x, const double *table, double *out, double *norm)
{
  int64_t rotated = hr_rowwise_rotated(r), half = rotated / 2;
  for (int64_t i = 0; i < half; i++) {
    int64_t first = r->interleaved ? 2 * i : i, second = r->interleaved ? 2 * i + 1 : half + i;
    double u = x[first], v = x[second], c = table[i], s = table[half + i];
    out[first] = u * c - v * s;
    out[second] = v * c + u * s;
    norm[first] = fabs(u * c) + fabs(v * s);
    norm[second] = fabs(v * c) + fabs(u * s);
  }
  for (int64_t i = rotated; i < r->columns; i++) {
    out[i] = x[i];
    norm[i] = 0;
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

/* A value and the size of the terms that it is made of. */
typedef struct value {
  double out, norm;
} value;

static double gelu_tanh(double x)
{
  return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static value swiglu_clamped(const hr_rowwise *r, double gate, double up)
{
  const double limit = hr_rowwise_cap(r), g = gate > limit ? limit : gate,
               u = up > limit    ? limit
                   : up < -limit ? -limit
                                 : up;
  const double y = g / (1 + exp(-1.702 * g)) * (u + 1);
  return (value){y, fabs(g) * (fabs(u) + 1)};
}

static value softcap(const hr_rowwise *r, double x)
{
  const double y = hr_rowwise_cap(r) * tanh(x / hr_rowwise_cap(r));
  return (value){y, fabs(y)};
}

static value element_of(const hr_rowwise *r, double x, double z)
{
  switch (r->operation) {
  case HR_ROWWISE_GELU: return (value){x * (1 + erf(x / sqrt(2))) / 2, fabs(x)};
  case HR_ROWWISE_GELU_TANH: return (value){gelu_tanh(x), fabs(x)};
  case HR_ROWWISE_RELU: return (value){x > 0 || isnan(x) ? x : 0, 0};
  case HR_ROWWISE_RELU2: return (value){x > 0 || isnan(x) ? x * x : 0, x * x};
  case HR_ROWWISE_SWIGLU: return (value){x / (1 + exp(-x)) * z, fabs(x * z)};
  case HR_ROWWISE_GEGLU: return (value){x * (1 + erf(x / sqrt(2))) / 2 * z, fabs(x * z)};
  case HR_ROWWISE_GEGLU_TANH: return (value){gelu_tanh(x) * z, fabs(x * z)};
  case HR_ROWWISE_SCALE: return (value){x * r->factor, fabs(x * r->factor)};
  case HR_ROWWISE_SOFTCAP: return softcap(r, x);
  case HR_ROWWISE_SWIGLU_CLAMPED: return swiglu_clamped(r, x, z);
  case HR_ROWWISE_WEIGHT: return (value){x * z, fabs(x * z)};
  case HR_ROWWISE_COPY:
  case HR_ROWWISE_GATHER: return (value){x, 0};
  default: return (value){x + z, fabs(x) + fabs(z)}; /* residual, bias */
  }
}

static void by_element(const hr_rowwise *r, const double *x, const double *z, double *out, double *norm)
{
  for (int64_t i = 0; i < r->columns; i++) {
    value v = element_of(r, x[i], z ? z[i] : 0);
    out[i] = v.out;
    norm[i] = v.norm;
  }
}

static bool has_weights(hr_rowwise_operation operation)
{
  return operation == HR_ROWWISE_LAYER_NORM || operation == HR_ROWWISE_RMS_NORM;
}

/* The second input's row, with its columns. */
static size_t second_at(const hr_rowwise *r, int64_t row, size_t columns)
{
  if (r->operation == HR_ROWWISE_ROTARY)
    return (size_t)(row / r->group % r->period) * columns;
  const bool of_columns = r->operation == HR_ROWWISE_BIAS || r->operation == HR_ROWWISE_WEIGHT;
  return has_weights(r->operation) || of_columns ? 0 : (size_t)row * columns;
}

/* A row is multiplied by the sigmoid of its gate, or by the share of its softmax that is not the sink's. */
static double share_of(const hr_rowwise *r, const void *const *inputs, int64_t row)
{
  const float *lse = inputs[1], *sinks = inputs[2];
  if (r->operation == HR_ROWWISE_GATE)
    return 1 / (1 + exp(-hr_number_load(r->dtype, inputs[1], (size_t)row)));
  return 1 / (1 + exp((double)sinks[row % r->group] - (double)lse[hr_rowwise_lse_at(r, row)]));
}

static void shared_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *out, double *norm)
{
  const double share = share_of(r, inputs, row);
  hr_numbers_load(r->dtype, inputs[0], (size_t)(row * r->columns), (size_t)r->columns, out);
  for (int64_t i = 0; i < r->columns; i++) {
    out[i] *= share;
    norm[i] = fabs(out[i]);
  }
}

static void combined_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *x, double *out,
                         double *norm)
{
  const int32_t *numbers = (const int32_t *)inputs[0] + row * r->group;
  const float *weights = (const float *)inputs[2] + row * r->group;
  memset(out, 0, (size_t)r->columns * sizeof *out);
  memset(norm, 0, (size_t)r->columns * sizeof *norm);
  for (int64_t term = 0; term < r->group; term++) {
    if (numbers[term] < 0)
      continue;
    hr_numbers_load(r->dtype, inputs[1], (size_t)(numbers[term] * r->columns), (size_t)r->columns, x);
    for (int64_t i = 0; i < r->columns; i++) {
      out[i] += (double)weights[term] * x[i];
      norm[i] += fabs((double)weights[term] * x[i]);
    }
  }
}

/* Columns of x, and a part that is rotated as a row of its own. */
static void joined_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *scratch, double *out,
                       double *norm)
{
  const int64_t first = hr_rowwise_x_columns(r);
  const size_t rotated = (size_t)r->rotated, table_row = (size_t)(row / r->group % r->period);
  double *part = scratch, *table = scratch + rotated;
  hr_rowwise whole = *r;
  whole.columns = r->rotated;
  hr_numbers_load(r->dtype, inputs[0], (size_t)hr_rowwise_x_at(r, row), (size_t)first, out);
  hr_numbers_load(r->dtype, inputs[1], (size_t)hr_rowwise_z_at(r, row), rotated, part);
  hr_numbers_load(r->dtype, inputs[2], table_row * rotated, rotated, table);
  memset(norm, 0, (size_t)first * sizeof *norm);
  rotary(&whole, part, table, out + first, norm + first);
}

static void load_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *x)
{
  const int32_t number = r->operation == HR_ROWWISE_GATHER ? ((const int32_t *)inputs[0])[row] : 0;
  if (number < 0)
    memset(x, 0, (size_t)r->columns * sizeof *x);
  else if (r->operation == HR_ROWWISE_GATHER)
    hr_numbers_load(r->dtype, inputs[1], (size_t)(number * r->columns), (size_t)r->columns, x);
  else
    hr_numbers_load(r->dtype, inputs[0], (size_t)hr_rowwise_x_at(r, row), (size_t)r->columns, x);
}

static void simple_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *scratch, double *out,
                       double *norm)
{
  const int inputs_count = hr_rowwise_inputs(r->operation);
  size_t columns = (size_t)r->columns;
  size_t other = r->operation == HR_ROWWISE_ROTARY ? (size_t)hr_rowwise_rotated(r) : columns;
  double *x = scratch, *second = scratch + columns, *third = second + columns;
  load_row(r, inputs, row, x);
  if (inputs_count > 1 && r->operation != HR_ROWWISE_GATHER)
    hr_numbers_load(r->dtype, inputs[1], second_at(r, row, other), other, second);
  if (inputs_count > 2)
    hr_numbers_load(r->dtype, inputs[2], 0, columns, third);
  if (r->operation == HR_ROWWISE_SOFTMAX)
    softmax(r, row, x, out, norm);
  else if (has_weights(r->operation))
    norm_row(r, x, NULL, second, r->operation == HR_ROWWISE_LAYER_NORM ? third : NULL, out, norm);
  else if (r->operation == HR_ROWWISE_ROTARY)
    rotary(r, x, second, out, norm);
  else if (r->operation == HR_ROWWISE_DROPOUT)
    dropout(r, row, x, out, norm);
  else
    by_element(r, x, inputs_count > 1 ? second : NULL, out, norm);
}

static void forward_row(const hr_rowwise *r, const void *const *inputs, int64_t row, double *scratch, double *out,
                        double *norm)
{
  switch (r->operation) {
  case HR_ROWWISE_GATE:
  case HR_ROWWISE_SINK: shared_row(r, inputs, row, out, norm); return;
  case HR_ROWWISE_ROTARY_JOIN: joined_row(r, inputs, row, scratch, out, norm); return;
  case HR_ROWWISE_COMBINE: combined_row(r, inputs, row, scratch, out, norm); return;
  default: simple_row(r, inputs, row, scratch, out, norm);
  }
}

/* A residual, output 1, and the norm of it, output 0. */
static void residual_norm(const hr_rowwise *r, const void *const *inputs, hr_rowwise_output_row at, double *scratch,
                          double *out, double *norm)
{
  const size_t columns = (size_t)r->columns, first = (size_t)at.row * columns;
  const bool biased = r->operation == HR_ROWWISE_RESIDUAL_LAYER_NORM;
  double *sum = scratch, *size = sum + columns, *weight = size + columns, *bias = weight + columns;
  hr_numbers_load(r->dtype, inputs[0], first, columns, sum);
  hr_numbers_load(r->dtype, inputs[1], first, columns, size);
  for (size_t i = 0; i < columns; i++) {
    const double x = sum[i], z = size[i];
    sum[i] = x + z;
    size[i] = fabs(x) + fabs(z);
  }
  if (at.output == 1) {
    memcpy(out, sum, columns * sizeof *out);
    memcpy(norm, size, columns * sizeof *norm);
    return;
  }
  hr_numbers_load(r->dtype, inputs[2], 0, columns, weight);
  if (biased)
    hr_numbers_load(r->dtype, inputs[3], 0, columns, bias);
  norm_row(r, sum, size, weight, biased ? bias : NULL, out, norm);
}

int64_t hr_rowwise_output_length(const hr_rowwise *r, int output)
{
  return hr_rowwise_output_of(r, output)->extent == HR_EXTENT_COLUMN ? 1 : r->columns;
}

int64_t hr_rowwise_output_at(const hr_rowwise *r, int output, int64_t row)
{
  const bool strided = hr_rowwise_output_of(r, output)->extent == HR_EXTENT_RESULT;
  return strided ? hr_rowwise_y_at(r, row) : row * hr_rowwise_output_length(r, output);
}

int64_t hr_rowwise_output_rows(const hr_rowwise *r, int output)
{
  const hr_rowwise_extent extent = hr_rowwise_output_of(r, output)->extent;
  return extent == HR_EXTENT_ROW ? 1 : extent == HR_EXTENT_SUMS ? r->period : r->rows;
}

hr_dtype hr_rowwise_output_dtype(const hr_rowwise *r, int output)
{
  return hr_rowwise_output_of(r, output)->content == HR_CONTENT_NUMBERS ? r->dtype : HR_FP32;
}

void hr_reference_rowwise(const hr_rowwise *r, const void *const *inputs, hr_rowwise_output_row at, double *scratch,
                          double *out, double *norm)
{
  if (hr_rowwise_trains(r->operation))
    hr_reference_rowwise_gradient(r, inputs, at, scratch, out, norm);
  else if (hr_rowwise_adds_before_norm(r->operation))
    residual_norm(r, inputs, at, scratch, out, norm);
  else
    forward_row(r, inputs, at.row, scratch, out, norm);
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

static double clip_of(const hr_rowwise *r, const hr_rowwise_arguments *x, const void *const *inputs, double *scratch)
{
  double squares = 0;
  if (r->operation != HR_ROWWISE_ADAMW)
    return 0;
  if (!x->squares || r->max_norm <= 0)
    return hr_reference_clip(r, inputs, scratch);
  for (int64_t i = 0; i < x->squares_count; i++)
    squares += (double)x->squares[i];
  return hr_reference_clip_by(r, squares);
}

static void run_output(const hr_rowwise *r, const hr_rowwise_arguments *x, int output, void *to, double *scratch)
{
  const void *inputs[] = {x->inputs[0], x->inputs[1], x->inputs[2], x->more_inputs[0]};
  double *out = scratch + hr_reference_rowwise_scratch(r), *norm = out + r->columns;
  const int64_t length = hr_rowwise_output_length(r, output);
  const hr_dtype dtype = hr_rowwise_output_dtype(r, output);
  const double clip = clip_of(r, x, inputs, scratch);
  for (int64_t row = 0; row < hr_rowwise_output_rows(r, output); row++) {
    hr_reference_rowwise(r, inputs, (hr_rowwise_output_row){output, row, clip, x->step}, scratch, out, norm);
    for (int64_t i = 0; i < length; i++)
      hr_number_store(dtype, to, (size_t)(hr_rowwise_output_at(r, output, row) + i), out[i]);
  }
}

/* Outputs that replace an input come last, in the order of the list: no later one reads that input. */
static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)error;
  const hr_rowwise *r = &plan->problem.rows;
  const hr_rowwise_arguments *x = run->arguments;
  const hr_rowwise_operands of = hr_rowwise_operands_of(r);
  void *outputs[] = {x->output, x->more_outputs[0], x->more_outputs[1], x->more_outputs[2]};
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < of.outputs; i++)
      if ((of.output[i].replaces > 0) == (pass == 1))
        run_output(r, x, i, outputs[i], run->workspace);
  return HR_OK;
}

const hr_kernel_functions hr_kernel_rowwise_reference = {.prepare = prepare, .run = run};
