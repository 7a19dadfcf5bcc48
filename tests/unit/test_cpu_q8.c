/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in q8_0 on the CPU: what quantization changes; products and widened rows of every level against float64. */
#include "test.h"

#include "base/checked.h"
#include "runtime/cpu/host/isa.h"
#include "runtime/device/device.h"
#include "runtime/device/q8.h"
#include "shape/number.h"

#include <math.h>
#include <stdio.h>

#define POISON 0xff /* NaN in every format */
#define GAP 3       /* elements behind each row of x and y */

static const hr_dtype dtypes[] = {HR_FP32, HR_BF16, HR_FP16};

/* ---- quantization ---- */

static float *uniform(uint64_t seed, int64_t count, float bound)
{
  float *numbers = malloc((size_t)count * sizeof *numbers);
  assert_non_null(numbers);
  hr_numbers_uniform(HR_FP32, seed, 0, (size_t)count, numbers);
  for (int64_t i = 0; i < count; i++)
    numbers[i] *= bound;
  return numbers;
}

static hr_q8_matrix quantized(const float *from, int64_t rows, int64_t columns)
{
  hr_q8_matrix m = {
      .rows = rows, .columns = columns, .data = malloc((size_t)hr_q8_bytes(rows, columns) + HR_Q8_BYTES_AHEAD)};
  assert_non_null(m.data);
  hr_q8_quantize(from, 0, rows, &m);
  return m;
}

static void free_matrix(const hr_q8_matrix *m)
{
  free((void *)(uintptr_t)m->data);
}

static double weight_of(const hr_q8_matrix *m, int64_t row, int64_t column)
{
  const int64_t blocks = hr_q8_blocks(m->columns), block = row * blocks + column / HR_Q8_BLOCK;
  return hr_number_load(HR_FP16, hr_q8_scales(m), (size_t)block) *
         (double)hr_q8_values(m)[block * HR_Q8_BLOCK + column % HR_Q8_BLOCK];
}

/* Rounding to a whole number of scales is off by half a scale at most, and the scale in fp16 by 2^-11 of itself, as is
 * each of up to 127 of them. */
static void a_weight_is_off_by_half_a_scale_and_the_rounding_of_the_scale(void **state)
{
  (void)state;
  static const float bounds[] = {1, 0.02f, 3000};
  for (int i = 0; i < 3; i++) {
    float *from = uniform(3, 5 * 100, bounds[i]);
    const hr_q8_matrix m = quantized(from, 5, 100);
    for (int64_t at = 0; at < 500; at++) {
      const int64_t row = at / 100, column = at % 100, first = column / HR_Q8_BLOCK * HR_Q8_BLOCK;
      double most = 0;
      for (int64_t k = first; k < hr_min64(first + HR_Q8_BLOCK, 100); k++)
        most = fmax(most, fabs((double)from[row * 100 + k]));
      const double allowed = most / 127 * (0.5 + 1e-5) + most * 0x1p-11;
      if (!(fabs(weight_of(&m, row, column) - (double)from[at]) <= allowed))
        fail_msg("[%d, %d]: %g became %g", (int)row, (int)column, (double)from[at], weight_of(&m, row, column));
    }
    free_matrix(&m);
    free(from);
  }
}

static void zeros_stay_and_what_is_not_finite_makes_its_block_nan(void **state)
{
  (void)state;
  float from[96] = {0};
  from[40] = INFINITY, from[70] = NAN, from[3] = -2;
  const hr_q8_matrix m = quantized(from, 1, 96);
  assert_true(fabs(weight_of(&m, 0, 3) + 2) <= 2 * 0x1p-11 && weight_of(&m, 0, 4) == 0);
  assert_true(isnan(weight_of(&m, 0, 33)) && isnan(weight_of(&m, 0, 95)));
  free_matrix(&m);
}

/* ---- products ---- */

/* A call whose operands end where their memory ends. */
typedef struct q8_call {
  hr_q8_arguments a;
  char *x, *y, *bias;
  int64_t y_columns;
} q8_call;

static char *poisoned(int64_t elements, hr_dtype dtype)
{
  char *memory = malloc((size_t)elements * hr_dtype_bytes(dtype));
  assert_non_null(memory);
  memset(memory, POISON, (size_t)elements * hr_dtype_bytes(dtype));
  return memory;
}

