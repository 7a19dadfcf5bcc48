/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of few rows with what is fused with them, against float64; with HEADROOM_TEST=gpu those of a GPU. */
#include "device_tensors.h"

#include "runtime/device/experts.h"
#include "runtime/device/linear.h"
#include "runtime/device/persistent.h"

#include <math.h>

static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16};

enum { X, NORM_WEIGHT, NORM_BIAS, WEIGHT, GATE, BIAS, GATE_BIAS, RESIDUAL, SCALES, GATE_SCALES, Y, TENSORS };

typedef struct linear_case {
  hr_linear_arguments arguments;
  int64_t first;   /* experts of another device, which come before */
  bool one_kernel; /* that of whole steps runs it */
  tensor of[TENSORS];

} linear_case;

/* ---- the reference ---- */

static double number_at(const linear_case *c, int which, int64_t at)
{
  return hr_number_load(c->arguments.dtype, c->of[which].host, (size_t)at);
}

static double rounded(hr_dtype dtype, double value)
{
  double there = 0;
  hr_number_store(dtype, &there, 0, value);
  return hr_number_load(dtype, &there, 0);
}

/* The row's elements as they are multiplied, rounded where they are the results of a norm. */
static void fill_row(const linear_case *c, int64_t row, double *x)
{
  const hr_linear_arguments *a = &c->arguments;
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < a->k; i++)
    x[i] = number_at(c, X, row * a->x_stride + i), mean += x[i] / (double)a->k;
  if (a->norm == HR_ROWWISE_COUNT)
    return;
  mean = a->norm == HR_ROWWISE_LAYER_NORM ? mean : 0;
  for (int64_t i = 0; i < a->k; i++)
    squares += (x[i] - mean) * (x[i] - mean) / (double)a->k;
  for (int64_t i = 0; i < a->k; i++)
    x[i] = rounded(a->dtype, (x[i] - mean) / sqrt(squares + a->epsilon) * number_at(c, NORM_WEIGHT, i) +
                                 (a->norm == HR_ROWWISE_LAYER_NORM ? number_at(c, NORM_BIAS, i) : 0));
}

/* Element i of row `row` of W or G, in fp8 times its scale. */
static double weight_at(const linear_case *c, int matrix, int64_t row, int64_t i)
{
  const hr_linear_arguments *a = &c->arguments;
  const tensor *scales = &c->of[matrix == GATE ? GATE_SCALES : SCALES];
  if (!scales->host)
    return number_at(c, matrix, row * a->k + i);
  const int64_t block = row / a->shares.rows * a->shares.stride + (a->shares.blocks ? i / 128 : 0);
  return hr_number_load(HR_FP8_E4M3, c->of[matrix].host, (size_t)(row * a->k + i)) *
         (double)((const float *)scales->host)[block];
}

/* The product of a row with column `column` of W or G, and the most that it may be off: a norm's results may be rounded
 * to the other neighbour. */
static double product(const linear_case *c, const double *x, int matrix, int bias, int64_t column, double *off)
{
  const hr_linear_arguments *a = &c->arguments;
  const double share = a->norm == HR_ROWWISE_COUNT ? 0 : hr_dtype_rounding_error(a->dtype, 1) / 8;
  double sum = 0, size = 0;
  for (int64_t i = 0; i < a->k; i++) {
    const double term = x[i] * weight_at(c, matrix, column, i);
    sum += term, size += fabs(term);
  }
  *off = size * (share + 0x1p-20 * (1 + (double)a->k / 64));
  return c->of[bias].host ? sum + number_at(c, bias, column) : sum;
}

static double gelu(double x)
{
  return x / 2 * erfc(-x / sqrt(2));
}

