/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GPU_BUDGET_S 600
#define CPU_BUDGET_S 18
#define GPU_POINT_NS 0.2e9
#define CPU_POINT_NS 0.12e9
#define NOISY_MAX 0.2  /* of the points: with more, other programs have the machine */
#define POINTS_MIN 0.5 /* of the points: fewer do not have all sizes */

typedef struct calibrate_job {
  hr_hardware *start;
  char *file; /* the device file that it is from; NULL */
  hr_device *device;
  hr_store *store;
  hr_point *points;
  size_t point_count;
  hr_sweep_progress outcome;
  hr_validated_rows found;
} calibrate_job;

/* ---- measuring ---- */

/* A fit needs all points, so that there is nothing to report before; Ctrl-C loses only the point in progress. */
static int report_points(void *context, const hr_sweep_progress *now)
{
  int stops = cli_points_report(context, now);
  cli_measuring(!now->storing);
  return stops;
}

static hr_points_options make_options(const cli_run *run, const hr_hardware *hardware)
{
  bool gpu = hr_hardware_describe(hardware)->kind == HR_HARDWARE_GPU;
  hr_points_options options = hr_points_options_default();
  options.sweep = "calibrate";
  options.again = run->options.again;
  options.time_limit_ns = gpu ? GPU_POINT_NS : CPU_POINT_NS;
  options.budget_ns = (run->given[CLI_OPTION_budget] ? run->options.budget : gpu ? GPU_BUDGET_S : CPU_BUDGET_S) * 1e9;
  return options;
}

static void say_how_it_ended(const cli_run *run, const calibrate_job *job)
{
  const hr_sweep_progress *now = &job->outcome;
  const char *path = hr_store_path(job->store);
  if (run->options.quiet)
    return;
  cli_fail(0,
           "note: %" PRId64 " of %" PRId64 " points are in %s: %" PRId64 " measured now (%" PRId64 " failed, %" PRId64
           " noisy)%s",
           now->done, now->total, path, now->measured, now->failed, now->noisy,
           now->done < now->total ? "; run the same command to continue" : "");
}

/* Rows of a busy machine are kept, but no figures are fitted to them. */
static int check_measured(const calibrate_job *job)
{
  const hr_sweep_progress *now = &job->outcome;
  if ((double)now->noisy > NOISY_MAX * (double)now->total)
    return cli_fail(EXIT_UNSUPPORTED,
                    "calibrate: %" PRId64 " of %" PRId64
                    " times are noisy, as other programs use the device; no calibration "
                    "is kept, and the same command measures these points again",
                    now->noisy, now->total);
  if ((double)now->done < POINTS_MIN * (double)now->total)
    return cli_fail(EXIT_UNSUPPORTED,
                    "calibrate: %" PRId64 " of %" PRId64
                    " points are measured, too few to fit to; the same command goes on",
                    now->done, now->total);
  return CLI_GO_ON;
}

static int measure_points(const cli_run *run, calibrate_job *job)
{
  hr_error error = {.status = HR_OK};
  cli_progress progress = cli_progress_begin(run);
  hr_status status = hr_points_design(job->start, &job->points, &job->point_count, &error);
  hr_points_options options = make_options(run, job->start);
  options.progress = report_points, options.context = &progress;
  if (status == HR_OK)
    status = hr_points_measure(job->device, job->store, &(hr_point_list){job->points, job->point_count}, &options,
                               &job->outcome, &error);
  cli_measuring(false);
  cli_progress_end(&progress);
  if (job->outcome.total > 0)
    say_how_it_ended(run, job);
  int code = status == HR_OK ? check_measured(job) : cli_fail_status(status, &error);
  if (code == CLI_GO_ON)
    status = hr_points_rows(job->device, job->store, &(hr_point_list){job->points, job->point_count}, &options,
                            &job->found, &error);
  return status == HR_OK ? code : cli_fail_status(status, &error);
}

static int measure(const cli_run *run, calibrate_job *job)
{
  int code = cli_open_own_device(run, &job->device);
  if (code == CLI_GO_ON)
    code = cli_load_uncalibrated(run, "cpu", job->start, &job->file);
  if (code == CLI_GO_ON)
    code = cli_open_store(run, HR_STORE_WRITE, &job->store);
  return code == CLI_GO_ON ? measure_points(run, job) : code;
}

/* ---- measurements of others ---- */

