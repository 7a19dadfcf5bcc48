/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "picture.h"

static int list_models(void)
{
  size_t count;
  cli_output output;
  int code = cli_text_open(&output);
  if (code != CLI_GO_ON)
    return code;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  for (size_t i = 0; i < count; i++)
    fprintf(output.stream, "%s\n", models[i].name);
  return cli_text_close(&output);
}

/* The roofline of the device with the step's operators. */
static int draw(const cli_run *run, int code, const hr_hardware *hardware, const hr_model *model,
                const hr_workload *workload)
{
  hr_error error = {.status = HR_OK};
  hr_figure *figure = NULL;
  hr_step *step = NULL;
  hr_status status = hr_predict_step(hardware, model, workload, &step, &error);
  if (status == HR_OK)
    status = hr_figure_of_roofline(hardware, model, workload, step, &figure, &error);
  hr_step_free(step);
  return cli_plot_after(run, code, status, figure, &error);
}

int cli_describe(const cli_run *run)
{
  if (run->options.list)
    return list_models();
  hr_model model;
  hr_workload workload;
  hr_checkpoint checkpoint;
  int code = cli_check_plot(run);
  if (code == CLI_GO_ON && run->options.plot && !run->options.device)
    code = cli_fail(EXIT_USAGE, "--plot: the roofline needs --device");
  if (code == CLI_GO_ON)
    code = cli_load_model(run, &model, &checkpoint);
  if (code == CLI_GO_ON && run->options.device)
    code = cli_load_device(run, NULL, run->hardware);
  if (code == CLI_GO_ON)
    code = cli_make_workload(run, &model, &workload);
  if (code == CLI_GO_ON && run->options.device)
    cli_set_formats(run, run->hardware, &workload);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  hr_error error = {.status = HR_OK};
  hr_status status = hr_report_description(
      output.stream, &output.options,
      &(hr_subject){.model = &model, .workload = &workload, .hardware = run->options.device ? run->hardware : NULL},
      &checkpoint, &error);
  code = cli_output_close(&output, status, &error);
  return code == EXIT_FINE && run->options.plot ? draw(run, code, run->hardware, &model, &workload) : code;
}
