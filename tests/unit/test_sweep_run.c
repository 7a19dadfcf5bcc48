/* SPDX-License-Identifier: Apache-2.0 */
/* Running a sweep into a store: rows, resuming, shards, points that cannot be measured, stopping. On the reference
 * device; no measured time is compared. */
#include "test.h"

#include <headroom/experimental/store.h>
#include <headroom/experimental/sweep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
  char folder[64], path[96];
  hr_device *device;
  hr_store *store;
} fixture;

static int set_up(void **state)
{
  fixture *f = calloc(1, sizeof *f);
  hr_error error = {.status = HR_OK};
  strcpy(f->folder, "/tmp/headroom-sweep-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  snprintf(f->path, sizeof f->path, "%s/results.db", f->folder);
  assert_ok(hr_device_open("reference", 0, &f->device, &error), error);
  assert_ok(hr_store_open(f->path, HR_STORE_WRITE, &f->store, &error), error);
  *state = f;
  return 0;
}

static int tear_down(void **state)
{
  fixture *f = *state;
  char command[160];
  hr_store_close(f->store);
  hr_device_close(f->device);
  snprintf(command, sizeof command, "rm -r '%s'", f->folder);
  assert_int_equal(system(command), 0);
  free(f);
  return 0;
}

static hr_sweep *read_text(const char *text)
{
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "sweep.json"}, NULL, false,
                               &sweep, &error),
            error);
  return sweep;
}

/* 2 lines of 6 small GEMMs. */
#define SMALL                                                                                      \
  "{\"name\":\"small\",\"x\":\"m\",\"axes\":{\"n\":[1,2],\"m\":{\"from\":1,\"to\":6,\"step\":1}}," \
  "\"series\":\"n = {n}\",\"problem\":{\"kind\":\"gemm\",\"m\":\"m\",\"n\":\"n\",\"k\":4}}"

static hr_sweep_options quick(void)
{
  hr_sweep_options options = hr_sweep_options_default();
  options.time_limit_ns = 2e6;
  options.dtype = HR_FP32;
  return options;
}

typedef struct watcher {
  int64_t stop_after;
  char seen[64][64]; /* the problems in order */
  size_t count;
} watcher;

static int watch(void *context, const hr_sweep_progress *now)
{
  watcher *w = context;
  if (w->count == 0 || strcmp(w->seen[w->count - 1], now->what) != 0)
    snprintf(w->seen[w->count++], sizeof w->seen[0], "%.63s", now->what);
  return w->stop_after > 0 && now->measured >= w->stop_after;
}

static int64_t found_of(const hr_sweep *sweep, const hr_sweep_row *rows)
{
  int64_t found = 0;
  for (size_t i = 0; i < hr_sweep_describe(sweep)->point_count; i++)
    found += rows[i].found;
  return found;
}

static hr_sweep_progress run(fixture *f, const hr_sweep *sweep, const hr_sweep_options *options, watcher *w)
{
  hr_sweep_progress outcome;
  hr_error error = {.status = HR_OK};
  hr_sweep_options watched = *options;
  watched.progress = w ? watch : NULL, watched.context = w;
  assert_ok(hr_sweep_run(sweep, f->device, f->store, &watched, &outcome, &error), error);
  return outcome;
}

static int64_t rows_in(fixture *f)
{
  int64_t count = 0;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_count(f->store, NULL, &count, &error), error);
  return count;
}

static int keep_last(void *context, const hr_result *result)
{
  *(hr_result *)context = *result;
  return 0;
}

static hr_result last_row(fixture *f)
{
  hr_result result;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_query(f->store, NULL, keep_last, &result, &error), error);
  return result;
}

