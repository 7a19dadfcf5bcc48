/* Measuring, with kernels of the test's own in place of fast ones: no time is looked at. */
#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/number.h"
#include "runtime/measure/subject.h"

#include <headroom/measure.h>

#include <math.h>
#include <string.h>
#include <time.h>

/* What the doubles saw. */
static int runs;
static int turns; /* runs of another m than the one before */
static int64_t last_m;
static int64_t order[4096];
static const void *addresses[4096];

static const hr_kernel_functions *reference(void)
{
  extern const hr_kernel_functions hr_kernel_gemm_reference;
  return &hr_kernel_gemm_reference;
}

static hr_status prepare(hr_device *device, const hr_problem *problem, void **kernel_state, size_t *workspace,
                         hr_error *error)
{
  return reference()->prepare(device, problem, kernel_state, workspace, error);
}

static hr_status run_right(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                           hr_error *error)
{
  if (runs < 4096) {
    order[runs] = plan->problem.gemm.m;
    addresses[runs] = inputs[0];
  }
  runs++;
  turns += plan->problem.gemm.m != last_m;
  last_m = plan->problem.gemm.m;
  return reference()->run(plan, inputs, output, workspace, error);
}

/* Right but for the last element of the last row, off by what a lost product would make. */
static hr_status run_wrong(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                           hr_error *error)
{
  const hr_gemm *g = &plan->problem.gemm;
  size_t last = (size_t)(g->batch * g->m * g->n) - 1;
  hr_status status = reference()->run(plan, inputs, output, workspace, error);
  hr_number_store(g->dtype, output, last, hr_number_load(g->dtype, output, last) + 0.25);
  return status;
}

/* Forgets what a block of 128 columns adds to every row; right otherwise. */
static hr_status run_without_a_block(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                                     hr_error *error)
{
  const hr_gemm *g = &plan->problem.gemm;
  hr_status status = reference()->run(plan, inputs, output, workspace, error);
  for (int64_t row = 0; row < g->batch * g->m; row++)
    for (int64_t j = 1024; j < 1152 && j < g->n; j++)
      hr_number_store(g->dtype, output, (size_t)(row * g->n + j), 0);
  return status;
}

static hr_status run_nothing(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                             hr_error *error)
{
  (void)plan, (void)inputs, (void)output, (void)workspace, (void)error;
  return HR_OK;
}

static hr_status run_slowly(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                            hr_error *error)
{
  const struct timespec pause = {.tv_nsec = 30000000};
  nanosleep(&pause, NULL);
  return reference()->run(plan, inputs, output, workspace, error);
}

static hr_status run_broken(const hr_plan *plan, const void *const *inputs, void *output, void *workspace,
                            hr_error *error)
{
  (void)plan, (void)inputs, (void)output, (void)workspace;
  strcpy(error->message, "the library below gave up");
  return HR_ERROR_BACKEND;
}

static hr_status ask_for_the_moon(hr_device *device, const hr_problem *problem, void **kernel_state, size_t *workspace,
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
                                                {.prepare = prepare, .run = run_without_a_block}};
static const hr_kernel_info infos[] = {
    {"right", "gemm", "reference", "fp32 bf16", "", "a"}, {"wrong", "gemm", "reference", "fp32 bf16", "", "a"},
    {"idle", "gemm", "reference", "fp32 bf16", "", "a"},  {"slow", "gemm", "reference", "fp32 bf16", "", "a"},
    {"broken", "gemm", "reference", "fp32", "", "a"},     {"hungry", "gemm", "reference", "fp32", "", "a"},
    {"patchy", "gemm", "reference", "fp32 bf16", "", "a"}};
static const hr_kernel table[] = {{&infos[0], &functions[0]}, {&infos[1], &functions[1]}, {&infos[2], &functions[2]},
                                  {&infos[3], &functions[3]}, {&infos[4], &functions[4]}, {&infos[5], &functions[5]},
                                  {&infos[6], &functions[6]}};

static int open_doubles(void **state)
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

static int close_doubles(void **state)
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

