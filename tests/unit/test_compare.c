/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of stores: known ratios and noise, and which rows are compared. */
#include "store.h"

#include "experiment/compare/ratio.h"
#include "runtime/measure/statistics.h"

#include <headroom/experimental/compare.h>

/* ---- synthetic measurements ---- */

typedef struct noise {
  uint64_t state;
  double width;  /* standard deviation of a sample's logarithm */
  bool one_long; /* one sample in ten takes up to twice as long, as with interrupts */
} noise;

static double uniform(noise *n)
{
  n->state = n->state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(n->state >> 11) + 0.5) / 9007199254740992.0;
}

static double sample_of(noise *n, double time_ns)
{
  const double pi = 3.141592653589793;
  double normal = sqrt(-2 * log(uniform(n))) * cos(2 * pi * uniform(n));
  double longer = n->one_long && uniform(n) < 0.1 ? 1 + uniform(n) : 1;
  return time_ns * exp(n->width * normal) * longer;
}

/* `count` samples, or with `stops` as many as the measurement takes: until the interval is within 0.5%. */
static hr_result measured(noise *n, double time_ns, int64_t count, bool stops)
{
  double samples[1000], sorted[1000];
  hr_result row = some_result(64);
  int64_t taken = 0;
  for (bool enough = false; taken < count && !enough;) {
    samples[taken++] = sample_of(n, time_ns);
    memcpy(sorted, samples, sizeof sorted);
    if (stops && taken >= 10 && taken % 5 == 0) {
      hr_median median = hr_median_of(sorted, taken);
      enough = hr_median_spread(&median) <= 0.005;
    }
  }
  hr_statistics(samples, taken, &row.measurement);
  return row;
}

typedef struct experiment {
  noise noise;
  double ratio; /* time of A over time of B */
  int sweeps, points;
  int64_t samples;
  bool stops;
  double tolerance;
} experiment;

static void append(hr_store *store, hr_result *row)
{
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_append(store, row, &error), error);
}

static hr_compare_result *compare(hr_store *a, hr_store *b, const hr_compare_side *of_a, const hr_compare_side *of_b,
                                  double tolerance)
{
  const hr_compare_side all = hr_compare_side_default();
  hr_compare_side side_a = of_a ? *of_a : all, side_b = of_b ? *of_b : all;
  hr_compare_result *result = NULL;
  hr_error error = {.status = HR_OK};
  side_a.store = a, side_b.store = b;
  assert_ok(hr_compare_stores(&side_a, &side_b, tolerance, &result, &error), error);
  return result;
}

static hr_compare_result *run(const experiment *e)
{
  hr_store *a = open_store("a", HR_STORE_SCRATCH), *b = open_store("b", HR_STORE_SCRATCH);
  noise n = e->noise;
  for (int sweep = 0; sweep < e->sweeps; sweep++) {
    for (int i = 0; i < e->points; i++) {
      hr_result rows[2] = {measured(&n, 1e5 * e->ratio, e->samples, e->stops), measured(&n, 1e5, e->samples, e->stops)};
      for (int side = 0; side < 2; side++) {
        snprintf(rows[side].sweep, sizeof rows[side].sweep, "fig%d", sweep);
        snprintf(rows[side].axes, sizeof rows[side].axes, "h=%d", i);
        append(side ? b : a, &rows[side]);
      }
    }
  }
  hr_compare_result *result = compare(a, b, NULL, NULL, e->tolerance);
  hr_store_close(a);
  hr_store_close(b);
  return result;
}

static double share_of(const hr_compare_result *result, hr_verdict verdict)
{
  return (double)result->total.verdicts[verdict] / (double)result->total.points;
}

static double wrong_share(const experiment *e)
{
  hr_compare_result *result = run(e);
  double wrong = share_of(result, HR_VERDICT_FASTER) + share_of(result, HR_VERDICT_SLOWER);
  printf("%d points: %.1f%% false\n", (int)result->total.points, 100 * wrong);
  hr_compare_free(result);
  return wrong;
}

