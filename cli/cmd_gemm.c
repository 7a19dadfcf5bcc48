/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "side_by_side.h"

#include <inttypes.h>
#include <math.h>

/* M N K as arguments or as --m --n --k, each size once. */
static int read_sizes(const cli_run *run, hr_gemm *gemm)
{
  const struct {
    const char *name;
    int64_t option;
    int64_t *member;
  } sizes[] = {{"M", run->options.m, &gemm->m}, {"N", run->options.n, &gemm->n}, {"K", run->options.k, &gemm->k}};
  if (run->argument_count != 0 && run->argument_count != 3)
    return cli_fail(EXIT_USAGE, "gemm: expected three sizes M N K, found %d", run->argument_count);
  for (int i = 0; i < 3; i++) {
    if (run->argument_count == 3 && sizes[i].option > 0)
      return cli_fail(EXIT_USAGE, "gemm: %s is given twice", sizes[i].name);
    if (run->argument_count == 0 && sizes[i].option == 0)
      return cli_fail(EXIT_USAGE, "gemm: expected three sizes M N K; %s is missing", sizes[i].name);
    *sizes[i].member = sizes[i].option;
    int code = run->argument_count == 3 ? cli_read_size(sizes[i].name, run->arguments[i], sizes[i].member) : CLI_GO_ON;
    if (code != CLI_GO_ON)
      return code;
  }
  return CLI_GO_ON;
}

static int make_gemm(const cli_run *run, hr_gemm *gemm)
{
  *gemm = hr_gemm_default();
  int code = read_sizes(run, gemm);
  if (code != CLI_GO_ON)
    return code;
  const cli_options *o = &run->options;
  if (o->batch > 0)
    gemm->batch = o->batch;
  if (run->given[CLI_OPTION_dtype])
    gemm->dtype = o->dtype;
  gemm->transpose_a = o->transpose_a;
  gemm->transpose_b = o->transpose_b;
  gemm->broadcast_a = o->broadcast_a;
  gemm->broadcast_b = o->broadcast_b;
  gemm->bias = o->bias;
  gemm->lda = o->lda, gemm->ldb = o->ldb, gemm->ldc = o->ldc;
  gemm->stride_a = o->stride_a, gemm->stride_b = o->stride_b, gemm->stride_c = o->stride_c;
  hr_error error = {.status = HR_OK};
  return hr_gemm_check(gemm, &error) == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "gemm: %s", error.message);
}

typedef struct gemm_job {
  hr_device *device; /* NULL without --measure */
  hr_store *store;   /* NULL without --save */
} gemm_job;

static hr_status keep(const cli_run *run, const gemm_job *job, const hr_gemm *gemm, const hr_hardware *hardware,
                      const hr_measurement *measurement, hr_error *error)
{
  hr_result result = hr_result_default();
  hr_result_set_gemm(&result, gemm);
  hr_result_set_device(&result, job->device, hardware);
  hr_result_set_measurement(&result, measurement, hardware);
  snprintf(result.kernel_asked, sizeof result.kernel_asked, "%s", run->options.kernel ? run->options.kernel : "");
  result.autotune = run->options.autotune;
  result.seed = hr_measure_options_default().seed;
  return hr_store_append(job->store, &result, error);
}

static hr_status measure(const cli_run *run, hr_device *device, hr_gemm *gemm, hr_hardware *hardware,
                         hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.kernel = run->options.kernel;
  options.warm = run->options.warm;
  options.autotune = run->options.autotune;
  options.cancelled = cli_cancelled;
  if (run->options.budget > 0)
    options.time_limit_ns = run->options.budget * 1e9;
  options.energy = cli_measures_energy(run);
  hr_status status = cli_rates(run, device, hardware, error);
  if (status != HR_OK)
    return status;
  gemm->dtype = cli_dtype(run, hardware);
  cli_measuring(true);
  status = hr_measure_gemm(device, gemm, &options, measurement, error);
  cli_measuring(false);
  return status;
}

/* What the library of this machine's device would run, as hr_measure_gemm() does, or why that is not known. Nothing is
 * run. */
