/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of row-wise operations against values computed by hand; sizes that are refused; a measurement. */
#include "machine.h"

#include "runtime/reference/reference.h"
#include "shape/number.h"
#include "shape/rowwise_operands.h"

#include <headroom/experimental/measure.h>

#include <math.h>

static hr_rowwise rows_of(hr_rowwise_operation operation, int64_t rows, int64_t columns)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = operation;
  r.rows = rows;
  r.columns = columns;
  r.dtype = HR_FP64;
  bool table = operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_GATHER || operation == HR_ROWWISE_COMBINE ||
               operation == HR_ROWWISE_ROTARY_JOIN || operation == HR_ROWWISE_GATHER_SUM ||
               operation == HR_ROWWISE_COMBINE_BACKWARD;
  r.period = table ? 1 : 0;
  r.rotated = operation == HR_ROWWISE_ROTARY_JOIN ? 2 : 0;
  return r;
}

static void assert_row(const hr_rowwise *r, int64_t row, const double *a, const double *b, const double *c,
                       const double *expected)
{
  const void *inputs[] = {a, b, c};
  double scratch[64], out[16], norm[16];
  assert_true(r->columns <= 16 && hr_reference_rowwise_scratch(r) <= 64);
  hr_reference_rowwise(r, inputs, (hr_rowwise_output_row){0, row, 0, 0}, scratch, out, norm);
  for (int64_t i = 0; i < r->columns; i++) {
    if (!(fabs(out[i] - expected[i]) <= 1e-12))
      fail_msg("%s: column %d is %.15g, not %.15g", hr_rowwise_operation_name(r->operation), (int)i, out[i],
               expected[i]);
  }
}

static void the_reference_agrees_with_values_computed_by_hand(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_SOFTMAX, 1, 2);
  assert_row(&r, 0, (double[]){0, log(3)}, NULL, NULL, (double[]){0.25, 0.75}); /* 1 : 3 */
  r = rows_of(HR_ROWWISE_LAYER_NORM, 1, 2);                                     /* mean 2, variance 1 */
  double scale = 1 / sqrt(1 + 1e-5);
  assert_row(&r, 0, (double[]){1, 3}, (double[]){2, 3}, (double[]){1, -1}, (double[]){1 - 2 * scale, 3 * scale - 1});
  r = rows_of(HR_ROWWISE_RMS_NORM, 1, 2); /* mean of squares (9 + 16) / 2 = 12.5 */
  assert_row(&r, 0, (double[]){3, 4}, (double[]){1, 2}, NULL, (double[]){3 / sqrt(12.5 + 1e-5), 8 / sqrt(12.5 + 1e-5)});
  r = rows_of(HR_ROWWISE_ROTARY, 1, 4); /* a quarter turn for the first pair, none for the second */
  assert_row(&r, 0, (double[]){1, 2, 3, 4}, (double[]){0, 1, 1, 0}, NULL, (double[]){-3, 2, 1, 4});
  r = rows_of(HR_ROWWISE_GELU, 1, 3); /* Φ(1) = 0.841344746068543 */
  assert_row(&r, 0, (double[]){0, 1, -1}, NULL, NULL, (double[]){0, 0.841344746068543, -0.158655253931457});
  r = rows_of(HR_ROWWISE_SWIGLU, 1, 2); /* 1 / (1 + 1/3) = 0.75 */
  assert_row(&r, 0, (double[]){0, log(3)}, (double[]){5, 2}, NULL, (double[]){0, 2 * log(3) * 0.75});
  r = rows_of(HR_ROWWISE_RESIDUAL, 1, 2);
  assert_row(&r, 0, (double[]){1, 2}, (double[]){10, 20}, NULL, (double[]){11, 22});
  r = rows_of(HR_ROWWISE_SOFTCAP, 1, 2); /* tanh(log 2) = (4 − 1) / (4 + 1) */
  r.factor = 10;
  assert_row(&r, 0, (double[]){0, 10 * log(2)}, NULL, NULL, (double[]){0, 6});
  r = rows_of(HR_ROWWISE_WEIGHT, 1, 2);
  assert_row(&r, 0, (double[]){1, 2}, (double[]){10, 20}, NULL, (double[]){10, 40});
  r = rows_of(HR_ROWWISE_GATE, 1, 2); /* 1 / (1 + 1/3) = 0.75 */
  assert_row(&r, 0, (double[]){4, 8}, (double[]){log(3)}, NULL, (double[]){3, 6});
  r = rows_of(HR_ROWWISE_SWIGLU_CLAMPED, 1, 2); /* 1.702 · 2 = 3.404; 7 and −7 at most */
  r.factor = 7;
  assert_row(&r, 0, (double[]){2, 9}, (double[]){3, -9}, NULL,
             (double[]){2 / (1 + exp(-3.404)) * 4, 7 / (1 + exp(-11.914)) * -6});
}