/* Both are drawn from one distribution, so each verdict but `same` and `noisy` is false; 5% of 400 points are 20 ± 4.4,
 * and three standard deviations more are 8.3%. */
static void without_a_tolerance_one_point_in_twenty_is_called_different_falsely(void **state)
{
  (void)state;
  experiment e = {.noise = {1, .width = 0.02}, .ratio = 1, .sweeps = 1, .points = 400, .samples = 30};
  assert_true(wrong_share(&e) < 0.083);
  e.noise = (noise){2, .width = 0.02, .one_long = true};
  assert_true(wrong_share(&e) < 0.083);
  e.samples = 400;
  e.stops = true; /* stopping at a narrow interval favours intervals that are too narrow */
  assert_true(wrong_share(&e) < 0.12);
}

static void with_a_tolerance_equal_stores_are_the_same(void **state)
{
  (void)state;
  experiment e = {
      .noise = {3, .width = 0.01}, .ratio = 1, .sweeps = 2, .points = 100, .samples = 50, .tolerance = 0.02};
  hr_compare_result *result = run(&e);
  assert_int_equal(result->total.verdicts[HR_VERDICT_FASTER] + result->total.verdicts[HR_VERDICT_SLOWER], 0);
  assert_true(share_of(result, HR_VERDICT_SAME) > 0.95);
  assert_int_equal(result->total.verdict, HR_VERDICT_SAME);
  assert_false(hr_compare_is_worse(result, true));
  hr_compare_free(result);
}

/* At the end of the tolerance half of the 5% are on the side of `faster`: 10 ± 3.1 of 400. */
static void a_ratio_at_the_end_of_the_tolerance_is_noisy(void **state)
{
  (void)state;
  experiment e = {
      .noise = {4, .width = 0.01}, .ratio = 1.02, .sweeps = 1, .points = 400, .samples = 30, .tolerance = 0.02};
  hr_compare_result *result = run(&e);
  assert_true(share_of(result, HR_VERDICT_FASTER) < 0.05);
  assert_true(share_of(result, HR_VERDICT_SAME) < 0.05);
  assert_true(share_of(result, HR_VERDICT_NOISY) > 0.9);
  hr_compare_free(result);
}

static void a_known_ratio_is_found_and_its_direction(void **state)
{
  (void)state;
  experiment e = {
      .noise = {5, .width = 0.01}, .ratio = 1.1, .sweeps = 1, .points = 50, .samples = 50, .tolerance = 0.02};
  hr_compare_result *result = run(&e);
  assert_int_equal(result->total.verdicts[HR_VERDICT_FASTER], 50);
  assert_true(fabs(result->total.ratio.value - 1.1) < 0.003);
  assert_true(result->total.ratio.low < 1.1 && result->total.ratio.high > 1.1);
  assert_int_equal(result->total.verdict, HR_VERDICT_FASTER);
  assert_false(hr_compare_is_worse(result, true));
  hr_compare_free(result);
  e.ratio = 1 / 1.1;
  result = run(&e);
  assert_int_equal(result->sweeps[0].sum.verdict, HR_VERDICT_SLOWER);
  assert_true(hr_compare_is_worse(result, false));
  hr_compare_free(result);
}

/* 95% of 60 is 57 ± 1.7. */
static void the_interval_of_a_sweep_contains_the_true_ratio(void **state)
{
  (void)state;
  experiment e = {.noise = {6, .width = 0.03}, .ratio = 1.3, .sweeps = 60, .points = 6, .samples = 20};
  hr_compare_result *result = run(&e);
  int inside = 0;
  assert_int_equal(result->sweep_count, 60);
  for (size_t i = 0; i < result->sweep_count; i++)
    inside += result->sweeps[i].sum.ratio.low < 1.3 && result->sweeps[i].sum.ratio.high > 1.3;
  printf("%d of 60 intervals contain the ratio\n", inside);
  assert_true(inside >= 52);
  hr_compare_free(result);
}

/* ---- intervals by hand ---- */

