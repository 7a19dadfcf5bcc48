/* SPDX-License-Identifier: Apache-2.0 */
/* Points for calibrating and validating: the designed list, measuring it into a store, resuming. On the reference
 * device; no measured time is compared. */
#include "test.h"

#include "hardware/hardware.h"
#include "unit/measured.h"
#include "unit/store.h"

#include <headroom/experimental/points.h>

static void shapes_of(const hr_point *points, size_t count, size_t *kinds, size_t *odd)
{
  for (size_t i = 0; i < count; i++) {
    const hr_gemm *g = &points[i].gemm;
    kinds[points[i].kind]++;
    *odd += points[i].kind == HR_INTERVAL_GEMM_MISALIGNED && (g->n % 8 != 0 || g->k % 8 != 0);
  }
}

static void every_beginning_of_the_designed_list_has_all_kinds(void **state)
{
  (void)state;
  const hr_hardware h200 = measured_hardware("h200");
  hr_point *points = NULL, *again = NULL;
  size_t count = 0, same = 0, kinds[HR_INTERVAL_KIND_COUNT] = {0}, odd = 0;
  hr_error error;
  assert_ok(hr_points_design(&h200, &points, &count, &error), error);
  assert_ok(hr_points_design(&h200, &again, &same, &error), error);
  assert_int_equal(count, same);
  assert_true(count > 400 && count < 500);
  for (size_t i = 0; i < count; i++) {
    assert_true(points[i].kind == again[i].kind && points[i].gemm.m == again[i].gemm.m);
    assert_true(points[i].attention.kv_len == again[i].attention.kv_len);
    int64_t flops = 0;
    if (points[i].kind == HR_INTERVAL_GEMM)
      assert_int_equal(hr_gemm_flops(&points[i].gemm, &flops), HR_OK);
    assert_true((double)flops <= h200.dense_flops_per_s[HR_FP8_E4M3] * 15e-3);
  }
  shapes_of(points, count / 8, kinds, &odd);
  for (int kind = 0; kind <= HR_INTERVAL_DECODE; kind++)
    assert_true(kinds[kind] >= 5);
  assert_int_equal(odd, kinds[HR_INTERVAL_GEMM_MISALIGNED]);
  free(points);
  free(again);
}

static void check_size(int64_t size, size_t number)
{
  assert_true(size >= 16 && size <= 32768);
  assert_int_equal(size % 8 != 0, number % 3 == 2);
}

static size_t below_the_middle(const hr_point *points, size_t count)
{
  size_t found = 0;
  for (size_t i = 0; i < count; i++)
    found += points[i].gemm.m < 724; /* √(16 · 32768) */
  return found;
}

static void drawn_sizes_are_log_uniform_and_every_third_point_is_odd(void **state)
{
  (void)state;
  const hr_hardware h200 = measured_hardware("h200");
  hr_points_draw_options options = hr_points_draw_options_default();
  hr_point *points = NULL;
  size_t count = 0;
  hr_error error;
  options.kinds = 1u << HR_INTERVAL_GEMM;
  options.count = 1000;
  assert_ok(hr_points_draw(&h200, &options, &points, &count, &error), error);
  assert_int_equal(count, 1000);
  for (size_t i = 0; i < count; i++) {
    check_size(points[i].gemm.m, i);
    check_size(points[i].gemm.n, i);
    check_size(points[i].gemm.k, i);
  }
  size_t small = below_the_middle(points, count); /* 500 expected, standard deviation √(1000 / 4) = 16 */
  assert_true(small > 420 && small < 580);
  free(points);
}

static void drawn_gemms_in_fp8_are_those_that_libraries_multiply(void **state)
{
  (void)state;
  const hr_hardware h200 = measured_hardware("h200");
  hr_points_draw_options options = hr_points_draw_options_default();
  hr_point *points = NULL;
  size_t count = 0;
  hr_error error;
  options.kinds = 1u << HR_INTERVAL_GEMM | 1u << HR_INTERVAL_BMM;
  options.dtype = HR_FP8_E4M3;
  assert_ok(hr_points_draw(&h200, &options, &points, &count, &error), error);
  assert_int_equal(count, 200);
  for (size_t i = 0; i < count; i++) {
    const hr_gemm *g = &points[i].gemm;
    assert_int_equal((g->m | g->n | g->k) % 16, 0);
    assert_true(g->transpose_b && !g->transpose_a);
  }
  free(points);
}