static double gelu_tanh(double x)
{
  return x / (1 + exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double clamped(double gate, double up, double limit)
{
  const double g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up; /* keeps a NaN */
  return g / (1 + exp(-1.702 * g)) * (u + 1);
}

static double activated(const hr_linear_arguments *a, double gate, double up)
{
  switch (a->activation) {
  case HR_ROWWISE_GELU: return gelu(up);
  case HR_ROWWISE_GELU_TANH: return gelu_tanh(up);
  case HR_ROWWISE_RELU: return up < 0 ? 0 : up;
  case HR_ROWWISE_RELU2: return up < 0 ? 0 : up * up;
  case HR_ROWWISE_SWIGLU: return gate / (1 + exp(-gate)) * up;
  case HR_ROWWISE_SWIGLU_CLAMPED: return clamped(gate, up, a->limit);
  case HR_ROWWISE_GEGLU: return gelu(gate) * up;
  case HR_ROWWISE_GEGLU_TANH: return gelu_tanh(gate) * up;
  default: return up;
  }
}

/* What y may be: its value for each product at both ends of what that may be. */
static void compare_element(const linear_case *c, const double *x, int64_t row, int64_t column)
{
  const hr_linear_arguments *a = &c->arguments;
  double up_off = 0, gate_off = 0, gate = 0, off = 0;
  const double up = product(c, x, WEIGHT, BIAS, column, &up_off);
  if (c->of[GATE].host)
    gate = product(c, x, GATE, GATE_BIAS, column, &gate_off);
  const double value = activated(a, gate, up);
  for (int i = 0; i < 4; i++)
    off = fmax(off, fabs(activated(a, gate + (i % 2 ? gate_off : -gate_off), up + (i / 2 ? up_off : -up_off)) - value));
  const double residual = c->of[RESIDUAL].host ? number_at(c, RESIDUAL, row * a->residual_stride + column) : 0;
  const double factor = a->factor == 0 ? 1 : a->factor,
               exact = c->of[RESIDUAL].host ? residual + factor * value : value;
  const double found = number_at(c, Y, row * a->n + column);
  const double bound =
      1.01 * off * fabs(factor) + fabs(value) * 0x1p-19 + 1e-6 + hr_dtype_rounding_error(a->dtype, exact);
  if (!(fabs(found - exact) <= bound) && found != exact && !(isnan(found) && isnan(exact)))
    fail_msg("%s, norm %d, activation %d, %d rows, n %d, k %d: [%d, %d] is %g, exactly %g, allowed ±%g",
             hr_dtype_name(a->dtype), (int)a->norm, (int)a->activation, (int)a->rows, (int)a->n, (int)a->k, (int)row,
             (int)column, found, exact, bound);
}

/* ---- cases ---- */

static void make_tensors(linear_case *c)
{
  hr_linear_arguments *a = &c->arguments;
  const bool norm = a->norm != HR_ROWWISE_COUNT, gated = c->arguments.gate != NULL;
  const int64_t counts[] = {[X] = a->rows * a->x_stride,
                            [NORM_WEIGHT] = norm ? a->k : 0,
                            [NORM_BIAS] = a->norm == HR_ROWWISE_LAYER_NORM ? a->k : 0,
                            [WEIGHT] = a->n * a->k,
                            [GATE] = gated ? a->n * a->k : 0,
                            [BIAS] = a->bias ? a->n : 0,
                            [GATE_BIAS] = a->bias && gated ? a->n : 0,
                            [RESIDUAL] = a->residual ? a->rows * a->residual_stride : 0};
  const bool fp8 = a->scales != NULL;
  for (int i = 0; i <= RESIDUAL; i++)
    if (counts[i] > 0)
      c->of[i] = random_tensor(fp8 && (i == WEIGHT || i == GATE) ? HR_FP8_E4M3 : a->dtype, (uint64_t)i + 1, counts[i]);
  for (int i = SCALES; i <= GATE_SCALES && fp8; i++)
    if (i == SCALES || gated)
      c->of[i] = random_tensor(HR_FP32, (uint64_t)i + 1, hr_fp8_scale_count(&a->shares, a->n));
  c->of[Y] = tensor_of((size_t)(a->rows * a->n) * hr_dtype_bytes(a->dtype));
}

static const void *address(const linear_case *c, int which)
{
  return c->of[which].buffer ? hr_buffer_data(c->of[which].buffer) : NULL;
}

static bool persists(const hr_linear_arguments *a)
{
  return device->backend->persists && device->backend->persists(device, &(hr_persistent_part){.linear = a});
}

static void run_in_one_kernel(linear_case *c)
{
  hr_error error;
  void *kernel = NULL;
  const hr_persistent_part part = {.linear = &c->arguments};
  assert_true(persists(&c->arguments));
  assert_ok(device->backend->persist(device, &part, 1, &kernel, &error), error);
  assert_ok(device->backend->run_persistent(device, kernel, hr_device_stream(device), &error), error);
  fetch(&c->of[Y]);
  device->backend->forget_persistent(device, kernel);
}

static void run_on_device(linear_case *c)
{
  hr_error error;
  hr_linear_arguments *a = &c->arguments;
  a->x = address(c, X), a->norm_weight = address(c, NORM_WEIGHT), a->norm_bias = address(c, NORM_BIAS);
  a->weight = address(c, WEIGHT), a->gate = address(c, GATE);
  a->bias = address(c, BIAS), a->gate_bias = address(c, GATE_BIAS), a->residual = address(c, RESIDUAL);
  a->scales = address(c, SCALES), a->gate_scales = address(c, GATE_SCALES);
  a->y = hr_buffer_data(c->of[Y].buffer);
  if (c->one_kernel) {
    run_in_one_kernel(c);
    return;
  }
  assert_ok(device->backend->multiply_linear(device, a, hr_device_stream(device), &error), error);
  fetch(&c->of[Y]);
}

static void put(const linear_case *c, int which, hr_dtype dtype, int64_t at, double value)
{
  hr_error error;
  hr_number_store(dtype, c->of[which].host, (size_t)at, value);
  assert_ok(hr_buffer_write(c->of[which].buffer, c->of[which].host, c->of[which].bytes, &error), error);
}

/* `special`: it is in the last row of x, and reaches no other row; a NaN of fp8 is in the first row of W. */
static void check_case(linear_case *c, double special)
{
  const hr_linear_arguments *a = &c->arguments;
  make_tensors(c);
  if (special != 0)
    put(c, X, a->dtype, (a->rows - 1) * a->x_stride, special);
  if (special != 0 && a->scales)
    put(c, WEIGHT, HR_FP8_E4M3, a->k - 1, (double)NAN);
  run_on_device(c);
  double *x = malloc((size_t)a->k * sizeof *x);
  assert_non_null(x);
  for (int64_t row = 0; row < a->rows; row++) {
    fill_row(c, row, x);
    for (int64_t column = 0; column < a->n; column++)
      compare_element(c, x, row, column);
  }
  free(x);
  for (int i = 0; i < TENSORS; i++)
    if (c->of[i].host)
      tensor_free(&c->of[i]);
}

/* Rows, n and k that fill tiles and do not, of all loads; each activation with each norm. */
static void a_gpu_multiplies_with_what_is_fused(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{1, 64, 128},  {1, 40, 72},     {2, 130, 200}, {3, 17, 36},
                                     {4, 96, 1024}, {5, 33, 51},     {7, 48, 520},  {8, 100, 264},
                                     {1, 2200, 64}, {2, 4300, 1032}, {1, 8600, 40}, {6, 16, 2048}};
  static const hr_rowwise_operation norms[] = {HR_ROWWISE_RMS_NORM, HR_ROWWISE_LAYER_NORM, HR_ROWWISE_COUNT};
  static const hr_rowwise_operation activations[] = {
      HR_ROWWISE_SWIGLU,     HR_ROWWISE_GELU, HR_ROWWISE_GEGLU,          HR_ROWWISE_COUNT, HR_ROWWISE_GELU_TANH,
      HR_ROWWISE_GEGLU_TANH, HR_ROWWISE_RELU, HR_ROWWISE_SWIGLU_CLAMPED, HR_ROWWISE_RELU2};
  static const bool gated[] = {true, false, true, false, false, true, false, true, false};
  static const int something;
  if (!device->backend->multiply_linear)
    return;
  for (int i = 0; i < 108; i++) {
    const int64_t *size = sizes[i % 12];
    if (!test_takes(i))
      continue;
    const int64_t spare = i % 4 == 1 ? 8 : i % 4 == 3 ? 3 : 0;
    linear_case c = {.arguments = {.rows = size[0],
                                   .n = size[1],
                                   .k = size[2],
                                   .x_stride = size[2] + spare,
                                   .residual_stride = size[1] + spare,
                                   .dtype = formats[i / 2 % 3],
                                   .norm = norms[i / 12 % 3],
                                   .activation = activations[i % 9],
                                   .gate = gated[i % 9] ? &something : NULL,
                                   .bias = i % 5 < 2 ? &something : NULL,
                                   .residual = i % 3 ? &something : NULL,
                                   .epsilon = 0.125,
                                   .limit = 0.5,
                                   .factor = i % 7 ? 0 : 0.75}};
    check_case(&c, i % 11 == 0 ? (double)NAN : 0);
  }
}

/* Scales of rows, and of blocks of 128, 32 and 16 rows; n and k that fill tiles, blocks and warps and do not. */
static void a_gpu_multiplies_with_weights_in_fp8(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{1, 64, 128},  {1, 40, 80},     {2, 130, 208}, {3, 17, 48},
                                     {4, 96, 1024}, {5, 300, 144},   {7, 48, 528},  {8, 100, 272},
                                     {1, 2200, 64}, {2, 4300, 1040}, {1, 8600, 48}, {6, 16, 4224}};
  static const hr_rowwise_operation norms[] = {HR_ROWWISE_RMS_NORM, HR_ROWWISE_COUNT, HR_ROWWISE_LAYER_NORM};
  static const hr_rowwise_operation activations[] = {HR_ROWWISE_SWIGLU, HR_ROWWISE_COUNT, HR_ROWWISE_SWIGLU_CLAMPED,
                                                     HR_ROWWISE_COUNT, HR_ROWWISE_RELU};
  static const int64_t rows[] = {0, 128, 0, 32, 16, 128};
  static const float something;
  if (!device->backend->multiply_linear || !device->backend->keeps_fp8 || !device->backend->keeps_fp8(device))
    return;
  for (int i = 0; i < 72; i++) {
    const int64_t *size = sizes[i % 12], block = rows[(i + i / 12) % 6];
    const int64_t spare = i % 4 == 1 ? 8 : 0;
    const bool gated = i % 5 % 2 == 0 && i % 5 < 4;
    linear_case c = {
        .arguments = {.rows = size[0],
                      .n = size[1],
                      .k = size[2],
                      .x_stride = size[2] + spare,
                      .residual_stride = size[1] + spare,
                      .dtype = i / 3 % 3 ? HR_BF16 : HR_FP16,
                      .norm = norms[i / 12 % 3],
                      .activation = activations[i % 5],
                      .gate = gated ? &something : NULL,
                      .bias = i % 5 < 2 ? &something : NULL,
                      .residual = i % 3 ? &something : NULL,
                      .epsilon = 0.125,
                      .limit = 0.5,
                      .scales = &something,
                      .shares = block > 0 ? hr_fp8_scales_of_blocks(block, size[2]) : hr_fp8_scales_of_rows()}};
    if (test_takes(i))
      check_case(&c, i % 11 == 0                                            ? (double)NAN
                     : i % 10 == 1 && norms[i / 12 % 3] == HR_ROWWISE_COUNT ? (double)INFINITY
                                                                            : 0);
  }
}