/* 2 sequences of 2 queries and 2 heads: row 6 is head 0 of query 1 of sequence 1, whose lse is the sixth; e^(log 3) = 3
 * parts of 4 are not the sink's. */
static void a_sink_takes_its_share_of_each_head(void **state)
{
  (void)state;
  const float lse[] = {0, 0, 0, 0, 0, logf(6), 0, 0}, sinks[] = {logf(2), 0};
  const double x[8] = {[6] = 8};
  double scratch[16], out[1], norm[1];
  hr_rowwise r = rows_of(HR_ROWWISE_SINK, 8, 1);
  r.period = 2, r.group = 2;
  hr_reference_rowwise(&r, (const void *[]){x, lse, sinks}, (hr_rowwise_output_row){0, 6, 0, 0}, scratch, out, norm);
  assert_true(fabs(out[0] - 6) < 1e-6);
}

/* 0.5 · row 2 + 2 · row 0. */
static void combine_adds_rows_of_a_table_by_their_weights(void **state)
{
  (void)state;
  const int32_t numbers[] = {1, 1, 2, 0};
  const float weights[] = {0, 0, 0.5F, 2};
  const double table[] = {1, 2, 30, 40, 100, 200};
  double scratch[16], out[2], norm[2];
  hr_rowwise r = rows_of(HR_ROWWISE_COMBINE, 2, 2);
  r.period = 3, r.group = 2;
  hr_reference_rowwise(&r, (const void *[]){numbers, table, weights}, (hr_rowwise_output_row){0, 1, 0, 0}, scratch, out,
                       norm);
  assert_true(out[0] == 52 && out[1] == 104);
}

/* Two tokens of two heads, whose x is the first of 3 columns. A right angle turns (u, v) into (-v, u). */
static void a_rotated_part_stands_behind_each_head(void **state)
{
  (void)state;
  const double x[] = {1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0}, z[] = {10, 20, 9, 30, 40, 9}, table[] = {1, 0, 0, 1};
  const double own[] = {10, 20, 11, 21, 30, 40, 31, 41};
  hr_rowwise r = rows_of(HR_ROWWISE_ROTARY_JOIN, 4, 3);
  r.group = 2, r.period = 2, r.x_row = 3, r.z_stride = 3;
  assert_row(&r, 1, x, z, table, (double[]){2, 10, 20});
  assert_row(&r, 2, x, z, table, (double[]){3, -40, 30});
  r.z_row = 2, r.z_stride = 0;
  assert_row(&r, 1, x, own, table, (double[]){2, 11, 21});
  assert_row(&r, 3, x, own, table, (double[]){4, -41, 31});
  int64_t bytes = 0;
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, (4 + 8 + 4 + 12) * 8);
}

static void rows_that_cannot_be_joined_are_refused_by_name(void **state)
{
  (void)state;
  const struct {
    int64_t rotated, group, x_row, z_row, z_stride;
    const char *word;
  } cases[] = {{3, 1, 0, 0, 0, "rotated"},  {8, 1, 0, 0, 0, "rotated"}, {0, 1, 0, 0, 0, "rotated"},
               {2, 3, 0, 0, 0, "group"},    {2, 2, 5, 0, 0, "x_row"},   {2, 2, 0, 1, 0, "z_row"},
               {2, 2, 0, 2, 3, "z_stride"}, {2, 2, 0, 0, 1, "z_stride"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hr_error error = {.message = ""};
    hr_rowwise r = rows_of(HR_ROWWISE_ROTARY_JOIN, 4, 8);
    r.rotated = cases[i].rotated, r.group = cases[i].group, r.x_row = cases[i].x_row;
    r.z_row = cases[i].z_row, r.z_stride = cases[i].z_stride;
    assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, cases[i].word));
  }
}

