#include "cli.h"

/* M N K behind the options, or --m --n --k, but each size once. */
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
  if (run->options.batch_count > 0)
    gemm->batch = run->options.batch_count;
  if (run->given[CLI_OPTION_dtype])
    gemm->dtype = run->options.dtype;
  gemm->transpose_a = run->options.transpose_a;
  gemm->transpose_b = run->options.transpose_b;
  hr_error error = {.status = HR_OK};
  return hr_gemm_check(gemm, &error) == HR_OK ? CLI_GO_ON : cli_fail(EXIT_USAGE, "gemm: %s", error.message);
}

static hr_status measure(const cli_run *run, hr_device *device, hr_gemm *gemm, hr_hardware *hardware,
                         hr_measurement *measurement, hr_error *error)
{
  hr_measure_options options = hr_measure_options_default();
  options.kernel = run->options.kernel;
  options.warm = run->options.warm;
  options.cancelled = cli_cancelled;
  if (run->options.budget > 0)
    options.time_limit_ns = run->options.budget * 1e9;
  hr_status status = hr_load_probed(device, hardware, error);
  if (status != HR_OK)
    return status;
  gemm->dtype = cli_dtype(run, hardware);
  return hr_measure_gemm(device, gemm, &options, measurement, error);
}

static int gemm(const cli_run *run, hr_gemm *product, hr_device *device, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_hardware hardware;
  hr_measurement measurement = {.status = HR_OK};
  hr_status status = HR_OK;
  bool measured = false;
  if (device) {
    status = measure(run, device, product, &hardware, &measurement, &error);
    measured = status == HR_OK;
  } else {
    int code = cli_load_device(run, "cpu", &hardware);
    if (code != CLI_GO_ON) {
      cli_output_discard(output);
      return code;
    }
    product->dtype = cli_dtype(run, &hardware);
  }
  bool interrupted = status == HR_ERROR_INTERRUPTED; /* the prediction is there nevertheless */
  hr_prediction prediction;
  if (status == HR_OK || interrupted)
    status = hr_predict_gemm(&hardware, product, &prediction, &error);
  if (status == HR_OK)
    status = hr_report_gemm(output->stream, &output->options, product, &hardware, &prediction,
                            measured ? &measurement : NULL, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_FINE && interrupted)
    code = EXIT_INTERRUPTED;
  if (code == EXIT_FINE && measured && measurement.samples == 0)
    code = EXIT_UNSUPPORTED;
  return code;
}

int cli_gemm(const cli_run *run)
{
  hr_gemm product;
  hr_device *device = NULL;
  int code = make_gemm(run, &product);
  if (code == CLI_GO_ON && run->options.kernel && !run->options.measure)
    code = cli_fail(EXIT_USAGE, "--kernel: needs --measure");
  if (code == CLI_GO_ON && run->options.measure)
    code = cli_open_own_device(run, &device);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON)
    code = gemm(run, &product, device, &output);
  hr_device_close(device);
  return code;
}