static void an_interval_keeps_the_asymmetry_of_both(void **state)
{
  (void)state;
  /* A 200 (200 … 220), B 100 (100 … 100): only A can be larger, by 10%: ratio 2 (2 … 2.2) */
  hr_compared_row a = {.median_ns = 200, .low_ns = 200, .high_ns = 220},
                  b = {.median_ns = 100, .low_ns = 100, .high_ns = 100};
  hr_ratio ratio = hr_ratio_of(&a, &b);
  assert_true(fabs(ratio.value - 2) < 1e-12 && fabs(ratio.low - 2) < 1e-12 && fabs(ratio.high - 2.2) < 1e-12);
  ratio = hr_ratio_of(&b, &a); /* 1/2.2 … 1/2 */
  assert_true(fabs(ratio.low - 1 / 2.2) < 1e-12 && fabs(ratio.high - 0.5) < 1e-12);
}

static void a_row_without_an_interval_has_that_of_its_standard_deviation(void **state)
{
  (void)state;
  double low, high;
  hr_measurement m = hr_result_default().measurement;
  m.samples = 100;
  m.median_ns = 1000;
  m.stddev_ns = 10;
  hr_compared_interval(&m, &low, &high); /* 1.96 · √(π/2) · 10 / √100 = 2.4564 */
  assert_true(fabs(low - 997.5436) < 1e-3 && fabs(high - 1002.4564) < 1e-3);
  m.stddev_ns = (double)NAN;
  hr_compared_interval(&m, &low, &high);
  assert_true(isnan(low) && isnan(high));
}

static void the_quantiles_of_student_are_those_of_the_tables(void **state)
{
  (void)state;
  const struct {
    int64_t degrees;
    double quantile;
  } tables[] = {{1, 12.706}, {2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571}, {10, 2.228}, {30, 2.042}, {1000, 1.962}};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    assert_true(fabs(hr_student_quantile(tables[i].degrees) / tables[i].quantile - 1) < 0.01);
}

/* ---- which rows ---- */

static hr_result timed(const char *axes, double time_ns)
{
  hr_result row = some_result(64);
  snprintf(row.axes, sizeof row.axes, "%s", axes);
  row.measurement.median_ns = time_ns;
  row.measurement.median_low_ns = 0.999 * time_ns;
  row.measurement.median_high_ns = 1.001 * time_ns;
  return row;
}

static void append_timed(hr_store *store, const char *axes, const char *product, const char *date, double time_ns)
{
  hr_result row = timed(axes, time_ns);
  hr_error error = {.status = HR_OK};
  assert_ok(hr_result_stamp(&row, &error), error);
  snprintf(row.product, sizeof row.product, "%s", product);
  snprintf(row.date, sizeof row.date, "%sT12:00:00.000Z", date);
  append(store, &row);
}

static void two_devices_of_one_store_are_compared(void **state)
{
  (void)state;
  hr_store *store = open_store("one", HR_STORE_SCRATCH);
  append_timed(store, "h=1", "NVIDIA H100", "2026-01-01", 300);
  append_timed(store, "h=1", "NVIDIA H200", "2026-01-02", 200);
  hr_compare_side a = hr_compare_side_default(), b = hr_compare_side_default();
  a.device = "h100";
  b.device = "h200";
  hr_compare_result *result = compare(store, store, &a, &b, 0.02);
  assert_int_equal(result->count, 1);
  assert_true(fabs(result->points[0].ratio.value - 1.5) < 1e-12);
  assert_string_equal(result->a.products, "NVIDIA H100");
  hr_compare_free(result);
  result = compare(store, store, NULL, NULL, 0.02); /* of several devices each with itself */
  assert_int_equal(result->count, 2);
  assert_int_equal(result->total.verdicts[HR_VERDICT_SAME], 2);
  hr_compare_free(result);
  hr_store_close(store);
}