/* x + z = 3, 4: the mean of squares is 12.5. x + z = 1, 3: the mean is 2, the variance 1. */
static void the_norm_of_a_residual_is_that_of_its_sum(void **state)
{
  (void)state;
  const double z[] = {2, 2}, weight[] = {1, 2}, root = sqrt(12.5 + 1e-5), scale = 1 / sqrt(1 + 1e-5);
  double scratch[16], out[2], norm[2];
  hr_rowwise r = rows_of(HR_ROWWISE_RESIDUAL_RMS_NORM, 1, 2);
  assert_row(&r, 0, (double[]){1, 2}, z, weight, (double[]){3 / root, 8 / root});
  const void *inputs[] = {(double[]){-1, 1}, z, weight, (double[]){5, 6}};
  r.operation = HR_ROWWISE_RESIDUAL_LAYER_NORM;
  hr_reference_rowwise(&r, inputs, (hr_rowwise_output_row){.output = 0}, scratch, out, norm);
  assert_true(fabs(out[0] - (5 - scale)) < 1e-12 && fabs(out[1] - (6 + 2 * scale)) < 1e-12);
  hr_reference_rowwise(&r, inputs, (hr_rowwise_output_row){.output = 1}, scratch, out, norm);
  assert_true(out[0] == 1 && out[1] == 3);
}

/* 2 rows of 8 columns in bf16: 4 tensors of 32 bytes and the weight's 16; a residual and a norm move 5. */
static void a_residual_with_its_norm_moves_each_element_four_times(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_RESIDUAL_RMS_NORM, 2, 8);
  int64_t bytes = 0;
  r.dtype = HR_BF16;
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, 4 * 32 + 16);
}

/* Philox4x32-7 of counter and key 0: 5f6fb709 0d893f64 4f121f81 4f730a48, among the known answers of its authors
 * (Random123, kat_vectors). Rate 0.3 drops bits below 19661 = 0x4ccd: of b709 5f6f 3f64 0d89 1f81 4f12 0a48 4f73 the
 * third, the fourth, the fifth and the seventh. */
static void dropout_drops_by_the_known_random_numbers(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_DROPOUT, 1, 8);
  r.rate = 0.3;
  assert_int_equal(hr_rowwise_dropped(&r), 19661);
  const double s = 65536.0 / (65536 - 19661);
  assert_row(&r, 0, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, NULL, NULL, (double[]){s, 2 * s, 0, 0, 0, 6 * s, 0, 8 * s});
  r.rate = 0;
  assert_row(&r, 0, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, NULL, NULL, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
  hr_error error;
  r.rate = 1;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "rate"));
}

/* A tenth of 2^20 elements is dropped, within 5 standard deviations of 307. */
static void dropout_drops_the_share_that_was_asked_for(void **state)
{
  (void)state;
  enum { columns = 1 << 20 };
  hr_rowwise r = rows_of(HR_ROWWISE_DROPOUT, 1, columns);
  r.rate = 0.1;
  double *values = malloc(7 * (size_t)columns * sizeof *values), *x = values, *out = x + columns, *norm = out + columns;
  int64_t dropped = 0;
  for (int64_t i = 0; i < columns; i++)
    x[i] = 1;
  hr_reference_rowwise(&r, (const void *[]){x, NULL, NULL}, (hr_rowwise_output_row){0, 0, 0, 0}, norm + columns, out,
                       norm);
  for (int64_t i = 0; i < columns; i++)
    dropped += out[i] == 0;
  free(values);
  assert_in_range(dropped, 104858 - 1536, 104858 + 1536);
}

