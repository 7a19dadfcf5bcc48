/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of row-wise operations, the loss and the optimizer in float64, a row of one output at a time. */
#include "runtime/reference/reference.h"
#include "shape/number.h"

#include "base/checked.h"
#include "shape/rowwise.h"
#include "shape/rowwise_operands.h"

#include <math.h>
#include <string.h>

#define CLIP_EPSILON 1e-6

/* A row of an output while it is computed. */
typedef struct gradient {
  const hr_rowwise *r;
  const void *const *inputs;
  int output;
  int64_t row;
  double clip;
  int64_t step;
  double *scratch, *out, *norm;
} gradient;

static double *load(const gradient *g, int input, int64_t row)
{
  const size_t columns = (size_t)g->r->columns;
  double *to = g->scratch + (size_t)input * columns;
  const hr_rowwise_operands of = hr_rowwise_operands_of(g->r);
  const hr_dtype dtype = of.input[input].content == HR_CONTENT_NUMBERS ? g->r->dtype : HR_FP32;
  hr_numbers_load(dtype, g->inputs[input], (size_t)row * columns, columns, to);
  return to;
}

/* ---- softmax, rotary ---- */

static void softmax_backward(const gradient *g)
{
  const hr_rowwise *r = g->r;
  const double *dy = load(g, 0, g->row), *y = load(g, 1, g->row);
  const int64_t seen = r->period > 0 ? g->row % r->period + r->columns - r->period + 1 : r->columns;
  double sum = 0, size = 0;
  for (int64_t i = 0; i < seen; i++) {
    sum += y[i] * dy[i];
    size += fabs(y[i] * dy[i]);
  }
  for (int64_t i = 0; i < r->columns; i++) {
    g->out[i] = i < seen ? y[i] * (dy[i] - sum) : 0;
    g->norm[i] = i < seen ? fabs(y[i]) * (fabs(dy[i]) + size) : 0;
  }
}

static void rotary_backward(const gradient *g)
{
  const hr_rowwise *r = g->r;
  const double *dy = load(g, 0, g->row), *table = load(g, 1, g->row / r->group % r->period);
  const int64_t half = r->columns / 2;
  for (int64_t i = 0; i < half; i++) {
    const double u = dy[i], v = dy[half + i], c = table[i], s = table[half + i];
    g->out[i] = u * c + v * s;
    g->out[half + i] = v * c - u * s;
    g->norm[i] = fabs(u * c) + fabs(v * s);
    g->norm[half + i] = fabs(v * c) + fabs(u * s);
  }
}

/* ---- norms ---- */

typedef struct row_stats {
  double mean, scale;
} row_stats;

static row_stats stats_of(const hr_rowwise *r, const double *x)
{
  const double columns = (double)r->columns;
  double mean = 0, squares = 0;
  for (int64_t i = 0; r->operation == HR_ROWWISE_LAYER_NORM_BACKWARD && i < r->columns; i++)
    mean += x[i] / columns;
  for (int64_t i = 0; i < r->columns; i++)
    squares += (x[i] - mean) * (x[i] - mean);
  return (row_stats){mean, 1 / sqrt(squares / columns + hr_rowwise_epsilon(r))};
}

static void norm_backward_x(const gradient *g)
{
  const int64_t columns = g->r->columns;
  const double *dy = load(g, 0, g->row), *x = load(g, 1, g->row), *weight = load(g, 2, 0);
  const row_stats s = stats_of(g->r, x);
  const bool centred = g->r->operation == HR_ROWWISE_LAYER_NORM_BACKWARD;
  double mean = 0, along = 0, size = 0, along_size = 0;
  for (int64_t i = 0; i < columns; i++) {
    const double t = dy[i] * weight[i] / (double)columns, h = (x[i] - s.mean) * s.scale;
    mean += centred ? t : 0;
    size += centred ? fabs(t) : 0;
    along += t * h;
    along_size += fabs(t) * (fabs(x[i]) + fabs(s.mean)) * s.scale;
  }
  for (int64_t i = 0; i < columns; i++) {
    const double t = dy[i] * weight[i], h = (x[i] - s.mean) * s.scale;
    g->out[i] = s.scale * (t - mean - h * along);
    g->norm[i] = s.scale * (fabs(t) + size + (fabs(x[i]) + fabs(s.mean)) * s.scale * along_size);
  }
}

