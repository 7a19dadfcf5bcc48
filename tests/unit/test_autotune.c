/* SPDX-License-Identifier: Apache-2.0 */
/* Autotuning among the configurations of a kernel double: which one is chosen, and what is reported. Times are not
 * compared, except that a configuration that sleeps for a millisecond is slower than one that does not. */
#include "test.h"

#include "base/error.h"
#include "runtime/device/plan.h"

#include <headroom/experimental/measure.h>
#include <headroom/experimental/plan.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHOICES 4

typedef enum behaviour { SLOW, FAST, BROKEN, IDLE, WANTING } behaviour;

static behaviour behaviours[CHOICES];
static int runs[CHOICES];
static int turns, last; /* turns: runs of another choice than the run before */
static int prepared, released;

typedef struct tunable {
  int64_t choice;
  hr_gemm gemm;
} tunable;

static const hr_kernel_functions *reference(void)
{
  extern const hr_kernel_functions hr_kernel_gemm_reference;
  return &hr_kernel_gemm_reference;
}

/* The workspace of the reference, and more for later choices. */
static size_t workspace_of(const hr_gemm *gemm, int64_t choice)
{
  return (size_t)(gemm->k + (gemm->k > gemm->n ? gemm->k : gemm->n) + gemm->n + 64 * choice) * sizeof(double);
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *state, size_t *workspace, hr_error *error)
{
  (void)device;
  (void)error;
  tunable *t = state;
  t->gemm = problem->gemm;
  prepared++;
  *workspace = workspace_of(&t->gemm, 0);
  return HR_OK;
}

static void release(void *state)
{
  (void)state;
  released++;
}

static hr_status choose(void *state, int64_t choice, int64_t most, int64_t *found, size_t *workspace, hr_error *error)
{
  tunable *t = state;
  int64_t count = most < CHOICES ? most : CHOICES;
  if (choice >= count)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "there are not so many");
  if (behaviours[choice] == WANTING)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "not on this chip");
  *found = count;
  t->choice = choice;
  *workspace = workspace_of(&t->gemm, choice);
  return HR_OK;
}

static hr_status run(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const tunable *t = plan->state;
  const struct timespec rest = {.tv_nsec = 1000000};
  memset(run->workspace, 0xFF, workspace_of(&t->gemm, t->choice)); /* writes all of the requested workspace */
  runs[t->choice]++;
  turns += (int)t->choice != last;
  last = (int)t->choice;
  if (behaviours[t->choice] == BROKEN)
    return hr_fail(error, HR_ERROR_BACKEND, "algo %d: internal error", (int)t->choice);
  if (behaviours[t->choice] == IDLE) /* leaves the result of the run before */
    return HR_OK;
  if (behaviours[t->choice] == SLOW)
    nanosleep(&rest, NULL);
  return reference()->run(plan, run, error);
}

static void describe(const void *state, char *text, size_t size)
{
  const tunable *t = state;
  snprintf(text, size, "algo %d", (int)t->choice);
}

static const hr_kernel_functions functions = {.state_bytes = sizeof(tunable),
                                              .prepare = prepare,
                                              .run = run,
                                              .release = release,
                                              .choose = choose,
                                              .describe = describe};
static const hr_kernel_info infos[] = {{"tunable", "gemm", "reference", "fp32", "", "a"},
                                       {"plain", "gemm", "reference", "fp32", "", "a"}};
static hr_kernel table[] = {{&infos[0], &functions}, {&infos[1], NULL}};

static int open_double(void **state)
{
  static hr_device *device;
  if (hr_device_open("reference", 0, &device, NULL) != HR_OK)
    return 1;
  table[1].functions = reference();
  device->kernels = table;
  device->kernel_count = sizeof table / sizeof *table;
  *state = device;
  for (int i = 0; i < CHOICES; i++)
    runs[i] = 0;
  turns = prepared = released = 0;
  last = -1;
  return 0;
}

static int close_double(void **state)
{
  hr_device_close(*state);
  return 0;
}

static hr_gemm small(void)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 6, gemm.n = 9, gemm.k = 11, gemm.dtype = HR_FP32;
  return gemm;
}

static hr_measurement measure(hr_device *device, const char *kernel, int64_t autotune, const behaviour how[CHOICES])
{
  hr_gemm gemm = small();
  hr_measure_options options = hr_measure_options_default();
  hr_measurement measured;
  hr_error error;
  memcpy(behaviours, how, sizeof behaviours);
  options.kernel = kernel;
  options.autotune = autotune;
  options.precision = 100;
  options.time_limit_ns = 2e8;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &measured, &error), error);
  assert_int_equal(prepared, released);
  return measured;
}

static void without_autotune_the_first_is_measured_and_nothing_else_runs(void **state)
{
  hr_measurement m = measure(*state, "tunable", 0, (const behaviour[]){SLOW, FAST, FAST, FAST});
  assert_int_equal(m.status, HR_OK);
  assert_string_equal(m.configuration, "algo 0");
  assert_int_equal(m.choice, 0);
  assert_int_equal(m.choices, 0);
  assert_true(isnan(m.choice_speedup));
  assert_int_equal(runs[1] + runs[2] + runs[3], 0);
}

static void the_fastest_is_checked_measured_and_named(void **state)
{
  hr_measurement m = measure(*state, "tunable", 8, (const behaviour[]){SLOW, SLOW, FAST, SLOW});
  assert_int_equal(m.status, HR_OK);
  assert_string_equal(m.configuration, "algo 2, choice 3 of 4");
  assert_int_equal(m.choice, 3);
  assert_int_equal(m.choices, 4);
  assert_int_equal(m.rows_checked, 6);
  assert_true(m.samples > 0 && m.median_ns > 0);
  assert_true(m.choice_speedup > 1);
}