static void a_causal_softmax_sees_up_to_its_own_query(void **state)
{
  (void)state;
  hr_rowwise r =
      rows_of(HR_ROWWISE_SOFTMAX, 4, 3); /* two queries, three keys, two sequences: the last query sees all */
  r.period = 2;
  double zeros[12] = {0};
  zeros[2] = (double)NAN; /* masked, so it must be ignored */
  assert_row(&r, 0, zeros, NULL, NULL, (double[]){0.5, 0.5, 0});
  assert_row(&r, 3, zeros, NULL, NULL, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
  r = rows_of(HR_ROWWISE_SOFTMAX, 3, 1); /* three queries over one key: the first two see none */
  r.period = 3;
  assert_row(&r, 1, zeros, NULL, NULL, (double[]){0});
  assert_row(&r, 2, zeros + 3, NULL, NULL, (double[]){1});
}

static void heads_share_a_row_of_the_rotary_table(void **state)
{
  (void)state;
  hr_rowwise r =
      rows_of(HR_ROWWISE_ROTARY, 8, 2); /* two positions, two heads, two sequences: positions 0 0 1 1 0 0 1 1 */
  r.period = 2;
  r.group = 2;
  const double x[16] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}, table[] = {1, 0, 0, 1};
  for (int64_t row = 0; row < 8; row++)
    assert_row(&r, row, x, table, NULL, row / 2 % 2 ? (double[]){0, 1} : (double[]){1, 0});
}

static void impossible_sizes_are_refused_by_name(void **state)
{
  (void)state;
  hr_error error;
  hr_rowwise r = rows_of(HR_ROWWISE_ROTARY, 1, 3);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "columns"));
  r = rows_of(HR_ROWWISE_GELU, INT64_MAX / 2, 4);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_OVERFLOW);
  r = rows_of(HR_ROWWISE_GELU, 0, 4);
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  r.operation = HR_ROWWISE_COUNT;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  int64_t bytes = 0;
  r = rows_of(HR_ROWWISE_LAYER_NORM, 10, 4);
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, (40 + 4 + 4 + 40) * 8);
}

/* ---- gradients against finite differences ---- */

enum { ROWS = 3, COLUMNS = 6, TENSOR = ROWS * COLUMNS };

#define STEP 1e-5
#define NEAR 1e-8 /* of central differences: STEP² times a third derivative, and 1e-16 / STEP of rounding */

/* A gradient, its forward operation, and for each of its outputs the forward input whose gradient that is. */
typedef struct differentiated {
  hr_rowwise_operation backward, forward;
  int inputs, of_output[3], of_input[4]; /* of_input: the forward input that a backward input behind dy is; −1: y */
} differentiated;

static const differentiated pairs[] = {
    {HR_ROWWISE_SOFTMAX_BACKWARD, HR_ROWWISE_SOFTMAX, 1, {0}, {0, -1}},
    {HR_ROWWISE_LAYER_NORM_BACKWARD, HR_ROWWISE_LAYER_NORM, 3, {0, 1, 2}, {0, 0, 1}},
    {HR_ROWWISE_RMS_NORM_BACKWARD, HR_ROWWISE_RMS_NORM, 2, {0, 1}, {0, 0, 1}},
    {HR_ROWWISE_ROTARY_BACKWARD, HR_ROWWISE_ROTARY, 2, {0}, {0, 1}},
    {HR_ROWWISE_GELU_BACKWARD, HR_ROWWISE_GELU, 1, {0}, {0, 0}},
    {HR_ROWWISE_SWIGLU_BACKWARD, HR_ROWWISE_SWIGLU, 2, {0, 1}, {0, 0, 1}},
    {HR_ROWWISE_GELU_TANH_BACKWARD, HR_ROWWISE_GELU_TANH, 1, {0}, {0, 0}},
    {HR_ROWWISE_RELU_BACKWARD, HR_ROWWISE_RELU, 1, {0}, {0, 0}},
    {HR_ROWWISE_RELU2_BACKWARD, HR_ROWWISE_RELU2, 1, {0}, {0, 0}},
    {HR_ROWWISE_SOFTCAP_BACKWARD, HR_ROWWISE_SOFTCAP, 1, {0}, {0, 0}},
    {HR_ROWWISE_GEGLU_BACKWARD, HR_ROWWISE_GEGLU, 2, {0, 1}, {0, 0, 1}},
    {HR_ROWWISE_GEGLU_TANH_BACKWARD, HR_ROWWISE_GEGLU_TANH, 2, {0, 1}, {0, 0, 1}},
};

