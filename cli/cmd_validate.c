/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>

#define GPU_POINT_NS 0.2e9
#define CPU_POINT_NS 0.4e9 /* a run may take a tenth of this */

/* ---- rows of a file ---- */

static int compare_file(const cli_run *run)
{
  const cli_options *given = &run->options;
  hr_validate_options options = hr_validate_options_default();
  hr_validation *validation = NULL;
  hr_error error = {.status = HR_OK};
  cli_output output;
  if (run->given[CLI_OPTION_framework])
    options.framework = given->framework;
  options.cache_writes = given->cache_writes;
  int code = cli_check_input(run, given->from);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "h200", run->hardware);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = hr_validate_file(run->hardware, given->from, &options, &validation, &error);
  cli_blocking(false);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    status = hr_report_validation(output.stream, &output.options, run->hardware, validation, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_validation_free(validation);
  return code;
}

/* ---- random points ---- */

typedef struct draw_job {
  hr_hardware *hardware;
  hr_device *device;
  hr_store *store;
  hr_point *points;
  size_t point_count;
  char series[64];
  hr_points_options options;
  hr_validated_rows found;
} draw_job;

static int draw(const cli_run *run, draw_job *job)
{
  hr_error error = {.status = HR_OK};
  hr_points_draw_options options = hr_points_draw_options_default();
  if (run->given[CLI_OPTION_seed])
    options.seed = (uint64_t)run->options.seed;
  if (run->given[CLI_OPTION_kinds])
    options.kinds = run->options.kinds;
  if (run->given[CLI_OPTION_points])
    options.count = run->options.points;
  options.dtype = cli_dtype(run, job->hardware);
  hr_status status = hr_points_draw(job->hardware, &options, &job->points, &job->point_count, &error);
  if (status != HR_OK)
    return status == HR_ERROR_INVALID ? cli_fail(EXIT_USAGE, "%s", error.message) : cli_fail_status(status, &error);
  snprintf(job->series, sizeof job->series, "seed=%" PRIu64, options.seed);
  job->options = hr_points_options_default();
  job->options.sweep = "validate";
  job->options.series = job->series;
  job->options.budget_ns = run->options.budget * 1e9;
  job->options.time_limit_ns =
      hr_hardware_describe(job->hardware)->kind == HR_HARDWARE_GPU ? GPU_POINT_NS : CPU_POINT_NS;
  job->options.again = run->options.again;
  job->options.warm = hr_hardware_describe(job->hardware)->cache == HR_CACHE_WARM;
  job->options.seed = options.seed;
  return CLI_GO_ON;
}

/* After Ctrl-C the measured rows are in the store, and are shown. */
static int measure(const cli_run *run, draw_job *job)
{
  hr_error error = {.status = HR_OK};
  hr_sweep_progress outcome = {.total = 0};
  cli_progress progress = cli_progress_begin(run);
  const hr_point_list list = {job->points, job->point_count};
  job->options.progress = cli_points_report, job->options.context = &progress;
  hr_status status = hr_points_measure(job->device, job->store, &list, &job->options, &outcome, &error);
  cli_measuring(false);
  cli_progress_end(&progress);
  cli_points_note(run, job->store, &outcome);
  if (status != HR_OK && status != HR_ERROR_INTERRUPTED)
    return cli_fail_status(status, &error);
  job->options.again = false;
  hr_error why = {.status = HR_OK};
  hr_status found = hr_points_rows(job->device, job->store, &list, &job->options, &job->found, &why);
  if (found != HR_OK)
    return cli_fail_status(found, &why);
  if (job->found.count == 0)
    return status == HR_OK
               ? cli_fail(EXIT_UNSUPPORTED, "validate: no point has a time; `headroom results list` has the reasons")
               : cli_fail_status(status, &error);
  return CLI_GO_ON;
}

/* The rows are reported after a Ctrl-C that ended the measurements; another one, or a first one now, ends the command.
 * */
static hr_status predict(draw_job *job, hr_validation **validation, hr_error *error)
{
  cli_blocking(!cli_interrupted());
  hr_status status = hr_validate_rows(job->hardware, job->found.rows, job->found.count, validation, error);
  cli_blocking(false);
  if (status != HR_OK)
    return status;
  (*validation)->drawn = (int64_t)job->point_count;
  (*validation)->seed = job->options.seed;
  return HR_OK;
}

static int show(const cli_run *run, draw_job *job)
{
  hr_validation *validation = NULL;
  hr_error error = {.status = HR_OK};
  cli_output output;
  hr_status status = predict(job, &validation, &error);
  int code = status == HR_OK ? cli_output_open(run, &output) : cli_fail_status(status, &error);
  if (code == CLI_GO_ON) {
    status = hr_report_validation(output.stream, &output.options, job->hardware, validation, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_validation_free(validation);
  return code == EXIT_FINE && cli_interrupted() ? EXIT_INTERRUPTED : code;
}

static int check_drawn(const cli_run *run)
{
  if (!run->options.device)
    return cli_fail(EXIT_USAGE, "validate: --from FILE.csv names measured rows; without it, --device cpu or cuda:N "
                                "measures random points");
  if (run->given[CLI_OPTION_framework] && run->options.framework != HR_FRAMEWORK_HEADROOM)
    return cli_fail(EXIT_USAGE, "validate: --framework: random points are measured with Headroom's own kernels");
  if (run->given[CLI_OPTION_clock] && run->options.clock != HR_CLOCK_SETTLED)
    return cli_fail(EXIT_USAGE, "validate: --clock: random points are measured at the settled clock");
  if (run->options.cache_writes)
    return cli_fail(EXIT_USAGE, "validate: --cache-writes needs --from: random points have none");
  return CLI_GO_ON;
}

static int compare_drawn(const cli_run *run)
{
  draw_job job = {.hardware = run->hardware};
  int code = check_drawn(run);
  if (code == CLI_GO_ON)
    code = cli_open_own_device(run, &job.device);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", job.hardware);
  if (code == CLI_GO_ON)
    code = draw(run, &job);
  if (code == CLI_GO_ON)
    code = cli_open_store(run, HR_STORE_WRITE, &job.store);
  if (code == CLI_GO_ON)
    code = measure(run, &job);
  if (code == CLI_GO_ON)
    code = show(run, &job);
  free(job.points);
  free(job.found.rows);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}

/* Options that choose points have no meaning for a file. */
static int check_file(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } drawing[] = {{CLI_OPTION_kinds, "kinds"}, {CLI_OPTION_points, "points"}, {CLI_OPTION_seed, "seed"},
                 {CLI_OPTION_again, "again"}, {CLI_OPTION_budget, "budget"}, {CLI_OPTION_threads, "threads"},
                 {CLI_OPTION_dtype, "dtype"}, {CLI_OPTION_db, "db"}};
  for (size_t i = 0; i < sizeof drawing / sizeof *drawing; i++) {
    if (run->given[drawing[i].option])
      return cli_fail(EXIT_USAGE, "validate: --%s is for random points, and --from reads a file", drawing[i].name);
  }
  return CLI_GO_ON;
}

int cli_validate(const cli_run *run)
{
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "validate: expected no argument, found \"%s\"", run->arguments[0]);
  if (!run->options.from)
    return compare_drawn(run);
  int code = check_file(run);
  return code == CLI_GO_ON ? compare_file(run) : code;
}