/* Options that any samples satisfy soon. */
static hr_measure_options brief(const char *kernel)
{
  hr_measure_options options = hr_measure_options_default();
  options.kernel = kernel;
  options.precision = 100;
  options.time_limit_ns = 2e8;
  return options;
}

static void assert_no_times(const hr_measurement *m)
{
  assert_int_equal(m->samples, 0);
  assert_true(isnan(m->median_ns) && isnan(m->min_ns) && isnan(m->median_high_ns) && isnan(m->flops_per_s));
  assert_true(strlen(m->reason) > 0);
}

static void a_right_kernel_is_checked_and_timed(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_true(m.status == HR_OK || m.status == HR_ERROR_NOISY); /* noisy: others had the cores */
  assert_string_equal(m.kernel, "right");
  assert_true(m.samples + m.discarded >= options.samples_min);
  assert_int_equal(m.rows_checked, 6);
  assert_true(m.max_error < 1e-5);
  assert_true(m.min_ns > 0 && m.min_ns <= m.p10_ns && m.p10_ns <= m.median_ns && m.median_ns <= m.p90_ns &&
              m.p90_ns <= m.max_ns && m.median_low_ns <= m.median_ns && m.median_ns <= m.median_high_ns);
  assert_true(fabs(m.flops_per_s * m.median_ns * 1e-9 - 2 * 6 * 9 * 11) < 1e-6);
  assert_true(fabs(m.bytes_per_s * m.median_ns * 1e-9 - 4 * (6 * 11 + 11 * 9 + 6 * 9)) < 1e-6);
}

static void a_wrong_kernel_is_a_wrong_result_and_never_a_time(void **state)
{
  hr_gemm gemm = small();
  const char *const kernels[] = {"wrong", "idle"}; /* one element off; nothing written over the poison */
  const hr_dtype dtypes[] = {HR_FP32, HR_BF16};
  for (int i = 0; i < 4; i++) {
    hr_measure_options options = brief(kernels[i % 2]);
    hr_measurement m;
    hr_error error;
    gemm.dtype = dtypes[i / 2];
    assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
    assert_int_equal(m.status, HR_ERROR_WRONG_RESULT);
    assert_no_times(&m);
    assert_non_null(strstr(m.reason, i % 2 ? "nan" : "row 5, column 8"));
  }
}

/* A device whose memory the host cannot read in place: only what is copied may be looked at. */
static size_t copied;

static hr_status count_and_copy(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  (void)device, (void)error;
  copied += bytes;
  memcpy(to, from, bytes);
  return HR_OK;
}

static void of_a_devices_own_memory_the_check_copies_what_the_sampled_rows_need(void **state)
{
  hr_device *device = *state;
  const hr_backend *own = device->backend;
  hr_backend distant = *own;
  distant.own_memory = true;
  distant.read = count_and_copy;
  device->backend = &distant;
  for (int i = 0; i < 8; i++) {
    hr_gemm gemm = small();
    gemm.m = 64, gemm.n = 9, gemm.k = 5, gemm.batch = 40;
    gemm.transpose_a = i & 1, gemm.transpose_b = i & 2;
    hr_measure_options options = brief(i & 4 ? "wrong" : "right");
    hr_measurement m;
    hr_error error;
    copied = 0;
    assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
    assert_true((m.status == HR_ERROR_WRONG_RESULT) == ((i & 4) != 0)); /* on a loaded machine it may also be noisy */
    int64_t all = 0;
    hr_gemm_bytes(&gemm, &all);
    assert_true(copied > 0 && copied < (size_t)all / 2); /* 16 rows of 2560 and what 16 of 40 batches need */
  }
  device->backend = own;
}

static hr_status check_once(hr_device *device, const hr_gemm *gemm, const char *kernel, hr_measurement *m,
                            hr_error *error)
{
  hr_subject subject;
  hr_problem problem = {.operation = HR_OPERATION_GEMM, .dtype = gemm->dtype, .gemm = *gemm};
  hr_measure_options options = brief(kernel);
  options.warm = true; /* one set is enough */
  *m = (hr_measurement){.rows_checked = 0};
  hr_status status = hr_subject_open(device, &problem, &options, &subject, error);
  if (status == HR_OK)
    status = hr_subject_check(&subject, options.seed, m, error);
  hr_subject_close(&subject);
  return status;
}