static hr_rowwise small_rows(hr_rowwise_operation operation)
{
  hr_rowwise r = rows_of(operation, ROWS, COLUMNS);
  const bool rotates = operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_ROTARY_BACKWARD;
  r.period = rotates ? 2 : operation == HR_ROWWISE_SOFTMAX || operation == HR_ROWWISE_SOFTMAX_BACKWARD ? 3 : 0;
  return r;
}

static void run_all(const hr_rowwise *r, const void *const *inputs, int output, double *to)
{
  double scratch[4 * COLUMNS], norm[COLUMNS];
  const int64_t length = hr_rowwise_output_length(r, output);
  for (int64_t row = 0; row < hr_rowwise_output_rows(r, output); row++)
    hr_reference_rowwise(r, inputs, (hr_rowwise_output_row){output, row, 0, 0}, scratch, to + row * length, norm);
}

/* Σ dy y over all elements: what a gradient is the derivative of. */
static double loss_of(const hr_rowwise *r, const void *const *inputs, const double *dy)
{
  double y[TENSOR], sum = 0;
  run_all(r, inputs, 0, y);
  for (int i = 0; i < TENSOR; i++)
    sum += dy[i] * y[i];
  return sum;
}

static double difference(const hr_rowwise *r, const void *const *inputs, double *value, const double *dy)
{
  const double at = *value;
  *value = at + STEP;
  const double above = loss_of(r, inputs, dy);
  *value = at - STEP;
  const double below = loss_of(r, inputs, dy);
  *value = at;
  return (above - below) / (2 * STEP);
}

static void every_gradient_is_that_of_finite_differences(void **state)
{
  (void)state;
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
    const differentiated *d = &pairs[k];
    const hr_rowwise forward = small_rows(d->forward), backward = small_rows(d->backward);
    const hr_rowwise_operands of = hr_rowwise_operands_of(&backward);
    double x[3][TENSOR], dy[TENSOR], y[TENSOR], found[TENSOR];
    const void *inputs[] = {x[0], x[1], x[2]}, *given[4] = {dy};
    for (int i = 0; i < 3; i++)
      hr_numbers_uniform(HR_FP64, (uint64_t)(k * 7) + (uint64_t)i, 0, TENSOR, x[i]);
    hr_numbers_uniform(HR_FP64, 99, 0, TENSOR, dy);
    run_all(&forward, inputs, 0, y);
    for (int i = 1; i < of.inputs; i++)
      given[i] = d->of_input[i] < 0 ? (const void *)y : x[d->of_input[i]];
    for (int output = 0; output < of.outputs; output++) {
      run_all(&backward, given, output, found);
      const int64_t count = hr_rowwise_elements(&backward, &of.output[output]).value;
      for (int64_t i = 0; i < count; i++) {
        const double expected = difference(&forward, inputs, &x[d->of_output[output]][i], dy);
        if (!(fabs(found[i] - expected) <= NEAR))
          fail_msg("%s: output %d, element %d is %.12g, the difference is %.12g",
                   hr_rowwise_operation_name(d->backward), output, (int)i, found[i], expected);
      }
    }
  }
}