static void dates_choose_rows_and_the_latest_row_of_a_point_counts(void **state)
{
  (void)state;
  hr_store *store = open_store("one", HR_STORE_SCRATCH);
  append_timed(store, "h=1", "NVIDIA H200", "2026-01-01", 500);
  append_timed(store, "h=1", "NVIDIA H200", "2026-01-31", 400);
  append_timed(store, "h=1", "NVIDIA H200", "2026-02-01", 200);
  append_timed(store, "h=2", "NVIDIA H200", "2026-02-01", 200);
  hr_compare_side a = hr_compare_side_default(), b = hr_compare_side_default();
  a.until = "2026-01";
  b.since = "2026-02";
  hr_compare_result *result = compare(store, store, &a, &b, 0.02);
  assert_int_equal(result->count, 1);
  assert_int_equal(result->a.rows, 2);
  assert_int_equal(result->b.alone, 1);
  assert_true(fabs(result->points[0].ratio.value - 2) < 1e-12);
  hr_compare_free(result);
  hr_store_close(store);
}

static void a_point_that_has_lost_its_time_is_worse_and_a_doubtful_one_noisy(void **state)
{
  (void)state;
  hr_store *a = open_store("a", HR_STORE_SCRATCH), *b = open_store("b", HR_STORE_SCRATCH);
  hr_result row = timed("h=10", 100);
  append(a, &row);
  row = timed("h=9", 100);
  append(a, &row);
  row = timed("h=9", 50);
  row.measurement.status = HR_ERROR_NOISY;
  append(b, &row);
  hr_compare_result *result = compare(a, b, NULL, NULL, 0.02);
  assert_int_equal(result->points[0].verdict, HR_VERDICT_NOISY);
  assert_true(isnan(result->total.ratio.value));
  assert_false(hr_compare_is_worse(result, true));
  hr_compare_free(result);
  row = timed("h=10", 1);
  row.measurement = hr_result_default().measurement;
  row.measurement.status = HR_ERROR_WRONG_RESULT;
  append(b, &row);
  result = compare(a, b, NULL, NULL, 0.02);
  assert_int_equal(result->count, 2);
  assert_string_equal(result->points[0].axes, "h=9"); /* before 10 */
  assert_true(result->points[1].lost);
  assert_true(hr_compare_is_worse(result, false));
  hr_compare_free(result);
  hr_store_close(a);
  hr_store_close(b);
}

static void a_wrong_tolerance_date_or_format_is_refused(void **state)
{
  (void)state;
  hr_store *store = open_store("one", HR_STORE_SCRATCH);
  hr_compare_side all = hr_compare_side_default();
  all.store = store;
  hr_compare_side wrong = all;
  hr_compare_result *result = NULL;
  hr_error error;
  assert_fails(hr_compare_stores(&all, &all, 1.5, &result, &error), HR_ERROR_INVALID, error, "tolerance");
  wrong.until = "yesterday";
  assert_fails(hr_compare_stores(&all, &wrong, 0, &result, &error), HR_ERROR_INVALID, error, "yesterday");
  wrong = all;
  wrong.dtype = "bf17";
  assert_fails(hr_compare_stores(&wrong, &all, 0, &result, &error), HR_ERROR_INVALID, error, "bf17");
  assert_null(result);
  hr_store_close(store);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_tolerance_one_point_in_twenty_is_called_different_falsely),
      cmocka_unit_test(with_a_tolerance_equal_stores_are_the_same),
      cmocka_unit_test(a_ratio_at_the_end_of_the_tolerance_is_noisy),
      cmocka_unit_test(a_known_ratio_is_found_and_its_direction),
      cmocka_unit_test(the_interval_of_a_sweep_contains_the_true_ratio),
      cmocka_unit_test(an_interval_keeps_the_asymmetry_of_both),
      cmocka_unit_test(a_row_without_an_interval_has_that_of_its_standard_deviation),
      cmocka_unit_test(the_quantiles_of_student_are_those_of_the_tables),
      cmocka_unit_test(two_devices_of_one_store_are_compared),
      cmocka_unit_test(dates_choose_rows_and_the_latest_row_of_a_point_counts),
      cmocka_unit_test(a_point_that_has_lost_its_time_is_worse_and_a_doubtful_one_noisy),
      cmocka_unit_test(a_wrong_tolerance_date_or_format_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
