/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel doubles for tests of measuring: each behaves in its own way, and records what it was run with. */
#ifndef HEADROOM_TEST_MEASURE_DOUBLES_H
#define HEADROOM_TEST_MEASURE_DOUBLES_H
#include "test.h"

#include "runtime/device/plan.h"
#include "shape/number.h"

#include <headroom/experimental/measure.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* Recorded by the doubles. */
static int runs;
static int turns; /* runs whose m differs from the run before */
static int64_t last_m;
static int64_t order[4096];
static const void *addresses[4096];

static const hr_kernel_functions *reference(void)
{
  extern const hr_kernel_functions hr_kernel_gemm_reference;
  return &hr_kernel_gemm_reference;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void *kernel_state, size_t *workspace,
                         hr_error *error)
{
  return reference()->prepare(device, problem, kernel_state, workspace, error);
}

static hr_status run_right(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  if (runs < 4096) {
    order[runs] = plan->problem.gemm.m;
    addresses[runs] = ((const hr_gemm_arguments *)run->arguments)->a;
  }
  runs++;
  turns += plan->problem.gemm.m != last_m;
  last_m = plan->problem.gemm.m;
  return reference()->run(plan, run, error);
}

/* Right but for the last element of the last row, whose error is that of one missing term. */
static hr_status run_wrong(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const hr_gemm *g = &plan->problem.gemm;
  void *output = ((const hr_gemm_arguments *)run->arguments)->c;
  size_t last = (size_t)(g->batch * g->m * g->n) - 1;
  hr_status status = reference()->run(plan, run, error);
  hr_number_store(g->dtype, output, last, hr_number_load(g->dtype, output, last) + 0.25);
  return status;
}

/* Misses the contribution of a block of 128 columns to every row; otherwise right. */
static hr_status run_without_a_block(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const hr_gemm *g = &plan->problem.gemm;
  void *output = ((const hr_gemm_arguments *)run->arguments)->c;
  hr_status status = reference()->run(plan, run, error);
  for (int64_t row = 0; row < g->batch * g->m; row++)
    for (int64_t j = 1024; j < 1152 && j < g->n; j++)
      hr_number_store(g->dtype, output, (size_t)(row * g->n + j), 0);
  return status;
}

static hr_status run_nothing(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)plan, (void)run, (void)error;
  return HR_OK;
}

static hr_status run_slowly(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const struct timespec pause = {.tv_nsec = 30000000};
  nanosleep(&pause, NULL);
  return reference()->run(plan, run, error);
}

/* The first runs are slow, as if other programs used the processor. */
static hr_status run_hesitantly(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const struct timespec pause = {.tv_nsec = 200000000};
  if (runs < 2) /* the checked run and the first timed one */
    nanosleep(&pause, NULL);
  return run_right(plan, run, error);
}

static hr_status run_broken(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  (void)plan, (void)run;
  strcpy(error->message, "the library below gave up");
  return HR_ERROR_BACKEND;
}

static hr_status ask_for_the_moon(hr_device *device, const hr_problem *problem, void *kernel_state, size_t *workspace,
                                  hr_error *error)
{
  (void)device, (void)problem, (void)kernel_state, (void)error;
  *workspace = (size_t)1 << 55;
  return HR_OK;
}

static const hr_kernel_functions functions[] = {{.prepare = prepare, .run = run_right},
                                                {.prepare = prepare, .run = run_wrong},
                                                {.run = run_nothing},
                                                {.prepare = prepare, .run = run_slowly},
                                                {.prepare = prepare, .run = run_broken},
                                                {.prepare = ask_for_the_moon, .run = run_right},
                                                {.prepare = prepare, .run = run_without_a_block},
                                                {.prepare = prepare, .run = run_hesitantly}};
static const hr_kernel_info infos[] = {
    {"right", "gemm", "reference", "fp32 bf16", "", "a"},  {"wrong", "gemm", "reference", "fp32 bf16", "", "a"},
    {"idle", "gemm", "reference", "fp32 bf16", "", "a"},   {"slow", "gemm", "reference", "fp32 bf16", "", "a"},
    {"broken", "gemm", "reference", "fp32", "", "a"},      {"hungry", "gemm", "reference", "fp32", "", "a"},
    {"patchy", "gemm", "reference", "fp32 bf16", "", "a"}, {"hesitant", "gemm", "reference", "fp32", "", "a"}};
static const hr_kernel table[] = {{&infos[0], &functions[0]}, {&infos[1], &functions[1]}, {&infos[2], &functions[2]},
                                  {&infos[3], &functions[3]}, {&infos[4], &functions[4]}, {&infos[5], &functions[5]},
                                  {&infos[6], &functions[6]}, {&infos[7], &functions[7]}};

static inline int open_doubles(void **state)
{
  static hr_device *device;
  if (hr_device_open("reference", 0, &device, NULL) != HR_OK)
    return 1;
  device->kernels = table;
  device->kernel_count = sizeof table / sizeof *table;
  *state = device;
  runs = turns = 0;
  last_m = 0;
  return 0;
}

static inline int close_doubles(void **state)
{
  hr_device_close(*state);
  return 0;
}

static inline hr_gemm small(void)
{
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 6, gemm.n = 9, gemm.k = 11, gemm.dtype = HR_FP32;
  return gemm;
}

/* Options that stop after few samples. */
static inline hr_measure_options brief(const char *kernel)
{
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.precision = 100;
  options.time_limit_ns = 2e8;
  return options;
}

static inline void assert_no_times(const hr_measurement *m)
{
  assert_int_equal(m->samples, 0);
  assert_true(isnan(m->median_ns) && isnan(m->min_ns) && isnan(m->median_high_ns) && isnan(m->flops_per_s));
  assert_true(strlen(m->reason) > 0);
}

/** A test whose state is a device that has only the doubles as kernels. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_doubles, close_doubles)

#endif
