/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting a device's figures to rows whose true figures are known. No time is measured. */
#include "test.h"

#include "analysis/calibrate/fit.h"
#include "analysis/validate/rows.h"
#include "hardware/hardware.h"
#include "unit/measured.h"
#include "unit/store.h"

#include <headroom/experimental/calibrate.h>
#include <headroom/experimental/device_file.h>
#include <headroom/experimental/hardware.h>
#include <headroom/experimental/points.h>
#include <headroom/experimental/predict.h>
#include <headroom/experimental/resolve.h>

/* Every `step`-th of the designed points of a device as a row that takes what `truth` predicts, times 1 − spread …
 * 1 + spread. */
static size_t make_rows(const hr_hardware *truth, size_t step, double spread, hr_validated_row **rows)
{
  hr_point *points = NULL;
  size_t count = 0, used = 0;
  hr_error error;
  uint64_t random = 1;
  assert_ok(hr_points_design(truth, &points, &count, &error), error);
  *rows = calloc(count, sizeof **rows);
  hr_validation *v = NULL;
  for (size_t i = 0; i < count; i += step)
    (*rows)[used++] = (hr_validated_row){.line = (int64_t)(i / step) + 1,
                                         .kind = points[i].kind,
                                         .gemm = points[i].gemm,
                                         .attention = points[i].attention,
                                         .measured_ns = 1,
                                         .framework = HR_FRAMEWORK_HEADROOM};
  assert_ok(hr_validate_rows(truth, *rows, used, &v, &error), error);
  assert_int_equal(v->row_count, used);
  for (size_t i = 0; i < used; i++) {
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double share = (double)(random >> 40) / (double)(1 << 24);
    (*rows)[i].measured_ns = v->rows[i].prediction.time_ns * (1 + spread * (2 * share - 1));
  }
  hr_validation_free(v);
  free(points);
  return used;
}

static hr_calibrate_result *fit(const hr_hardware *start, const hr_validated_row *rows, size_t count)
{
  hr_calibrate_result *result = NULL;
  hr_error error;
  hr_calibrate_options options = hr_calibrate_options_default();
  options.folds = 2;
  assert_ok(hr_calibrate(start, rows, count, &options, &result, &error), error);
  return result;
}

static double figure(const hr_calibrate_result *result, const char *name)
{
  for (size_t i = 0; i < result->figure_count; i++) {
    if (strcmp(result->figures[i].name, name) == 0)
      return result->figures[i].after;
  }
  fail_msg("%s is not fitted", name);
  return 0;
}

static hr_hardware slower(hr_hardware hardware)
{
  hardware.load_share *= 0.75;
  hardware.tma.launch_ns *= 2; /* of aligned GEMMs of 16 bits */
  hardware.library_share[HR_BF16] *= 0.9;
  hardware.library_share[HR_FP8_E4M3] *= 0.8;
  hardware.decode_headroom.launch_ns *= 1.5;
  hardware.prefill_headroom.launch_ns *= 1.5;
  return hardware;
}

static void assert_near(double found, double expected, double share)
{
  if (!(fabs(found / expected - 1) <= share))
    fail_msg("found %g, expected %g", found, expected);
}

static void known_figures_are_recovered(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200"), truth = slower(start);
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&truth, 1, 0, &rows);
  hr_calibrate_result *result = fit(&start, rows, count);
  assert_int_equal(result->rows, count);
  for (size_t i = 0; i < result->kind_count; i++) {
    assert_true(result->kinds[i].fitted < 0.02 && result->kinds[i].held_out < 0.03);
    if (result->kinds[i].size == HR_CALIBRATED_ANY && result->kinds[i].kind == HR_INTERVAL_GEMM)
      assert_true(result->kinds[i].before > 0.1);
  }
  assert_near(figure(result, "load_share"), truth.load_share, 0.02);
  assert_near(figure(result, "tma.launch_ns"), truth.tma.launch_ns, 0.05);
  assert_near(figure(result, "tma.launch_ns") + figure(result, "tma.busy_ns"), truth.tma.launch_ns + truth.tma.busy_ns,
              0.02); /* few rows tell them apart */
  assert_near(figure(result, "library_share.bf16"), truth.library_share[HR_BF16],
              0.03); /* shares of attention are relative to it */
  assert_near(figure(result, "library_share.fp8"), truth.library_share[HR_FP8_E4M3], 0.02);
  assert_near(figure(result, "decode_headroom.launch_ns"), truth.decode_headroom.launch_ns, 0.05);
  assert_near(figure(result, "prefill_headroom.launch_ns"), truth.prefill_headroom.launch_ns, 0.1);
  hr_calibrate_result_free(result);
  free(rows);
}

