/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring, with kernel doubles: no measured time is compared. */
#include "measure_doubles.h"

#include "runtime/measure/check.h"
#include "runtime/measure/problem_list.h"

static void a_right_kernel_is_checked_and_timed(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("right");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_true(m.status == HR_OK || m.status == HR_ERROR_NOISY); /* noisy: other programs used the cores */
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
  const char *const kernels[] = {"wrong", "idle"}; /* one wrong element; a result that is never written */
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

/* A device whose memory the host cannot access: only copies may be read. */
static size_t copied;

static hr_status count_and_copy(hr_device *device, void *to, const void *from, size_t bytes, hr_error *error)
{
  (void)device, (void)error;
  copied += bytes;
  memcpy(to, from, bytes);
  return HR_OK;
}

static void from_device_memory_the_check_copies_only_what_the_sampled_rows_need(void **state)
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
  hr_runner runner;
  hr_problem problem = hr_gemm_problem(gemm);
  hr_measure_options options = brief(kernel);
  options.warm = true; /* one buffer set is enough */
  *m = (hr_measurement){.rows_checked = 0};
  hr_status status = hr_runner_open(device, &problem, &options, &runner, error);
  if (status == HR_OK)
    status = hr_runner_check(&runner, options.seed, m, error);
  hr_runner_close(&runner);
  return status;
}

/* A row of 5000 elements with 4096 terms each is 20 million, of which 2^23 are checked: 64 ranges of 32 columns, one in
 * each 78 columns, the last at the end. */
static void of_very_long_rows_ranges_of_columns_are_checked(void **state)
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
    hr_runner runner;
    hr_problem problem = hr_gemm_problem(&gemm);
    hr_measure_options options = brief("right");
    assert_ok(hr_runner_open(*state, &problem, &options, &runner, &error), error);
    assert_ok(hr_runner_check(&runner, 1, &m, &error), error);
    assert_int_equal(m.rows_checked, rows < 16 ? rows : 16);
    hr_runner_close(&runner);
    bool seen[40] = {false};
    for (int64_t i = 0; i < m.rows_checked; i++) {
      int64_t row = hr_sampled_row(rows, m.rows_checked, i, 1);
      assert_true(row >= 0 && row < rows && !seen[row]);
      seen[row] = true;
    }
    assert_true(seen[0] && seen[rows - 1]);
  }
}

/* The formula of docs/measuring.md, computed by hand: of 100 rows, 98 lie between the first and the last, in 14
 * stretches of 7. For seed 1 and row 5, (1 + 5) · 0x9E3779B97F4A7C15 is 0xB54CDA58FBBEE87E in 64 bits; without its last
 * 16 bits, 0xB54CDA58FBBE is a multiple of 7: row 1 + 3 · 7 + 0. */
static void the_seed_decides_which_rows_are_checked(void **state)
{
  (void)state;
  assert_int_equal(hr_sampled_row(100, 16, 0, 1), 99);
  assert_int_equal(hr_sampled_row(100, 16, 1, 1), 0);
  assert_int_equal(hr_sampled_row(100, 16, 5, 1), 22);
}

static void a_measurement_without_the_check_reads_no_result(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("wrong");
  options.check = false;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_true(m.samples > 0 && m.rows_checked == 0 && isnan(m.max_error));
}

static void out_of_memory_for_operands_or_workspace_is_a_status(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("hungry");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_no_times(&m);
  options.kernel = "right";
  gemm.m = gemm.n = gemm.k = 1 << 20; /* 3 · 2⁴⁰ · 4 bytes: 12 TiB */
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(m.reason, "operands and workspace take 12.0 TiB, free: "));
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

static void a_slow_first_run_is_not_a_timeout(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("hesitant"); /* the first takes 200 ms, the others microseconds */
  options.time_limit_ns = 1e8;
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_not_equal(m.status, HR_ERROR_TIMEOUT);
  assert_true(m.samples > 0);
}

static void an_error_of_a_library_is_reported_in_its_words(void **state)
{
  hr_gemm gemm = small();
  hr_measure_options options = brief("broken");
  hr_measurement m;
  hr_error error;
  assert_ok(hr_measure_gemm(*state, &gemm, &options, &m, &error), error);
  assert_int_equal(m.status, HR_ERROR_BACKEND);
  assert_string_equal(m.reason, "the library below gave up");
}