/* Slots of 2048 columns that are full and not, rows of one block of scales and of two, more rows than a block keeps the
 * sums of, columns that are no whole step of a warp; and weights of 16 bits. */
static void one_kernel_of_a_step_multiplies_with_weights_in_fp8(void **state)
{
  (void)state;
  static const struct {
    int64_t rows, n, k, block; /* of scales: −1 none, 0 a row */
    hr_rowwise_operation activation;
    double special;
  } cases[] = {{1, 301, 2208, 128, HR_ROWWISE_COUNT, 0}, {1, 600, 160, 16, HR_ROWWISE_SWIGLU, 0},
               {1, 600, 32, 0, HR_ROWWISE_SWIGLU, 0},    {3, 45, 2080, 0, HR_ROWWISE_COUNT, (double)INFINITY},
               {4, 130, 4128, 32, HR_ROWWISE_SWIGLU, 0}, {3, 40, 96, 0, HR_ROWWISE_GELU, (double)NAN},
               {1, 301, 1120, -1, HR_ROWWISE_SWIGLU, 0}, {3, 5, 544, 64, HR_ROWWISE_COUNT, (double)NAN}};
  static const float something;
  bool has_kernel = false; /* of the first case, and then of all */
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    const int64_t k = cases[i].k, block = cases[i].block;
    const bool gated = cases[i].activation == HR_ROWWISE_SWIGLU;
    linear_case c = {.one_kernel = true,
                     .arguments = {.rows = cases[i].rows,
                                   .n = cases[i].n,
                                   .k = k,
                                   .x_stride = k + 8,
                                   .residual_stride = cases[i].n,
                                   .alignment = 16,
                                   .dtype = i % 3 == 1 ? HR_FP16 : HR_BF16,
                                   .norm = cases[i].special == 0 && i % 2 ? HR_ROWWISE_RMS_NORM : HR_ROWWISE_COUNT,
                                   .activation = cases[i].activation,
                                   .gate = gated ? &something : NULL,
                                   .bias = i % 2 ? &something : NULL,
                                   .residual = gated ? NULL : &something,
                                   .epsilon = 0.125,
                                   .scales = block < 0 ? NULL : &something,
                                   .shares = block > 0 ? hr_fp8_scales_of_blocks(block, k) : hr_fp8_scales_of_rows()}};
    has_kernel |= persists(&c.arguments);
    assert_int_equal(persists(&c.arguments), has_kernel);
    if (has_kernel && test_takes(i))
      check_case(&c, cases[i].special);
  }
}

