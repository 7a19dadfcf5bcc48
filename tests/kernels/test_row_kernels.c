/* Operations on rows: the reference against numbers worked by hand, every other kernel of the table against the
 * reference, in all formats and in lengths around what a thread, a warp and a block keep. */
#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/number.h"
#include "runtime/measure/subject.h"
#include "runtime/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ---- */

static hr_rows rows_of(hr_rows_operation operation, int64_t rows, int64_t columns)
{
  hr_rows r = hr_rows_default();
  r.operation = operation;
  r.rows = rows;
  r.columns = columns;
  r.dtype = HR_FP64;
  r.period = operation == HR_ROWS_ROTARY ? 1 : 0;
  return r;
}

static void assert_row(const hr_rows *r, int64_t row, const double *a, const double *b, const double *c,
                       const double *expected)
{
  const void *inputs[] = {a, b, c};
  double scratch[64], out[16], norm[16];
  assert_true(r->columns <= 16 && hr_reference_rows_scratch(r) <= 64);
  hr_reference_rows_row(r, inputs, row, scratch, out, norm);
  for (int64_t i = 0; i < r->columns; i++) {
    if (!(fabs(out[i] - expected[i]) <= 1e-12))
      fail_msg("%s: column %d is %.15g, not %.15g", hr_rows_operation_name(r->operation), (int)i, out[i], expected[i]);
  }
}

static void the_reference_agrees_with_numbers_worked_by_hand(void **state)
{
  (void)state;
  hr_rows r = rows_of(HR_ROWS_SOFTMAX, 1, 2);
  assert_row(&r, 0, (double[]){0, log(3)}, NULL, NULL, (double[]){0.25, 0.75}); /* 1 : 3 */
  r = rows_of(HR_ROWS_LAYER_NORM, 1, 2);                                        /* mean 2, variance 1 */
  double scale = 1 / sqrt(1 + 1e-5);
  assert_row(&r, 0, (double[]){1, 3}, (double[]){2, 3}, (double[]){1, -1}, (double[]){1 - 2 * scale, 3 * scale - 1});
  r = rows_of(HR_ROWS_RMS_NORM, 1, 2); /* mean of squares (9 + 16) / 2 = 12.5 */
  assert_row(&r, 0, (double[]){3, 4}, (double[]){1, 2}, NULL, (double[]){3 / sqrt(12.5 + 1e-5), 8 / sqrt(12.5 + 1e-5)});
  r = rows_of(HR_ROWS_ROTARY, 1, 4); /* a quarter turn for the first pair, none for the second */
  assert_row(&r, 0, (double[]){1, 2, 3, 4}, (double[]){0, 1, 1, 0}, NULL, (double[]){-3, 2, 1, 4});
  r = rows_of(HR_ROWS_GELU, 1, 3); /* Φ(1) = 0.841344746068543 */
  assert_row(&r, 0, (double[]){0, 1, -1}, NULL, NULL, (double[]){0, 0.841344746068543, -0.158655253931457});
  r = rows_of(HR_ROWS_SWIGLU, 1, 2); /* 1 / (1 + 1/3) = 0.75 */
  assert_row(&r, 0, (double[]){0, log(3)}, (double[]){5, 2}, NULL, (double[]){0, 2 * log(3) * 0.75});
  r = rows_of(HR_ROWS_RESIDUAL, 1, 2);
  assert_row(&r, 0, (double[]){1, 2}, (double[]){10, 20}, NULL, (double[]){11, 22});
}

