/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_DIM 64
#define LENGTH 1024

static int64_t or_else(int64_t given, int64_t otherwise)
{
  return given > 0 ? given : otherwise;
}

static int make_attention(const cli_run *run, hr_attention *a)
{
  const cli_options *o = &run->options;
  hr_error error = {.status = HR_OK};
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "attention: expected no argument, found \"%s\"", run->arguments[0]);
  *a = hr_attention_default();
  a->batch = or_else(o->batch, 1);
  a->q_heads = or_else(o->q_heads, 1);
  a->k_heads = or_else(o->k_heads, a->q_heads);
  a->v_heads = or_else(o->v_heads, a->k_heads);
  a->qk_dim = or_else(o->qk_dim, HEAD_DIM);
  a->v_dim = or_else(o->v_dim, a->qk_dim);
  a->q_len = or_else(o->q_len, or_else(o->kv_len, LENGTH));
  a->kv_len = or_else(o->kv_len, a->q_len);
  a->mask = o->causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  a->window = o->window;
  a->scale = (float)o->scale;
  a->softcap = (float)o->softcap;
  a->alibi = o->alibi;
  if (run->given[CLI_OPTION_dtype])
    a->dtype = o->dtype;
  hr_status status = hr_attention_check(a, &error);
  if (status == HR_OK && run->given[CLI_OPTION_layout])
    status = hr_attention_set_layout(a, o->layout, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "attention: %s", error.message);
}

typedef struct attention_job {
  hr_attention attention;
  hr_device *device;
  hr_store *store; /* NULL without --save */
  hr_hardware hardware;
  hr_kernel_measurement *runs;
  size_t count;
} attention_job;

/* The device's attention kernels, or those of --kernel. */
static int choose_kernels(const cli_run *run, attention_job *job)
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  const char *device = hr_device_name(job->device), *asked = run->options.kernel;
  job->runs = calloc(count, sizeof *job->runs);
  if (!job->runs)
    return cli_fail(EXIT_OUTPUT, "memory ran out for %zu kernels", count);
  for (size_t i = 0; i < count; i++) {
    size_t kind = strlen(kernels[i].device);
    bool here = strncmp(device, kernels[i].device, kind) == 0 && (device[kind] == '\0' || device[kind] == ':');
    if (here && strcmp(kernels[i].operation, "attention") == 0 && (!asked || hr_kernel_is(&kernels[i], asked)))
      job->runs[job->count++].kernel = kernels[i].name;
  }
  if (job->count == 0)
    return asked ? cli_fail(EXIT_USAGE, "--kernel: %s has no attention kernel \"%s\"; see headroom kernels", device,
                            asked)
                 : cli_fail(EXIT_UNSUPPORTED, "attention: %s has no attention kernel", device);
  return CLI_GO_ON;
}

static hr_status keep(const attention_job *job, const hr_kernel_measurement *one, hr_error *error)
{
  hr_result result = hr_result_default();
  hr_result_set_attention(&result, &job->attention);
  hr_result_set_device(&result, job->device, &job->hardware);
  hr_result_set_measurement(&result, &one->measurement, &job->hardware);
  snprintf(result.kernel_asked, sizeof result.kernel_asked, "%s", one->kernel);
  result.seed = hr_measure_options_default().seed;
  return hr_store_append(job->store, &result, error);
}

/* Measures each kernel; an interruption keeps those before it. If the store refuses a row, measuring continues and
 * *not_kept is the first error. */
static hr_status measure(const cli_run *run, attention_job *job, hr_error *not_kept, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.warm = run->options.warm;
  options.cancelled = cli_cancelled;
  options.memory_limit_bytes = run->options.memory_limit << 20;
  if (run->options.budget > 0)
    options.time_limit_ns = run->options.budget * 1e9 / (double)job->count;
  for (size_t i = 0; i < job->count; i++) {
    options.kernel = job->runs[i].kernel;
    hr_status status = hr_measure_attention(job->device, &job->attention, &options, &job->runs[i].measurement, error);
    if (status == HR_OK && job->store && not_kept->status == HR_OK)
      keep(job, &job->runs[i], not_kept);
    if (status != HR_OK) {
      job->count = i;
      return status;
    }
  }
  return HR_OK;
}

static bool any_time(const attention_job *job)
{
  for (size_t i = 0; i < job->count; i++) {
    if (job->runs[i].measurement.samples > 0)
      return true;
  }
  return false;
}

static int run_job(const cli_run *run, attention_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK}, not_kept = {.status = HR_OK};
  hr_prediction prediction;
  hr_status status = cli_rates(run, job->device, &job->hardware, &error);
  if (status != HR_OK)
    return cli_output_close(output, status, &error);
  job->attention.dtype = cli_dtype(run, &job->hardware);
  status = measure(run, job, &not_kept, &error);
  bool interrupted = status == HR_ERROR_INTERRUPTED;
  bool predicted = hr_predict_attention(&job->hardware, &job->attention, &prediction, NULL) == HR_OK;
  if (status == HR_OK || (interrupted && job->count > 0))
    status = hr_report_attention(output->stream, &output->options, &job->attention, &job->hardware,
                                 predicted ? &prediction : NULL, job->runs, job->count, &error);
  int code = cli_output_close(output, status, &error);
  if (not_kept.status != HR_OK) {
    int failure = cli_fail_status(not_kept.status, &not_kept);
    code = code == EXIT_FINE ? failure : code;
  }
  if (code == EXIT_FINE && interrupted)
    return EXIT_INTERRUPTED;
  return code == EXIT_FINE && !any_time(job) ? EXIT_UNSUPPORTED : code;
}

/* Opens the store before measuring, so that no measurement is lost. */
static int open_job(const cli_run *run, attention_job *job)
{
  int code = make_attention(run, &job->attention);
  if (code == CLI_GO_ON)
    code = cli_check_kernel(run);
  if (code == CLI_GO_ON)
    code = cli_open_own_device(run, &job->device);
  if (code == CLI_GO_ON)
    code = choose_kernels(run, job);
  if (code == CLI_GO_ON && (run->options.save || run->options.db))
    code = cli_open_store(run, HR_STORE_WRITE, &job->store);
  return code;
}

int cli_attention(const cli_run *run)
{
  attention_job job = {.device = NULL};
  cli_output output;
  int code = open_job(run, &job);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = run_job(run, &job, &output);
  free(job.runs);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}