static int read_rows(const cli_run *run, calibrate_job *job)
{
  hr_validate_options options = hr_validate_options_default();
  hr_validation *validation = NULL;
  hr_error error = {.status = HR_OK};
  if (!run->options.device)
    return cli_fail(EXIT_USAGE, "calibrate: --from needs --device, from whose figures the fit starts");
  if (run->given[CLI_OPTION_framework])
    options.framework = run->options.framework;
  options.cache_writes = run->options.cache_writes;
  int code = cli_check_input(run, run->options.from);
  if (code == CLI_GO_ON)
    code = cli_load_uncalibrated(run, "cpu", job->start, &job->file);
  if (code != CLI_GO_ON)
    return code;
  cli_blocking(true);
  hr_status status = hr_validate_file(job->start, run->options.from, &options, &validation, &error);
  cli_blocking(false);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  job->found.rows = validation->rows;
  job->found.count = validation->row_count;
  validation->rows = NULL;
  hr_validation_free(validation);
  return CLI_GO_ON;
}

/* ---- the device file ---- */

/* Where the file goes: CLI_GO_ON with "" for nowhere, or an exit code. */
static int choose_path(const cli_run *run, const calibrate_job *job, char *path, size_t size)
{
  hr_error error = {.status = HR_OK};
  path[0] = '\0';
  if (run->options.write || !job->device) {
    snprintf(path, size, "%s", run->options.write ? run->options.write : "");
    return CLI_GO_ON;
  }
  hr_status status = hr_calibration_path(job->start, path, size, &error);
  if (status == HR_OK)
    status = hr_calibration_prepare(path, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static hr_status make_file(const cli_run *run, const calibrate_job *job, const hr_calibrate_result *result, char **text,
                           hr_error *error)
{
  char date[16], source[288];
  hr_result row = hr_result_default();
  hr_calibrate_facts facts = hr_calibrate_facts_default();
  time_t now = time(NULL);
  struct tm utc;
  const char *from = run->options.from, *slash = from ? strrchr(from, '/') : NULL;
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  snprintf(source, sizeof source, "%s%.255s", from ? "" : "measured on ",
           !from   ? hr_hardware_describe(job->start)->product
           : slash ? slash + 1
                   : from);
  facts.date = date;
  facts.source = source;
  if (from)
    facts.calibration = HR_CALIBRATION_PUBLISHED;
  if (job->device)
    hr_result_set_device(&row, job->device, job->start);
  facts.driver = row.driver;
  facts.libraries = row.libraries;
  return hr_calibrate_device_file(result, job->file, job->file ? strlen(job->file) : 0, &facts, text, error);
}

/* Written beside its place and renamed, as every output. */
static int write_file(const cli_run *run, const calibrate_job *job, const hr_calibrate_result *result, char *path,
                      size_t size)
{
  char *text = NULL;
  cli_run to_file = *run;
  cli_output output;
  hr_error error = {.status = HR_OK};
  int code = choose_path(run, job, path, size);
  if (code != CLI_GO_ON || !path[0])
    return code;
  hr_status status = make_file(run, job, result, &text, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  to_file.options.output = path;
  code = cli_output_open(&to_file, &output);
  if (code == CLI_GO_ON) {
    fputs(text, output.stream);
    code = cli_output_close(&output, HR_OK, &error);
  }
  free(text);
  return code == EXIT_FINE ? CLI_GO_ON : code;
}

/* ---- the fit ---- */

static int fit_rows(const cli_run *run, const calibrate_job *job, hr_calibrate_result **result)
{
  hr_error error = {.status = HR_OK};
  hr_calibrate_options options = hr_calibrate_options_default();
  cli_progress progress = cli_progress_begin(run);
  options.progress = cli_progress_report;
  options.context = &progress;
  hr_status status = hr_calibrate(job->start, job->found.rows, job->found.count, &options, result, &error);
  cli_progress_end(&progress);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static int fit(const cli_run *run, const calibrate_job *job)
{
  char path[4096];
  cli_output output;
  hr_error error = {.status = HR_OK};
  hr_calibrate_result *result = NULL;
  int code = fit_rows(run, job, &result);
  if (code == CLI_GO_ON)
    code = write_file(run, job, result, path, sizeof path);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    hr_status status = hr_report_calibration(output.stream, &output.options, result, path[0] ? path : NULL, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_calibrate_result_free(result);
  return code;
}

int cli_calibrate(const cli_run *run)
{
  calibrate_job job = {.start = run->hardware};
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "calibrate: expected no argument, found \"%s\"", run->arguments[0]);
  int code = run->options.from ? read_rows(run, &job) : measure(run, &job);
  if (code == CLI_GO_ON)
    code = fit(run, &job);
  free(job.points);
  free(job.found.rows);
  free(job.file);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}
