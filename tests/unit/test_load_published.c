/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "unit/served_load.h"

#include <math.h>

static served_load rows[SERVED_LOAD_MAX];
static double ttft_error[SERVED_LOAD_MAX], tpot_error[SERVED_LOAD_MAX];

static int by_value(const void *a, const void *b)
{
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The error that a share of the rows does not exceed is at most `most`. */
static void assert_error(const char *what, double *errors, size_t count, double share, double most)
{
  qsort(errors, count, sizeof *errors, by_value);
  double error = errors[(size_t)(share * (double)(count - 1))];
  if (!(error <= most))
    fail_msg("%s: %.3f at %.0f%% of the rows, more than %.3f", what, error, 100 * share, most);
}

static void simulated_times_are_near_those_of_servers_under_clients(void **state)
{
  (void)state;
  size_t count = served_load_read(rows);
  assert_int_equal(count, 277);
  for (size_t i = 0; i < count; i++) {
    hr_load_point point;
    hr_error error = {.message = "it does not fit"};
    assert_ok(served_load_simulate(&rows[i], &point, &error), error);
    ttft_error[i] = fabs(point.ttft_ns.mean / (rows[i].ttft_ms * 1e6) - 1);
    tpot_error[i] = fabs(point.tpot_ns.mean / (rows[i].tpot_ms * 1e6) - 1);
  }
  assert_error("TTFT", ttft_error, count, 0.5, 0.25);
  assert_error("TTFT", ttft_error, count, 0.9, 0.60);
  assert_error("TPOT", tpot_error, count, 0.5, 0.07);
  assert_error("TPOT", tpot_error, count, 0.9, 0.20);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(simulated_times_are_near_those_of_servers_under_clients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