/* Sums over all rows: of dy h, the gradient of the weights, or of dy, that of a bias. */
static void sum_rows(const gradient *g)
{
  const int64_t columns = g->r->columns;
  const bool weights = g->r->operation != HR_ROWWISE_BIAS_BACKWARD && g->output == 1;
  memset(g->out, 0, (size_t)columns * sizeof *g->out);
  memset(g->norm, 0, (size_t)columns * sizeof *g->norm);
  for (int64_t row = 0; row < g->r->rows; row++) {
    const double *dy = load(g, 0, row), *x = weights ? load(g, 1, row) : dy;
    const row_stats s = weights ? stats_of(g->r, x) : (row_stats){0, 1};
    for (int64_t i = 0; i < columns; i++) {
      g->out[i] += weights ? dy[i] * (x[i] - s.mean) * s.scale : dy[i];
      g->norm[i] += weights ? fabs(dy[i]) * (fabs(x[i]) + fabs(s.mean)) * s.scale : fabs(dy[i]);
    }
  }
}

static void norm_backward(const gradient *g)
{
  if (g->output == 0)
    norm_backward_x(g);
  else
    sum_rows(g);
}

/* ---- activations ---- */

static double gelu_slope(double x)
{
  return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(8 * atan(1));
}

/* x s, s = 1 / (1 + e^(−2u)). */
static double gelu_tanh_slope(double x)
{
  const double root = sqrt(2 / (4 * atan(1))), u = root * (x + 0.044715 * x * x * x), s = 1 / (1 + exp(-2 * u));
  return s + 2 * x * s * (1 - s) * root * (1 + 3 * 0.044715 * x * x);
}

/* What dy is multiplied by. */
static double slope_of(const hr_rowwise *r, double x)
{
  const double t = tanh(x / hr_rowwise_cap(r));
  switch (r->operation) {
  case HR_ROWWISE_GELU_BACKWARD:
  case HR_ROWWISE_GEGLU_BACKWARD: return gelu_slope(x);
  case HR_ROWWISE_RELU_BACKWARD: return x <= 0 ? 0 : 1;
  case HR_ROWWISE_RELU2_BACKWARD: return x <= 0 ? 0 : 2 * x;
  case HR_ROWWISE_SOFTCAP_BACKWARD: return 1 - t * t;
  default: return gelu_tanh_slope(x);
  }
}

static void activation_backward(const gradient *g)
{
  const double *dy = load(g, 0, g->row), *x = load(g, 1, g->row);
  const bool cuts = g->r->operation == HR_ROWWISE_RELU_BACKWARD || g->r->operation == HR_ROWWISE_RELU2_BACKWARD;
  for (int64_t i = 0; i < g->r->columns; i++) {
    const double slope = slope_of(g->r, x[i]);
    g->out[i] = cuts && x[i] <= 0 ? 0 : dy[i] * slope;
    g->norm[i] = fabs(dy[i]) * (1.2 + fabs(slope));
  }
}

static void geglu_backward(const gradient *g)
{
  const double *dy = load(g, 0, g->row), *gate = load(g, 1, g->row), *up = load(g, 2, g->row);
  const bool exact = g->r->operation == HR_ROWWISE_GEGLU_BACKWARD;
  for (int64_t i = 0; i < g->r->columns; i++) {
    const double x = gate[i], u = sqrt(2 / (4 * atan(1))) * (x + 0.044715 * x * x * x);
    const double value = exact ? x * (1 + erf(x / sqrt(2))) / 2 : x / (1 + exp(-2 * u));
    g->out[i] = g->output == 0 ? dy[i] * up[i] * slope_of(g->r, x) : dy[i] * value;
    g->norm[i] = g->output == 0 ? fabs(dy[i] * up[i]) * 2 : fabs(dy[i] * x);
  }
}

/* ---- rows of a table ---- */

static void gather_backward(const gradient *g)
{
  const hr_rowwise *r = g->r;
  const int32_t *numbers = g->inputs[0];
  for (int64_t i = 0; i < r->columns; i++)
    g->out[i] = g->norm[i] = 0;
  if (r->factor != 0)
    memcpy(g->out, load(g, 2, g->row), (size_t)r->columns * sizeof *g->out);
  for (int64_t i = 0; i < r->columns; i++)
    g->norm[i] = fabs(g->out[i]);
  for (int64_t row = 0; row < r->rows; row++) {
    const double *dy = numbers[row] == g->row ? load(g, 1, row) : NULL;
    for (int64_t i = 0; dy && i < r->columns; i++) {
      g->out[i] += dy[i];
      g->norm[i] += fabs(dy[i]);
    }
  }
}