static void weights_in_fp8_are_widened_exactly(void **state)
{
  (void)state;
  hr_error error;
  static const int64_t sizes[][3] = {{1, 16, 0}, {130, 272, 128}, {300, 144, 16}, {77, 48, 0}, {128, 128, 128}};
  if (!device->backend->keeps_fp8 || !device->backend->keeps_fp8(device))
    return;
  for (int i = 0; i < 10; i++) {
    const int64_t rows = sizes[i / 2][0], columns = sizes[i / 2][1], block = sizes[i / 2][2];
    const hr_dtype dtype = i % 2 ? HR_FP16 : HR_BF16;
    hr_fp8_arguments x = {.rows = rows, .columns = columns, .dtype = dtype, .scales = hr_fp8_scales_of_rows()};
    if (block > 0)
      x.scales = hr_fp8_scales_of_blocks(block, columns);
    tensor w = tensor_of((size_t)(rows * columns)), y = tensor_of((size_t)(rows * columns) * 2);
    tensor scales = random_tensor(HR_FP32, 7, hr_fp8_scale_count(&x.scales, rows));
    for (int64_t j = 0; j < rows * columns; j++)
      ((uint8_t *)w.host)[j] = (uint8_t)(j * 37 + j / 256); /* each number, infinities there are none */
    assert_ok(hr_buffer_write(w.buffer, w.host, w.bytes, &error), error);
    x.w = hr_buffer_data(w.buffer), x.w_scales = hr_buffer_data(scales.buffer), x.y = hr_buffer_data(y.buffer);
    assert_ok(device->backend->widen_fp8(device, &x, hr_device_stream(device), &error), error);
    fetch(&y);
    for (int64_t j = 0; j < rows * columns; j++) {
      const int64_t row = j / columns, at = row / x.scales.rows * x.scales.stride + (block ? j % columns / 128 : 0);
      const float exact = (float)hr_number_load(HR_FP8_E4M3, w.host, (size_t)j) * ((const float *)scales.host)[at];
      const double expected = rounded(dtype, (double)exact), found = hr_number_load(dtype, y.host, (size_t)j);
      if (found != expected && !(isnan(found) && isnan(expected)))
        fail_msg("%d: element %d is %g, expected %g", i, (int)j, found, expected);
    }
    tensor_free(&w);
    tensor_free(&y);
    tensor_free(&scales);
  }
}

