/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps of collectives, and of steps whose layers ranks share: on the cores of this CPU or on emulated GPUs. */
#include "test.h"

#include "runtime/device/device.h"

#include <headroom/experimental/collective.h>
#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Two libraries of an all-reduce, and an all-gather, of 1 and 2 KiB. */
static const char file[] =
    "{\"name\":\"few\",\"cases\":[{\"name\":\"nccl\",\"op\":0,\"library\":0},"
    "{\"name\":\"own\",\"op\":0,\"library\":1},{\"name\":\"gather\",\"op\":1,\"library\":0},"
    "{\"name\":\"own gather\",\"op\":1,\"library\":1}],\"axes\":{\"gpus\":2,\"bytes\":[1024,2048]},"
    "\"problem\":{\"kind\":\"collective\",\"op\":\"op\",\"bytes\":\"bytes\",\"gpus\":\"gpus\",\"library\":\"library\"},"
    "\"x\":\"bytes\",\"series\":\"{case}\"}";

static hr_sweep *read_sweep(const char *text, hr_status expected, hr_error *error)
{
  hr_sweep *sweep = NULL;
  const hr_input input = {.text = text, .length = strlen(text), .name = "few.json"};
  assert_int_equal(hr_sweep_from_json(&input, NULL, false, &sweep, error), expected);
  return sweep;
}

static void run(const char *device_name, const hr_sweep *sweep, hr_sweep_row **rows, hr_sweep_progress *outcome)
{
  char path[] = "/tmp/headroom-collectives-XXXXXX";
  hr_device *device;
  hr_store *store;
  hr_error error;
  hr_sweep_options options = hr_sweep_options_default();
  options.time_limit_ns = 2e7;
  options.dtype = HR_FP32; /* in which every CPU multiplies */
  assert_true(mkdtemp(path));
  char db[64];
  snprintf(db, sizeof db, "%s/rows.db", path);
  assert_ok(hr_device_open(device_name, 0, &device, &error), error);
  assert_ok(hr_store_open(db, HR_STORE_WRITE, &store, &error), error);
  assert_ok(hr_sweep_run(sweep, device, store, &options, outcome, &error), error);
  hr_sweep_progress again;
  assert_ok(hr_sweep_run(sweep, device, store, &options, &again, &error), error);
  assert_int_equal(again.skipped, outcome->total);
  assert_ok(hr_sweep_rows(sweep, device, store, &options, rows, &error), error);
  hr_store_close(store);
  hr_device_close(device);
  unlink(db);
  rmdir(path);
}

/* A time that is doubtful on a busy machine is one, too. */
static void expect_time(const hr_sweep_row *row, const char *library)
{
  const hr_measurement *m = &row->measurement;
  assert_true(row->found);
  if (m->status != HR_OK && m->status != HR_ERROR_NOISY)
    fail_msg("%s: %s", library, m->reason);
  assert_string_equal(m->kernel, library);
  assert_true(m->median_ns > 0 && m->samples >= 10 && m->warm && m->rows_checked > 100 && m->max_error < 0.1);
}

static void expect_reason(const hr_sweep_row *row, const char *reason)
{
  assert_true(row->found);
  assert_int_equal(row->measurement.status, HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(row->measurement.reason, reason));
}

static void ranks_of_this_machine_are_measured_and_checked(void **state)
{
  (void)state;
  hr_error error;
  hr_sweep_row *rows;
  hr_sweep_progress outcome;
  const bool gpu = test_asks_for("gpu");
  hr_sweep *sweep = read_sweep(file, HR_OK, &error);
  run(gpu ? "cuda:0" : "cpu", sweep, &rows, &outcome);
  assert_int_equal(outcome.measured, 8);
  for (size_t i = 0; i < 2; i++) {
    if (gpu) {
      expect_time(&rows[i], "nccl");
      expect_time(&rows[4 + i], "nccl");
      expect_reason(&rows[6 + i], "all-reduces of its own");
    } else {
      expect_reason(&rows[i], "NCCL is for GPUs");
      expect_time(&rows[6 + i], "headroom");
    }
    expect_time(&rows[2 + i], "headroom");
  }
  free(rows);
  hr_sweep_free(sweep);
}