/* Logits are differentiated by the sum of the losses; the second row's target is outside. */
static void the_gradient_of_logits_is_that_of_the_loss(void **state)
{
  (void)state;
  const int32_t targets[ROWS] = {4, -100, 0};
  hr_rowwise loss = rows_of(HR_ROWWISE_CROSS_ENTROPY, ROWS, COLUMNS), gradient = loss;
  double x[TENSOR], found[TENSOR], losses[ROWS];
  const double ones[TENSOR] = {1, 1, 1};
  const void *inputs[] = {x, targets};
  gradient.operation = HR_ROWWISE_CROSS_ENTROPY_BACKWARD;
  gradient.scale = 0.5;
  hr_numbers_uniform(HR_FP64, 3, 0, TENSOR, x);
  run_all(&gradient, inputs, 1, losses);
  double expected = -x[4], sum = 0; /* −log of the softmax at column 4 */
  for (int i = 0; i < COLUMNS; i++)
    sum += exp(x[i]);
  assert_true(fabs(losses[0] - (expected + log(sum))) < 1e-12 && losses[1] == 0);
  run_all(&gradient, inputs, 0, found);
  for (int i = 0; i < TENSOR; i++) {
    double above[TENSOR] = {0}, below[TENSOR] = {0}, at = x[i], slope = 0;
    x[i] = at + STEP;
    run_all(&loss, inputs, 0, above);
    x[i] = at - STEP;
    run_all(&loss, inputs, 0, below);
    x[i] = at;
    for (int row = 0; row < ROWS; row++)
      slope += ones[row] * (above[row] - below[row]) / (2 * STEP);
    assert_true(fabs(found[i] - 0.5 * slope) <= NEAR);
  }
}

/* One step by hand: gradient 3 and 4 of norm 5 are clipped to norm 1, 0.6 and 0.8. Mean 0.1 · 0.6, variance
 * 0.05 · 0.36; both corrections cancel in the first step, so that the weight loses rate · (0.6 / 0.6) and rate · decay
 * of itself. */
static void a_first_step_of_adamw_moves_weights_by_the_learning_rate(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_ADAMW, 1, 2);
  r.learning_rate = 0.5, r.beta1 = 0.9, r.beta2 = 0.95, r.weight_decay = 0.1, r.max_norm = 1, r.epsilon = 1e-12;
  const double gradient[] = {3, 4};
  const float weights[] = {10, -10}, zeros[] = {0, 0};
  const void *inputs[] = {gradient, weights, zeros, zeros};
  double out[COLUMNS];
  run_all(&r, inputs, 0, out);
  assert_true(fabs(out[0] - (10 - 0.5 - 0.5 * 0.1 * 10)) < 1e-5 && fabs(out[1] - (-10 - 0.5 + 0.5 * 0.1 * 10)) < 1e-5);
  run_all(&r, inputs, 1, out);
  assert_true(fabs(out[0] - 0.06) < 1e-6 && fabs(out[1] - 0.08) < 1e-6);
  run_all(&r, inputs, 2, out);
  assert_true(fabs(out[0] - 0.018) < 1e-6 && fabs(out[1] - 0.032) < 1e-6);
  hr_error error;
  r.beta1 = 1;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "beta1"));
}

static void sums_over_rows_have_one_row(void **state)
{
  (void)state;
  const hr_rowwise r = rows_of(HR_ROWWISE_BIAS_BACKWARD, 2, 3);
  const double dy[] = {1, 2, 3, 10, 20, 30};
  double out[COLUMNS];
  int64_t bytes = 0;
  run_all(&r, (const void *[]){dy}, 0, out);
  assert_true(out[0] == 11 && out[1] == 22 && out[2] == 33);
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, (6 + 3) * 8);
}

/* Tokens 2, 0, 2: row 2 gets the first and the last. */
static void rows_of_a_table_get_the_sums_of_their_tokens(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_GATHER_BACKWARD, 3, 2);
  r.period = 3;
  const int32_t numbers[] = {2, 0, 2};
  const double dy[] = {1, 2, 10, 20, 100, 200}, table[] = {0.5, 0.5, 7, 8, 0.25, 0.25};
  const double fresh[] = {10, 20, 0, 0, 101, 202}, added[] = {10.5, 20.5, 7, 8, 101.25, 202.25};
  double out[6];
  hr_error error;
  int64_t bytes = 0;
  run_all(&r, (const void *[]){numbers, dy, NULL}, 0, out);
  assert_memory_equal(out, fresh, sizeof out);
  r.factor = 1;
  run_all(&r, (const void *[]){numbers, dy, table}, 0, out);
  assert_memory_equal(out, added, sizeof out);
  assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, 3 * 4 + 3 * 6 * 8);
  r.factor = 0.5;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "factor"));
}