/* ---- experts ---- */

/* The first expert has no copy, the others one each and the last all that are left, of tokens in turn. */
static void number_copies(const hr_linear_arguments *a, int32_t *offsets, int32_t *numbers, int64_t tokens)
{
  offsets[0] = offsets[1] = 0;
  for (int64_t i = 2; i < a->experts; i++)
    offsets[i] = offsets[i - 1] + (offsets[i - 1] + 1 < a->rows);
  offsets[a->experts] = (int32_t)a->rows;
  for (int64_t i = 0; i < a->rows; i++)
    numbers[i] = (int32_t)(i * 5 % tokens);
}

static void compare_copies(const linear_case *c, const int32_t *offsets, const int32_t *numbers)
{
  const hr_linear_arguments *a = &c->arguments;
  double *x = malloc((size_t)a->k * sizeof *x);
  assert_non_null(x);
  for (int64_t expert = 0; expert < a->experts; expert++) {
    linear_case one = *c; /* that expert's matrices */
    const size_t bytes = (size_t)(expert * a->n * a->k) * hr_dtype_bytes(a->dtype);
    one.of[WEIGHT].host = (char *)c->of[WEIGHT].host + bytes;
    one.of[GATE].host = c->of[GATE].host ? (char *)c->of[GATE].host + bytes : NULL;
    for (int64_t row = offsets[expert]; row < offsets[expert + 1]; row++) {
      fill_row(&one, numbers[row], x);
      for (int64_t column = 0; column < a->n; column++)
        compare_element(&one, x, row, column);
    }
  }
  free(x);
}

/* What offsets say, of each copy. */
static tensor experts_by(const hr_linear_arguments *a, const int32_t *offsets)
{
  hr_error error;
  tensor of = tensor_of((size_t)a->rows * 4);
  for (int32_t expert = 0; expert < a->experts; expert++)
    for (int32_t i = offsets[expert]; i < offsets[expert + 1]; i++)
      ((int32_t *)of.host)[i] = expert;
  assert_ok(hr_buffer_write(of.buffer, of.host, of.bytes, &error), error);
  return of;
}

static void check_experts(linear_case *c, int64_t tokens)
{
  hr_error error;
  hr_linear_arguments *a = &c->arguments;
  const int64_t copies = a->rows, n = a->n;
  tensor offsets = tensor_of((size_t)(a->experts + 1) * 4), numbers = tensor_of((size_t)copies * 4);
  number_copies(a, offsets.host, numbers.host, tokens);
  assert_ok(hr_buffer_write(offsets.buffer, offsets.host, offsets.bytes, &error), error);
  assert_ok(hr_buffer_write(numbers.buffer, numbers.host, numbers.bytes, &error), error);
  c->of[X] = random_tensor(a->dtype, 1, tokens * a->x_stride);
  c->of[WEIGHT] = random_tensor(a->dtype, 2, a->experts * n * a->k);
  if (a->gate)
    c->of[GATE] = random_tensor(a->dtype, 3, a->experts * n * a->k);
  c->of[Y] = tensor_of((size_t)(copies * n) * hr_dtype_bytes(a->dtype));
  a->offsets = hr_buffer_data(offsets.buffer), a->numbers = hr_buffer_data(numbers.buffer);
  tensor experts_of = experts_by(a, offsets.host);
  a->experts_of = a->most <= HR_LINEAR_ROWS_MAX ? hr_buffer_data(experts_of.buffer) : NULL;
  run_on_device(c);
  compare_copies(c, offsets.host, numbers.host);
  for (int i = 0; i < TENSORS; i++)
    if (c->of[i].host)
      tensor_free(&c->of[i]);
  tensor_free(&offsets);
  tensor_free(&numbers);
  tensor_free(&experts_of);
}

/* Experts, copies, tokens, n and k. */
static void a_gpu_multiplies_copies_of_tokens(void **state)
{
  (void)state;
  static const int64_t sizes[][5] = {{4, 2, 1, 40, 64}, {8, 16, 8, 136, 200}, {3, 8, 6, 33, 51}, {40, 41, 3, 72, 320}};
  static const hr_rowwise_operation activations[] = {HR_ROWWISE_SWIGLU, HR_ROWWISE_GELU, HR_ROWWISE_COUNT};
  static const int something;
  if (!device->backend->multiply_linear)
    return;
  for (int i = 0; i < 12; i++) {
    const int64_t *size = sizes[i % 4];
    linear_case c = {.arguments = {.experts = size[0],
                                   .rows = size[1],
                                   .most = i % 4 == 3 ? 8 : size[1], /* of 41 copies for 40 experts 3 are one's */
                                   .n = size[3],
                                   .k = size[4],
                                   .x_stride = size[4],
                                   .dtype = formats[i % 3],
                                   .norm = HR_ROWWISE_COUNT,
                                   .activation = activations[i / 4],
                                   .gate = i / 4 == 0 ? &something : NULL}};
    check_experts(&c, size[2]);
  }
}

/* ---- the sums of a token's copies ---- */

