/* SPDX-License-Identifier: Apache-2.0 */
/* Measures points and appends a row to the store for each. */
#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"
#include "experiment/points/stored.h"
#include "experiment/progress.h"
#include "hardware/hardware.h"
#include "runtime/device/clock.h"

#include <stdlib.h>

/* Sampling stops at this precision: one fit averages over many points. */
#define PRECISION 0.01

typedef struct points_run {
  hr_device *device;
  hr_store *store;
  const hr_points_options *options;
  hr_points_progress now;
  hr_progress progress; /* reports `now` */
  char what[sizeof((hr_result *)NULL)->problem];
  hr_hardware hardware;
} points_run;

static int report(void *context, double done, const char *what)
{
  (void)done;
  (void)what;
  points_run *run = context;
  return run->options->progress ? run->options->progress(run->options->context, &run->now) : 0;
}

static hr_status measure(points_run *run, hr_result *row, hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.time_limit_ns = run->options->time_limit_ns;
  options.precision = PRECISION;
  options.warm = run->options->warm;
  options.seed = run->options->seed;
  options.kernel = row->kernel_asked[0] ? row->kernel_asked : NULL;
  options.cancelled = hr_progress_cancelled;
  options.context = &run->progress;
  switch (row->kind) {
  case HR_RESULT_ATTENTION: return hr_measure_attention(run->device, &row->attention, &options, measurement, error);
  case HR_RESULT_DECODE: return hr_measure_decode(run->device, &row->decode, &options, measurement, error);
  default: return hr_measure_gemm(run->device, &row->gemm, &options, measurement, error);
  }
}

/* `beside`: the point has a row already, which is noisy or to be measured again. A row that was measured is stored also
 * after the caller said stop. */
static hr_status keep(points_run *run, hr_result *row, bool beside, hr_error *error)
{
  bool added = true, noisy = row->measurement.status == HR_ERROR_NOISY;
  run->now.storing = true;
  report(run, 0, NULL);
  run->now.storing = false;
  HR_TRY(beside ? hr_store_append(run->store, row, error) : hr_store_append_new(run->store, row, &added, error));
  run->now.skipped += !added;
  run->now.measured += added;
  run->now.noisy += added && noisy;
  run->now.failed += added && row->measurement.status != HR_OK && !noisy;
  return HR_OK;
}

static bool is_done(const points_run *run, const hr_stored_point *stored)
{
  return stored->found && stored->status != HR_ERROR_NOISY && !run->options->again;
}

static hr_status run_point(points_run *run, const hr_result *base, const hr_point *point, const hr_stored_point *stored,
                           hr_error *error)
{
  if (is_done(run, stored)) {
    run->now.skipped++;
    return HR_OK;
  }
  hr_result row = *base;
  hr_copy_text(run->what, sizeof run->what, stored->problem);
  if (hr_progress_cancelled(&run->progress))
    return HR_ERROR_INTERRUPTED;
  HR_TRY(hr_points_set_problem(&row, point, error));
  hr_measurement measurement = row.measurement;
  HR_TRY(measure(run, &row, &measurement, error));
  measurement.warm = run->options->warm;
  hr_result_set_measurement(&row, &measurement, &run->hardware);
  return keep(run, &row, stored->found, error);
}

static hr_status run_points(points_run *run, const hr_point *points, size_t count, hr_error *error)
{
  const hr_result base = hr_points_base_row(run->device, run->options, &run->hardware);
  const double start_ns = (double)hr_clock_ns();
  hr_stored_point *stored = NULL;
  HR_TRY(hr_points_find(run->store, &base, points, count, &stored, error));
  hr_status status = HR_OK;
  for (size_t i = 0; i < count && status == HR_OK; i++) {
    bool late = run->options->budget_ns > 0 && (double)hr_clock_ns() - start_ns > run->options->budget_ns;
    if (late && !is_done(run, &stored[i]))
      continue; /* later ones may have rows */
    status = run_point(run, &base, &points[i], &stored[i], error);
    run->now.done += status == HR_OK;
  }
  free(stored);
  return status;
}

hr_status hr_points_measure(hr_device *device, hr_store *store, const hr_point_list *list,
                            const hr_points_options *options, hr_points_progress *outcome, hr_error *error)
{
  HR_NEED(error, device, store, list, options);
  HR_TAKE(hr_points_options, options, error);
  HR_TRY(hr_points_check(options, error));
  points_run run = {.device = device, .store = store, .options = options};
  run.now = (hr_points_progress){.total = (int64_t)list->count, .what = run.what};
  run.progress = (hr_progress){.report = report, .context = &run};
  hr_status status = run_points(&run, list->points, list->count, error);
  run.now.what = "";
  if (outcome)
    *outcome = run.now;
  return run.progress.stopped ? hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller") : status;
}