static void a_longer_list_of_fewer_kinds_has_the_same_points(void **state)
{
  (void)state;
  const hr_hardware h200 = measured_hardware("h200");
  hr_points_draw_options options = hr_points_draw_options_default();
  hr_point *all = NULL, *decode = NULL, *others = NULL;
  size_t count = 0, at = 0;
  hr_error error;
  options.seed = 7;
  options.count = 80;
  assert_ok(hr_points_draw(&h200, &options, &all, &count, &error), error);
  options.kinds = 1u << HR_INTERVAL_DECODE;
  assert_ok(hr_points_draw(&h200, &options, &decode, &count, &error), error);
  options.seed = 8;
  assert_ok(hr_points_draw(&h200, &options, &others, &count, &error), error);
  for (size_t i = 0; i < 80; i++) {
    if (all[i].kind != HR_INTERVAL_DECODE)
      continue;
    assert_int_equal(all[i].attention.q_len, 1);
    assert_memory_equal(&all[i].attention, &decode[at++].attention, sizeof(hr_attention));
  }
  assert_int_equal(at, 10); /* an eighth */
  assert_memory_not_equal(decode, others, 80 * sizeof *decode);
  free(all);
  free(decode);
  free(others);
}

static void a_draw_without_kinds_or_points_is_refused(void **state)
{
  (void)state;
  const hr_hardware h200 = measured_hardware("h200");
  hr_points_draw_options options = hr_points_draw_options_default();
  hr_point *points = NULL;
  size_t count = 0;
  hr_error error;
  options.kinds = 1u << HR_INTERVAL_GEMM_MISALIGNED;
  assert_int_equal(hr_points_draw(&h200, &options, &points, &count, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "kinds: "));
  options = hr_points_draw_options_default();
  for (int64_t wrong = 0; wrong <= HR_POINTS_DRAWN_MAX + 1; wrong += HR_POINTS_DRAWN_MAX + 1) {
    options.count = wrong;
    assert_int_equal(hr_points_draw(&h200, &options, &points, &count, &error), HR_ERROR_INVALID);
    assert_non_null(strstr(error.message, "count: expected 1 to 100000"));
  }
  hr_hardware tiny = h200;
  tiny.memory_bytes = 1024;
  options = hr_points_draw_options_default();
  assert_int_equal(hr_points_draw(&tiny, &options, &points, &count, &error), HR_ERROR_UNSUPPORTED);
  assert_null(points);
}

#define SMALL 3

static void make_small(hr_point points[SMALL])
{
  for (int i = 0; i < SMALL; i++) {
    points[i] = (hr_point){.kind = HR_INTERVAL_GEMM, .gemm = hr_gemm_default(), .attention = hr_attention_default()};
    points[i].gemm.m = i + 1, points[i].gemm.n = 2, points[i].gemm.k = 4;
    points[i].gemm.dtype = HR_FP32;
  }
}

static hr_points_options quick(void)
{
  hr_points_options options = hr_points_options_default();
  options.sweep = "calibrate";
  options.time_limit_ns = 1e6;
  return options;
}

static int stop_at_the_second(void *context, const hr_sweep_progress *now)
{
  (void)context;
  return now->done == 1;
}