/* Calls of gated delta nets in both phases; of a device whose file has no costs of scans. */
static void costs_of_scans_are_recovered(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("a100-sxm4-80gb");
  hr_hardware truth = start;
  hr_validated_row rows[48];
  const size_t count = sizeof rows / sizeof *rows;
  hr_validation *v = NULL;
  hr_error error;
  truth.scan_gated_delta = (hr_scan_cost){25000, 0.9, 0.25, 20, 4000, 0.5};
  for (size_t i = 0; i < count; i++) {
    hr_scan_call call = hr_scan_call_default();
    call.recurrence = HR_RECURRENCE_GATED_DELTA, call.updates = i % 2 != 0,
    call.tokens = call.updates ? 1 : INT64_C(256) << (i / 2 % 6);
    call.batch = INT64_C(1) << (i % 8), call.heads = 32 << (i / 16), call.head_dim = 64, call.groups = 1;
    call.state = 64 << (i % 4 / 2), call.chunk = 64;
    rows[i] = (hr_validated_row){.line = (int64_t)i + 1, .kind = HR_INTERVAL_SCAN, .scan = call, .measured_ns = 1};
  }
  assert_ok(hr_validate_rows(&truth, rows, count, &v, &error), error);
  for (size_t i = 0; i < count; i++)
    rows[i].measured_ns = v->rows[i].prediction.time_ns;
  hr_validation_free(v);
  hr_calibrate_result *result = fit(&start, rows, count);
  assert_true(result->kinds[0].before > 0.1 && result->kinds[0].fitted < 0.02 && result->kinds[0].held_out < 0.03);
  assert_near(figure(result, "scan_gated_delta.launch_ns"), 25000, 0.1);
  assert_near(figure(result, "scan_gated_delta.update_ns"), 4000, 0.05);
  assert_near(figure(result, "scan_gated_delta.update_share"), 0.5, 0.02);
  hr_calibrate_facts facts = hr_calibrate_facts_default();
  char *text = NULL;
  assert_ok(hr_calibrate_device_file(result, NULL, 0, &facts, &text, &error), error);
  hr_hardware read;
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "device"}, &read, &error),
            error);
  assert_near(read.scan_gated_delta.update_share, 0.5, 0.02);
  free(text);
  hr_calibrate_result_free(result);
}

static const hr_catalog_entry *entry_of(const char *name)
{
  size_t count;
  const hr_catalog_entry *entries = hr_catalog_hardware(&count);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, name) == 0)
      return &entries[i];
  }
  return NULL;
}