static void gather_sum(const gradient *g)
{
  const hr_rowwise *r = g->r;
  const int32_t *numbers = (const int32_t *)g->inputs[0] + g->row * r->group;
  for (int64_t i = 0; i < r->columns; i++)
    g->out[i] = g->norm[i] = 0;
  for (int64_t term = 0; term < r->group; term++) {
    if (numbers[term] < 0)
      continue;
    const double *dy = load(g, 1, numbers[term]);
    for (int64_t i = 0; i < r->columns; i++) {
      g->out[i] += dy[i];
      g->norm[i] += fabs(dy[i]);
    }
  }
}

/* dx = dy times a factor of the row, or in the second output a factor times the sum of x dy. */
static void scaled_row(const gradient *g, const double *dy, const double *x, double factor, double slope)
{
  double sum = 0, size = 0;
  for (int64_t i = 0; i < g->r->columns; i++) {
    sum += x[i] * dy[i];
    size += fabs(x[i] * dy[i]);
    if (g->output == 0)
      g->out[i] = factor * dy[i], g->norm[i] = fabs(factor * dy[i]);
  }
  if (g->output == 1)
    g->out[0] = slope * sum, g->norm[0] = slope * size;
}

static void combine_backward(const gradient *g)
{
  const int32_t *numbers = g->inputs[0];
  const float *weights = g->inputs[3];
  scaled_row(g, load(g, 1, numbers[g->row]), load(g, 2, g->row), (double)weights[g->row], 1);
}

static void gate_backward(const gradient *g)
{
  const double s = 1 / (1 + exp(-hr_number_load(g->r->dtype, g->inputs[2], (size_t)g->row)));
  scaled_row(g, load(g, 0, g->row), load(g, 1, g->row), s, s * (1 - s));
}

static void swiglu_backward(const gradient *g)
{
  const double *dy = load(g, 0, g->row), *gate = load(g, 1, g->row), *up = load(g, 2, g->row);
  for (int64_t i = 0; i < g->r->columns; i++) {
    const double s = 1 / (1 + exp(-gate[i]));
    g->out[i] = g->output == 0 ? dy[i] * up[i] * s * (1 + gate[i] * (1 - s)) : dy[i] * gate[i] * s;
    g->norm[i] = g->output == 0 ? fabs(dy[i] * up[i]) * s * (1 + fabs(gate[i])) : fabs(g->out[i]);
  }
}

/* ---- the loss ---- */

static bool target_of(const gradient *g, int64_t *target)
{
  *target = ((const int32_t *)g->inputs[1])[g->row];
  return *target >= 0 && *target < g->r->columns;
}

/* The largest logit and the sum of the exponentials of the differences from it. */
static double largest_of(const double *x, int64_t columns, double *sum)
{
  double most = -INFINITY;
  *sum = 0;
  for (int64_t i = 0; i < columns; i++)
    most = x[i] > most ? x[i] : most;
  for (int64_t i = 0; i < columns; i++)
    *sum += exp(x[i] - most);
  return most;
}

static void loss_of(const gradient *g)
{
  const double *x = load(g, 0, g->row);
  int64_t target;
  double sum, most = largest_of(x, g->r->columns, &sum);
  const bool counts = target_of(g, &target);
  g->out[0] = counts ? most + log(sum) - x[target] : 0;
  g->norm[0] = counts ? fabs(most) + fabs(log(sum)) + fabs(x[target]) + 1 : 0;
}

static void cross_entropy_backward(const gradient *g)
{
  if (g->output == 1) {
    loss_of(g);
    return;
  }
  const double *x = load(g, 0, g->row), scale = g->r->scale == 0 ? 1 : g->r->scale;
  int64_t target;
  double sum, most = largest_of(x, g->r->columns, &sum);
  const bool counts = target_of(g, &target);
  for (int64_t i = 0; i < g->r->columns; i++) {
    const double p = exp(x[i] - most) / sum;
    g->out[i] = counts ? scale * (p - (i == target)) : 0;
    g->norm[i] = counts ? fabs(scale) * (p + (i == target)) : 0;
  }
}

