/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of row-wise operations against values computed by hand; sizes that are refused; a measurement. */
#include "machine.h"

#include "runtime/reference/reference.h"

#include <headroom/experimental/measure.h>

#include <math.h>

static hr_rowwise rows_of(hr_rowwise_operation operation, int64_t rows, int64_t columns)
{
  hr_rowwise r = hr_rowwise_default();
  r.operation = operation;
  r.rows = rows;
  r.columns = columns;
  r.dtype = HR_FP64;
  r.period = operation == HR_ROWWISE_ROTARY || operation == HR_ROWWISE_GATHER ? 1 : 0;
  return r;
}

static void assert_row(const hr_rowwise *r, int64_t row, const double *a, const double *b, const double *c,
                       const double *expected)
{
  const void *inputs[] = {a, b, c};
  double scratch[64], out[16], norm[16];
  assert_true(r->columns <= 16 && hr_reference_rowwise_scratch(r) <= 64);
  hr_reference_rowwise_row(r, inputs, row, scratch, out, norm);
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
  double *values = malloc(6 * (size_t)columns * sizeof *values), *x = values, *out = x + columns, *norm = out + columns;
  int64_t dropped = 0;
  for (int64_t i = 0; i < columns; i++)
    x[i] = 1;
  hr_reference_rowwise_row(&r, (const void *[]){x, NULL, NULL}, 0, norm + columns, out, norm);
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

static void a_measurement_checks_and_counts_bytes(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  for (int operation = 0; operation < HR_ROWWISE_COUNT; operation++) {
    hr_rowwise r = rows_of((hr_rowwise_operation)operation, 20, 64);
    r.dtype = HR_BF16;
    hr_measure_options options = hr_measure_options_default();
    options.time_limit_ns = 20e6;
    hr_measurement m;
    assert_ok(hr_measure_rowwise(device, &r, &options, &m, &error), error);
    if (m.status != HR_OK && m.status != HR_ERROR_NOISY)
      fail_msg("%s: %s", hr_rowwise_operation_name(r.operation), m.reason);
    int64_t bytes;
    assert_int_equal(hr_rowwise_bytes(&r, &bytes), HR_OK);
    assert_true(m.rows_checked == 16 && m.median_ns > 0);
    assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 - (double)bytes) < 1);
    assert_true(isnan(m.flops_per_s));
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_agrees_with_values_computed_by_hand),
      cmocka_unit_test(dropout_drops_by_the_known_random_numbers),
      cmocka_unit_test(dropout_drops_the_share_that_was_asked_for),
      cmocka_unit_test(a_causal_softmax_sees_up_to_its_own_query),
      cmocka_unit_test(heads_share_a_row_of_the_rotary_table),
      cmocka_unit_test(impossible_sizes_are_refused_by_name),
      cmocka_unit_test(a_measurement_checks_and_counts_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
