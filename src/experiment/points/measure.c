/* SPDX-License-Identifier: Apache-2.0 */
/* Measures points, appends a row to the store for each, and finds these rows again. */
#include <headroom/experimental/points.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/operator_problem.h"
#include "experiment/stored_run.h"
#include "hardware/hardware.h"
#include "runtime/device/clock.h"
#include "shape/kv_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sampling stops at this precision: one fit averages over many points. */
#define PRECISION 0.01

/* The latest row of a point. */
typedef struct stored_point {
  char problem[512], kernel[64]; /* hr_result.problem, the kernels asked for */
  bool found;
  hr_status status;
  double median_ns;
} stored_point;

void hr_points_options_init(hr_points_options *options, size_t size)
{
  HR_INIT(options, size, (hr_points_options){.sweep = "points", .series = "", .time_limit_ns = 0.2e9, .seed = 1});
}

static hr_status check_options(const hr_points_options *options, hr_error *error)
{
  const hr_result *row = NULL;
  if (!options->sweep || !options->series || strlen(options->sweep) >= sizeof row->sweep ||
      strlen(options->series) >= sizeof row->series)
    return hr_fail(error, HR_ERROR_INVALID, "hr_points_options: sweep or series is missing or too long");
  if (!(options->budget_ns >= 0) || !(options->time_limit_ns > 0))
    return hr_fail(error, HR_ERROR_INVALID, "hr_points_options: budget_ns and time_limit_ns: expected times");
  return HR_OK;
}

static hr_result base_row(const hr_device *device, const hr_points_options *options, hr_hardware *hardware)
{
  hr_result base = hr_stored_run_base(device, options->sweep, options->warm, options->seed, hardware);
  hr_copy_text(base.series, sizeof base.series, options->series);
  return base;
}

/* Sets kind, problem and kernels of a row. */
static hr_status set_problem(hr_result *result, const hr_point *point, hr_error *error)
{
  hr_decode decode = hr_decode_default();
  switch (point->kind) {
  case HR_INTERVAL_ATTENTION:
    HR_TRY(hr_attention_check(&point->attention, error));
    hr_copy_text(result->kernel_asked, sizeof result->kernel_asked, HR_FUSED_ATTENTION_KERNELS);
    hr_result_set_attention(result, &point->attention);
    return HR_OK;
  case HR_INTERVAL_DECODE:
    HR_TRY(hr_decode_from_attention(&point->attention, &decode, error));
    decode.k_strides = decode.v_strides = (hr_kv_strides){0}; /* those of pages */
    HR_TRY(hr_decode_set_pages(&decode, HR_KV_PAGE_USUAL, error));
    hr_copy_text(result->kernel_asked, sizeof result->kernel_asked, HR_DECODE_KERNELS);
    hr_result_set_decode(result, &decode);
    return HR_OK;
  default:
    HR_TRY(hr_gemm_check(&point->gemm, error));
    result->kernel_asked[0] = '\0';
    hr_result_set_gemm(result, &point->gemm);
    return HR_OK;
  }
}

typedef struct finder {
  const hr_result *base;
  stored_point *stored;
  size_t count;
} finder;

/* Rows come by date, so that the last one stays. */
static int take_row(void *context, const hr_result *row)
{
  const finder *f = context;
  if (strcmp(row->series, f->base->series) != 0 || !hr_stored_run_has(f->base, row))
    return 0;
  for (size_t i = 0; i < f->count; i++) {
    stored_point *point = &f->stored[i];
    if (strcmp(point->problem, row->problem) != 0 || strcmp(point->kernel, row->kernel_asked) != 0)
      continue;
    point->found = true;
    point->status = row->measurement.status;
    point->median_ns = row->measurement.median_ns;
  }
  return 0;
}

/* Finds the latest row of each point. The caller frees *stored. */
static hr_status find_stored(hr_store *store, const hr_result *base, const hr_point *points, size_t count,
                             stored_point **stored, hr_error *error)
{
  finder f = {.base = base, .stored = calloc(count + 1, sizeof *f.stored), .count = count};
  hr_status status = f.stored ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu points", count);
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    hr_result row = *base;
    hr_error why = {.status = HR_OK};
    status = set_problem(&row, &points[i], &why);
    if (status != HR_OK)
      hr_fail(error, status, "point %zu: %s", i + 1, why.message);
    hr_copy_text(f.stored[i].problem, sizeof f.stored[i].problem, row.problem);
    hr_copy_text(f.stored[i].kernel, sizeof f.stored[i].kernel, row.kernel_asked);
  }
  hr_result_filter filter = hr_result_filter_default();
  filter.sweep = base->sweep;
  if (status == HR_OK)
    status = hr_store_query(store, &filter, take_row, &f, error);
  if (status == HR_OK)
    *stored = f.stored;
  else
    free(f.stored);
  return status;
}

