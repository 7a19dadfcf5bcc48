/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of sweeps from rows of scratch stores. */
#include "test.h"

#include "analysis/predict/step.h"
#include "figure/figure.h"
#include "hardware/hardware.h"

#include <headroom/experimental/plot.h>
#include <headroom/memory.h>
#include <headroom/predict.h>
#include <headroom/resolve.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One line over m at n = 16, and one at n = 32; the time of case "b" is compared with that of "a". */
static const char lines_json[] =
    "{\"name\": \"fig24\", \"title\": \"T\", \"x\": \"m\", \"x_label\": \"M\", \"axes\": {\"n\": [16, 32], \"m\": "
    "[64, 128, 256]}, \"series\": \"n = {n}\", \"problem\": {\"kind\": \"gemm\", \"m\": \"m\", \"n\": \"n\", \"k\": "
    "16}}";
static const char cases_json[] =
    "{\"name\": \"compared\", \"x\": \"m\", \"baseline\": \"a\", \"cases\": [{\"name\": \"a\", \"k\": 16}, {\"name\": "
    "\"b\", \"k\": 8}], \"axes\": {\"m\": [64, 128]}, \"series\": \"{case}\", \"problem\": {\"kind\": \"gemm\", \"m\": "
    "\"m\", \"n\": 16, \"k\": \"k\"}}";

typedef struct fixture {
  hr_sweep *sweep;
  hr_store *store;
  hr_figure *figure;
  hr_error error;
} fixture;

static void set_up(fixture *f, const char *json)
{
  *f = (fixture){.error = {.status = HR_OK}};
  assert_int_equal(hr_sweep_from_json(&(hr_input){.text = json, .length = strlen(json), .name = "test"}, NULL, false,
                                      &f->sweep, &f->error),
                   HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f->store, &f->error), HR_OK);
}

static void tear_down(fixture *f)
{
  hr_figure_free(f->figure);
  hr_store_close(f->store);
  hr_sweep_free(f->sweep);
}

/* A row of a point with this median; 0 ns: out of memory. */
static void add_row_of(fixture *f, const char *device, size_t index, const char *product, const char *date,
                       double median_ns)
{
  hr_sweep_point point;
  hr_result row = hr_result_default();
  assert_int_equal(hr_sweep_point_at(f->sweep, index, HR_BF16, &point, &f->error), HR_OK);
  assert_int_equal(hr_result_stamp(&row, &f->error), HR_OK);
  strcpy(row.date, date);
  strcpy(row.sweep, hr_sweep_describe(f->sweep)->name);
  strcpy(row.series, point.series);
  strcpy(row.axes, point.axes);
  strcpy(row.device, device);
  strcpy(row.product, product);
  hr_result_set_gemm(&row, &point.gemm);
  hr_measurement *m = &row.measurement;
  m->status = median_ns > 0 ? HR_OK : HR_ERROR_OUT_OF_MEMORY;
  if (median_ns > 0) {
    double samples[] = {median_ns * 0.9, median_ns, median_ns * 1.1};
    hr_statistics(samples, 3, m);
    m->samples = 3;
    m->flops_per_s = 1e9 / median_ns * 1e12; /* 1e12 FLOPs: 1 TFLOP/s at 1 s */
  }
  assert_int_equal(hr_store_append(f->store, &row, &f->error), HR_OK);
}

static void add_row(fixture *f, size_t index, const char *product, const char *date, double median_ns)
{
  add_row_of(f, "cuda:0", index, product, date, median_ns);
}

static hr_status draw(fixture *f, const hr_plot_options *options)
{
  const hr_plot_source source = {f->store, "rows"};
  return hr_figure_of_sweep(f->sweep, f->sweep, &(hr_plot_sources){.list = &source, .count = 1}, options, &f->figure,
                            &f->error);
}

static const hr_figure_series *series_named(const fixture *f, const char *name)
{
  for (size_t i = 0; i < f->figure->series_count; i++) {
    if (strcmp(f->figure->series[i].name, name) == 0)
      return &f->figure->series[i];
  }
  fail_msg("no series %s", name);
  return NULL;
}