/* Row 0 is rows 2 and 0 of the table, row 1 row 1 twice. */
static void sums_of_gathered_rows_are_the_gradient_of_copies(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_GATHER_SUM, 2, 2);
  hr_error error;
  r.period = 3, r.group = 2;
  const int32_t numbers[] = {2, 0, 1, 1};
  const double dy[] = {1, 2, 10, 20, 100, 200}, expected[] = {101, 202, 20, 40};
  double out[4];
  run_all(&r, (const void *[]){numbers, dy}, 0, out);
  assert_memory_equal(out, expected, sizeof out);
  r.group = HR_ROWWISE_TERMS_MAX + 1;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "group: gather_sum"));
}

/* Terms 1 and 0 of the sum of one token of dy 3 and 5: 2 · 3, 2 · 5; 7 · 3 + 11 · 5 = 76. */
static void terms_of_a_sum_have_gradients_and_so_have_their_weights(void **state)
{
  (void)state;
  hr_rowwise r = rows_of(HR_ROWWISE_COMBINE_BACKWARD, 2, 2);
  r.period = 2;
  const int32_t numbers[] = {1, 0};
  const float weights[] = {2, 0.5F};
  const double dy[] = {100, 200, 3, 5}, x[] = {7, 11, 1, 2}, expected[] = {6, 10, 50, 100};
  double out[4];
  run_all(&r, (const void *[]){numbers, dy, x, weights}, 0, out);
  assert_memory_equal(out, expected, sizeof out);
  run_all(&r, (const void *[]){numbers, dy, x, weights}, 1, out);
  assert_true(out[0] == 76 && out[1] == 500);
}

/* A gate of log 3 has a share of 3/4 and a slope of 3/16; 4 · 1 + 8 · 2 = 20. */
static void a_gate_has_the_gradient_of_its_sigmoid(void **state)
{
  (void)state;
  const hr_rowwise r = rows_of(HR_ROWWISE_GATE_BACKWARD, 1, 2);
  const double dy[] = {4, 8}, x[] = {1, 2}, gate[] = {log(3)};
  double out[2];
  run_all(&r, (const void *[]){dy, x, gate}, 0, out);
  assert_true(fabs(out[0] - 3) < 1e-12 && fabs(out[1] - 6) < 1e-12);
  run_all(&r, (const void *[]){dy, x, gate}, 1, out);
  assert_true(fabs(out[0] - 3.75) < 1e-12);
}

/* The two gaps between groups of two columns keep what they had. */
static void results_may_be_apart(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_error error;
  float x[] = {1, 2, 3, 4}, y[] = {-1, -1, -1, -1, -1, -1};
  hr_rowwise r = rows_of(HR_ROWWISE_COPY, 2, 2);
  hr_rowwise_arguments arguments = hr_rowwise_arguments_default();
  r.dtype = HR_FP32, r.y_stride = 4;
  arguments.inputs[0] = x, arguments.output = y;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_plan_rowwise(device, &r, NULL, &plan, &error), error);
  _Alignas(64) double workspace[64];
  assert_true(hr_plan_workspace_bytes(plan) <= sizeof workspace);
  assert_ok(hr_plan_run_rowwise(plan, &arguments, workspace, NULL, &error), error);
  assert_true(y[0] == 1 && y[1] == 2 && y[2] == -1 && y[3] == -1 && y[4] == 3 && y[5] == 4);
  hr_plan_free(plan);
  hr_device_close(device);
  r.y_stride = 1;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "y_stride"));
  r = rows_of(HR_ROWWISE_GELU, 2, 2);
  r.y_stride = 4;
  assert_int_equal(hr_rowwise_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "y_stride"));
}