static void a_causal_softmax_sees_up_to_its_own_query(void **state)
{
  (void)state;
  hr_rows r = rows_of(HR_ROWS_SOFTMAX, 4, 3); /* two queries over three keys, twice: the last sees all */
  r.period = 2;
  double zeros[12] = {0};
  zeros[2] = (double)NAN; /* behind the mask: not looked at */
  assert_row(&r, 0, zeros, NULL, NULL, (double[]){0.5, 0.5, 0});
  assert_row(&r, 3, zeros, NULL, NULL, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
  r = rows_of(HR_ROWS_SOFTMAX, 3, 1); /* three queries over one key: the first two see none */
  r.period = 3;
  assert_row(&r, 1, zeros, NULL, NULL, (double[]){0});
  assert_row(&r, 2, zeros + 3, NULL, NULL, (double[]){1});
}

static void heads_share_a_row_of_the_rotary_table(void **state)
{
  (void)state;
  hr_rows r = rows_of(HR_ROWS_ROTARY, 8, 2); /* two positions, two heads, two sequences: positions 0 0 1 1 0 0 1 1 */
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
  hr_rows r = rows_of(HR_ROWS_ROTARY, 1, 3);
  assert_int_equal(hr_rows_check(&r, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "columns"));
  r = rows_of(HR_ROWS_GELU, INT64_MAX / 2, 4);
  assert_int_equal(hr_rows_check(&r, &error), HR_ERROR_OVERFLOW);
  r = rows_of(HR_ROWS_GELU, 0, 4);
  assert_int_equal(hr_rows_check(&r, &error), HR_ERROR_INVALID);
  r.operation = HR_ROWS_COUNT;
  assert_int_equal(hr_rows_check(&r, &error), HR_ERROR_INVALID);
  int64_t bytes = 0;
  r = rows_of(HR_ROWS_LAYER_NORM, 10, 4);
  assert_int_equal(hr_rows_bytes(&r, &bytes), HR_OK);
  assert_int_equal(bytes, (40 + 4 + 4 + 40) * 8);
}

/* ---- the other kernels ---- */

static void run_plan(hr_device *device, const char *kernel, const hr_rows *r, hr_buffer **buffers, size_t count)
{
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error;
  assert_ok(hr_plan_rows(device, r, kernel, &plan, &error), error);
  if (hr_plan_workspace_bytes(plan) > 0)
    assert_ok(hr_buffer_create(device, hr_plan_workspace_bytes(plan), &workspace, &error), error);
  const void *inputs[3] = {NULL};
  for (size_t i = 0; i + 1 < count; i++)
    inputs[i] = hr_buffer_data(buffers[i]);
  assert_ok(hr_plan_run_rows(plan, inputs, hr_buffer_data(buffers[count - 1]),
                             workspace ? hr_buffer_data(workspace) : NULL, &error),
            error);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
}

static void compare(const char *kernel, const hr_rows *r, void *const *values, const void *result)
{
  const void *inputs[] = {values[0], values[1], values[2]};
  size_t columns = (size_t)r->columns;
  double *scratch = calloc(hr_reference_rows_scratch(r) + 2 * columns, sizeof *scratch);
  double *expected = scratch + hr_reference_rows_scratch(r), *norm = expected + columns;
  for (int64_t row = 0; row < r->rows; row++) {
    hr_reference_rows_row(r, inputs, row, scratch, expected, norm);
    for (size_t i = 0; i < columns; i++) {
      double found = hr_number_load(r->dtype, result, (size_t)row * columns + i);
      double bound = hr_rows_error_bound(r->dtype, r->columns, expected[i], norm[i]);
      bool same = found == expected[i] || (isnan(found) && isnan(expected[i])); /* infinite ones have no difference */
      if (!(fabs(found - expected[i]) <= bound) && !same)
        fail_msg("%s %s %s, %d rows of %d, period %d: [%d, %d] is %g, exactly %g, allowed ±%g", kernel,
                 hr_rows_operation_name(r->operation), hr_dtype_name(r->dtype), (int)r->rows, (int)columns,
                 (int)r->period, (int)row, (int)i, found, expected[i], bound);
    }
  }
  free(scratch);
}

/* `special`: a NaN, infinities and a row of −∞ among the values. */
static void check_one(hr_device *device, const char *kernel, const hr_rows *r, bool special)
{
  hr_problem problem = {.operation = HR_OPERATION_ROWS, .dtype = r->dtype, .rows = *r};
  hr_operands operands = hr_problem_operands(&problem);
  hr_buffer *buffers[HR_OPERANDS_MAX] = {NULL};
  void *values[HR_OPERANDS_MAX] = {NULL};
  hr_error error;
  for (size_t i = 0; i < operands.count; i++) {
    bool output = i + 1 == operands.count;
    values[i] = malloc(operands.bytes[i]);
    assert_ok(hr_buffer_create(device, operands.bytes[i], &buffers[i], &error), error);
    assert_ok(output ? hr_buffer_poison(buffers[i], r->dtype, &error)
                     : hr_buffer_fill_uniform(buffers[i], r->dtype, 7 + i, &error),
              error);
    assert_ok(hr_buffer_read(buffers[i], values[i], operands.bytes[i], &error), error);
  }
  if (special) {
    hr_number_store(r->dtype, values[0], 1, (double)NAN);
    hr_number_store(r->dtype, values[0], (size_t)r->columns + 1, (double)INFINITY);
    hr_number_store(r->dtype, values[0], 2 * (size_t)r->columns + 1, -(double)INFINITY);
    for (size_t i = 0; i < (size_t)r->columns; i++)
      hr_number_store(r->dtype, values[0], 3 * (size_t)r->columns + i, -(double)INFINITY);
    assert_ok(hr_buffer_write(buffers[0], values[0], operands.bytes[0], &error), error);
  }
  run_plan(device, kernel, r, buffers, operands.count);
  size_t last = operands.count - 1;
  assert_ok(hr_buffer_read(buffers[last], values[last], operands.bytes[last], &error), error);
  compare(kernel, r, values, values[last]);
  for (size_t i = 0; i < operands.count; i++) {
    hr_buffer_free(buffers[i]);
    free(values[i]);
  }
}

static const int64_t sizes[][2] = {{1, 2},    {3, 64},   {5, 98},    {300, 128}, {17, 1000}, {4, 2048},
                                   {2, 8192}, {3, 8202}, {2, 16384}, {2, 16386}, {2, 50258}, {700, 16}};

static void check_kernel(hr_device *device, const hr_kernel_info *info, hr_dtype dtype)
{
  for (int operation = 0; operation < HR_ROWS_COUNT; operation++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      hr_rows r = rows_of((hr_rows_operation)operation, sizes[i][0], sizes[i][1]);
      r.dtype = dtype;
      if (operation == HR_ROWS_ROTARY) {
        r.period = 7;
        r.group = 3;
      }
      check_one(device, info->name, &r, false);
      if (operation == HR_ROWS_SOFTMAX) {
        r.period = sizes[i][0] > sizes[i][1] ? sizes[i][0] : 2; /* the first row may see nothing */
        check_one(device, info->name, &r, false);
      }
    }
    const int64_t lengths[] = {32, 100, 16400};
    for (size_t i = 0; i < 3 && dtype != HR_FP8_E4M3; i++) {
      hr_rows r = rows_of((hr_rows_operation)operation, 5, lengths[i]);
      r.dtype = dtype;
      r.period = operation == HR_ROWS_ROTARY ? 5 : 0;
      check_one(device, info->name, &r, true);
    }
  }
}