#define OLD "2026-01-01T00:00:00.000Z"
#define NEW "2026-02-01T00:00:00.000Z"

static void a_point_is_its_latest_row_with_the_interval_of_its_median(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  add_row(&f, 0, "GPU", NEW, 2e9);
  add_row(&f, 0, "GPU", OLD, 4e9);
  add_row(&f, 1, "GPU", NEW, 0);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->series_count, 1);
  const hr_figure_series *line = series_named(&f, "n = 16");
  assert_int_equal(line->count, 2);
  assert_true(fabs(line->points[0].y - 0.5) < 1e-9);         /* 1e12 FLOPs in 2 s */
  assert_true(fabs(line->points[0].low - 0.5 / 1.1) < 1e-9); /* of 3 samples: the slowest and the fastest */
  assert_true(fabs(line->points[0].high - 0.5 / 0.9) < 1e-9);
  assert_true(line->points[1].x == 128 && isnan(line->points[1].y));
  assert_int_equal(line->points[1].status, HR_ERROR_OUT_OF_MEMORY);
  tear_down(&f);
}

static void devices_are_lines_of_their_own_and_may_be_chosen(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  add_row(&f, 0, "GPU A", OLD, 2e9);
  add_row(&f, 0, "GPU B", OLD, 1e9);
  add_row(&f, 3, "GPU B", OLD, 1e9);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->series_count, 3);
  assert_int_equal(series_named(&f, "n = 16, GPU A")->count, 1);
  assert_int_equal(series_named(&f, "n = 32, GPU B")->count, 1);
  hr_figure_free(f.figure);
  options.device = "gpu b";
  options.series = "32";
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->series_count, 1);
  tear_down(&f);
}

static void a_series_has_one_colour_on_all_devices_and_a_style_on_each(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  add_row(&f, 0, "GPU A", OLD, 2e9);
  add_row(&f, 0, "GPU B", OLD, 1e9);
  add_row(&f, 3, "GPU B", OLD, 1e9);
  assert_int_equal(draw(&f, &options), HR_OK);
  const hr_figure_series *a = series_named(&f, "n = 16, GPU A"), *b = series_named(&f, "n = 16, GPU B");
  assert_int_equal(a->colour, b->colour);
  assert_int_not_equal(a->style, b->style);
  assert_int_not_equal(series_named(&f, "n = 32, GPU B")->colour, b->colour);
  tear_down(&f);
}

/* data/results/published has seven points of figure 24, one for each series, read off a picture. */
static void published_points_are_hollow_if_they_were_read_off(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->series_count, 7);
  assert_int_equal(series_named(&f, "h/a = 64, A100, read off")->origin, HR_FIGURE_READ_OFF);
  tear_down(&f);
}

static void a_gain_breaks_even_between_the_points_around_it(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, cases_json);
  hr_plot_options options = hr_plot_options_default();
  options.view = HR_VIEW_GAIN;
  add_row(&f, 0, "GPU", OLD, 1e6); /* a, m = 64 and 128 */
  add_row(&f, 1, "GPU", OLD, 3e6);
  add_row(&f, 2, "GPU", OLD, 2e6); /* b: half as fast, then 1.5 times */
  add_row(&f, 3, "GPU", OLD, 2e6);
  assert_int_equal(draw(&f, &options), HR_OK);
  const hr_figure_series *line = series_named(&f, "b, even at 96"); /* halfway */
  assert_true(fabs(line->points[0].y - 0.5) < 1e-9 && fabs(line->points[1].y - 1.5) < 1e-9);
  assert_int_equal(f.figure->rule_count, 2);
  assert_true(f.figure->rules[0].vertical && fabs(f.figure->rules[0].at - 96) < 1e-9);
  assert_true(!f.figure->rules[1].vertical && f.figure->rules[1].at == 1);
  tear_down(&f);
}

static void times_far_apart_have_a_logarithmic_axis(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    fixture f;
    set_up(&f, lines_json);
    hr_plot_options options = hr_plot_options_default();
    options.view = HR_VIEW_TIME;
    add_row(&f, 0, "GPU", OLD, 1e6);
    add_row(&f, 1, "GPU", OLD, i == 0 ? 29e6 : 31e6); /* a factor of 30 */
    assert_int_equal(draw(&f, &options), HR_OK);
    assert_int_equal(f.figure->y.scale, i == 0 ? HR_FIGURE_SCALE_LINEAR : HR_FIGURE_SCALE_LOG10);
    tear_down(&f);
  }
}