/* All-reduces of two libraries between 2 and 4 devices; the file of the device has NCCL's of 2 alone, which are off. */
static void rates_of_collectives_are_recovered_and_added(void **state)
{
  (void)state;
  hr_hardware start = measured_hardware("h100-sxm"), truth = start;
  hr_validated_row rows[60];
  const size_t count = sizeof rows / sizeof *rows;
  hr_validation *v = NULL;
  hr_error error;
  start.collective_count = 1, truth.collective_count = 3;
  start.collectives[0] = (hr_collective_rate){HR_ALL_REDUCE, 2, 4000, 200e9, 0.5, 0.2, 0, HR_LIBRARY_NCCL};
  truth.collectives[0] = (hr_collective_rate){HR_ALL_REDUCE, 2, 6000, 300e9, 1, 0.2, 0, HR_LIBRARY_NCCL};
  truth.collectives[1] = (hr_collective_rate){HR_ALL_REDUCE, 4, 9000, 350e9, 0.8, 0.2, 0, HR_LIBRARY_NCCL};
  truth.collectives[2] = (hr_collective_rate){HR_ALL_REDUCE, 2, 2500, 140e9, 0.2, 0.2, 0, HR_LIBRARY_HEADROOM};
  for (size_t i = 0; i < count; i++) {
    const hr_collective_rate *of = &truth.collectives[i % 3];
    rows[i] = (hr_validated_row){.line = (int64_t)i + 1, .kind = HR_INTERVAL_COLLECTIVE, .measured_ns = 1};
    rows[i].collective = hr_collective_default();
    rows[i].collective.devices = of->devices, rows[i].collective.library = of->library;
    rows[i].collective.bytes = INT64_C(512) << (i / 3);
  }
  assert_ok(hr_validate_rows(&truth, rows, count, &v, &error), error);
  for (size_t i = 0; i < count; i++)
    rows[i].measured_ns = v->rows[i].prediction.time_ns;
  hr_validation_free(v);
  hr_calibrate_result *result = fit(&start, rows, count);
  assert_true(result->kinds[0].before > 0.1 && result->kinds[0].fitted < 0.02 && result->kinds[0].held_out < 0.04);
  assert_near(figure(result, "collectives[0].latency_ns"), 6000, 0.03);
  assert_near(figure(result, "collectives[1].latency_ns"), 9000, 0.03);
  assert_near(figure(result, "collectives[2].latency_ns"), 2500, 0.03);
  assert_near(figure(result, "collectives[2].bus_bytes_per_s"), 140e9, 0.05);
  hr_calibrate_facts facts = hr_calibrate_facts_default();
  const hr_catalog_entry *entry = entry_of("h100-sxm");
  hr_hardware read;
  char *text = NULL;
  assert_ok(hr_calibrate_device_file(result, entry->text, entry->length, &facts, &text, &error), error);
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "device"}, &read, &error),
            error);
  assert_int_equal(read.collective_count, 3);
  assert_int_equal(read.collectives[2].library, HR_LIBRARY_HEADROOM);
  assert_near(read.collectives[1].bus_bytes_per_s, 350e9, 0.05);
  assert_non_null(strstr(text, "\"collectives\": \"fitted by headroom calibrate"));
  free(text);
  hr_calibrate_result_free(result);
}

/* More figures than this would be left out of a fit. */
static void a_result_has_space_for_every_figure(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200");
  hr_parameter parameters[HR_FITTED_FIGURES_MAX];
  assert_true(hr_parameters_list(&start, parameters) < HR_FITTED_FIGURES_MAX);
}

/* 10% of noise, uniform: 5% in the mean. Held-out errors cannot be below that, and figures do not run away. */
static void noise_stays_in_the_error_and_not_in_the_figures(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200"), truth = slower(start);
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&truth, 2, 0.1, &rows);
  hr_calibrate_result *result = fit(&start, rows, count);
  for (size_t i = 0; i < result->kind_count; i++) {
    const hr_calibrated_kind *kind = &result->kinds[i];
    if (kind->rows >= 40)
      assert_true(kind->held_out > 0.03 && kind->held_out < 0.09);
    if (kind->rows >= 100)
      assert_true(kind->coverage > 0.75);
  }
  assert_near(figure(result, "load_share"), truth.load_share, 0.06);
  assert_near(figure(result, "tma.launch_ns"), truth.tma.launch_ns, 0.06);
  assert_near(figure(result, "library_share.bf16"), truth.library_share[HR_BF16], 0.05);
  assert_true(result->hardware->error_band > 0.05 && result->hardware->error_band < 0.2);
  hr_error error;
  assert_ok(hr_hardware_check(result->hardware, &error), error);
  hr_calibrate_result_free(result);
  free(rows);
}

