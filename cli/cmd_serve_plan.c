/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

/* The engine's defaults on this device. */
static int choose_engine(const cli_run *run, hr_serve_options *serve)
{
  hr_error error = {.status = HR_OK};
  hr_serve_engine engine = run->given[CLI_OPTION_engine] ? run->options.engine : HR_SERVE_VLLM;
  *serve = hr_serve_options_default();
  hr_status status = hr_serve_options_set_engine(serve, engine, run->hardware, &error);
  return status == HR_OK ? CLI_GO_ON : cli_fail_status(status, &error);
}

static hr_serve_options make_options(const cli_run *run, hr_serve_options serve)
{
  const cli_options *given = &run->options;
  const struct {
    int64_t given;
    int64_t *member;
  } counts[] = {{given->prompt, &serve.prompt_tokens},
                {given->output_tokens, &serve.output_tokens},
                {given->serve_batch, &serve.batch},
                {given->max_batch, &serve.batch_max},
                {given->devices, &serve.devices_max},
                {given->tensor_parallel, &serve.tensor_parallel},
                {given->expert_parallel, &serve.expert_parallel},
                {given->prefill_tokens, &serve.prefill_tokens},
                {given->page_tokens, &serve.page_tokens},
                {given->sure, &serve.sure}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (counts[i].given > 0)
      *counts[i].member = counts[i].given;
  }
  serve.ttft_limit_ns = given->ttft;
  serve.tpot_limit_ns = given->tpot;
  serve.price_per_device_hour = given->price;
  if (run->given[CLI_OPTION_memory_share])
    serve.memory_share = given->memory_share;
  if (run->given[CLI_OPTION_reserve])
    serve.reserve_bytes = (int64_t)(given->reserve * 0x1p30);
  serve.disaggregated = given->disaggregated;
  serve.uniform_pages = given->uniform_pages;
  return serve;
}

/* The longest default prompt that the model's positions leave room for. */
static void fit_prompt(const cli_run *run, const hr_model *model, hr_serve_options *options)
{
  int64_t left = model->max_positions - options->output_tokens;
  if (!run->given[CLI_OPTION_prompt] && left > 0 && left < options->prompt_tokens)
    options->prompt_tokens = left;
}

static int plan(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware,
                const hr_serve_options *options, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_serve_result *result = NULL;
  hr_status status = hr_serve_plan(hardware, model, workload, options, &result, &error);
  if (status == HR_OK)
    status =
        hr_report_serve_plan(output->stream, &output->options,
                             &(hr_subject){.model = model, .workload = workload, .hardware = hardware}, result, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_INPUT && status == HR_ERROR_INVALID)
    code = EXIT_USAGE; /* impossible parallelism; the model was checked before */
  if (code == EXIT_FINE && !result->latency)
    code = EXIT_FINDINGS;
  hr_serve_result_free(result);
  return code;
}

int cli_serve_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  run->options.output = given->options.output_file;
  hr_serve_options options;
  hr_model model;
  hr_workload workload;
  int code = cli_load_model(run, &model, NULL);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON)
    code = choose_engine(run, &options);
  if (code == CLI_GO_ON) {
    options = make_options(run, options);
    fit_prompt(run, &model, &options);
    run->options.seq = options.prompt_tokens + options.output_tokens; /* compared with the model's positions */
    code = cli_make_workload(run, &model, &workload);
  }
  if (code == CLI_GO_ON)
    cli_set_formats(run, run->hardware, &workload);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  return code == CLI_GO_ON ? plan(&model, &workload, run->hardware, &options, &output) : code;
}