/* ---- the optimizer ---- */

double hr_reference_clip_by(const hr_rowwise *r, double squares)
{
  const double clip = r->max_norm / (sqrt(squares) + CLIP_EPSILON);
  return clip > 1 ? 1 : clip;
}

double hr_reference_clip(const hr_rowwise *r, const void *const *inputs, double *scratch)
{
  const gradient g = {.r = r, .inputs = inputs, .scratch = scratch};
  double squares = 0;
  if (r->max_norm <= 0)
    return 1;
  for (int64_t row = 0; row < r->rows; row++) {
    const double *dw = load(&g, 0, row);
    for (int64_t i = 0; i < r->columns; i++)
      squares += dw[i] * dw[i];
  }
  return hr_reference_clip_by(r, squares);
}

static void adamw(const gradient *g)
{
  const hr_rowwise *r = g->r;
  const hr_adamw a = hr_adamw_of(r, g->step);
  const double clip = g->clip == 0 ? hr_reference_clip(r, g->inputs, g->scratch) : g->clip, *dw = load(g, 0, g->row),
               *w = load(g, 1, g->row), *m = load(g, 2, g->row), *v = load(g, 3, g->row);
  for (int64_t i = 0; i < r->columns; i++) {
    const double t = dw[i] * clip, mean = r->beta1 * m[i] + (1 - r->beta1) * t;
    const double variance = r->beta2 * v[i] + (1 - r->beta2) * t * t;
    const double step = a.rate / (sqrt(variance) * a.root + a.epsilon), weight = w[i] * a.decay - step * mean;
    const double size = r->beta1 * fabs(m[i]) + (1 - r->beta1) * fabs(t);
    const bool of_weight = g->output == 0 || g->output == 3;
    g->out[i] = of_weight ? weight : g->output == 1 ? mean : variance;
    g->norm[i] = of_weight ? fabs(w[i]) + fabs(step) * size : g->output == 1 ? size : variance;
  }
}

static void (*const gradients[HR_ROWWISE_COUNT])(const gradient *g) = {
    [HR_ROWWISE_SOFTMAX_BACKWARD] = softmax_backward,
    [HR_ROWWISE_LAYER_NORM_BACKWARD] = norm_backward,
    [HR_ROWWISE_RMS_NORM_BACKWARD] = norm_backward,
    [HR_ROWWISE_ROTARY_BACKWARD] = rotary_backward,
    [HR_ROWWISE_GELU_BACKWARD] = activation_backward,
    [HR_ROWWISE_SWIGLU_BACKWARD] = swiglu_backward,
    [HR_ROWWISE_BIAS_BACKWARD] = sum_rows,
    [HR_ROWWISE_CROSS_ENTROPY] = loss_of,
    [HR_ROWWISE_CROSS_ENTROPY_BACKWARD] = cross_entropy_backward,
    [HR_ROWWISE_ADAMW] = adamw,
    [HR_ROWWISE_GELU_TANH_BACKWARD] = activation_backward,
    [HR_ROWWISE_RELU_BACKWARD] = activation_backward,
    [HR_ROWWISE_RELU2_BACKWARD] = activation_backward,
    [HR_ROWWISE_SOFTCAP_BACKWARD] = activation_backward,
    [HR_ROWWISE_GEGLU_BACKWARD] = geglu_backward,
    [HR_ROWWISE_GEGLU_TANH_BACKWARD] = geglu_backward,
    [HR_ROWWISE_GATHER_BACKWARD] = gather_backward,
    [HR_ROWWISE_GATHER_SUM] = gather_sum,
    [HR_ROWWISE_COMBINE_BACKWARD] = combine_backward,
    [HR_ROWWISE_GATE_BACKWARD] = gate_backward,
};

void hr_reference_rowwise_gradient(const hr_rowwise *r, const void *const *inputs, hr_rowwise_output_row at,
                                   double *scratch, double *out, double *norm)
{
  const gradient g = {.r = r,
                      .inputs = inputs,
                      .output = at.output,
                      .row = at.row,
                      .clip = at.clip,
                      .step = at.step,
                      .scratch = scratch,
                      .out = out,
                      .norm = norm};
  gradients[r->operation](&g);
}