/* Rows of decode alone leave the figures of GEMMs where they were. */
static void figures_without_rows_stay(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200"), truth = slower(start);
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&truth, 1, 0, &rows), decode = 0;
  for (size_t i = 0; i < count; i++) {
    if (rows[i].kind == HR_INTERVAL_DECODE)
      rows[decode++] = rows[i];
  }
  hr_calibrate_result *result = fit(&start, rows, decode);
  assert_true(result->kind_count == 3 && result->kinds[0].kind == HR_INTERVAL_DECODE);
  assert_true(result->hardware->load_share == start.load_share && result->hardware->boost == start.boost);
  assert_memory_equal(result->hardware->tiles, start.tiles, sizeof start.tiles);
  for (size_t i = 0; i < result->figure_count; i++)
    assert_true(strcmp(result->figures[i].field, "decode_headroom") == 0 ||
                strcmp(result->figures[i].field, "library_share") == 0);
  hr_calibrate_result_free(result);
  free(rows);
}

static int stop(void *context, double done, const char *what)
{
  (void)what;
  int *calls = context;
  assert_true(done >= 0 && done <= 1);
  return ++*calls > 3;
}

static void too_few_rows_wrong_options_and_a_stop_are_errors(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200");
  hr_validated_row *rows = NULL;
  hr_calibrate_result *result = NULL;
  hr_calibrate_options options = hr_calibrate_options_default();
  hr_error error;
  int calls = 0;
  size_t count = make_rows(&start, 8, 0, &rows);
  assert_int_equal(hr_calibrate(&start, rows, 19, &options, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "19 rows of h200 to fit to, at least 20 are needed");
  options.folds = 1;
  assert_int_equal(hr_calibrate(&start, rows, count, &options, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "folds: expected 2 to 20, found 1");
  options.folds = 0, options.progress = stop, options.context = &calls;
  assert_int_equal(hr_calibrate(&start, rows, count, &options, &result, &error), HR_ERROR_INTERRUPTED);
  rows[30].measured_ns = NAN;
  assert_int_equal(hr_calibrate(&start, rows, count, &options, &result, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "row 31: measured_ns: expected a number above 0");
  assert_null(result);
  free(rows);
}

/* A few hundred rows that a caller no longer wants, in each of the loops over them. */
static void a_stop_is_noticed_among_the_rows(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200");
  hr_validated_row *rows = NULL;
  hr_validation *validation = NULL;
  hr_error error;
  int64_t found = -1;
  int calls = 3; /* the next one stops */
  hr_row_poll poll = {.progress = stop, .context = &calls};
  size_t count = make_rows(&start, 1, 0, &rows);
  assert_true(count > 200);
  assert_int_equal(hr_validate_rows_polled(&start, rows, count, &poll, &validation, &error), HR_ERROR_INTERRUPTED);
  assert_null(validation);
  assert_true(poll.rows < 100);
  hr_fit_row *facts = calloc(count, sizeof *facts);
  hr_parameter parameters[HR_FITTED_FIGURES_MAX];
  assert_true(facts && hr_parameters_list(&start, parameters) > 0);
  for (size_t i = 0; i < count; i++)
    facts[i] = (hr_fit_row){.bits = HR_ROWS_ALL, .part = 1, .weight = 1};
  hr_fit_problem problem = {.start = &start, .rows = rows, .facts = facts, .count = count, .poll = &poll};
  assert_int_equal(hr_fit_count_rows(&problem, &parameters[0], &found, &error), HR_ERROR_INTERRUPTED);
  assert_int_equal(found, -1);
  free(facts);
  free(rows);
}

static void a_device_file_has_the_fit_and_what_it_started_from(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("h200"), truth = slower(start);
  const hr_catalog_entry *entry = entry_of("h200");
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&truth, 8, 0, &rows);
  hr_calibrate_result *result = fit(&start, rows, count);
  hr_calibrate_facts facts = hr_calibrate_facts_default();
  hr_hardware read;
  char *text = NULL;
  hr_error error;
  facts.date = "2026-01-31", facts.source = "measured on \"NVIDIA\" H200", facts.libraries = "cuBLASLt 13.0";
  assert_ok(hr_calibrate_device_file(result, entry->text, entry->length, &facts, &text, &error), error);
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "fitted"}, &read, &error),
            error);
  assert_true(hr_hardware_has_alias(text, strlen(text), "NVIDIA H200"));
  assert_non_null(strstr(text, "fitted by headroom calibrate"));
  assert_non_null(strstr(text, "cuBLASLt 13.0"));
  assert_non_null(strstr(read.about.calibrated, "2026-01-31, "));
  assert_near(read.load_share, result->hardware->load_share, 1e-3);
  assert_near(read.tma.row_ns, result->hardware->tma.row_ns, 1e-3);
  assert_near(read.library_share[HR_BF16], result->hardware->library_share[HR_BF16], 1e-3);
  assert_true(read.collective_count == start.collective_count && read.softmax_share == start.softmax_share);
  assert_int_equal(read.interval_count, result->hardware->interval_count);
  free(text);
  text = NULL;
  for (size_t i = 0; i < result->figure_count; i++) { /* to 0, where the file that it started from has more */
    if (strcmp(result->figures[i].name, "load_share") == 0 || strcmp(result->figures[i].name, "tma.row_ns") == 0)
      result->figures[i].after = 0;
  }
  result->hardware->load_share = result->hardware->tma.row_ns = 0;
  assert_ok(hr_calibrate_device_file(result, entry->text, entry->length, &facts, &text, &error), error);
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "fitted"}, &read, &error),
            error);
  assert_true(start.load_share > 0 && read.load_share == 0 && start.tma.row_ns > 0 && read.tma.row_ns == 0);
  free(text);
  text = NULL;
  assert_int_equal(hr_calibrate_device_file(result, "[1]", 3, &facts, &text, &error), HR_ERROR_UNREADABLE);
  assert_null(text);
  hr_calibrate_result_free(result);
  free(rows);
}

