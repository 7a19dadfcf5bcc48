/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int list_names(void)
{
  cli_blocking(true);
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    printf("%s\n", kernels[i].name);
  return cli_flush(stdout);
}

int cli_kernels(const cli_run *run)
{
  if (run->argument_count > 0)
    return cli_fail(EXIT_USAGE, "kernels: expected no argument, found \"%s\"", run->arguments[0]);
  if (run->options.list)
    return list_names();
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_report_kernels(output.stream, &output.options, &error);
  return cli_output_close(&output, status, &error);
}