/* A row of 5000 elements of 4096 products is 20 million, of which 2^23 are looked at: 64 ranges of 32 columns, one in
 * each 78, the last at the end. */
static void of_rows_that_are_too_long_ranges_of_columns_are_looked_at(void **state)
{
  hr_device *device = *state;
  const hr_backend *own = device->backend;
  hr_backend distant = *own;
  distant.own_memory = true;
  distant.read = count_and_copy;
  device->backend = &distant;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 1, gemm.n = 5000, gemm.k = 4096, gemm.dtype = HR_BF16, gemm.transpose_b = true;
  hr_measurement m;
  hr_error error;
  copied = 0;
  assert_ok(check_once(device, &gemm, "right", &m, &error), error);
  assert_int_equal(m.rows_checked, 1);
  assert_int_equal(copied, 2 * (4096 + 64 * 32 * 4096 + 5000)); /* the row of A, columns of B, the row of C */
  assert_int_equal(check_once(device, &gemm, "patchy", &m, &error), HR_ERROR_WRONG_RESULT);
  assert_int_equal(check_once(device, &gemm, "wrong", &m, &error), HR_ERROR_WRONG_RESULT);
  assert_non_null(strstr(error.message, "column 4999"));
  device->backend = own;
}

static void every_row_of_a_small_result_is_checked_and_none_twice(void **state)
{
  for (int64_t rows = 1; rows <= 40; rows++) {
    hr_gemm gemm = small();
    gemm.m = rows;
    hr_measurement m = {.rows_checked = 0};
    hr_error error;
    hr_subject subject;
    hr_problem problem = {.operation = HR_OPERATION_GEMM, .dtype = HR_FP32, .gemm = gemm};
    hr_measure_options options = brief("right");
    assert_ok(hr_subject_open(*state, &problem, &options, &subject, &error), error);
    assert_ok(hr_subject_check(&subject, 1, &m, &error), error);
    assert_int_equal(m.rows_checked, rows < 16 ? rows : 16);
    hr_subject_close(&subject);
    bool seen[40] = {false};
    for (int64_t i = 0; i < m.rows_checked; i++) {
      int64_t row = hr_sampled_row(rows, m.rows_checked, i, 1);
      assert_true(row >= 0 && row < rows && !seen[row]);
      seen[row] = true;
    }
    assert_true(seen[0] && seen[rows - 1]);
  }
}

/* The formula of docs/measuring.md, worked out by hand: of 100 rows 98 lie between, 14 stretches of 7; of seed 1 and row 5
 * (1 + 5) · 0x9E3779B97F4A7C15 is 0xB54CDA58FBBEE87E in 64 bits, without its last 16 bits 0xB54CDA58FBBE, a multiple
 * of 7: row 1 + 3 · 7 + 0. */
static void which_rows_are_looked_at_follows_from_the_seed(void **state)
{
  (void)state;
  assert_int_equal(hr_sampled_row(100, 16, 0, 1), 99);
  assert_int_equal(hr_sampled_row(100, 16, 1, 1), 0);
  assert_int_equal(hr_sampled_row(100, 16, 5, 1), 22);
}

static void unchecked_means_unchecked(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("wrong");
  options.check = false;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_true(m.samples > 0 && m.rows_checked == 0 && isnan(m.max_error));
}

static void out_of_memory_is_a_result_whether_of_operands_or_of_workspace(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("hungry");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_no_times(&m);
  options.kernel = "right";
  gemm.m = gemm.n = gemm.k = 1 << 20; /* 3 · 2⁴⁰ · 4 bytes: 13 TB */
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(m.reason, "13194."));
  assert_no_times(&m);
}

static void a_run_beyond_the_time_limit_is_a_timeout(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("slow"); /* 30 ms at least */
  options.time_limit_ns = 1e6;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_TIMEOUT);
  assert_no_times(&m);
}

static void what_a_library_fails_at_is_told_in_its_words(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("broken");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_BACKEND);
  assert_string_equal(m.reason, "the library below gave up");
}