/* The L40S's alignment classes have no result_share. One that is fitted comes with those of all classes. */
static void a_figure_that_a_list_lacks_is_written_into_all_its_rows(void **state)
{
  (void)state;
  const hr_hardware start = measured_hardware("l40s"), truth = slower(start);
  const hr_catalog_entry *entry = entry_of("l40s");
  hr_calibrate_facts facts = hr_calibrate_facts_default();
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&truth, 2, 0.1, &rows);
  hr_calibrate_result *result = fit(&start, rows, count);
  hr_hardware read;
  char *text = NULL;
  hr_error error;
  bool some = false;
  for (size_t i = 0; i < result->figure_count; i++)
    some = some || strstr(result->figures[i].name, "result_share");
  assert_true(start.alignments[0].result_share == 0 && some);
  assert_ok(hr_calibrate_device_file(result, entry->text, entry->length, &facts, &text, &error), error);
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "fitted"}, &read, &error),
            error);
  for (size_t i = 0; i < read.alignment_count; i++)
    assert_near(read.alignments[i].result_share, result->hardware->alignments[i].result_share, 1e-3);
  hr_calibrate_result_free(result);
  free(text);
  free(rows);
}

/* Without a file all figures are written: predictions are the same. */
static void a_device_without_a_file_gets_one(void **state)
{
  (void)state;
  hr_hardware start = measured_hardware("h200"), read;
  start.decode_framework.launch_ns = 0;
  hr_validated_row *rows = NULL;
  size_t count = make_rows(&start, 8, 0.05, &rows);
  hr_calibrate_result *result = fit(&start, rows, count);
  const hr_calibrate_facts facts = hr_calibrate_facts_default();
  hr_validation *fitted = NULL, *again = NULL;
  char *text = NULL;
  hr_error error;
  assert_ok(hr_calibrate_device_file(result, NULL, 0, &facts, &text, &error), error);
  assert_ok(hr_hardware_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "fitted"}, &read, &error),
            error);
  assert_ok(hr_validate_rows(result->hardware, rows, count, &fitted, &error), error);
  assert_ok(hr_validate_rows(&read, rows, count, &again, &error), error);
  for (size_t i = 0; i < count; i++)
    assert_near(again->rows[i].prediction.time_ns, fitted->rows[i].prediction.time_ns, 5e-3);
  hr_validation_free(fitted);
  hr_validation_free(again);
  hr_calibrate_result_free(result);
  free(text);
  free(rows);
}

