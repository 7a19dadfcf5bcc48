/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int list_models(void)
{
  size_t count;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++)
    printf("%s\n", models[i].name);
  return cli_flush(stdout);
}

int cli_describe(const cli_run *run)
{
  if (run->options.list)
    return list_models();
  hr_model model;
  hr_hardware hardware;
  hr_workload workload;
  hr_checkpoint checkpoint;
  int code = cli_load_model(run, &model, &checkpoint);
  if (code == CLI_GO_ON && run->options.device)
    code = cli_load_device(run, NULL, &hardware);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &model, &workload);
  if (code == CLI_GO_ON && run->options.device)
    cli_set_formats(run, &hardware, &workload);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_report_description(output.stream, &output.options, &model, &workload,
                                           run->options.device ? &hardware : NULL, &checkpoint, &error);
  return cli_output_close(&output, status, &error);
}