static void more_ranks_than_gpus_are_the_reason_of_rows(void **state)
{
  (void)state;
  hr_error error;
  hr_sweep_row *rows;
  hr_sweep_progress outcome;
  char many[sizeof file + 8];
  if (!test_asks_for("gpu"))
    skip();
  snprintf(many, sizeof many, "%s", file);
  strstr(many, "\"gpus\":2")[7] = '8'; /* of 4 */
  hr_sweep *sweep = read_sweep(many, HR_OK, &error);
  run("cuda:0", sweep, &rows, &outcome);
  assert_int_equal(outcome.failed, 8);
  assert_non_null(strstr(rows[0].measurement.reason, "8 ranks: "));
  free(rows);
  hr_sweep_free(sweep);
}

static void a_point_says_its_collective(void **state)
{
  (void)state;
  hr_error error;
  hr_sweep_point point;
  hr_sweep *sweep = read_sweep(file, HR_OK, &error);
  assert_ok(hr_sweep_point_at(sweep, 3, HR_BF16, &point, &error), error);
  assert_string_equal(point.problem, "collective all_reduce bytes=2048 gpus=2 library=headroom dtype=bf16");
  assert_true(point.collective.library == HR_LIBRARY_HEADROOM && point.collective.bytes == 2048);
  hr_sweep_free(sweep);
  char odd[sizeof file];
  snprintf(odd, sizeof odd, "%s", file);
  memcpy(strstr(odd, "1024"), "1026", 4);
  read_sweep(odd, HR_ERROR_INVALID, &error);
  assert_non_null(strstr(error.message, "bytes: expected a multiple of 4"));
}

/* One step by one and by two ranks, and by more than there are GPUs or heads. */
static const char steps[] =
    "{\"name\":\"shared\",\"axes\":{\"t\":[1,2,8],\"a\":4},\"problem\":{\"kind\":\"step\",\"h\":64,\"a\":\"a\",\"L\":2,"
    "\"v\":96,\"b\":2,\"s\":16,\"phase\":2,\"positions\":1,\"t\":\"t\"},\"x\":\"t\"}";

static void steps_of_several_ranks_are_measured(void **state)
{
  (void)state;
  hr_error error;
  hr_sweep_row *rows;
  hr_sweep_progress outcome;
  const bool gpu = test_asks_for("gpu");
  hr_sweep *sweep = read_sweep(steps, HR_OK, &error);
  run(gpu ? "cuda:0" : "cpu", sweep, &rows, &outcome);
  assert_int_equal(outcome.measured, 3);
  for (size_t i = 0; i < 2; i++) {
    const hr_measurement *m = &rows[i].measurement;
    if (m->status != HR_OK)
      fail_msg("%zu ranks: %s", i + 1, m->reason);
    assert_true(m->median_ns > 0 && m->samples >= 3 && m->flops_per_s > 0);
  }
  assert_int_equal(outcome.failed, 1);
  const char *const why = gpu ? "8 ranks: cuda:4" : "8 ranks: 4 query heads do not divide by t = 8";
  if (strncmp(rows[2].measurement.reason, why, strlen(why)) != 0)
    fail_msg("\"%s\" does not say \"%s\"", rows[2].measurement.reason, why);
  free(rows);
  hr_sweep_free(sweep);
}

static void a_point_of_a_step_says_its_ranks(void **state)
{
  (void)state;
  hr_error error;
  hr_sweep_point alone, shared;
  hr_sweep *sweep = read_sweep(steps, HR_OK, &error);
  assert_ok(hr_sweep_point_at(sweep, 0, HR_BF16, &alone, &error), error);
  assert_ok(hr_sweep_point_at(sweep, 1, HR_BF16, &shared, &error), error);
  assert_string_equal(alone.problem, "step h=64 a=4 L=2 v=96 b=2 s=16 phase=decode dtype=bf16 positions=1");
  assert_string_equal(shared.problem, "step h=64 a=4 L=2 v=96 b=2 s=16 phase=decode dtype=bf16 positions=1 t=2");
  assert_true(alone.workload.tensor_parallel == 1 && shared.workload.tensor_parallel == 2);
  hr_sweep_free(sweep);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_of_this_machine_are_measured_and_checked),
      cmocka_unit_test(more_ranks_than_gpus_are_the_reason_of_rows),
      cmocka_unit_test(a_point_says_its_collective),
      cmocka_unit_test(steps_of_several_ranks_are_measured),
      cmocka_unit_test(a_point_of_a_step_says_its_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
