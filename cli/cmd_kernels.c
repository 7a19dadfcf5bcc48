/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int list_names(void)
{
  size_t count;
  cli_output output;
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    fprintf(output.stream, "%s\n", kernels[i].name);
  return cli_text_close(&output);
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
