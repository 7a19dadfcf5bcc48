/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `serve-plan` as those of the library. */
#include "serve.h"
#include "side_by_side.h"

int cli_match_engine(cli_run *run)
{
  hr_serve_engine server;
  const char *framework = hr_framework_name(run->options.framework);
  if (!run->given[CLI_OPTION_framework] || hr_serve_engine_parse(framework, &server) != HR_OK)
    return CLI_GO_ON; /* the step is of no server */
  if (!run->given[CLI_OPTION_engine])
    run->options.engine = server, run->given[CLI_OPTION_engine] = true;
  if (run->options.engine == server || run->options.engine == HR_SERVE_NONE)
    return CLI_GO_ON;
  return cli_fail(EXIT_USAGE, "--framework %s: the plan is of another server, %s", framework,
                  hr_serve_engine_name(run->options.engine));
}

hr_status cli_choose_engine(const cli_run *run, hr_serve_options *serve, hr_error *error)
{
  hr_serve_engine engine = run->given[CLI_OPTION_engine] ? run->options.engine : HR_SERVE_VLLM;
  *serve = hr_serve_options_default();
  return hr_serve_options_set_engine(serve, engine, run->hardware, error);
}

hr_serve_options cli_make_serving(const cli_run *run, hr_serve_options serve)
{
  const cli_options *given = &run->options;
  const struct {
    int64_t given;
    int64_t *member;
  } counts[] = {{given->prompt.max, &serve.prompt_tokens},
                {given->output_tokens.max, &serve.output_tokens},
                {given->serve_batch, &serve.batch},
                {given->max_batch, &serve.batch_max},
                {given->devices, &serve.devices_max},
                {given->tensor_parallel, &serve.tensor_parallel},
                {given->expert_parallel, &serve.expert_parallel},
                {given->pipeline_stages, &serve.pipeline_stages},
                {given->prefill_tokens, &serve.prefill_tokens},
                {given->prefill_tensor_parallel, &serve.prefill_tensor_parallel},
                {given->page_tokens, &serve.page_tokens},
                {given->sure, &serve.sure}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (counts[i].given > 0)
      *counts[i].member = counts[i].given;
  }
  serve.ttft_limit_ns = given->ttft;
  serve.tpot_limit_ns = given->tpot;
  serve.price_per_device_hour = cli_only(&given->price);
  serve.recommend = given->recommend;
  if (run->given[CLI_OPTION_prefill_device] && given->price.count > 1)
    serve.prefill_price_per_device_hour = given->price.values[1];
  if (run->given[CLI_OPTION_memory_share])
    serve.memory_share = given->memory_share;
  if (run->given[CLI_OPTION_reserve])
    serve.reserve_bytes = (int64_t)(given->reserve * 0x1p30);
  serve.disaggregated = given->disaggregated;
  serve.uniform_pages = given->uniform_pages;
  return serve;
}

int cli_check_prefill(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
    bool apart, load; /* that it needs */
  } needing[] = {{CLI_OPTION_prefill_device, "prefill-device", true, false},
                 {CLI_OPTION_prefill_tensor_parallel, "prefill-tensor-parallel", true, false},
                 {CLI_OPTION_instances, "instances", false, true},
                 {CLI_OPTION_prefill_instances, "prefill-instances", true, true}};
  for (size_t i = 0; i < sizeof needing / sizeof *needing; i++) {
    if (!run->given[needing[i].option])
      continue;
    if (needing[i].apart && !run->options.disaggregated)
      return cli_fail(EXIT_USAGE, "--%s: needs --disaggregated", needing[i].name);
    if (needing[i].load && !cli_has_load(run))
      return cli_fail(EXIT_USAGE, "--%s: needs --rate, --clients or --trace", needing[i].name);
  }
  return CLI_GO_ON;
}

int cli_load_prefill_device(const cli_run *run, hr_serve_options *serve, hr_hardware **hardware)
{
  cli_run own = *run;
  if (!run->given[CLI_OPTION_prefill_device])
    return CLI_GO_ON;
  *hardware = hr_hardware_create();
  if (!*hardware)
    return cli_fail(EXIT_OUTPUT, "out of memory for the figures of a device");
  own.options.device = run->options.prefill_device;
  serve->prefill_hardware = *hardware;
  return cli_load_device(&own, NULL, *hardware);
}

void cli_fit_prompt(const cli_run *run, const hr_model *model, hr_serve_options *options)
{
  int64_t left = model->max_positions - options->output_tokens;
  if (!run->given[CLI_OPTION_prompt] && left > 0 && left < options->prompt_tokens)
    options->prompt_tokens = left;
}