/* ---- measuring ---- */

typedef struct points_run {
  hr_device *device;
  hr_store *store;
  const hr_points_options *options;
  hr_stored_run rows;
  hr_hardware hardware;
} points_run;

static hr_status measure(points_run *run, hr_result *row, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = run->options->time_limit_ns;
  options.precision = PRECISION;
  options.warm = run->options->warm;
  options.seed = run->options->seed;
  options.kernel = row->kernel_asked[0] ? row->kernel_asked : NULL;
  options.cancelled = hr_progress_cancelled;
  options.context = &run->rows.progress;
  switch (row->kind) {
  case HR_RESULT_ATTENTION: return hr_measure_attention(run->device, &row->attention, &options, measurement, error);
  case HR_RESULT_DECODE: return hr_measure_decode(run->device, &row->decode, &options, measurement, error);
  default: return hr_measure_gemm(run->device, &row->gemm, &options, measurement, error);
  }
}

static bool is_done(const points_run *run, const stored_point *stored)
{
  return stored->found && stored->status != HR_ERROR_NOISY && !run->options->again;
}

static hr_status run_point(points_run *run, const hr_result *base, const hr_point *point, const stored_point *stored,
                           hr_error *error)
{
  if (is_done(run, stored)) {
    run->rows.now.skipped++;
    return HR_OK;
  }
  hr_result row = *base;
  hr_copy_text(run->rows.what, sizeof run->rows.what, stored->problem);
  if (hr_progress_cancelled(&run->rows.progress))
    return HR_ERROR_INTERRUPTED;
  HR_TRY(set_problem(&row, point, error));
  hr_measurement measurement = row.measurement;
  HR_TRY(measure(run, &row, &measurement, error));
  measurement.warm = run->options->warm;
  hr_result_set_measurement(&row, &measurement, &run->hardware);
  return hr_stored_run_keep(&run->rows, run->store, &row, stored->found, error); /* beside a noisy one, or one again */
}

static hr_status run_points(points_run *run, const hr_point *points, size_t count, hr_error *error)
{
  const hr_result base = base_row(run->device, run->options, &run->hardware);
  const double start_ns = (double)hr_clock_ns();
  stored_point *stored = NULL;
  HR_TRY(find_stored(run->store, &base, points, count, &stored, error));
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    bool late = run->options->budget_ns > 0 && (double)hr_clock_ns() - start_ns > run->options->budget_ns;
    if (late && !is_done(run, &stored[i]))
      continue; /* later ones may have rows */
    status = run_point(run, &base, &points[i], &stored[i], error);
    run->rows.now.done += status == HR_OK;
  }
  free(stored);
  return status;
}

hr_status hr_points_measure(hr_device *device, hr_store *store, const hr_point_list *list,
                            const hr_points_options *options, hr_sweep_progress *outcome, hr_error *error)
{
  HR_NEED(error, device, store, list, options);
  HR_TAKE(hr_points_options, options, error);
  HR_TRY(check_options(options, error));
  points_run run = {.device = device, .store = store, .options = options};
  hr_stored_run_begin(&run.rows, options->progress, options->context, (int64_t)list->count);
  hr_status status = run_points(&run, list->points, list->count, error);
  run.rows.now.what = "";
  if (outcome)
    *outcome = run.rows.now;
  return run.rows.progress.stopped ? hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller") : status;
}

/* ---- rows of a fit ---- */

hr_status hr_points_rows(const hr_device *device, hr_store *store, const hr_point_list *list,
                         const hr_points_options *options, hr_validated_rows *rows, hr_error *error)
{
  HR_NEED(error, device, store, list, options, rows);
  const hr_point *points = list->points;
  const size_t count = list->count;
  HR_TAKE(hr_points_options, options, error);
  HR_TRY(check_options(options, error));
  hr_hardware hardware;
  stored_point *stored = NULL;
  const hr_result base = base_row(device, options, &hardware);
  HR_TRY(find_stored(store, &base, points, count, &stored, error));
  hr_validated_row *found = calloc(count + 1, sizeof *found);
  size_t used = 0;
  for (size_t i = 0; i < count && found; i++) {
    if (!stored[i].found || stored[i].status != HR_OK || !(stored[i].median_ns > 0))
      continue;
    found[used++] = (hr_validated_row){.line = (int64_t)i + 1,
                                       .kind = points[i].kind,
                                       .gemm = points[i].gemm,
                                       .attention = points[i].attention,
                                       .measured_ns = stored[i].median_ns,
                                       .clock = HR_CLOCK_SETTLED,
                                       .cache = options->warm ? HR_CACHE_WARM : HR_CACHE_COLD,
                                       .framework = HR_FRAMEWORK_HEADROOM};
  }
  free(stored);
  if (!found)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "out of memory for %zu rows", count);
  *rows = (hr_validated_rows){found, used};
  return HR_OK;
}