enum { R_WEIGHTS, R_CHOSEN, R_PLACES, R_COPIED, R_EXPERTS_OF, R_OFFSETS, ROUTED };

/* What a router chooses by random logits, among as many experts of another device, which come before, if it has any. */
static void route_copies(const linear_case *c, tensor *of)
{
  hr_error error;
  const hr_linear_arguments *a = &c->arguments;
  const int64_t tokens = a->rows / a->active, experts = c->first + a->experts;
  tensor logits = random_tensor(HR_FP32, 9, tokens * experts);
  for (int i = 0; i < ROUTED; i++)
    of[i] = tensor_of((size_t)(i == R_OFFSETS ? experts + 1 : a->rows) * 4);
  hr_host_route(&(hr_route_arguments){.tokens = tokens,
                                      .experts = experts,
                                      .first = c->first,
                                      .held = a->experts,
                                      .active = a->active,
                                      .dtype = HR_FP32,
                                      .logits = logits.host,
                                      .weights = of[R_WEIGHTS].host,
                                      .chosen = of[R_CHOSEN].host,
                                      .places = of[R_PLACES].host,
                                      .copied = of[R_COPIED].host,
                                      .experts_of = of[R_EXPERTS_OF].host,
                                      .offsets = of[R_OFFSETS].host});
  for (int i = 0; i < ROUTED; i++)
    assert_ok(hr_buffer_write(of[i].buffer, of[i].host, of[i].bytes, &error), error);
  tensor_free(&logits);
}

static void compare_sum(const linear_case *c, const tensor *of, int64_t token, int64_t column)
{
  const hr_linear_arguments *a = &c->arguments;
  double sum = 0, size = 0;
  for (int64_t i = token * a->active; i < (token + 1) * a->active; i++) {
    const int32_t place = ((const int32_t *)of[R_PLACES].host)[i], chosen = ((const int32_t *)of[R_CHOSEN].host)[i];
    const int64_t expert = chosen - c->first;
    const double weight = (double)((const float *)of[R_WEIGHTS].host)[i];
    for (int64_t j = 0; j < a->k && place >= 0; j++) {
      const double term =
          weight * number_at(c, X, place * a->x_stride + j) * number_at(c, WEIGHT, (expert * a->n + column) * a->k + j);
      sum += term, size += fabs(term);
    }
  }
  const double factor = a->factor == 0 ? 1 : a->factor;
  const double residual = a->residual ? number_at(c, RESIDUAL, token * a->residual_stride + column) : 0;
  const double exact = a->residual ? residual + factor * sum : sum, found = number_at(c, Y, token * a->n + column);
  const double bound = size * 0x1p-20 * (2 + (double)a->k / 64) + 1e-6 + hr_dtype_rounding_error(a->dtype, exact);
  if (!(fabs(found - exact) <= bound) && found != exact && !(isnan(found) && isnan(exact)))
    fail_msg("%s, %d experts, %d copies of %d each, n %d, k %d: [%d, %d] is %g, exactly %g, allowed ±%g",
             hr_dtype_name(a->dtype), (int)a->experts, (int)a->rows, (int)a->active, (int)a->n, (int)a->k, (int)token,
             (int)column, found, exact, bound);
}

/* `special`: a NaN in a copy of the last token, or an infinity, which reaches no other token. */
static void check_sums(linear_case *c, double special)
{
  hr_error error;
  hr_linear_arguments *a = &c->arguments;
  const int64_t tokens = a->rows / a->active;
  tensor of[ROUTED];
  route_copies(c, of);
  c->of[X] = random_tensor(a->dtype, 1, a->rows * a->x_stride);
  c->of[WEIGHT] = random_tensor(a->dtype, 2, a->experts * a->n * a->k);
  if (a->residual)
    c->of[RESIDUAL] = random_tensor(a->dtype, 3, tokens * a->residual_stride);
  c->of[Y] = tensor_of((size_t)(tokens * a->n) * hr_dtype_bytes(a->dtype));
  const int32_t last = ((const int32_t *)of[R_PLACES].host)[a->rows - 1];
  if (special != 0 && last >= 0)
    hr_number_store(a->dtype, c->of[X].host, (size_t)(last * a->x_stride), special);
  assert_ok(hr_buffer_write(c->of[X].buffer, c->of[X].host, c->of[X].bytes, &error), error);
  a->offsets = hr_buffer_data(of[R_OFFSETS].buffer), a->places = hr_buffer_data(of[R_PLACES].buffer);
  a->experts_of = hr_buffer_data(of[R_EXPERTS_OF].buffer), a->weights = hr_buffer_data(of[R_WEIGHTS].buffer);
  run_on_device(c);
  for (int64_t token = 0; token < tokens; token++)
    for (int64_t column = 0; column < a->n; column++)
      compare_sum(c, of, token, column);
  for (int i = 0; i < TENSORS; i++)
    if (c->of[i].host)
      tensor_free(&c->of[i]);
  for (int i = 0; i < ROUTED; i++)
    tensor_free(&of[i]);
}