static void autotuned_points_are_separate_points(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options plain = quick(), tuned = quick();
  tuned.autotune = 4;
  assert_int_equal(run(f, sweep, &plain, NULL).measured, 12);
  assert_int_equal(run(f, sweep, &tuned, NULL).measured, 12);
  assert_int_equal(run(f, sweep, &tuned, NULL).skipped, 12);
  assert_int_equal(run(f, sweep, &plain, NULL).skipped, 12);
  hr_result row = last_row(f);
  assert_int_equal(row.autotune, 4);
  assert_int_equal(row.measurement.choices, 1); /* the reference has one choice */

  hr_sweep_row *rows;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_rows(sweep, f->device, f->store, &plain, &rows, &error), error);
  assert_int_equal(found_of(sweep, rows), 12);
  for (int i = 0; i < 12; i++)
    assert_int_equal(rows[i].measurement.choices, 0);
  free(rows);
  assert_ok(hr_sweep_rows(sweep, f->device, f->store, &tuned, &rows, &error), error);
  assert_int_equal(found_of(sweep, rows), 12);
  for (int i = 0; i < 12; i++)
    assert_int_equal(rows[i].measurement.choices, 1);
  free(rows);
  hr_sweep_free(sweep);
}

static void every_point_becomes_a_row_with_its_problem(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  options.choice.seed = 7;
  hr_sweep_progress outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.total, 12);
  assert_int_equal(outcome.done, 12);
  assert_int_equal(outcome.measured, 12);
  assert_int_equal(rows_in(f), 12);
  hr_result row = last_row(f);
  size_t *indices, count;
  hr_error error = {.status = HR_OK};
  hr_sweep_point point;
  assert_ok(hr_sweep_order(sweep, &options.choice, &indices, &count, &error), error);
  assert_ok(hr_sweep_point_at(sweep, indices[11], HR_FP32, &point, &error), error);
  assert_string_equal(row.sweep, "small");
  assert_string_equal(row.series, point.series);
  assert_string_equal(row.axes, point.axes);
  assert_string_equal(row.problem, point.problem);
  assert_string_equal(row.device, "reference");
  assert_int_equal(row.kind, HR_RESULT_GEMM);
  assert_int_equal(row.gemm.m, point.x);
  assert_int_equal(row.seed, 7); /* which also decides the order */
  free(indices);
  hr_sweep_free(sweep);
}

static void points_are_measured_in_the_order_that_the_seed_gives(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  watcher w = {.count = 0};
  size_t *indices, count;
  hr_error error = {.status = HR_OK};
  run(f, sweep, &options, &w);
  assert_ok(hr_sweep_order(sweep, &options.choice, &indices, &count, &error), error);
  assert_int_equal(w.count, 12);
  for (size_t i = 0; i < count; i++) {
    hr_sweep_point point;
    assert_ok(hr_sweep_point_at(sweep, indices[i], HR_FP32, &point, &error), error);
    assert_string_equal(w.seen[i], point.problem);
  }
  free(indices);
  hr_sweep_free(sweep);
}

static void a_run_resumes_a_stopped_one_and_measures_nothing_twice(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  watcher w = {.stop_after = 5};
  hr_sweep_progress outcome;
  hr_error error = {.status = HR_OK};
  hr_sweep_options watched = options;
  watched.progress = watch, watched.context = &w;
  assert_int_equal(hr_sweep_run(sweep, f->device, f->store, &watched, &outcome, &error), HR_ERROR_INTERRUPTED);
  assert_int_equal(outcome.done, 5);
  assert_int_equal(rows_in(f), 5);
  outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.skipped, 5);
  assert_int_equal(outcome.measured, 7);
  assert_int_equal(rows_in(f), 12);
  outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.skipped, 12);
  assert_int_equal(rows_in(f), 12);

  options.again = true; /* keeps both rows */
  outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.measured, 12);
  assert_int_equal(rows_in(f), 24);
  options.again = false;
  options.warm = true; /* a different measurement */
  outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.measured, 12);
  options.dtype = HR_FP64;
  outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.measured, 12);
  hr_sweep_free(sweep);
}

/* A second handle on the store runs the sweep while the first point is looked up or, later, timed. */
typedef struct other_process {
  fixture *f;
  const hr_sweep *sweep;
  const hr_sweep_options *options;
  int64_t at_call, calls;
} other_process;