static void an_operation_without_a_kernel_is_unsupported(void **state)
{
  hr_attention attention = hr_attention_default();
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_attention(*state, &attention, NULL, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_UNSUPPORTED);
  assert_no_times(&m);
}

static void impossible_questions_are_errors_of_the_call(void **state)
{
  hr_gemm gemm = small();
  hr_measurement m;
  hr_error error;
  hr_measure_options options = brief("no_such");
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &m, &error), HR_ERROR_NOT_FOUND);
  options = brief(NULL), options.precision = 0;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &m, &error), HR_ERROR_INVALID);
  options = brief(NULL), options.time_limit_ns = (double)NAN;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &m, &error), HR_ERROR_INVALID);
  options = brief(NULL), options.samples_max = 5;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &m, &error), HR_ERROR_INVALID);
  gemm.n = -1;
  assert_int_equal(hr_measure_gemm(*state, &gemm, NULL, &m, &error), HR_ERROR_INVALID);
}

static void samples_that_never_settle_are_noisy(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("slow");
  options.precision = 1e-12;
  options.samples_min = options.samples_max = 7;
  options.time_limit_ns = 1e10;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_int_equal(m.samples + m.discarded, 7);
  assert_true(m.median_ns > 0); /* doubtful, but there */
}

static void too_few_samples_for_an_interval_are_noisy(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("slow");
  options.samples_min = options.samples_max = 3;
  options.time_limit_ns = 1e10;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_int_equal(m.samples, 3);
}

static int cancel_at_once(void *context)
{
  ++*(int *)context;
  return 1;
}

static void the_caller_can_stop(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  int asked = 0;
  options.cancelled = cancel_at_once;
  options.context = &asked;
  hr_measurement m;
  assert_int_equal(hr_measure_gemm(*state, &gemm, &options, &m, NULL), HR_ERROR_INTERRUPTED);
  assert_int_equal(asked, 1);
}

static int64_t distinct_addresses(int first, int count)
{
  int64_t distinct = 0;
  for (int i = first; i < first + count; i++) {
    bool seen = false;
    for (int j = first; j < i && !seen; j++)
      seen = addresses[i] == addresses[j];
    distinct += !seen;
  }
  return distinct;
}

static void cold_runs_rotate_among_the_sets_and_warm_ones_do_not(void **state)
{
  hr_device *device = *state;
  device->cache_bytes = 10000;
  hr_gemm gemm = small(); /* 264, 396 and 216 bytes: 512 + 512 + 256 = 1280 in steps of 256 */
  hr_measure_options options = brief("right");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  assert_int_equal(m.buffer_sets, 17); /* 16 others: 20480 ≥ 2 · 10000 */
  assert_false(m.warm);
  assert_true(runs > 100);
  for (int first = 0; first < 100 - 17; first += 7)
    assert_int_equal(distinct_addresses(first, 17), 17);
  runs = 0;
  options.warm = true;
  assert_ok(hr_measure_gemm(device, &gemm, &options, &m, &error), error);
  assert_int_equal(m.buffer_sets, 1);
  assert_true(m.warm);
  assert_int_equal(distinct_addresses(0, 100), 1);
}

static void pairs_go_by_turns(void **state)
{
  hr_gemm a = small(), b = small();
  a.m = b.m = 100, a.n = b.n = 100, a.k = b.k = 60; /* long enough not to be run in groups */
  b.m = 101;
  hr_measure_options options = brief("right");
  options.samples_min = options.samples_max = 12;
  options.time_limit_ns = 1e10;
  hr_comparison c;
  hr_error error;
  assert_ok(hr_measure_gemm_pair(*state, &a, &b, &options, &c, &error), error);
  assert_int_equal(c.before.samples + c.before.discarded, 12);
  assert_int_equal(c.after.samples, c.before.samples);
  assert_true(runs >= 24 && runs < 4096);
  for (int i = runs - 24; i < runs; i++)
    assert_int_equal(order[i], (i - (runs - 24)) % 2 ? 101 : 100);
  assert_true(c.ratio > 0 && c.ratio_low <= c.ratio && c.ratio <= c.ratio_high);
}