static void every_kernel_agrees_with_the_reference(void **state)
{
  (void)state;
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++) {
    hr_device *device = NULL;
    hr_error error = {.message = ""};
    char why[160] = "";
    if (strcmp(kernels[i].operation, "rows") != 0)
      continue;
    if (hr_device_open(kernels[i].device, 0, &device, &error) != HR_OK ||
        !hr_kernel_runs(device, kernels[i].name, why, sizeof why)) {
      print_message("%s: not on this machine: %s%s\n", kernels[i].name, error.message, why);
    } else {
      for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
        if (!hr_has_word(kernels[i].dtypes, hr_dtype_name((hr_dtype)dtype)))
          continue;
        check_kernel(device, &kernels[i], (hr_dtype)dtype);
        if (strcmp(kernels[i].device, "cpu") == 0) { /* results beyond the caches are written in another way */
          size_t cache_bytes = device->cache_bytes;
          device->cache_bytes = 0;
          check_kernel(device, &kernels[i], (hr_dtype)dtype);
          device->cache_bytes = cache_bytes;
        }
      }
    }
    hr_device_close(device);
  }
}

/* Of two columns 0 and −x the second is e^-x / (1 + e^-x), from 1/2 down to the denormal numbers: what the exponential
 * loses shows. Three roundings and its own error of 3 · 2^-24 make 6; of denormal numbers one step. */
static void exponentials_hold_their_error_to_the_smallest_numbers(void **state)
{
  (void)state;
  enum { rows = 20000 };
  static float x[2 * rows], y[2 * rows];
  for (int i = 0; i < rows; i++)
    x[2 * i + 1] = -104.5f * (float)i / rows;
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  hr_rows r = rows_of(HR_ROWS_SOFTMAX, rows, 2);
  r.dtype = HR_FP32;
  for (size_t i = 0; i < count; i++) {
    char why[160];
    if (strcmp(kernels[i].operation, "rows") != 0 || strcmp(kernels[i].device, "cpu") != 0 ||
        !hr_kernel_runs(device, kernels[i].name, why, sizeof why))
      continue;
    hr_buffer *buffers[2];
    for (int j = 0; j < 2; j++)
      assert_ok(hr_buffer_create(device, sizeof x, &buffers[j], &error), error);
    assert_ok(hr_buffer_write(buffers[0], x, sizeof x, &error), error);
    run_plan(device, kernels[i].name, &r, buffers, 2);
    assert_ok(hr_buffer_read(buffers[1], y, sizeof y, &error), error);
    for (int j = 0; j < rows; j++) {
      double e = exp((double)x[2 * j + 1]), exact = e / (1 + e), off = fabs((double)y[2 * j + 1] - exact);
      if (!(off <= exact * 6 * 0x1p-24 + 0x1p-149))
        fail_msg("%s: softmax of 0 and %g: %g, exactly %g", kernels[i].name, (double)x[2 * j + 1], (double)y[2 * j + 1],
                 exact);
    }
    hr_buffer_free(buffers[0]);
    hr_buffer_free(buffers[1]);
  }
  hr_device_close(device);
}

static void a_measurement_checks_and_counts_bytes(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  for (int operation = 0; operation < HR_ROWS_COUNT; operation++) {
    hr_rows r = rows_of((hr_rows_operation)operation, 20, 64);
    r.dtype = HR_BF16;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 20e6;
    hr_measurement m;
    assert_ok(hr_measure_rows(device, &r, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_rows_operation_name(r.operation), m.reason);
    int64_t bytes;
    assert_int_equal(hr_rows_bytes(&r, &bytes), HR_OK);
    assert_true(m.rows_checked == 16 && m.median_ns > 0);
    assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 - (double)bytes) < 1);
    assert_true(isnan(m.flops_per_s));
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_agrees_with_numbers_worked_by_hand),
      cmocka_unit_test(a_causal_softmax_sees_up_to_its_own_query),
      cmocka_unit_test(heads_share_a_row_of_the_rotary_table),
      cmocka_unit_test(impossible_sizes_are_refused_by_name),
      cmocka_unit_test(every_kernel_agrees_with_the_reference),
      cmocka_unit_test(exponentials_hold_their_error_to_the_smallest_numbers),
      cmocka_unit_test(a_measurement_checks_and_counts_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