/* Experts, tokens, active, n and k: fewer experts than groups of warps and more, k that no load divides, more columns
 * than multiprocessors have blocks. */
static void a_gpu_adds_up_the_copies_of_each_token(void **state)
{
  (void)state;
  static const int64_t sizes[][5] = {{4, 1, 2, 40, 64},   {8, 1, 2, 33, 520},  {128, 1, 8, 72, 96},
                                     {60, 5, 4, 48, 136}, {16, 8, 16, 17, 51}, {3, 8, 1, 130, 1032},
                                     {40, 7, 6, 64, 200}, {256, 8, 8, 20, 40}};
  static const double specials[] = {0, (double)NAN, 0, (double)INFINITY};
  static const int something;
  if (!device->backend->multiply_linear)
    return;
  for (int i = 0; i < 24; i++) {
    const int64_t *size = sizes[i % 8];
    const int64_t spare = i % 3 == 1 ? 8 : 0;
    linear_case c = {.first = i % 5 == 2 ? size[0] : 0,
                     .arguments = {.experts = size[0],
                                   .rows = size[1] * size[2],
                                   .active = size[2],
                                   .most = size[1],
                                   .n = size[3],
                                   .k = size[4],
                                   .x_stride = size[4],
                                   .residual_stride = size[3] + spare,
                                   .dtype = formats[(i + i / 8) % 3],
                                   .norm = HR_ROWWISE_COUNT,
                                   .activation = HR_ROWWISE_COUNT,
                                   .residual = i % 4 ? &something : NULL,
                                   .factor = i % 5 ? 0 : 0.75}};
    if (test_takes(i))
      check_sums(&c, specials[i / 2 % 4]);
  }
}

/* ---- more tokens, in fp8 themselves ---- */

static double scale_of_x(const hr_fp8_arguments *a, const tensor *scales, int64_t token, int64_t column)
{
  return (double)((const float *)scales->host)[a->scales.blocks ? column / 128 * a->padded + token : token];
}

/* Half of the distance of neighbours, 2^-4 of a value or 2^-10 of a scale; a little more, as its reciprocal is rounded.
 * The scale is the largest of what has it over 448. A NaN stays one, and what an infinity is scaled with is NaN. */
static void compare_narrow(const hr_fp8_arguments *a, const tensor *x, const tensor *narrow, const tensor *scales)
{
  const int64_t width = a->scales.blocks ? 128 : a->columns;
  for (int64_t token = 0; token < a->padded; token++)
    for (int64_t i = 0; i < a->columns; i++) {
      const double scale = scale_of_x(a, scales, token, i);
      const double found = hr_number_load(HR_FP8_E4M3, narrow->host, (size_t)(token * a->columns + i)) * scale;
      const double exact = token < a->tokens ? hr_number_load(a->dtype, x->host, (size_t)(token * a->x_row + i)) : 0;
      double most = 0;
      for (int64_t j = i / width * width; j < a->columns && j < (i / width + 1) * width && token < a->tokens; j++)
        most = fmax(most, fabs(hr_number_load(a->dtype, x->host, (size_t)(token * a->x_row + j))));
      const bool lost = isinf(most);
      if (!lost && !isnan(exact))
        assert_true(fabs(scale - fmax(most / 448, 0x1p-120)) <= 0x1p-22 * scale);
      if (lost || isnan(exact) ? isfinite(exact) && !isinf(most) && !isnan(found)
                               : !(fabs(found - exact) <= 1.001 * fmax(fabs(exact) * 0x1p-4, scale * 0x1p-10)))
        fail_msg("%d tokens of %d: [%d, %d] is %g, narrowed %g", (int)a->tokens, (int)a->columns, (int)token, (int)i,
                 exact, found);
      if (isnan(exact) || isinf(exact))
        assert_true(isnan(found));
    }
}

static void compare_products(const hr_fp8_arguments *a, const tensor *of, int64_t n)
{
  for (int64_t token = 0; token < a->tokens; token++)
    for (int64_t row = 0; row < n; row++) {
      double exact = 0, size = 0;
      for (int64_t i = 0; i < a->columns; i++) {
        const int64_t at = row / a->scales.rows * a->scales.stride + (a->scales.blocks ? i / 128 : 0);
        const double term = hr_number_load(HR_FP8_E4M3, of[WEIGHT].host, (size_t)(row * a->columns + i)) *
                            (double)((const float *)of[SCALES].host)[at] *
                            hr_number_load(HR_FP8_E4M3, of[NORM_WEIGHT].host, (size_t)(token * a->columns + i)) *
                            scale_of_x(a, &of[NORM_BIAS], token, i);
        exact += term, size += fabs(term);
      }
      const double found = hr_number_load(a->dtype, of[Y].host, (size_t)(token * n + row));
      /* Tensor Cores keep some 14 bits of fp8 products (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). */
      const double bound = size * 0x1p-11 + hr_dtype_rounding_error(a->dtype, exact);
      if (!(fabs(found - exact) <= bound) && !(isnan(found) && isnan(exact)))
        fail_msg("%d tokens, n %d, k %d: [%d, %d] is %g, exactly %g, allowed ±%g", (int)a->tokens, (int)n,
                 (int)a->columns, (int)token, (int)row, found, exact, bound);
    }
}

