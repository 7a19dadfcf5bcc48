/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring as far as it depends on clocks: waiting, cores used by other programs, and a throttled GPU clock. All of
 * them are doubles, and no measured time is compared. */
#include "measure_doubles.h"

#include "base/error.h"

/* ---- single runs ---- */

#define WAIT_NS 2000000

static int waits, runs_between_waits_max, runs_before_wait;

/* A device that reports the end of a run late. */
static hr_status wait_long(hr_device *device, hr_error *error)
{
  (void)device, (void)error;
  const struct timespec pause = {.tv_nsec = WAIT_NS};
  nanosleep(&pause, NULL);
  if (waits++ > 0 && runs - runs_before_wait > runs_between_waits_max)
    runs_between_waits_max = runs - runs_before_wait;
  runs_before_wait = runs;
  return HR_OK;
}

static hr_measurement measure_waiting(hr_device *device, const char *kernel)
{
  const hr_backend *own = device->backend;
  hr_backend late = *own;
  late.wait = wait_long;
  device->backend = &late;
  device->cache_bytes = 10000;
  waits = runs_between_waits_max = 0;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = gemm.k = 4, gemm.dtype = HR_FP32;
  hr_measure_options options = brief(kernel);
  options.time_limit_ns = 1e10;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  device->backend = own;
  return m;
}

static void a_short_run_is_also_timed_alone_until_it_is_over(void **state)
{
  hr_measurement m = measure_waiting(*state, "right");
  assert_true(m.median_ns > 0 && m.median_ns < WAIT_NS); /* samples do not wait */
  assert_true(m.latency_ns >= WAIT_NS);
  assert_int_equal(waits, 100);
  assert_int_equal(runs_between_waits_max, 1);
}

static void a_run_that_is_not_timed_in_groups_has_no_latency(void **state)
{
  hr_measurement m = measure_waiting(*state, "slow");
  assert_true(m.median_ns > 0 && isnan(m.latency_ns));
  assert_int_equal(waits, 0);
}

/* ---- groups, on a device with a clock of its own ---- */

static double run_ns, below_ns; /* of one run; below which the device wants groups */
static int late_samples;        /* samples that are still to come with a time of the host instead */
static int64_t largest_group;

static hr_status tell_time(hr_device *device, hr_run_fn run, void *context, int64_t count, void **recording,
                           double *time_ns, hr_error *error)
{
  (void)device, (void)recording;
  largest_group = count > largest_group ? count : largest_group;
  for (int64_t i = 0; i < count; i++)
    HR_TRY(run(context, error));
  *time_ns = late_samples > 0 ? 10 * run_ns : run_ns;
  late_samples -= late_samples > 0;
  return HR_OK;
}

static double tell_below(const hr_device *device)
{
  (void)device;
  return below_ns;
}

/* The runs of a group where one takes `ns`. */
static int64_t group_of(hr_device *device, double ns, double below)
{
  const hr_backend *own = device->backend;
  hr_backend backend = *own;
  backend.time_runs = tell_time, backend.group_below_ns = below > 0 ? tell_below : NULL;
  device->backend = &backend;
  run_ns = ns, below_ns = below, largest_group = 0;
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  options.warm = true; /* one set */
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  assert_true(m.median_ns == ns && isnan(m.latency_ns) == (ns >= 20e3));
  device->backend = own;
  return largest_group;
}

static void runs_shorter_than_the_device_asks_are_timed_in_groups(void **state)
{
  assert_int_equal(group_of(*state, 50e3, 0), 1);
  assert_int_equal(group_of(*state, 50e3, 40e3), 1);
  assert_int_equal(group_of(*state, 50e3, 200e3), 4);
  assert_int_equal(group_of(*state, 199e3, 200e3), 2);
  assert_int_equal(group_of(*state, 200e3, 200e3), 1);
  assert_int_equal(group_of(*state, 5e3, 0), 40);
}

static void a_late_host_does_not_make_the_group_small(void **state)
{
  late_samples = 5; /* the first sample and four of five others */
  assert_int_equal(group_of(*state, 5e3, 0), 40);
}

/* ---- other programs, in a scheduler file that the test writes ---- */

static double always_waiting(const hr_device *device)
{
  (void)device;
  static double waited;
  return waited += 1e12; /* far more than can have passed between two calls */
}

static int calls_of_waited;

static double waiting_at_first(const hr_device *device)
{
  (void)device;
  return ++calls_of_waited == 1 ? 0 : 1e12; /* between the first call and the second: the first block */
}

static double unknown(const hr_device *device)
{
  (void)device;
  return (double)NAN;
}

static hr_measurement measure_under(hr_device *device, double (*waited_ns)(const hr_device *))
{
  hr_backend backend = *device->backend;
  const hr_backend *own = device->backend;
  backend.waited_ns = waited_ns;
  device->backend = &backend;
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  device->backend = own;
  return m;
}

static void samples_taken_while_other_programs_used_the_cores_are_discarded(void **state)
{
  calls_of_waited = 0;
  hr_measurement m = measure_under(*state, waiting_at_first);
  assert_int_equal(m.status, HR_OK);
  assert_true(m.discarded > 0);
  assert_true(m.samples >= 10);
}

static void if_all_samples_are_disturbed_all_are_used_and_the_result_is_noisy(void **state)
{
  hr_measurement m = measure_under(*state, always_waiting);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_int_equal(m.discarded, 0);
  assert_true(m.median_ns > 0);
  assert_non_null(strstr(m.reason, "other processes are running"));
}

static void without_scheduler_statistics_no_sample_is_discarded(void **state)
{
  hr_measurement m = measure_under(*state, unknown);
  assert_int_equal(m.status, HR_OK);
  assert_int_equal(m.discarded, 0);
  assert_true(m.samples < 1000); /* precise enough long before the maximum number of samples */
}

