#include "cli.h"

#include <string.h>

static hr_sweep_choice make_choice(const cli_run *run)
{
  hr_sweep_choice choice = hr_sweep_choice_default();
  choice.points = run->options.points;
  return choice;
}

static int list_names(void)
{
  hr_sweep **sweeps;
  size_t count;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_sweep_catalog(false, &sweeps, &count, &error);
  if (status != HR_OK)
    return cli_fail_status(status, &error);
  for (size_t i = 0; i < count; i++)
    printf("%s\n", hr_sweep_describe(sweeps[i]).name);
  hr_sweep_catalog_free(sweeps, count);
  return cli_flush(stdout);
}

static int list(const cli_run *run)
{
  hr_hardware hardware;
  cli_output output;
  int code = cli_load_device(run, "cpu", &hardware);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_sweep **sweeps = NULL;
  size_t count = 0;
  hr_error error = {.status = HR_OK};
  hr_sweep_choice choice = make_choice(run);
  hr_dtype dtype = run->given[CLI_OPTION_dtype] ? run->options.dtype : HR_BF16;
  hr_status status = hr_sweep_catalog(hardware.kind == HR_HARDWARE_CPU, &sweeps, &count, &error);
  if (status == HR_OK)
    status = hr_report_sweeps(output.stream, &output.options, sweeps, count, &choice, &hardware, dtype, &error);
  hr_sweep_catalog_free(sweeps, count);
  return cli_output_close(&output, status, &error);
}

int cli_sweep(const cli_run *run)
{
  if (run->options.list)
    return list_names();
  if (run->argument_count != 1 || strcmp(run->arguments[0], "list") != 0)
    return cli_fail(EXIT_USAGE, "sweep: expected the word list");
  return list(run);
}