static int run_other(void *context, const hr_sweep_progress *now)
{
  other_process *o = context;
  hr_sweep_progress outcome;
  hr_error error = {.status = HR_OK};
  (void)now;
  if (++o->calls != o->at_call)
    return 0;
  hr_store *store;
  assert_ok(hr_store_open(o->f->path, HR_STORE_WRITE, &store, &error), error);
  assert_ok(hr_sweep_run(o->sweep, o->f->device, store, o->options, &outcome, &error), error);
  assert_int_equal(outcome.measured, 12);
  hr_store_close(store);
  return 0;
}

static void a_point_stored_by_another_process_in_the_meantime_gets_no_second_row(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  for (int64_t at_call = 1; at_call <= 3; at_call += 2) { /* before the first point, and when it is being measured */
    other_process o = {.f = f, .sweep = sweep, .options = &options, .at_call = at_call};
    hr_sweep_progress outcome;
    hr_error error = {.status = HR_OK};
    hr_sweep_options watched = options;
    watched.progress = run_other, watched.context = &o;
    assert_ok(hr_sweep_run(sweep, f->device, f->store, &watched, &outcome, &error), error);
    assert_int_equal(rows_in(f), 12);
    assert_int_equal(outcome.measured, 0);
    assert_int_equal(outcome.skipped, 12);
    assert_int_equal(outcome.done, 12);
    assert_ok(hr_store_delete(f->store, NULL, NULL, &error), error);
  }
  hr_sweep_free(sweep);
}

static void shards_fill_one_store_together(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  options.choice.shards = 5; /* of 12: 3, 3, 2, 2, 2 */
  for (options.choice.shard = 1; options.choice.shard <= 5; options.choice.shard++) {
    hr_sweep_progress outcome = run(f, sweep, &options, NULL);
    assert_int_equal(outcome.total, options.choice.shard <= 2 ? 3 : 2);
    assert_int_equal(outcome.skipped, 0);
  }
  options.choice.shard = options.choice.shards = 1;
  hr_sweep_progress outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.skipped, 12);
  assert_int_equal(outcome.measured, 0);
  hr_sweep_free(sweep);
}

static void a_point_too_large_is_recorded_as_out_of_memory_and_the_sweep_continues(void **state)
{
  fixture *f = *state;
  /* m = 2^44 elements of k = 1 in fp32: 64 TiB */
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"m\",\"axes\":{\"m\":[17592186044416,3]},\"problem\":"
                              "{\"kind\":\"gemm\",\"m\":\"m\",\"n\":1,\"k\":1}}");
  hr_sweep_options options = quick();
  hr_sweep_progress outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.measured, 2);
  assert_int_equal(outcome.failed, 1);
  hr_sweep_row *rows;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_rows(sweep, f->device, f->store, &options, &rows, &error), error);
  assert_int_equal(found_of(sweep, rows), 2);
  assert_int_equal(rows[0].measurement.status, HR_ERROR_OUT_OF_MEMORY);
  assert_true(rows[0].measurement.reason[0] && isnan(rows[0].measurement.median_ns));
  assert_true(rows[1].measurement.median_ns > 0);
  free(rows);
  hr_sweep_free(sweep);
}

static void a_point_that_takes_longer_than_the_limit_is_recorded_as_timeout(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"m\",\"axes\":{\"m\":64},\"problem\":"
                              "{\"kind\":\"gemm\",\"m\":\"m\",\"n\":64,\"k\":64}}");
  hr_sweep_options options = quick();
  options.time_limit_ns = 1;
  hr_sweep_progress outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.failed, 1);
  assert_int_equal(last_row(f).measurement.status, HR_ERROR_TIMEOUT);
  hr_sweep_free(sweep);
}

/* Two models run on this machine's CPU: a step alone has parts and a rate, an output of tokens has neither. */
#define STEPS                                                                                              \
  "{\"name\":\"steps\",\"x\":\"a\",\"axes\":{\"a\":[2,4],\"output\":[0,3],\"phase\":1,\"s\":16},"          \
  "\"problem\":{\"kind\":\"step\",\"h\":64,\"a\":\"a\",\"L\":2,\"v\":100,\"s\":\"s\",\"phase\":\"phase\"," \
  "\"output\":\"output\",\"positions\":2}}"