/* ---- a throttled clock ---- */

static int rounds_throttled, rounds_asked; /* first asked at the end of the warm-up, as round -1 */
static double warm_hz;
static const char *throttled_by;

static void hold_down_at_first(const hr_device *device, hr_conditions *conditions)
{
  (void)device;
  bool held = rounds_asked < rounds_throttled;
  conditions->clock_hz = rounds_asked++ < 0 ? warm_hz : held ? 0.9e9 : 1e9;
  strcpy(conditions->throttled_by, held ? throttled_by : "");
}

/* On a device whose settled clock is 1 GHz. */
static hr_measurement measure_throttled(hr_device *device, const char *by, double warm, int rounds)
{
  hr_backend backend = *device->backend;
  const hr_backend *own = device->backend;
  backend.conditions = hold_down_at_first;
  device->backend = &backend;
  device->settled_clock_hz = 1e9;
  rounds_throttled = rounds;
  rounds_asked = -1;
  throttled_by = by;
  warm_hz = warm;
  hr_gemm gemm = small();
  hr_measure_options options = brief("slow");
  options.time_limit_ns = 1e10;
  options.samples_min = options.samples_max = 6;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  device->backend = own;
  return m;
}

static void samples_of_a_throttled_clock_are_repeated_at_most_three_times(void **state)
{
  for (int rounds = 0; rounds <= 3; rounds++) {
    hr_measurement m = measure_throttled(*state, "temperature", 0.9e9, rounds);
    assert_int_equal(rounds_asked, rounds + 1);
    assert_true(m.status == HR_OK || !strstr(m.reason, "clock"));
    assert_true(m.conditions.clock_hz == 1e9);
    assert_int_equal(m.samples + m.discarded, 6); /* of the last round only */
  }
  hr_measurement m = measure_throttled(*state, "temperature", 0.9e9, 100);
  assert_int_equal(rounds_asked, 4);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_non_null(strstr(m.reason, "throttled to 900 MHz (temperature)"));
  assert_true(m.median_ns > 0);
}

static void throttling_by_the_works_own_power_is_not_a_disturbance(void **state)
{
  hr_measurement m = measure_throttled(*state, HR_POWER_CAP, 0.9e9, 100);
  assert_int_equal(rounds_asked, 1);
  assert_true(m.status == HR_OK || !strstr(m.reason, "clock"));
  assert_true(m.conditions.clock_hz == 0.9e9);
  m = measure_throttled(*state, HR_POWER_CAP, 1e9, 100); /* the clock dropped after the warm-up */
  assert_int_equal(rounds_asked, 4);
  assert_non_null(strstr(m.reason, "throttled to 900 MHz (power cap)"));
  m = measure_throttled(*state, HR_POWER_CAP ", temperature", 0.9e9, 100);
  assert_int_equal(rounds_asked, 4);
}

/* ---- energy: a counter that advances by a joule whenever it is read ---- */

#define STEP_NS 5e6

static double counted_energy_j(const hr_device *device)
{
  (void)device;
  static double joules;
  return joules += 1;
}

static double energy_unknown(const hr_device *device)
{
  (void)device;
  return (double)NAN;
}

static void clock_of_1_ghz(const hr_device *device, hr_conditions *conditions)
{
  (void)device;
  conditions->clock_hz = 1e9;
}

static hr_measurement measure_energy(hr_device *device, double (*energy_j)(const hr_device *), bool asked)
{
  hr_backend backend = *device->backend;
  const hr_backend *own = device->backend;
  backend.energy_j = energy_j;
  backend.energy_step_ns = STEP_NS;
  backend.conditions = clock_of_1_ghz;
  device->backend = &backend;
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  options.energy = asked;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  device->backend = own;
  return m;
}

static void the_energy_of_a_run_is_power_by_time(void **state)
{
  hr_measurement m = measure_energy(*state, counted_energy_j, true);
  assert_true(m.sustained_power_w > 0 && m.sustained_ns > 0);
  assert_true(fabs(m.energy_j - m.sustained_power_w * m.sustained_ns * 1e-9) <= 1e-12 * m.energy_j);
  assert_true(m.sustained_clock_hz == 1e9);
}

static void without_a_counter_or_unasked_the_energy_is_unknown(void **state)
{
  hr_measurement unasked = measure_energy(*state, counted_energy_j, false);
  hr_measurement unknown = measure_energy(*state, energy_unknown, true);
  hr_measurement none = measure_energy(*state, NULL, true);
  const hr_measurement *all[] = {&unasked, &unknown, &none};
  for (int i = 0; i < 3; i++)
    assert_true(all[i]->median_ns > 0 && isnan(all[i]->energy_j) && isnan(all[i]->sustained_ns) &&
                isnan(all[i]->sustained_power_w) && isnan(all[i]->sustained_clock_hz));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_short_run_is_also_timed_alone_until_it_is_over),
      TEST(a_run_that_is_not_timed_in_groups_has_no_latency),
      TEST(runs_shorter_than_the_device_asks_are_timed_in_groups),
      TEST(a_late_host_does_not_make_the_group_small),
      TEST(samples_taken_while_other_programs_used_the_cores_are_discarded),
      TEST(if_all_samples_are_disturbed_all_are_used_and_the_result_is_noisy),
      TEST(without_scheduler_statistics_no_sample_is_discarded),
      TEST(samples_of_a_throttled_clock_are_repeated_at_most_three_times),
      TEST(throttling_by_the_works_own_power_is_not_a_disturbance),
      TEST(the_energy_of_a_run_is_power_by_time),
      TEST(without_a_counter_or_unasked_the_energy_is_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
