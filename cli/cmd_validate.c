/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_validate(const cli_run *run)
{
  const cli_options *given = &run->options;
  hr_hardware hardware;
  hr_validate_options options = hr_validate_options_default();
  hr_validation *validation = NULL;
  hr_error error = {.status = HR_OK};
  cli_output output;
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "validate: expected no argument, found \"%s\"", run->arguments[0]);
  if (!given->from)
    return cli_fail(EXIT_USAGE, "validate: --from FILE.csv names the measured rows");
  if (run->given[CLI_OPTION_framework])
    options.framework = given->framework;
  options.cache_writes = given->cache_writes;
  int code = cli_load_device(run, "h200", &hardware);
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code == CLI_GO_ON) {
    hr_status status = hr_validate_file(&hardware, given->from, &options, &validation, &error);
    if (status == HR_OK)
      status = hr_report_validation(output.stream, &output.options, &hardware, validation, &error);
    code = cli_output_close(&output, status, &error);
  }
  hr_validation_free(validation);
  return code;
}