static void a_pair_runs_by_turns_before_it_is_timed_where_the_clock_depends_on_what_ran(void **state)
{
  hr_device *device = *state;
  const hr_backend *plain = device->backend;
  hr_backend sinking = *plain;
  hr_gemm a = small(), b = small();
  b.m = 7;
  hr_measure_options options = brief("right");
  options.samples_min = options.samples_max = 12;
  hr_comparison c;
  hr_error error;
  assert_ok(hr_measure_gemm_pair(device, &a, &b, &options, &c, &error), error);
  assert_int_equal(turns, 2 + 24); /* each alone, then 12 pairs */
  turns = 0;
  last_m = 0;
  sinking.settle_ns = 1;
  device->backend = &sinking;
  device->settled = true;
  device->settled_clock_hz = (double)NAN;
  hr_status status = hr_measure_gemm_pair(device, &a, &b, &options, &c, &error);
  device->backend = plain;
  assert_ok(status, error);
  assert_true(turns >= 2 + 24 + 2);
  assert_int_equal(c.before.samples + c.before.discarded, 12);
}

static void where_one_of_a_pair_fails_there_is_no_ratio_but_the_other_has_its_time(void **state)
{
  hr_gemm a = small(), b = small();
  b.m = 1 << 20, b.n = 1 << 20, b.k = 1 << 20;
  hr_measure_options options = brief("right");
  hr_comparison c;
  hr_error error;
  assert_ok(hr_measure_gemm_pair(*state, &a, &b, &options, &c, &error), error);
  assert_true(c.before.samples > 0);
  assert_int_equal(c.after.status, HR_ERROR_OUT_OF_MEMORY);
  assert_no_times(&c.after);
  assert_true(isnan(c.ratio) && isnan(c.ratio_low) && isnan(c.ratio_high));
}

/* ---- runs alone ---- */

#define WAIT_NS 2000000

static int waits, runs_between_waits_most, runs_before_wait;

/* A device that tells late that a run is over. */
static hr_status wait_long(hr_device *device, hr_error *error)
{
  (void)device, (void)error;
  const struct timespec pause = {.tv_nsec = WAIT_NS};
  nanosleep(&pause, NULL);
  if (waits++ > 0 && runs - runs_before_wait > runs_between_waits_most)
    runs_between_waits_most = runs - runs_before_wait;
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
  waits = runs_between_waits_most = 0;
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
  assert_int_equal(runs_between_waits_most, 1);
}

static void a_run_that_is_not_timed_in_groups_has_no_latency(void **state)
{
  hr_measurement m = measure_waiting(*state, "slow");
  assert_true(m.median_ns > 0 && isnan(m.latency_ns));
  assert_int_equal(waits, 0);
}

/* ---- other programs, as a scheduler that the test writes itself tells of them ---- */