static void a_stopped_run_goes_on_where_it_was(void **state)
{
  hr_point points[SMALL];
  const hr_point_list list = {points, SMALL};
  hr_device *device = NULL;
  hr_store *store = NULL;
  hr_sweep_progress outcome;
  hr_validated_rows found;
  char path[256];
  hr_error error;
  hr_points_options options = quick();
  make_small(points);
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_store_open(path_in(state, "points.db", path), HR_STORE_WRITE, &store, &error), error);
  options.progress = stop_at_the_second;
  assert_int_equal(hr_points_measure(device, store, &list, &options, &outcome, &error), HR_ERROR_INTERRUPTED);
  options.progress = NULL;
  assert_true(outcome.total == SMALL && outcome.measured == 1);
  bool noisy = outcome.noisy > 0;
  assert_ok(hr_points_measure(device, store, &list, &options, &outcome, &error), error);
  assert_true(outcome.done == SMALL && outcome.skipped + outcome.measured == SMALL && outcome.failed == 0);
  assert_int_equal(outcome.skipped, noisy ? 0 : 1); /* a noisy row is measured again */
  assert_ok(hr_points_rows(device, store, &list, &options, &found, &error), error);
  const hr_validated_row *rows = found.rows;
  for (size_t i = 0; i < found.count; i++) {
    assert_true(rows[i].line >= 1 && rows[i].line <= SMALL && rows[i].measured_ns > 0);
    assert_int_equal(rows[i].gemm.m, points[rows[i].line - 1].gemm.m);
    assert_true(rows[i].clock == HR_CLOCK_SETTLED && rows[i].cache == HR_CACHE_COLD);
  }
  free(found.rows);
  hr_store_close(store);
  hr_device_close(device);
}

/* A row with a status that has no time counts as measured, a noisy one does not. */
static void noisy_rows_are_measured_again_and_failed_ones_are_not(void **state)
{
  hr_point points[SMALL];
  const hr_point_list list = {points, SMALL};
  hr_device *device = NULL;
  hr_store *store = NULL;
  hr_sweep_progress outcome;
  char path[256];
  hr_error error;
  const hr_points_options options = quick();
  make_small(points);
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_store_open(path_in(state, "noisy.db", path), HR_STORE_WRITE, &store, &error), error);
  for (int i = 0; i < 2; i++) {
    hr_result row = hr_result_default();
    const hr_hardware hardware = hr_hardware_default();
    hr_result_set_device(&row, device, &hardware);
    snprintf(row.sweep, sizeof row.sweep, "calibrate");
    hr_result_set_gemm(&row, &points[i].gemm);
    row.measurement.status = i == 0 ? HR_ERROR_NOISY : HR_ERROR_OUT_OF_MEMORY;
    assert_ok(hr_store_append(store, &row, &error), error);
  }
  assert_ok(hr_points_measure(device, store, &list, &options, &outcome, &error), error);
  assert_int_equal(outcome.skipped, 1);
  assert_int_equal(outcome.measured, 2);
  hr_points_options late = options; /* no point is begun, but those with rows count, wherever they are in the list */
  late.budget_ns = 1e-3;
  assert_ok(hr_points_measure(device, store, &list, &late, &outcome, &error), error);
  assert_int_equal(outcome.measured, 0);
  assert_true(outcome.skipped >= 1 && outcome.done == outcome.skipped);
  hr_store_close(store);
  hr_device_close(device);
}

static void wrong_points_and_options_are_named(void **state)
{
  hr_point points[SMALL];
  const hr_point_list list = {points, SMALL};
  hr_device *device = NULL;
  hr_store *store = NULL;
  char path[256];
  hr_error error;
  hr_points_options options = quick();
  make_small(points);
  points[1].gemm.k = 0;
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_store_open(path_in(state, "wrong.db", path), HR_STORE_WRITE, &store, &error), error);
  assert_int_equal(hr_points_measure(device, store, &list, &options, NULL, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "point 2: "));
  options.time_limit_ns = 0;
  assert_int_equal(hr_points_measure(device, store, &list, &options, NULL, &error), HR_ERROR_INVALID);
  hr_store_close(store);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_beginning_of_the_designed_list_has_all_kinds),
      cmocka_unit_test(drawn_sizes_are_log_uniform_and_every_third_point_is_odd),
      cmocka_unit_test(drawn_gemms_in_fp8_are_those_that_libraries_multiply),
      cmocka_unit_test(a_longer_list_of_fewer_kinds_has_the_same_points),
      cmocka_unit_test(a_draw_without_kinds_or_points_is_refused),
      cmocka_unit_test_setup_teardown(a_stopped_run_goes_on_where_it_was, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(noisy_rows_are_measured_again_and_failed_ones_are_not, make_folder,
                                      remove_folder),
      cmocka_unit_test_setup_teardown(wrong_points_and_options_are_named, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