static void a_whole_model_has_its_operators_as_parts(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(STEPS);
  hr_sweep_options options = quick();
  hr_error error = {.status = HR_OK};
  hr_sweep_row *rows;
  hr_device_close(f->device);
  assert_ok(hr_device_open("cpu", 1, &f->device, &error), error);
  options.probe = true;
  assert_int_equal(run(f, sweep, &options, NULL).failed, 0);
  assert_ok(hr_sweep_rows(sweep, f->device, f->store, &options, &rows, &error), error);
  for (int i = 0; i < 4; i++) {
    assert_true(rows[i].found && rows[i].measurement.samples >= 3 && rows[i].measurement.median_ns > 0);
    assert_true(isnan(rows[i].measurement.flops_per_s) == (i % 2 == 1));
  }
  free(rows);
  options.choice.points = 1;
  options.again = true;
  run(f, sweep, &options, NULL);
  const hr_result last = last_row(f);
  assert_string_equal(last.problem, "step h=64 a=4 L=2 v=100 b=1 s=16 phase=prefill dtype=fp32 positions=2");
  assert_non_null(strstr(last.parts, "mlp_down="));
  assert_non_null(strstr(last.parts, "logit="));
  hr_sweep_free(sweep);
}

static void a_model_that_cannot_run_is_a_row_with_the_reason(void **state)
{
  fixture *f = *state;
  char text[sizeof STEPS + 8] = STEPS;
  memcpy(text + strlen(text) - 2, ",\"t\":3}}", 9);
  hr_sweep *sweep = read_text(text);
  hr_sweep_options options = quick();
  assert_int_equal(run(f, sweep, &options, NULL).failed, 4); /* 2 and 4 heads */
  assert_int_equal(last_row(f).measurement.status, HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(last_row(f).measurement.reason, "3 ranks: "));
  hr_sweep_free(sweep);
}

static void a_layer_is_recorded_as_unsupported_with_the_reason(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = NULL;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_sweep_load("fig2", true, &sweep, &error), error);
  hr_sweep_options options = quick();
  hr_sweep_progress outcome = run(f, sweep, &options, NULL);
  assert_int_equal(outcome.measured, 3);
  assert_int_equal(outcome.failed, 3);
  hr_sweep_row *rows;
  assert_ok(hr_sweep_rows(sweep, f->device, f->store, &options, &rows, &error), error);
  assert_int_equal(found_of(sweep, rows), 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(rows[i].measurement.status, HR_ERROR_UNSUPPORTED);
    assert_true(rows[i].measurement.reason[0] != '\0');
    assert_true(isnan(rows[i].measurement.median_ns)); /* never 0 */
  }
  free(rows);
  hr_sweep_free(sweep);
}

static void points_of_gradients_are_measured_and_stored_as_such(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"q\",\"axes\":{\"q\":[4]},\"problem\":{\"kind\":\"attention\","
                              "\"batch\":1,\"q_len\":\"q\",\"kv_len\":8,\"q_heads\":4,\"k_heads\":2,\"v_heads\":1,"
                              "\"qk_dim\":8,\"v_dim\":4,\"backward\":true}}");
  hr_sweep_options options = quick();
  run(f, sweep, &options, NULL);
  hr_result row = last_row(f);
  assert_true(row.kind == HR_RESULT_ATTENTION && row.backward && row.attention.v_heads == 1);
  assert_non_null(strstr(row.measurement.kernel, "attention_backward"));
  hr_sweep_free(sweep);
}

static void attention_points_are_measured_as_attention(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"q\",\"axes\":{\"q\":[4,8]},\"problem\":{\"kind\":\"attention\","
                              "\"batch\":1,\"q_len\":\"q\",\"kv_len\":8,\"q_heads\":4,\"k_heads\":2,\"v_heads\":1,"
                              "\"qk_dim\":8,\"v_dim\":4}}");
  hr_sweep_options options = quick();
  run(f, sweep, &options, NULL);
  hr_result row = last_row(f);
  assert_int_equal(row.kind, HR_RESULT_ATTENTION);
  assert_int_equal(row.attention.v_heads, 1);
  assert_int_equal(row.attention.mask, HR_MASK_CAUSAL);
  assert_true(row.measurement.median_ns > 0);
  hr_sweep_free(sweep);
}

