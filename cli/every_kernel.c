/* SPDX-License-Identifier: Apache-2.0 */
#include "every_kernel.h"

#include "picture.h"

#include <stdlib.h>
#include <string.h>

int64_t cli_or_else(int64_t given, int64_t otherwise)
{
  return given > 0 ? given : otherwise;
}

typedef struct kernel_job {
  const cli_call_kind *kind;
  void *call;
  hr_device *device; /* NULL: not opened */
  hr_store *store;   /* NULL without --save */
  hr_hardware *hardware;
  hr_kernel_measurement *runs;
  size_t count;
} kernel_job;

/* The device's kernels for this kind of call, or those of --kernel. */
static int choose_kernels(const cli_run *run, kernel_job *job)
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  const cli_call_kind *kind = job->kind;
  const char *device = hr_device_name(job->device), *asked = run->options.kernel, *operation = kind->operation;
  job->runs = calloc(count, sizeof *job->runs);
  if (!job->runs)
    return cli_fail(EXIT_OUTPUT, "out of memory for %zu kernels", count);
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(kernels[i].device);
    bool here = strncmp(device, kernels[i].device, length) == 0 && (device[length] == '\0' || device[length] == ':');
    bool computes = strcmp(kernels[i].operation, operation) == 0 || (kind->also && kind->also(job->call, &kernels[i]));
    if (here && computes && (!asked || hr_kernel_is(&kernels[i], asked)))
      job->runs[job->count++].kernel = kernels[i].name;
  }
  if (job->count == 0)
    return asked ? cli_fail(EXIT_USAGE, "--kernel: %s has no %s kernel \"%s\"; see headroom kernels", device, operation,
                            asked)
                 : cli_fail(EXIT_UNSUPPORTED, "%s: %s has no %s kernel", run->command->name, device, operation);
  return CLI_GO_ON;
}

static hr_status keep(const kernel_job *job, const hr_kernel_measurement *one, hr_error *error)
{
  hr_result result = hr_result_default();
  job->kind->set_result(&result, job->call, one->kernel);
  hr_result_set_device(&result, job->device, job->hardware);
  hr_result_set_measurement(&result, &one->measurement, job->hardware);
  snprintf(result.kernel_asked, sizeof result.kernel_asked, "%s", one->kernel);
  result.seed = hr_measure_options_default().seed;
  return hr_store_append(job->store, &result, error);
}

/* Whether one of the first kernels has a time. */
static bool any_time(const kernel_job *job, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (job->runs[i].measurement.samples > 0)
      return true;
  }
  return false;
}

/* Measures each kernel; an interruption keeps those before it. If the store refuses a row, measuring continues and
 * *not_kept is the first error. */
static hr_status measure(const cli_run *run, kernel_job *job, hr_error *not_kept, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.warm = run->options.warm;
  options.cancelled = cli_cancelled;
  options.memory_limit_bytes = run->options.memory_limit << 20;
  if (run->options.budget > 0)
    options.time_limit_ns = run->options.budget * 1e9 / (double)job->count;
  options.energy = cli_measures_energy(run);
  for (size_t i = 0; i < job->count; i++) {
    options.kernel = job->runs[i].kernel;
    cli_measuring(!any_time(job, i));
    hr_status status = job->kind->measure(job->device, job->call, &options, &job->runs[i].measurement, error);
    cli_measuring(false);
    if (status == HR_OK && job->store && not_kept->status == HR_OK)
      keep(job, &job->runs[i], not_kept);
    if (status != HR_OK) {
      job->count = i;
      return status;
    }
  }
  return HR_OK;
}

static int run_job(const cli_run *run, kernel_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK}, not_kept = {.status = HR_OK};
  hr_prediction prediction;
  hr_status status = cli_rates(run, job->device, job->hardware, &error);
  if (status != HR_OK)
    return cli_output_close(output, status, &error);
  job->kind->set_dtype(job->call, cli_dtype(run, job->hardware));
  status = measure(run, job, &not_kept, &error);
  bool interrupted = status == HR_ERROR_INTERRUPTED;
  bool predicted = job->kind->predict(job->hardware, job->call, &prediction, NULL) == HR_OK;
  if (status == HR_OK || (interrupted && job->count > 0))
    status = job->kind->report(output->stream, &output->options, job->call, job->hardware,
                               predicted ? &prediction : NULL, job->runs, job->count, &error);
  int code = cli_output_close(output, status, &error);
  if (not_kept.status != HR_OK) {
    int failure = cli_fail_status(not_kept.status, &not_kept);
    code = code == EXIT_FINE ? failure : code;
  }
  if (code == EXIT_FINE && interrupted)
    return EXIT_INTERRUPTED;
  if (code == EXIT_FINE && !any_time(job, job->count))
    return EXIT_UNSUPPORTED;
  hr_figure *figure = NULL;
  if (code == EXIT_FINE && run->options.plot && job->kind->figure)
    status = job->kind->figure(job->call, job->hardware, predicted ? &prediction : NULL, job->runs, job->count, &figure,
                               &error);
  return cli_plot_after(run, code, status, figure, &error);
}

/* The prediction for a device that is not of this machine. */
static int predict_job(const cli_run *run, kernel_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_prediction prediction;
  const hr_kernel_measurement none = {.kernel = ""};
  job->kind->set_dtype(job->call, cli_dtype(run, job->hardware));
  hr_status status = job->kind->predict(job->hardware, job->call, &prediction, &error);
  if (status == HR_OK)
    status =
        job->kind->report(output->stream, &output->options, job->call, job->hardware, &prediction, &none, 0, &error);
  return cli_output_close(output, status, &error);
}

static int check_predicted(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } measuring[] = {{CLI_OPTION_save, "save"},
                   {CLI_OPTION_db, "db"},
                   {CLI_OPTION_kernel, "kernel"},
                   {CLI_OPTION_warm, "warm"},
                   {CLI_OPTION_budget, "budget"},
                   {CLI_OPTION_threads, "threads"},
                   {CLI_OPTION_memory_limit, "memory-limit"},
                   {CLI_OPTION_plot, "plot"}};
  for (size_t i = 0; i < sizeof measuring / sizeof *measuring; i++) {
    if (run->given[measuring[i].option])
      return cli_fail(EXIT_UNSUPPORTED, "--%s: measuring needs a device of this machine, such as cpu; %s is predicted",
                      measuring[i].name, run->options.device);
  }
  if (run->options.format == HR_FORMAT_CSV)
    return cli_fail(EXIT_USAGE, "--format: csv writes measured kernels; json has the prediction of %s",
                    run->options.device);
  return CLI_GO_ON;
}

/* Opens the store before measuring, so that no measurement is lost. */
static int open_job(const cli_run *run, kernel_job *job)
{
  int code = cli_check_kernel(run);
  if (code == CLI_GO_ON)
    code = cli_open_or_load_device(run, &job->device, job->hardware);
  if (code == CLI_GO_ON && !job->device)
    return check_predicted(run);
  if (code == CLI_GO_ON)
    code = choose_kernels(run, job);
  if (code == CLI_GO_ON && (run->options.save || run->options.db))
    code = cli_open_store(run, HR_STORE_WRITE, &job->store);
  return code;
}

int cli_measure_every_kernel(const cli_run *run, const cli_call_kind *kind, void *call)
{
  kernel_job job = {.kind = kind, .call = call, .hardware = run->hardware};
  cli_output output;
  int code = cli_check_plot(run);
  if (code == CLI_GO_ON)
    code = open_job(run, &job);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = job.device ? run_job(run, &job, &output) : predict_job(run, &job, &output);
  free(job.runs);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}