/* The last row has no gap behind it. */
static int64_t elements_of(int64_t rows, int64_t columns)
{
  return (rows - 1) * (columns + GAP) + columns;
}

static q8_call make_call(const hr_q8_matrix *w, hr_dtype dtype, int64_t tokens, int64_t y_columns, bool biased)
{
  q8_call c = {.a = {.w = *w, .dtype = dtype, .tokens = tokens, .x_row = w->columns + GAP, .y_row = y_columns + GAP},
               .y_columns = y_columns};
  c.x = poisoned(elements_of(tokens, w->columns), dtype);
  c.y = poisoned(elements_of(tokens, y_columns), dtype);
  for (int64_t token = 0; token < tokens; token++)
    hr_numbers_uniform(dtype, 7 + (uint64_t)token, 0, (size_t)w->columns,
                       c.x + (size_t)(token * c.a.x_row) * hr_dtype_bytes(dtype));
  c.bias = biased ? poisoned(w->rows, dtype) : NULL;
  if (biased)
    hr_numbers_uniform(dtype, 5, 0, (size_t)w->rows, c.bias);
  c.a.x = c.x, c.a.y = c.y, c.a.bias = c.bias;
  c.a.room = (float *)poisoned(tokens * hr_q8_blocks(w->columns) * HR_Q8_BLOCK, HR_FP32);
  return c;
}

static void free_call(q8_call *c)
{
  free(c->x);
  free(c->y);
  free(c->bias);
  free(c->a.room);
}

static double x_of(const q8_call *c, int64_t token, int64_t column)
{
  return hr_number_load(c->a.dtype, c->x, (size_t)(token * c->a.x_row + column));
}

static double y_of(const q8_call *c, int64_t token, int64_t column)
{
  return hr_number_load(c->a.dtype, c->y, (size_t)(token * c->a.y_row + column));
}

static void check_gaps(const q8_call *c)
{
  const size_t element = hr_dtype_bytes(c->a.dtype);
  for (int64_t token = 0; token + 1 < c->a.tokens; token++)
    for (size_t i = 0; i < GAP * element; i++)
      if ((unsigned char)c->y[(size_t)(token * c->a.y_row + c->y_columns) * element + i] != POISON)
        fail_msg("the gap behind row %d was written", (int)token);
}

/* fp32 sums of k terms in any order (Higham, Accuracy and Stability, 3.1), doubled for the rounding of each product,
 * and y is rounded. */
static void check_products(const q8_call *c, const char *level)
{
  const hr_q8_arguments *a = &c->a;
  for (int64_t token = 0; token < a->tokens; token++)
    for (int64_t row = 0; row < a->w.rows; row++) {
      double exact = c->bias ? hr_number_load(a->dtype, c->bias, (size_t)row) : 0, size = fabs(exact);
      for (int64_t k = 0; k < a->w.columns; k++) {
        const double term = weight_of(&a->w, row, k) * x_of(c, token, k);
        exact += term;
        size += fabs(term);
      }
      const double sums = 2 * (double)(a->w.columns + 2) * 0x1p-24 * size;
      const double allowed = sums + hr_dtype_rounding_error(a->dtype, fabs(exact) + sums);
      if (!(fabs(y_of(c, token, row) - exact) <= allowed))
        fail_msg("%s, %s, %d × %d, %d tokens: [%d, %d] is %g, expected %g ± %g", level, hr_dtype_name(a->dtype),
                 (int)a->w.rows, (int)a->w.columns, (int)a->tokens, (int)token, (int)row, y_of(c, token, row), exact,
                 allowed);
    }
  check_gaps(c);
}

static const int64_t sizes[][2] = {{1, 1},    {3, 31},   {32, 32},  {33, 33},  {5, 96},
                                   {64, 512}, {37, 544}, {2, 1000}, {70, 768}, {3000, 130}};

static void multiply(hr_device *device, const char *level)
{
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    float *from = uniform(i, sizes[i][0] * sizes[i][1], 0.1f);
    const hr_q8_matrix w = quantized(from, sizes[i][0], sizes[i][1]);
    for (int64_t tokens = 1; tokens <= HR_Q8_TOKENS; tokens++) {
      hr_error error;
      q8_call c = make_call(&w, dtypes[(i + (size_t)tokens) % 3], tokens, w.rows, (i + (size_t)tokens / 2) % 2);
      assert_ok(device->backend->multiply_q8(device, &c.a, &error), error);
      check_products(&c, level);
      free_call(&c);
    }
    free_matrix(&w);
    free(from);
  }
}