/* A plan of the first step and arguments of the third move weights as a plan of the third does. */
static void arguments_may_say_the_step_of_adamw(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  const float gradient[] = {1, -2}, from[] = {0.5f, 0.25f};
  float weights[2][2];
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  for (int i = 0; i < 2; i++) {
    hr_plan *plan = NULL;
    float mean[2], variance[2];
    hr_rowwise r = rows_of(HR_ROWWISE_ADAMW, 1, 2);
    hr_rowwise_arguments a = hr_rowwise_arguments_default();
    r.dtype = HR_FP32;
    r.learning_rate = 0.01, r.beta1 = 0.9, r.beta2 = 0.99, r.step = i == 0 ? 3 : 1;
    r.alignment = sizeof(float);
    a.step = i == 0 ? 0 : 3;
    a.inputs[0] = gradient, a.inputs[1] = from, a.inputs[2] = from, a.more_inputs[0] = from;
    a.output = weights[i], a.more_outputs[0] = mean, a.more_outputs[1] = variance;
    assert_ok(hr_plan_rowwise(device, &r, NULL, &plan, &error), error);
    void *workspace = aligned_alloc(64, (hr_plan_workspace_bytes(plan) / 64 + 1) * 64);
    assert_ok(hr_plan_run_rowwise(plan, &a, workspace, NULL, &error), error);
    free(workspace);
    hr_plan_free(plan);
  }
  assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
  assert_true(weights[0][0] != from[0]);
  hr_device_close(device);
}

static void a_measurement_checks_and_counts_bytes(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++) {
    hr_rowwise r = rows_of((hr_rowwise_operation)operation, 20, 64);
    r.dtype = HR_BF16;
    const bool has_rows = operation == HR_ROWWISE_ROTARY_BACKWARD || operation == HR_ROWWISE_GATHER_BACKWARD;
    r.period = has_rows || operation == HR_ROWWISE_SINK ? 2 : r.period;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 20e6;
    hr_measurement m;
    assert_ok(hr_measure_rowwise(device, &r, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_rowwise_operation_name(r.operation), m.reason);
    int64_t bytes;
    assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
    int64_t checked = 0; /* 16 of each output, or the one row of a weight's gradient, or the table's two */
    for (int output = 0; output < hr_rowwise_operands_of(&r).outputs; output++)
      checked += hr_rowwise_output_rows(&r, output) < 16 ? hr_rowwise_output_rows(&r, output) : 16;
    assert_true(m.rows_checked == checked && m.median_ns > 0);
    assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 - (double)bytes) < 1);
    assert_true(isnan(m.flops_per_s));
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_agrees_with_values_computed_by_hand),
      cmocka_unit_test(a_sink_takes_its_share_of_each_head),
      cmocka_unit_test(combine_adds_rows_of_a_table_by_their_weights),
      cmocka_unit_test(a_rotated_part_stands_behind_each_head),
      cmocka_unit_test(rows_that_cannot_be_joined_are_refused_by_name),
      cmocka_unit_test(the_norm_of_a_residual_is_that_of_its_sum),
      cmocka_unit_test(a_residual_with_its_norm_moves_each_element_four_times),
      cmocka_unit_test(dropout_drops_by_the_known_random_numbers),
      cmocka_unit_test(dropout_drops_the_share_that_was_asked_for),
      cmocka_unit_test(a_causal_softmax_sees_up_to_its_own_query),
      cmocka_unit_test(heads_share_a_row_of_the_rotary_table),
      cmocka_unit_test(impossible_sizes_are_refused_by_name),
      cmocka_unit_test(every_gradient_is_that_of_finite_differences),
      cmocka_unit_test(the_gradient_of_logits_is_that_of_the_loss),
      cmocka_unit_test(a_first_step_of_adamw_moves_weights_by_the_learning_rate),
      cmocka_unit_test(sums_over_rows_have_one_row),
      cmocka_unit_test(rows_of_a_table_get_the_sums_of_their_tokens),
      cmocka_unit_test(sums_of_gathered_rows_are_the_gradient_of_copies),
      cmocka_unit_test(terms_of_a_sum_have_gradients_and_so_have_their_weights),
      cmocka_unit_test(a_gate_has_the_gradient_of_its_sigmoid),
      cmocka_unit_test(results_may_be_apart),
      cmocka_unit_test(arguments_may_say_the_step_of_adamw),
      cmocka_unit_test(a_measurement_checks_and_counts_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
