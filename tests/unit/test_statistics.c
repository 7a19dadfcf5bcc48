/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "runtime/measure/runner.h"
#include "runtime/measure/statistics.h"

#include <headroom/buffer.h>

#include <math.h>

/* P(Binomial(n, ½) < r) ≤ 2.5%, worked out by hand for the small ones:
 *   n = 5:  P(0) = 1/32 = 3.1%: no rank
 *   n = 6:  P(0) = 1/64 = 1.6%; P(≤ 1) = 7/64 = 10.9%: rank 1
 *   n = 9:  P(≤ 1) = 10/512 = 1.95%; P(≤ 2) = 46/512 = 9.0%: rank 2
 *   n = 10: P(≤ 1) = 11/1024 = 1.07%; P(≤ 2) = 56/1024 = 5.5%: rank 2
 * and from tables of the sign test: n = 20: 6, n = 50: 18, n = 100: 40. */
static void ranks_around_the_median_are_those_of_the_sign_test(void **state)
{
  (void)state;
  const int64_t known[][2] = {{1, 0}, {5, 0}, {6, 1}, {8, 1}, {9, 2}, {10, 2}, {20, 6}, {50, 18}, {100, 40}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    assert_int_equal(hr_median_rank(known[i][0]), known[i][1]);
}

/* For large n the rank is about (n − 1.96 √n) / 2; 2⁻ⁿ alone would underflow there. */
static void ranks_of_many_samples_do_not_underflow(void **state)
{
  (void)state;
  const int64_t counts[] = {1000, 5000, 100000, 1000000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    double n = (double)counts[i], expected = (n - 1.96 * sqrt(n)) / 2;
    assert_true(fabs((double)hr_median_rank(counts[i]) - expected) < 2);
  }
}

static void samples_are_summarized_by_order_statistics(void **state)
{
  (void)state;
  double samples[] = {70, 10, 30, 20, 100, 50, 40, 90, 80, 60}; /* 10 … 100 */
  hr_measurement m = {.samples = 0};
  hr_statistics(samples, 10, &m);
  assert_int_equal(m.samples, 10);
  assert_true(m.min_ns == 10 && m.max_ns == 100);
  assert_true(m.median_ns == 55); /* between 50 and 60 */
  assert_true(m.mean_ns == 55);
  assert_true(m.p10_ns == 10 && m.p90_ns == 90);                /* the 1st and the 9th of 10 */
  assert_true(m.median_low_ns == 20 && m.median_high_ns == 90); /* rank 2 from either end */
  assert_true(fabs(m.stddev_ns - sqrt(8250.0 / 9)) < 1e-9); /* Σ (x − 55)² = 2 (5² + 15² + … + 45²) = 8250 */
}

static void one_sample_is_its_own_interval(void **state)
{
  (void)state;
  double sample[] = {7};
  hr_measurement m = {.samples = 0};
  hr_statistics(sample, 1, &m);
  assert_true(m.median_ns == 7 && m.median_low_ns == 7 && m.median_high_ns == 7 && isnan(m.stddev_ns));
}

static void an_outlier_moves_the_mean_but_not_the_interval(void **state)
{
  (void)state;
  double samples[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1000000};
  hr_measurement m = {.samples = 0};
  hr_statistics(samples, 11, &m);
  assert_true(m.median_ns == 1 && m.median_low_ns == 1 && m.median_high_ns == 1);
  assert_true(m.mean_ns > 90000);
}

static void the_spread_is_that_of_the_wider_side(void **state)
{
  (void)state;
  hr_median median = {.value = 100, .low = 99, .high = 104};
  assert_true(fabs(hr_median_spread(&median) - 0.04) < 1e-12);
}

static void cold_sets_move_twice_the_cache_between_two_uses(void **state)
{
  (void)state;
  assert_int_equal(hr_buffer_sets(64, 0), 1);      /* cache size not known */
  assert_int_equal(hr_buffer_sets(2000, 1000), 1); /* as large as both caches' worth */
  assert_int_equal(hr_buffer_sets(1999, 1000), 3); /* 2 others: 3998 bytes ≥ 2000 */
  assert_int_equal(hr_buffer_sets(1000, 1000), 3); /* 2 others: 2000 */
  assert_int_equal(hr_buffer_sets(64, 1 << 20), 32769);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_around_the_median_are_those_of_the_sign_test),
      cmocka_unit_test(ranks_of_many_samples_do_not_underflow),
      cmocka_unit_test(samples_are_summarized_by_order_statistics),
      cmocka_unit_test(one_sample_is_its_own_interval),
      cmocka_unit_test(an_outlier_moves_the_mean_but_not_the_interval),
      cmocka_unit_test(the_spread_is_that_of_the_wider_side),
      cmocka_unit_test(cold_sets_move_twice_the_cache_between_two_uses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