static double always_waiting(const hr_device *device)
{
  (void)device;
  static double waited;
  return waited += 1e12; /* far more between two calls than can have gone by */
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

static void samples_taken_while_others_had_the_cores_are_left_out(void **state)
{
  calls_of_waited = 0;
  hr_measurement m = measure_under(*state, waiting_at_first);
  assert_int_equal(m.status, HR_OK);
  assert_true(m.discarded > 0);
  assert_true(m.samples >= 10);
}

static void where_all_samples_are_disturbed_all_are_used_and_doubted(void **state)
{
  hr_measurement m = measure_under(*state, always_waiting);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_int_equal(m.discarded, 0);
  assert_true(m.median_ns > 0);
  assert_non_null(strstr(m.reason, "others are at work"));
}

static void what_the_system_does_not_tell_is_not_held_against_a_sample(void **state)
{
  hr_measurement m = measure_under(*state, unknown);
  assert_int_equal(m.status, HR_OK);
  assert_int_equal(m.discarded, 0);
  assert_true(m.samples < 1000); /* precise enough long before the most that may be taken */
}

/* ---- a clock that is held down ---- */

static int rounds_throttled, rounds_asked; /* asked first at the end of the warm-up, as round -1 */
static double warm_hz;
static const char *throttled_by;

static void hold_down_at_first(const hr_device *device, hr_conditions *conditions)
{
  (void)device;
  bool held = rounds_asked < rounds_throttled;
  conditions->clock_hz = rounds_asked++ < 0 ? warm_hz : held ? 0.9e9 : 1e9;
  strcpy(conditions->throttled_by, held ? throttled_by : "");
}

/* On a device that settled at 1 GHz. */
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

static void samples_of_a_throttled_clock_are_taken_again_three_times_at_most(void **state)
{
  for (int rounds = 0; rounds <= 3; rounds++) {
    hr_measurement m = measure_throttled(*state, "temperature", 0.9e9, rounds);
    assert_int_equal(rounds_asked, rounds + 1);
    assert_true(m.status == HR_OK || !strstr(m.reason, "clock"));
    assert_true(m.conditions.clock_hz == 1e9);
    assert_int_equal(m.samples + m.discarded, 6); /* of the last round alone */
  }
  hr_measurement m = measure_throttled(*state, "temperature", 0.9e9, 100);
  assert_int_equal(rounds_asked, 4);
  assert_int_equal(m.status, HR_ERROR_NOISY);
  assert_non_null(strstr(m.reason, "held down to 900 MHz (temperature)"));
  assert_true(m.median_ns > 0);
}

static void the_power_that_the_work_itself_draws_is_no_disturbance(void **state)
{
  hr_measurement m = measure_throttled(*state, HR_POWER_CAP, 0.9e9, 100);
  assert_int_equal(rounds_asked, 1);
  assert_true(m.status == HR_OK || !strstr(m.reason, "clock"));
  assert_true(m.conditions.clock_hz == 0.9e9);
  m = measure_throttled(*state, HR_POWER_CAP, 1e9, 100); /* the clock went down after the warm-up */
  assert_int_equal(rounds_asked, 4);
  assert_non_null(strstr(m.reason, "held down to 900 MHz (power cap)"));
  m = measure_throttled(*state, HR_POWER_CAP ", temperature", 0.9e9, 100);
  assert_int_equal(rounds_asked, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_doubles, close_doubles)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_right_kernel_is_checked_and_timed),
      TEST(a_wrong_kernel_is_a_wrong_result_and_never_a_time),
      TEST(of_a_devices_own_memory_the_check_copies_what_the_sampled_rows_need),
      TEST(of_rows_that_are_too_long_ranges_of_columns_are_looked_at),
      TEST(every_row_of_a_small_result_is_checked_and_none_twice),
      TEST(which_rows_are_looked_at_follows_from_the_seed),
      TEST(unchecked_means_unchecked),
      TEST(out_of_memory_is_a_result_whether_of_operands_or_of_workspace),
      TEST(a_run_beyond_the_time_limit_is_a_timeout),
      TEST(what_a_library_fails_at_is_told_in_its_words),
      TEST(an_operation_without_a_kernel_is_unsupported),
      TEST(impossible_questions_are_errors_of_the_call),
      TEST(samples_that_never_settle_are_noisy),
      TEST(too_few_samples_for_an_interval_are_noisy),
      TEST(the_caller_can_stop),
      TEST(cold_runs_rotate_among_the_sets_and_warm_ones_do_not),
      TEST(pairs_go_by_turns),
      TEST(a_pair_runs_by_turns_before_it_is_timed_where_the_clock_depends_on_what_ran),
      TEST(a_short_run_is_also_timed_alone_until_it_is_over),
      TEST(a_run_that_is_not_timed_in_groups_has_no_latency),
      TEST(samples_taken_while_others_had_the_cores_are_left_out),
      TEST(where_all_samples_are_disturbed_all_are_used_and_doubted),
      TEST(what_the_system_does_not_tell_is_not_held_against_a_sample),
      TEST(samples_of_a_throttled_clock_are_taken_again_three_times_at_most),
      TEST(the_power_that_the_work_itself_draws_is_no_disturbance),
      TEST(where_one_of_a_pair_fails_there_is_no_ratio_but_the_other_has_its_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