/* Small GEMMs take microseconds on an H200. */
static void predictions_alone_choose_the_unit(void **state)
{
  (void)state;
  fixture f;
  hr_hardware hardware;
  set_up(&f, lines_json);
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  hr_plot_options options = hr_plot_options_default();
  options.view = HR_VIEW_TIME;
  options.predicted = &hardware;
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_string_equal(f.figure->y.label, "Time (µs)");
  assert_true(series_named(&f, "n = 16, predicted for h200")->points[0].y > 0.5);
  tear_down(&f);
}

/* A time that grows with the square of m. */
static void a_slope_is_the_exponent_of_a_line(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  options.view = HR_VIEW_SCALING;
  options.published = false;
  for (size_t i = 0; i < 3; i++)
    add_row(&f, i, "GPU", OLD, 1e6 * (double)(1 << (2 * i)));
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(series_named(&f, "slope 2.00: n = 16")->mark, HR_FIGURE_MARK_POINTS);
  assert_int_equal(f.figure->series_count, 2); /* and the fit */
  tear_down(&f);
}

/* A rate is high where the time is low. */
static void a_band_is_the_interval_of_each_prediction(void **state)
{
  (void)state;
  fixture f;
  hr_hardware hardware;
  set_up(&f, lines_json);
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  options.predicted = &hardware;
  assert_int_equal(draw(&f, &options), HR_OK);
  const hr_figure_series *band = series_named(&f, "n = 16, predicted for h200");
  assert_int_equal(band->mark, HR_FIGURE_MARK_BAND);
  assert_int_equal(band->count, 3);
  for (size_t i = 0; i < 3; i++) {
    hr_sweep_point point;
    hr_prediction prediction;
    assert_int_equal(hr_sweep_point_at(f.sweep, i, HR_BF16, &point, &f.error), HR_OK);
    assert_int_equal(hr_predict_gemm(&hardware, &point.gemm, &prediction, &f.error), HR_OK);
    assert_true(fabs(band->points[i].high / band->points[i].y / (prediction.time_ns / prediction.low_ns) - 1) < 1e-9);
    assert_true(fabs(band->points[i].low / band->points[i].y / (prediction.time_ns / prediction.high_ns) - 1) < 1e-9);
  }
  tear_down(&f);
}