static void set_library_choice(const cli_run *run, const hr_gemm *product, char *text, size_t size)
{
  const char *name = run->options.device ? run->options.device : "cpu";
  hr_error error = {.status = HR_OK}, unknown;
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_status status = hr_device_open(name, (int)run->options.threads, &device, &error);
  bool elsewhere = status == HR_ERROR_NOT_FOUND && cli_find_device(name, &unknown) == HR_OK;
  if (status == HR_OK)
    status = hr_plan_gemm(device, product, run->options.kernel, &plan, &error);
  if (elsewhere)
    snprintf(text, size, "unknown: %.64s is not a device of this machine (--device cuda:0)", name);
  else if (status != HR_OK)
    snprintf(text, size, "unknown: %.300s", error.message);
  else
    snprintf(text, size, "%.100s%s%.300s", hr_plan_kernel(plan), hr_plan_configuration(plan)[0] ? ": " : "",
             hr_plan_configuration(plan));
  hr_plan_free(plan);
  hr_device_close(device);
}

static int gemm(const cli_run *run, hr_gemm *product, const gemm_job *job, cli_output *output)
{
  hr_error error = {.status = HR_OK}, not_kept = {.status = HR_OK};
  hr_hardware *hardware = run->hardware; /* measuring sets it once the device was probed */
  hr_kernel_measurement of_it = {.kernel = "", .measurement = {.status = HR_OK}};
  hr_status status = HR_OK, kept = HR_OK;
  bool measured = false;
  if (job->device) {
    status = measure(run, job->device, product, hardware, &of_it.measurement, &error);
    measured = status == HR_OK;
    if (measured && job->store)
      kept = keep(run, job, product, hardware, &of_it.measurement, &not_kept);
  } else {
    product->dtype = cli_dtype(run, hardware);
  }
  /* After an interruption the prediction is reported, if the device was probed. */
  bool interrupted = status == HR_ERROR_INTERRUPTED && hr_hardware_check(hardware, NULL) == HR_OK;
  hr_prediction prediction;
  char choice[480];
  if (run->options.explain) {
    set_library_choice(run, product, choice, sizeof choice);
    output->options.library_choice = choice;
  }
  if (status == HR_OK || interrupted)
    status = hr_predict_gemm(hardware, product, &prediction, &error);
  if (status == HR_OK)
    status = hr_report_gemm(output->stream, &output->options, product,
                            &(hr_measured_call){hardware, &prediction, &of_it, measured}, &error);
  int code = cli_output_close(output, status, &error);
  if (kept != HR_OK) {
    int failure = cli_fail_status(kept, &not_kept);
    code = code == EXIT_FINE ? failure : code;
  }
  if (code == EXIT_FINE && interrupted)
    code = EXIT_INTERRUPTED;
  if (code == EXIT_FINE && measured && of_it.measurement.samples == 0)
    code = EXIT_UNSUPPORTED;
  return code;
}

/* Opens the store before measuring, so that no measurement is lost. */
static int open_job(const cli_run *run, gemm_job *job)
{
  bool save = run->options.save || run->options.db;
  int code = cli_check_measure(run);
  if (code == CLI_GO_ON)
    code = cli_check_kernel(run);
  if (code == CLI_GO_ON)
    code = run->options.measure ? cli_open_own_device(run, &job->device) : cli_load_device(run, "cpu", run->hardware);
  return code == CLI_GO_ON && save ? cli_open_store(run, HR_STORE_WRITE, &job->store) : code;
}

/* ---- several devices ---- */

static hr_status offer_gemm(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  hr_gemm product = *(const hr_gemm *)context;
  int64_t flops;
  product.dtype = offer->dtype = cli_dtype(run, run->hardware);
  hr_prediction prediction;
  hr_status status = hr_predict_gemm(run->hardware, &product, &prediction, error);
  if (status == HR_OK)
    status = hr_gemm_flops(&product, &flops);
  if (status == HR_OK)
    cli_offer_call(offer, &prediction, (double)flops);
  return status;
}

static int gemm_each(const cli_run *run, const hr_gemm *product)
{
  char about[160];
  snprintf(about, sizeof about, "m %" PRId64 ", n %" PRId64 ", k %" PRId64 ", batch %" PRId64, product->m, product->n,
           product->k, product->batch);
  return cli_calls_side_by_side(run, about, offer_gemm, product);
}

/* ---- the command ---- */

int cli_gemm(const cli_run *run)
{
  hr_gemm product;
  gemm_job job = {.device = NULL};
  cli_output output;
  int code = make_gemm(run, &product);
  if (code == CLI_GO_ON && cli_has_several_devices(run))
    return gemm_each(run, &product);
  if (code == CLI_GO_ON)
    code = open_job(run, &job);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = gemm(run, &product, &job, &output);
  hr_store_abandon(job.store); /* removes a new file without rows */
  hr_device_close(job.device);
  return code;
}