static void write_text(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* fp32 takes the place of bf16, so that there is enough to fit to. */
static void a_cpu_without_bf16_has_its_points(void **state)
{
  hr_hardware cpu;
  hr_point *points = NULL;
  size_t count = 0, attention = 0;
  hr_error error;
  (void)state;
  assert_ok(hr_resolve_uncalibrated("cpu", &cpu, NULL, &error), error);
  cpu.dense_flops_per_s[HR_BF16] = 0;
  assert_ok(hr_points_design(&cpu, &points, &count, &error), error);
  assert_true(count >= HR_CALIBRATE_ROWS_MIN);
  for (size_t i = 0; i < count; i++) {
    bool attends = points[i].kind == HR_INTERVAL_ATTENTION || points[i].kind == HR_INTERVAL_DECODE;
    assert_int_equal(attends ? points[i].attention.dtype : points[i].gemm.dtype, HR_FP32);
    attention += attends;
  }
  assert_true(attention > 0);
  free(points);
}

/* A calibration in the data folder is taken for "cpu" without being asked for, a damaged one is an error with its path,
 * and one of another machine is not taken. */
static void this_machines_calibration_is_found(void **state)
{
  hr_hardware detected, found;
  hr_validated_row *rows = NULL;
  char path[512], *text = NULL;
  hr_error error = {.status = HR_OK};
  setenv("XDG_DATA_HOME", *state, 1);
  assert_ok(hr_resolve_uncalibrated("cpu", &detected, NULL, &error), error);
  hr_hardware truth = detected;
  truth.library_share[HR_FP32] *= 0.5, truth.bandwidth_bytes_per_s *= 0.5;
  size_t count = make_rows(&truth, 1, 0, &rows);
  hr_calibrate_result *result = fit(&detected, rows, count);
  const hr_calibrate_facts facts = hr_calibrate_facts_default();
  assert_ok(hr_calibrate_device_file(result, NULL, 0, &facts, &text, &error), error);
  assert_ok(hr_calibration_path(&detected, path, sizeof path, &error), error);
  assert_ok(hr_calibration_prepare(path, &error), error);
  write_text(path, text);
  assert_ok(hr_resolve_hardware("cpu", &found, &error), error);
  assert_true(found.about.calibrated[0] && found.about.calibration == HR_CALIBRATION_MEASURED);
  assert_string_equal(found.about.name, "cpu");
  double rate = hr_hardware_library_flops_per_s(&found, HR_FP32);
  assert_near(rate, hr_hardware_library_flops_per_s(&truth, HR_FP32), 0.1);
  write_text(path, "{\"name\": ");
  assert_int_not_equal(hr_resolve_hardware("cpu", &found, &error), HR_OK);
  assert_non_null(strstr(error.message, path));
  assert_int_equal(unlink(path), 0);
  assert_ok(hr_resolve_hardware("cpu", &found, &error), error);
  assert_false(found.about.calibrated[0]);
  *strrchr(path, '/') = '\0';
  assert_int_equal(rmdir(path), 0);
  hr_calibrate_result_free(result);
  free(text);
  free(rows);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_figures_are_recovered),
      cmocka_unit_test(a_cpu_without_bf16_has_its_points),
      cmocka_unit_test(costs_of_scans_are_recovered),
      cmocka_unit_test(rates_of_collectives_are_recovered_and_added),
      cmocka_unit_test(a_result_has_space_for_every_figure),
      cmocka_unit_test(noise_stays_in_the_error_and_not_in_the_figures),
      cmocka_unit_test(figures_without_rows_stay),
      cmocka_unit_test(too_few_rows_wrong_options_and_a_stop_are_errors),
      cmocka_unit_test(a_stop_is_noticed_among_the_rows),
      cmocka_unit_test(a_device_file_has_the_fit_and_what_it_started_from),
      cmocka_unit_test(a_figure_that_a_list_lacks_is_written_into_all_its_rows),
      cmocka_unit_test(a_device_without_a_file_gets_one),
      cmocka_unit_test_setup_teardown(this_machines_calibration_is_found, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