/* 40 + 20 + 10 of GEMMs, 10 of softmax, 5 of a norm, 5 of a residual, 10 of an operator that no part has: of 100. */
static void the_shares_of_a_layer_are_those_of_its_operators(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_result row = hr_result_default();
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  assert_int_equal(hr_sweep_load("fig2", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  row.kind = HR_RESULT_OTHER;
  strcpy(row.problem, "layer h=2560 dtype=bf16");
  strcpy(row.sweep, "fig2");
  strcpy(row.axes, "case=1 b=4");
  strcpy(row.device, "cuda:0");
  strcpy(row.product, "GPU");
  strcpy(row.parts, "qkv_transform=40 attention_score=20 mlp_up=10 softmax=10 mlp_norm=5 mlp_residual=5 activation=10");
  assert_int_equal(hr_store_append(f.store, &row, &f.error), HR_OK);
  assert_int_equal(draw(&f, &options), HR_OK);
  static const struct {
    const char *part;
    double percent;
  } parts[] = {{"GEMMs", 70}, {"Softmax", 10}, {"Norms", 5}, {"Dropout, residuals", 5}, {"Other", 10}};
  assert_string_equal(f.figure->x.names[0], "Large, measured");
  assert_non_null(strstr(f.figure->note, "Large: h=16384, a=128"));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const hr_figure_series *series = series_named(&f, parts[i].part);
    assert_int_equal(series->count, 1);
    assert_true(fabs(series->points[0].y - parts[i].percent) < 1e-9);
  }
  assert_int_equal(series_named(&f, "Flash")->count, 0);
  tear_down(&f);
}

/* The logits are a GEMM, the final norm is a norm: 60 + 20 of GEMMs, 10 + 5 of norms, 5 of others. */
static void the_shares_of_a_step_are_those_of_all_its_operators(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_result row = hr_result_default();
  hr_plot_options options = hr_plot_options_default();
  options.published = false;
  assert_int_equal(hr_sweep_load("fig2-steps", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  row.kind = HR_RESULT_OTHER;
  strcpy(row.problem, "step h=2560 dtype=bf16");
  strcpy(row.sweep, "fig2-steps");
  strcpy(row.axes, "case=0 b=4");
  strcpy(row.device, "cuda:0");
  strcpy(row.product, "GPU");
  strcpy(row.parts, "embedding=5 mlp_up=60 mlp_norm=10 final_norm=5 logit=20");
  assert_int_equal(hr_store_append(f.store, &row, &f.error), HR_OK);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_true(fabs(series_named(&f, "GEMMs")->points[0].y - 80) < 1e-9);
  assert_true(fabs(series_named(&f, "Norms")->points[0].y - 15) < 1e-9);
  assert_true(fabs(series_named(&f, "Other")->points[0].y - 5) < 1e-9);
  tear_down(&f);
}

/* The words of a CPU's sizes are those of a GPU's: "Small" would say neither. */
static void sizes_stay_in_names_that_stand_for_two(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_sweep *small;
  hr_result row = hr_result_default();
  hr_plot_options options = hr_plot_options_default();
  assert_int_equal(hr_sweep_load("fig2", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_sweep_load("fig2", true, &small, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  row.kind = HR_RESULT_OTHER;
  strcpy(row.problem, "layer h=4096 dtype=bf16");
  strcpy(row.sweep, "fig2");
  strcpy(row.axes, "case=1 b=1");
  strcpy(row.device, "cpu");
  strcpy(row.product, "CPU");
  strcpy(row.parts, "qkv_transform=40");
  assert_int_equal(hr_store_append(f.store, &row, &f.error), HR_OK);
  const hr_plot_source source = {f.store, "rows"};
  assert_int_equal(hr_figure_of_sweep(f.sweep, small, &(hr_plot_sources){.list = &source, .count = 1}, &options,
                                      &f.figure, &f.error),
                   HR_OK);
  bool found = false;
  for (size_t i = 0; i < f.figure->x.name_count; i++)
    found = found || strcmp(f.figure->x.names[i], "Large (h=4096, a=32), measured") == 0;
  assert_true(found);
  hr_sweep_free(small);
  tear_down(&f);
}

/* Measured, predicted and published bars of a case are neighbours, and the axis ends at 100 or at the largest sum,
 * which is 101 in the readings of figure 2. */
static void the_bars_of_a_case_stand_beside_each_other(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_hardware hardware;
  hr_plot_options options = hr_plot_options_default();
  options.predicted = &hardware;
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  assert_int_equal(hr_sweep_load("fig2", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->x.name_count, 6);
  assert_string_equal(f.figure->x.names[0], "Small, predicted for h200");
  assert_string_equal(f.figure->x.names[1], "Small, paper, read off");
  assert_string_equal(f.figure->x.names[2], "Large, predicted for h200");
  assert_true(fabs(f.figure->y.most - 101) < 1e-3);
  tear_down(&f);
}

static void levels_of_figure_20_are_rules(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_hardware hardware;
  hr_plot_options options = hr_plot_options_default();
  options.predicted = &hardware;
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  assert_int_equal(hr_sweep_load("fig20a", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_int_equal(f.figure->rule_count, 2);
  assert_true(f.figure->rules[0].at == 250 && f.figure->rules[1].at == 100);
  assert_string_equal(f.figure->rules[0].label, "A100, vocabularies at the peaks: 250, read off");
  tear_down(&f);
}

/* 1e12 FLOPs in 8 s are 125 GFLOP/s. */
static void rates_of_cpus_below_a_tflop_are_gflops(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, lines_json);
  hr_plot_options options = hr_plot_options_default();
  add_row_of(&f, "cpu", 0, "CPU", OLD, 8e9);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_string_equal(f.figure->y.label, "Throughput (GFLOP/s)");
  assert_int_equal(f.figure->series_count, 1); /* published points are of GPUs */
  assert_true(fabs(series_named(&f, "n = 16")->points[0].y - 125) < 1e-9);
  tear_down(&f);
}

/* Both roofs begin on the slope of their bandwidth and cross the ridge, with every operator between their ends. */
static void the_roofs_go_across_a_roofline(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_hardware hardware;
  hr_model model;
  hr_step step;
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  assert_int_equal(hr_resolve_model("gpt2", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_fill_step(&hardware, &model, &workload, &step, &f.error), HR_OK);
  assert_int_equal(hr_figure_of_roofline(&hardware, &model, &workload, &step, &f.figure, &f.error), HR_OK);
  const hr_figure_series *roof = series_named(&f, "datasheet");
  assert_int_equal(roof->count, 3);
  double left = roof->points[0].x, ridge = roof->points[1].x, right = roof->points[2].x;
  assert_true(left <= ridge / 4 && right >= ridge * 2);
  assert_true(fabs(roof->points[0].y / (left * hardware.bandwidth_bytes_per_s / 1e12) - 1) < 1e-9);
  assert_true(fabs(roof->points[2].y / roof->points[1].y - 1) < 1e-9);
  for (size_t i = 0; i < f.figure->series_count; i++) {
    for (size_t j = 0; j < f.figure->series[i].count; j++) {
      double x = f.figure->series[i].points[j].x;
      assert_true(x >= left && x <= right);
    }
  }
  hr_figure_free(f.figure);
}

static size_t boxes_named(const fixture *f, const char *name)
{
  return series_named(f, name)->count;
}

/* 2 × 32 layers × heads × 128 elements of 2 bytes: 8 and 8 heads of K and V are 128 KiB, which describe says, 32 and 32
 * four times, 1 and 1 an eighth, 4 and 16 (20 / 16) times as many. */
static void heads_are_drawn_with_the_bytes_of_the_models_cache(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  hr_memory memory;
  assert_int_equal(hr_resolve_model("llama-3-8b", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_memory_estimate(&model, &workload, &memory, &f.error), HR_OK);
  assert_int_equal(memory.kv_cache_bytes_per_token, 128 << 10);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  static const char *const rows[] = {"MHA: 32 K, 32 V heads, 512 KiB", "GQA (as is): 8 K, 8 V heads, 128 KiB",
                                     "MQA: 1 K, 1 V heads, 16.0 KiB", "DiffQKV: 4 K, 16 V heads, 160 KiB"};
  assert_int_equal(f.figure->y.name_count, 4);
  for (size_t i = 0; i < 4; i++)
    assert_string_equal(f.figure->y.names[i], rows[i]);
  assert_int_equal(boxes_named(&f, "Q heads"), 4 * 32);
  assert_int_equal(boxes_named(&f, "K heads"), 32 + 8 + 1 + 4);
  assert_int_equal(boxes_named(&f, "V heads"), 32 + 8 + 1 + 16);
  hr_figure_free(f.figure);
}

static void the_heads_of_sigma_are_its_own_diffqkv(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(hr_resolve_model("sigma-10b", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  assert_non_null(strstr(f.figure->y.names[3], "DiffQKV (as is): 4 K, 16 V heads"));
  hr_figure_free(f.figure);
}

/* 27 layers of 2 bytes: 512 + 64 elements are 30.4 KiB, and 16 heads of 192 and 128 elements 270 KiB, of which describe
 * says that the latent saves 240 KiB. */
static void a_latent_is_one_row_for_all_heads(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(hr_resolve_model("deepseek-v2-lite", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  assert_int_equal(f.figure->y.name_count, 5);
  assert_string_equal(f.figure->y.names[0], "MHA: 16 K, 16 V heads, 270 KiB");
  assert_string_equal(f.figure->y.names[1], "GQA: 8 K, 8 V heads, 135 KiB");
  assert_string_equal(f.figure->y.names[4], "MLA (as is): 512 + 64 elements, 30.4 KiB");
  assert_int_equal(boxes_named(&f, "Q heads"), 5 * 16);
  assert_int_equal(boxes_named(&f, "Latent"), 1);
  assert_float_equal(series_named(&f, "Latent")->points[0].high, 14.2222f, 1e-4f); /* 16 · 512 / 576 */
  assert_float_equal(series_named(&f, "Rotated K")->points[0].high, 16, 1e-4f);
  hr_figure_free(f.figure);
}

/* OpenELM's heads grow with depth: 3 layers of 16 query heads, 7 of 20, 8 of 24, 6 of 28 and 4 of 32, with a fourth as
 * many of K and V of 64 elements: 3 · 2 · 4 · 64 · 2 bytes = 3 KiB. */
static void layers_that_differ_in_their_heads_are_all_drawn(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(hr_resolve_model("openelm-1.1b", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  assert_int_equal(f.figure->y.name_count, 5);
  assert_string_equal(f.figure->y.names[0], "GQA, 3 layers of 16 heads: 4 K, 4 V heads, 3.00 KiB");
  assert_string_equal(f.figure->y.names[4], "GQA, 4 layers of 32 heads: 8 K, 8 V heads, 8.00 KiB");
  assert_int_equal(boxes_named(&f, "Q heads"), 16 + 20 + 24 + 28 + 32);
  assert_int_equal(boxes_named(&f, "V heads"), 4 + 5 + 6 + 7 + 8);
  assert_non_null(strstr(f.figure->note, "; together 42.2 KiB; all layers as MHA 169 KiB, GQA "));
  hr_figure_free(f.figure);
}

static void kinds_of_layers_that_a_picture_has_no_room_for_are_counted_below_it(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(hr_resolve_model("openelm-1.1b", NULL, NULL, &model, &f.error), HR_OK);
  for (size_t i = 0; i < 8; i++) /* 1 to 8 K and V heads */
    model.groups[i].attention.q_heads = model.groups[i].attention.k_heads = model.groups[i].attention.v_heads =
        (int64_t)i + 1;
  model.group_count = 8;
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  assert_int_equal(f.figure->y.name_count, 6);
  assert_non_null(strstr(f.figure->note, "; left out: 2 more kinds of layers"));
  hr_figure_free(f.figure);
}

static void the_note_of_heads_names_the_format_of_the_cache(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(hr_resolve_model("llama-3-8b", NULL, NULL, &model, &f.error), HR_OK);
  hr_workload workload = hr_workload_default(&model);
  workload.kv_cache = HR_KV_FP8;
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_OK);
  assert_string_equal(f.figure->y.names[1], "GQA (as is): 8 K, 8 V heads, 64.0 KiB");
  assert_ptr_equal(strstr(f.figure->note, "fp8;"), f.figure->note);
  hr_figure_free(f.figure);
}

static void more_heads_than_a_picture_has_room_for_are_refused(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_model model;
  assert_int_equal(
      hr_resolve_model("{\"h\":65536,\"a\":1025,\"L\":1,\"v\":1000,\"head_dim\":64}", NULL, NULL, &model, &f.error),
      HR_OK);
  hr_workload workload = hr_workload_default(&model);
  assert_int_equal(hr_figure_of_heads(&model, &workload, &f.figure, &f.error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(f.error.message, "has 1025 query heads, and a picture at most 1024"));
}

/* Every wave but the last is full, where k is not split. */
static void tiles_and_waves_are_those_of_the_prediction(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_hardware hardware;
  hr_prediction p;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = 8000, gemm.n = 5000, gemm.k = 4096;
  assert_int_equal(hr_resolve_hardware("a100-sxm4-40gb", &hardware, &f.error), HR_OK);
  assert_int_equal(hr_predict_gemm(&hardware, &gemm, &p, &f.error), HR_OK);
  assert_int_equal(hr_figure_of_tiles(&hardware, &gemm, &f.figure, &f.error), HR_OK);
  assert_int_equal(hr_figure_point_count(f.figure), p.tiles);
  assert_int_equal(p.splits, 1);
  assert_true(p.waves > 2);
  int64_t slots = hardware.multiprocessors * hardware.blocks_per_multiprocessor;
  assert_int_equal(boxes_named(&f, "last wave"), p.tiles - (p.waves - 1) * slots);
  assert_int_equal(boxes_named(&f, "odd waves"), slots * (p.waves / 2)); /* of all waves but the last */
  assert_true(f.figure->box_height == (double)p.tile_m);
  hr_figure_free(f.figure);
}

static void a_gemm_of_too_many_tiles_is_no_picture(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_hardware hardware;
  hr_gemm gemm = hr_gemm_default();
  gemm.m = gemm.n = 100000;
  assert_int_equal(hr_resolve_hardware("h200", &hardware, &f.error), HR_OK);
  assert_int_equal(hr_figure_of_tiles(&hardware, &gemm, &f.figure, &f.error), HR_ERROR_UNSUPPORTED);
  assert_non_null(strstr(f.error.message, "a picture at most 10000"));
}

/* A store without the times of operators draws no bar of its own, and says so. */
static void a_note_says_that_rows_have_no_shares(void **state)
{
  (void)state;
  fixture f = {.error = {.status = HR_OK}};
  hr_plot_options options = hr_plot_options_default();
  assert_int_equal(hr_sweep_load("fig2", false, &f.sweep, &f.error), HR_OK);
  assert_int_equal(hr_store_open("scratch", HR_STORE_SCRATCH, &f.store, &f.error), HR_OK);
  assert_int_equal(draw(&f, &options), HR_OK);
  assert_non_null(strstr(f.figure->note, "no measured rows"));
  tear_down(&f);
}

static void what_cannot_be_drawn_is_an_error(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, cases_json);
  hr_plot_options options = hr_plot_options_default();
  assert_int_equal(draw(&f, &options), HR_ERROR_NOT_FOUND);
  assert_non_null(strstr(f.error.message, "there are no rows to draw"));
  options.view = HR_VIEW_SHARES;
  assert_int_equal(draw(&f, &options), HR_ERROR_INVALID);
  assert_non_null(strstr(f.error.message, "sweeps of layers"));
  tear_down(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_point_is_its_latest_row_with_the_interval_of_its_median),
      cmocka_unit_test(devices_are_lines_of_their_own_and_may_be_chosen),
      cmocka_unit_test(a_series_has_one_colour_on_all_devices_and_a_style_on_each),
      cmocka_unit_test(published_points_are_hollow_if_they_were_read_off),
      cmocka_unit_test(a_gain_breaks_even_between_the_points_around_it),
      cmocka_unit_test(times_far_apart_have_a_logarithmic_axis),
      cmocka_unit_test(predictions_alone_choose_the_unit),
      cmocka_unit_test(a_slope_is_the_exponent_of_a_line),
      cmocka_unit_test(a_band_is_the_interval_of_each_prediction),
      cmocka_unit_test(the_shares_of_a_layer_are_those_of_its_operators),
      cmocka_unit_test(the_shares_of_a_step_are_those_of_all_its_operators),
      cmocka_unit_test(sizes_stay_in_names_that_stand_for_two),
      cmocka_unit_test(the_bars_of_a_case_stand_beside_each_other),
      cmocka_unit_test(levels_of_figure_20_are_rules),
      cmocka_unit_test(rates_of_cpus_below_a_tflop_are_gflops),
      cmocka_unit_test(the_roofs_go_across_a_roofline),
      cmocka_unit_test(heads_are_drawn_with_the_bytes_of_the_models_cache),
      cmocka_unit_test(the_heads_of_sigma_are_its_own_diffqkv),
      cmocka_unit_test(a_latent_is_one_row_for_all_heads),
      cmocka_unit_test(layers_that_differ_in_their_heads_are_all_drawn),
      cmocka_unit_test(kinds_of_layers_that_a_picture_has_no_room_for_are_counted_below_it),
      cmocka_unit_test(the_note_of_heads_names_the_format_of_the_cache),
      cmocka_unit_test(more_heads_than_a_picture_has_room_for_are_refused),
      cmocka_unit_test(tiles_and_waves_are_those_of_the_prediction),
      cmocka_unit_test(a_gemm_of_too_many_tiles_is_no_picture),
      cmocka_unit_test(a_note_says_that_rows_have_no_shares),
      cmocka_unit_test(what_cannot_be_drawn_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