static void only_the_requested_number_is_timed(void **state)
{
  hr_measurement m = measure(*state, "tunable", 2, (const behaviour[]){SLOW, FAST, FAST, FAST});
  assert_string_equal(m.configuration, "algo 1, choice 2 of 2");
  assert_int_equal(runs[2] + runs[3], 0);
}

static void candidates_are_timed_interleaved(void **state)
{
  measure(*state, "tunable", 4, (const behaviour[]){SLOW, SLOW, SLOW, SLOW});
  assert_true(turns > 4 * 10); /* 4 candidates of at least 10 rounds in 0.2 s, each resting for 1 ms */
}

static void choices_that_fail_are_skipped(void **state)
{
  hr_measurement m = measure(*state, "tunable", 4, (const behaviour[]){WANTING, BROKEN, SLOW, FAST});
  assert_int_equal(m.status, HR_ERROR_UNSUPPORTED); /* the first cannot even be prepared */
  m = measure(*state, "tunable", 4, (const behaviour[]){BROKEN, WANTING, SLOW, FAST});
  assert_int_equal(m.status, HR_OK);
  assert_string_equal(m.configuration, "algo 3, choice 4 of 4");
  assert_true(isnan(m.choice_speedup)); /* over a first that does not run */
  m = measure(*state, "tunable", 4, (const behaviour[]){BROKEN, BROKEN, WANTING, BROKEN});
  assert_int_equal(m.status, HR_ERROR_BACKEND);
  assert_string_equal(m.reason, "algo 0: internal error");
  assert_int_equal(m.samples, 0);
}

static void a_choice_that_computes_nothing_is_a_wrong_result(void **state)
{
  hr_measurement m = measure(*state, "tunable", 4, (const behaviour[]){SLOW, SLOW, IDLE, SLOW});
  assert_int_equal(m.status, HR_ERROR_WRONG_RESULT);
  assert_string_equal(m.configuration, "algo 2, choice 3 of 4");
  assert_int_equal(m.samples, 0);
}

static void a_kernel_without_choices_is_measured_as_it_is(void **state)
{
  hr_measurement m = measure(*state, "plain", 8, (const behaviour[]){FAST, FAST, FAST, FAST});
  assert_int_equal(m.status, HR_OK);
  assert_string_equal(m.configuration, "");
  assert_int_equal(m.choice, 1);
  assert_int_equal(m.choices, 1);
  assert_true(m.choice_speedup == 1);
}

static void a_plan_accepts_every_choice_and_refuses_unknown_ones(void **state)
{
  hr_gemm gemm = small();
  hr_plan *plan = NULL;
  hr_error error;
  memset(behaviours, 0, sizeof behaviours);
  assert_ok(hr_plan_gemm_choice(*state, &gemm, &(hr_plan_choice){.kernel = "tunable", .choice = 2, .choices = 3}, &plan,
                                &error),
            error);
  assert_int_equal(hr_plan_choices(plan), 3);
  assert_string_equal(hr_plan_configuration(plan), "algo 2, choice 3 of 3");
  assert_int_equal(hr_plan_workspace_bytes(plan), workspace_of(&gemm, 2));
  hr_plan_free(plan);
  assert_ok(hr_plan_gemm(*state, &gemm, "tunable", &plan, &error), error);
  assert_int_equal(hr_plan_choices(plan), 1);
  hr_plan_free(plan);
  plan = NULL;
  assert_int_equal(hr_plan_gemm_choice(*state, &gemm, &(hr_plan_choice){.kernel = "tunable", .choice = 4, .choices = 8},
                                       &plan, &error),
                   HR_ERROR_NOT_FOUND);
  assert_int_equal(hr_plan_gemm_choice(*state, &gemm, &(hr_plan_choice){.kernel = "tunable", .choice = 3, .choices = 3},
                                       &plan, &error),
                   HR_ERROR_INVALID);
  assert_string_equal(error.message, "choice: expected 0 to 2, found 3");
  assert_int_equal(hr_plan_gemm_choice(*state, &gemm, &(hr_plan_choice){.kernel = "plain", .choice = 1, .choices = 2},
                                       &plan, &error),
                   HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "plain: has one configuration, found choice 1");
  assert_null(plan);
  assert_int_equal(prepared, released);
}

static int stop(void *context)
{
  int *asked = context;
  return ++*asked > 3;
}

static void tuning_can_be_stopped(void **state)
{
  hr_gemm gemm = small();
  int asked = 0;
  hr_measure_options options = hr_measure_options_default();
  hr_measurement measured;
  memset(behaviours, 0, sizeof behaviours);
  options.kernel = "tunable";
  options.autotune = 4;
  options.cancelled = stop;
  options.context = &asked;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &measured, NULL), HR_ERROR_INTERRUPTED);
  assert_int_equal(prepared, released);
  options.autotune = -1;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &measured, NULL), HR_ERROR_INVALID);
}

#define WITH_DOUBLE(test) cmocka_unit_test_setup_teardown(test, open_double, close_double)

int main(void)
{
  const struct CMUnitTest tests[] = {
      WITH_DOUBLE(without_autotune_the_first_is_measured_and_nothing_else_runs),
      WITH_DOUBLE(the_fastest_is_checked_measured_and_named),
      WITH_DOUBLE(only_the_requested_number_is_timed),
      WITH_DOUBLE(candidates_are_timed_interleaved),
      WITH_DOUBLE(choices_that_fail_are_skipped),
      WITH_DOUBLE(a_choice_that_computes_nothing_is_a_wrong_result),
      WITH_DOUBLE(a_kernel_without_choices_is_measured_as_it_is),
      WITH_DOUBLE(a_plan_accepts_every_choice_and_refuses_unknown_ones),
      WITH_DOUBLE(tuning_can_be_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