static void decode_points_are_measured_as_decode(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text("{\"name\":\"s\",\"x\":\"n\",\"axes\":{\"n\":[4,8]},\"problem\":{\"kind\":\"decode\","
                              "\"batch\":2,\"kv_len\":\"n\",\"q_heads\":4,\"k_heads\":2,\"v_heads\":1,\"qk_dim\":8,"
                              "\"v_dim\":4,\"page_size\":3,\"sinks\":true,\"top_k\":\"n / 4\",\"cache_format\":2,"
                              "\"cache_scales\":1,\"batch_invariant\":true}}");
  hr_sweep_options options = quick();
  run(f, sweep, &options, NULL);
  hr_result row = last_row(f);
  assert_int_equal(row.kind, HR_RESULT_DECODE);
  assert_int_equal(row.decode.v_heads, 1);
  assert_int_equal(row.decode.page_size, 3);
  assert_true(row.decode.sinks && row.decode.batch_invariant);
  assert_int_equal(row.decode.top_k, row.decode.kv_len / 4);
  assert_true(row.decode.cache_format == HR_KV_INT8 && row.decode.cache_scales == HR_KV_SCALE_TOKEN);
  assert_true(row.measurement.selection_error > 0);
  assert_true(row.measurement.median_ns > 0);
  hr_sweep_free(sweep);
}

static void an_unknown_kernel_is_refused_before_anything_is_measured(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  hr_error error;
  options.kernel = "gemm_magic";
  assert_int_equal(hr_sweep_run(sweep, f->device, f->store, &options, NULL, &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "there is no kernel \"gemm_magic\"");
  assert_int_equal(rows_in(f), 0);
  hr_sweep_free(sweep);
}

static void a_store_that_cannot_be_written_ends_the_sweep_and_keeps_its_rows(void **state)
{
  fixture *f = *state;
  hr_sweep *sweep = read_text(SMALL);
  hr_sweep_options options = quick();
  options.choice.points = 4;
  run(f, sweep, &options, NULL);
  assert_int_equal(rows_in(f), 4);
  hr_store *reader;
  hr_error error = {.status = HR_OK};
  hr_sweep_progress outcome;
  assert_ok(hr_store_open(f->path, HR_STORE_READ, &reader, &error), error);
  options.choice.points = 0;
  assert_int_equal(hr_sweep_run(sweep, f->device, reader, &options, &outcome, &error), HR_ERROR_OUTPUT);
  assert_true(error.message[0] != '\0');
  assert_int_equal(outcome.measured, 0);
  hr_store_close(reader);
  assert_int_equal(rows_in(f), 4);
  hr_sweep_free(sweep);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_A_FOLDER(every_point_becomes_a_row_with_its_problem),
      IN_A_FOLDER(autotuned_points_are_separate_points),
      IN_A_FOLDER(points_are_measured_in_the_order_that_the_seed_gives),
      IN_A_FOLDER(a_run_resumes_a_stopped_one_and_measures_nothing_twice),
      IN_A_FOLDER(a_point_stored_by_another_process_in_the_meantime_gets_no_second_row),
      IN_A_FOLDER(shards_fill_one_store_together),
      IN_A_FOLDER(a_point_too_large_is_recorded_as_out_of_memory_and_the_sweep_continues),
      IN_A_FOLDER(a_point_that_takes_longer_than_the_limit_is_recorded_as_timeout),
      IN_A_FOLDER(a_layer_is_recorded_as_unsupported_with_the_reason),
      IN_A_FOLDER(a_whole_model_has_its_operators_as_parts),
      IN_A_FOLDER(a_model_that_cannot_run_is_a_row_with_the_reason),
      IN_A_FOLDER(points_of_gradients_are_measured_and_stored_as_such),
      IN_A_FOLDER(attention_points_are_measured_as_attention),
      IN_A_FOLDER(decode_points_are_measured_as_decode),
      IN_A_FOLDER(an_unknown_kernel_is_refused_before_anything_is_measured),
      IN_A_FOLDER(a_store_that_cannot_be_written_ends_the_sweep_and_keeps_its_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