static void gradients_of_attention_are_checked_and_timed_by_their_own_flops(void **state)
{
  (void)state;
  hr_device *device;
  hr_measurement m;
  hr_error error;
  hr_attention a = hr_attention_default();
  a.q_heads = 2, a.q_len = 3, a.kv_len = 5, a.qk_dim = 4, a.v_dim = 6, a.dtype = HR_FP32, a.mask = HR_MASK_NONE;
  const hr_measure_options options = brief(NULL);
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_measure_attention_backward(device, &a, NULL, &options, &m, &error), error);
  assert_true(m.status == HR_OK || m.status == HR_ERROR_NOISY);
  assert_true(m.rows_checked > 0 && m.max_error < 1e-5 && strstr(m.kernel, "attention_backward"));
  /* 3 · 5 pairs of rows, 2 heads: 2 · 15 · (3 · 4 + 2 · 6) · 2 */
  assert_true(fabs(m.flops_per_s * m.median_ns * 1e-9 - 1440) < 1e-6);
  a.dtype = HR_FP8_E4M3;
  assert_int_equal(hr_measure_attention_backward(device, &a, NULL, &options, &m, &error), HR_ERROR_INVALID);
  hr_device_close(device);
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

static void invalid_options_are_errors_of_the_call(void **state)
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
  assert_true(m.median_ns > 0); /* doubtful, but reported */
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

static void pairs_are_interleaved(void **state)
{
  hr_gemm a = small(), b = small();
  a.m = b.m = 100, a.n = b.n = 100, a.k = b.k = 60; /* long enough not to be grouped */
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

static void two_sequences_are_interleaved_each_with_its_own_kernels(void **state)
{
  hr_gemm gemm = small();
  hr_problem problems[3];
  gemm.n = 100, gemm.k = 60; /* long enough not to be grouped */
  for (int i = 0; i < 3; i++) {
    gemm.m = 100 + i;
    problems[i] = hr_gemm_problem(&gemm);
  }
  const hr_problem_list two = {.problems = problems, .count = 2}, one = {&problems[2], 1, "right"};
  hr_measure_options options = brief("right");
  options.samples_min = options.samples_max = 12;
  options.time_limit_ns = 1e10;
  hr_comparison c;
  hr_error error;
  assert_ok(hr_measure_list_pair(*state, &two, &one, &options, &c, &error), error);
  assert_int_equal(c.before.samples + c.before.discarded, 12);
  assert_int_equal(c.before.rows_checked, 0);
  assert_int_equal(c.after.rows_checked, 16);
  assert_string_equal(c.before.kernel, "");
  assert_string_equal(c.after.kernel, "right");
  assert_true(runs >= 36 && runs < 4096);
  for (int i = runs - 36; i < runs; i++)
    assert_int_equal(order[i], 100 + (i - (runs - 36)) % 3);
  assert_true(c.ratio > 0);
  const hr_problem_list wrong = {&problems[2], 1, "wrong"};
  assert_ok(hr_measure_list_pair(*state, &two, &wrong, &options, &c, &error), error);
  assert_true(c.before.samples > 0 && isnan(c.ratio));
  assert_int_equal(c.after.status, HR_ERROR_WRONG_RESULT);
}

static void a_pair_warms_up_interleaved_where_the_clock_depends_on_the_load(void **state)
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

static void if_one_of_a_pair_fails_there_is_no_ratio_but_the_other_has_its_time(void **state)
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_right_kernel_is_checked_and_timed),
      TEST(a_wrong_kernel_is_a_wrong_result_and_never_a_time),
      TEST(from_device_memory_the_check_copies_only_what_the_sampled_rows_need),
      TEST(of_very_long_rows_ranges_of_columns_are_checked),
      TEST(every_row_of_a_small_result_is_checked_and_none_twice),
      TEST(the_seed_decides_which_rows_are_checked),
      TEST(a_measurement_without_the_check_reads_no_result),
      TEST(out_of_memory_for_operands_or_workspace_is_a_status),
      TEST(a_run_beyond_the_time_limit_is_a_timeout),
      TEST(a_slow_first_run_is_not_a_timeout),
      TEST(an_error_of_a_library_is_reported_in_its_words),
      TEST(gradients_of_attention_are_checked_and_timed_by_their_own_flops),
      TEST(an_operation_without_a_kernel_is_unsupported),
      TEST(invalid_options_are_errors_of_the_call),
      TEST(samples_that_never_settle_are_noisy),
      TEST(too_few_samples_for_an_interval_are_noisy),
      TEST(the_caller_can_stop),
      TEST(cold_runs_rotate_among_the_sets_and_warm_ones_do_not),
      TEST(pairs_are_interleaved),
      TEST(two_sequences_are_interleaved_each_with_its_own_kernels),
      TEST(a_pair_warms_up_interleaved_where_the_clock_depends_on_the_load),
      TEST(if_one_of_a_pair_fails_there_is_no_ratio_but_the_other_has_its_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