/* Operands in the places of X, NORM_WEIGHT (narrowed) and NORM_BIAS (its scales). */
static void check_fp8(int64_t tokens, int64_t n, int64_t k, bool blocks, hr_dtype dtype, double special)
{
  hr_error error;
  hr_fp8_arguments a = {.rows = n,
                        .columns = k,
                        .scales = blocks ? hr_fp8_scales_of_blocks(128, k) : hr_fp8_scales_of_rows(),
                        .dtype = dtype,
                        .tokens = tokens,
                        .padded = (tokens + 15) / 16 * 16,
                        .x_row = k + 8};
  const int64_t x_scales = a.padded * (blocks ? (k + 127) / 128 : 1);
  tensor of[TENSORS] = {[X] = random_tensor(dtype, 1, tokens * a.x_row),
                        [NORM_WEIGHT] = tensor_of((size_t)(a.padded * k)),
                        [NORM_BIAS] = tensor_of((size_t)x_scales * 4),
                        [WEIGHT] = random_tensor(HR_FP8_E4M3, 2, n * k),
                        [SCALES] = random_tensor(HR_FP32, 3, hr_fp8_scale_count(&a.scales, n)),
                        [Y] = tensor_of((size_t)(a.padded * n) * 2)};
  if (special != 0)
    hr_number_store(dtype, of[X].host, (size_t)((tokens - 1) * a.x_row + k / 2), special);
  hr_number_store(dtype, of[X].host, (size_t)(k - 1), 100); /* one that is much larger than the others */
  for (int64_t i = 0; i < k; i++)
    hr_number_store(dtype, of[X].host, (size_t)(a.x_row + i), 0); /* a token of zeros */
  assert_ok(hr_buffer_write(of[X].buffer, of[X].host, of[X].bytes, &error), error);
  a.x = hr_buffer_data(of[X].buffer), a.narrow = hr_buffer_data(of[NORM_WEIGHT].buffer);
  a.x_scales = hr_buffer_data(of[NORM_BIAS].buffer), a.w = hr_buffer_data(of[WEIGHT].buffer);
  a.w_scales = hr_buffer_data(of[SCALES].buffer), a.y = hr_buffer_data(of[Y].buffer);
  void *stream = hr_device_stream(device), *plan = NULL;
  assert_ok(device->backend->quantize_fp8(device, &a, stream, &error), error);
  fetch(&of[NORM_WEIGHT]);
  fetch(&of[NORM_BIAS]);
  compare_narrow(&a, &of[X], &of[NORM_WEIGHT], &of[NORM_BIAS]);
  const hr_fp8_gemm gemm = {a.padded, n, k, a.scales, dtype, a.w_scales};
  size_t bytes = 0;
  hr_buffer *workspace = NULL;
  const hr_status status = device->backend->plan_fp8(device, &gemm, &plan, &bytes, &error);
  if (status == HR_OK) {
    assert_ok(hr_buffer_create(device, bytes > 0 ? bytes : 256, &workspace, &error), error);
    a.plan = plan;
    assert_ok(device->backend->multiply_fp8(device, &a, hr_buffer_data(workspace), stream, &error), error);
    fetch(&of[Y]);
    compare_products(&a, of, n);
    device->backend->free_fp8(device, plan);
    hr_buffer_free(workspace);
  } else {
    assert_int_equal(status, HR_ERROR_UNSUPPORTED);
    assert_true(n % 128 != 0 || k % 128 != 0 || !device->backend->has(device, "sm_90") ||
                device->backend->has(device, "sm_100"));
  }
  for (int i = 0; i < TENSORS; i++)
    if (of[i].host)
      tensor_free(&of[i]);
}

/* On compute capability 9.0 with a library of CUDA 12.9 or later. */
static void tokens_in_fp8_are_multiplied_with_weights_in_fp8(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{9, 16, 16}, {13, 144, 272}, {16, 128, 128}, {33, 272, 4368}, {40, 24, 144}};
  if (!device->backend->plan_fp8 || !device->backend->keeps_fp8(device))
    return;
  for (int i = 0; i < 20; i++) {
    const int64_t *size = sizes[i % 5];
    check_fp8(size[0], size[1], size[2], i / 5 % 2, i % 3 ? HR_BF16 : HR_FP16,
              i % 7 == 3   ? (double)NAN
              : i % 7 == 5 ? (double)INFINITY
                           : 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_gpu_multiplies_with_what_is_fused),
                                     cmocka_unit_test(a_gpu_multiplies_with_weights_in_fp8),
                                     cmocka_unit_test(one_kernel_of_a_step_multiplies_with_weights_in_fp8),
                                     cmocka_unit_test(weights_in_fp8_are_widened_exactly),
                                     cmocka_unit_test(tokens_in_fp8_are_multiplied_with_weights_in_fp8),
                                     cmocka_unit_test(a_gpu_multiplies_copies_of_tokens),
                                     cmocka_unit_test(a_gpu_adds_up_the_copies_of_each_token)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