/* A row of x with a NaN gives a row of NaN, one with an infinity infinities of the weight's sign, others neither. */
static void multiply_specials(hr_device *device, const char *level)
{
  float *from = uniform(11, 19 * 70, 1);
  const hr_q8_matrix w = quantized(from, 19, 70);
  for (int i = 0; i < 3; i++) {
    hr_error error;
    q8_call c = make_call(&w, dtypes[i], 3, w.rows, false);
    hr_number_store(dtypes[i], c.x, (size_t)(c.a.x_row + 69), (double)NAN);
    hr_number_store(dtypes[i], c.x, (size_t)(2 * c.a.x_row + 5), (double)INFINITY);
    assert_ok(device->backend->multiply_q8(device, &c.a, &error), error);
    for (int64_t row = 0; row < w.rows; row++) {
      const double infinity = y_of(&c, 2, row), factor = weight_of(&w, row, 5);
      if (!isfinite(y_of(&c, 0, row)) || !isnan(y_of(&c, 1, row)) ||
          (factor != 0 && !(isinf(infinity) && (infinity > 0) == (factor > 0))))
        fail_msg("%s, %s: row %d", level, hr_dtype_name(dtypes[i]), (int)row);
    }
    free_call(&c);
  }
  free_matrix(&w);
  free(from);
}

/* ---- widened rows ---- */

static void check_rows(const q8_call *c, const char *level)
{
  for (int64_t row = 0; row < c->a.tokens; row++)
    for (int64_t column = 0; column < c->a.w.columns; column++) {
      const double exact = weight_of(&c->a.w, c->a.numbers ? c->a.numbers[row] : c->a.first + row, column);
      if (!(fabs(y_of(c, row, column) - exact) <= hr_dtype_rounding_error(c->a.dtype, fabs(exact))))
        fail_msg("%s, %s, %d × %d: [%d, %d] is %g, expected %g", level, hr_dtype_name(c->a.dtype), (int)c->a.w.rows,
                 (int)c->a.w.columns, (int)row, (int)column, y_of(c, row, column), exact);
    }
  check_gaps(c);
}

static void widen(hr_device *device, const char *level)
{
  static const int32_t numbers[] = {2, 0, 2, 1};
  for (size_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
    const int64_t *size = sizes[i / 3];
    float *from = uniform(i, size[0] * size[1], 0.1f);
    const hr_q8_matrix w = quantized(from, size[0], size[1]);
    for (int by_number = 0; by_number <= (size[0] > 2); by_number++) {
      hr_error error;
      q8_call c = make_call(&w, dtypes[i % 3], by_number ? 4 : (size[0] + 1) / 2, w.columns, false);
      c.a.numbers = by_number ? numbers : NULL;
      c.a.first = size[0] / 2;
      assert_ok(device->backend->widen_q8(device, &c.a, &error), error);
      check_rows(&c, level);
      free_call(&c);
    }
    free_matrix(&w);
    free(from);
  }
}

/* ---- levels ---- */

static void check_level(const char *level)
{
  hr_device *device = NULL;
  hr_error error;
  setenv("HEADROOM_CPU_MASK", level, 1);
  for (int threads = 1; threads <= 2; threads++) {
    if (hr_device_open("cpu", threads, &device, &error) != HR_OK)
      break; /* of one processor */
    multiply(device, level);
    multiply_specials(device, level);
    widen(device, level);
    hr_device_close(device);
  }
}

static void every_level_agrees_with_float64(void **state)
{
  (void)state;
  const char *mask = getenv("HEADROOM_CPU_MASK");
  char before[32] = "";
  snprintf(before, sizeof before, "%s", mask ? mask : "");
  check_level("portable");
  for (size_t i = 0; hr_isa_level(i); i++)
    check_level(hr_isa_level(i));
  setenv("HEADROOM_CPU_MASK", before, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_weight_is_off_by_half_a_scale_and_the_rounding_of_the_scale),
      cmocka_unit_test(zeros_stay_and_what_is_not_finite_makes_its_block_nan),
      cmocka_unit_test(every_level_agrees_with_float64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
