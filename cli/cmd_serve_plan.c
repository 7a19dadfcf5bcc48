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
  } counts[] = {{given->prompt.max, &serve.prompt_tokens},
                {given->output_tokens.max, &serve.output_tokens},
                {given->serve_batch, &serve.batch},
                {given->max_batch, &serve.batch_max},
                {given->devices, &serve.devices_max},
                {given->tensor_parallel, &serve.tensor_parallel},
                {given->expert_parallel, &serve.expert_parallel},
                {given->prefill_tokens, &serve.prefill_tokens},
                {given->page_tokens, &serve.page_tokens}};
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

/* ---- under a load ---- */

static bool has_load(const cli_run *run)
{
  return run->given[CLI_OPTION_rate] || run->given[CLI_OPTION_clients] || run->given[CLI_OPTION_trace];
}

/* What a load alone has. */
static int check_load_options(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } needing[] = {{CLI_OPTION_requests, "requests"}, {CLI_OPTION_cached, "cached"},
                 {CLI_OPTION_draft, "draft"},       {CLI_OPTION_accept, "accept"},
                 {CLI_OPTION_seed, "seed"},         {CLI_OPTION_prefill_wait, "prefill-wait"}};
  const cli_options *o = &run->options;
  int given = run->given[CLI_OPTION_rate] + run->given[CLI_OPTION_clients] + run->given[CLI_OPTION_trace];
  if (given > 1)
    return cli_fail(EXIT_USAGE, "--rate, --clients and --trace are loads: expected one of them");
  for (size_t i = 0; given == 0 && i < sizeof needing / sizeof *needing; i++) {
    if (run->given[needing[i].option])
      return cli_fail(EXIT_USAGE, "--%s: needs --rate, --clients or --trace", needing[i].name);
  }
  if (given == 0 && (o->prompt.min < o->prompt.max || o->output_tokens.min < o->output_tokens.max))
    return cli_fail(EXIT_USAGE, "--%s: lengths that vary need --rate, --clients or --trace",
                    o->prompt.min < o->prompt.max ? "prompt" : "output");
  if (run->given[CLI_OPTION_draft] != run->given[CLI_OPTION_accept])
    return cli_fail(EXIT_USAGE, "--draft and --accept need each other");
  if (run->given[CLI_OPTION_trace] &&
      (run->given[CLI_OPTION_prompt] || run->given[CLI_OPTION_output_tokens] || run->given[CLI_OPTION_requests]))
    return cli_fail(EXIT_USAGE, "--trace: has its own lengths and number of requests");
  if (given > 0 && run->given[CLI_OPTION_disaggregated])
    return cli_fail(EXIT_USAGE, "--disaggregated: is not simulated under a load");
  return CLI_GO_ON;
}

static hr_load_options make_load(const cli_run *run, const hr_serve_options *serve)
{
  const cli_options *given = &run->options;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = given->rate, load.clients = given->clients, load.requests = given->requests;
  load.prompt_min = given->prompt.min > 0 ? given->prompt.min : serve->prompt_tokens;
  load.prompt_max = serve->prompt_tokens;
  load.output_min = given->output_tokens.min, load.output_max = given->output_tokens.max;
  load.cached = given->cached, load.draft = given->draft, load.accept = given->accept;
  load.wait_steps = given->prefill_wait;
  if (run->given[CLI_OPTION_seed])
    load.seed = (uint64_t)given->seed;
  return load;
}

static int simulate(const cli_run *run, const hr_subject *subject, const hr_serve_options *serve, cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_load_result *result = NULL;
  hr_load_request *trace = NULL;
  hr_load_options load = make_load(run, serve);
  hr_status status = HR_OK;
  if (run->options.trace)
    status = hr_load_trace_file(run->options.trace, &trace, &load.trace_count, &error);
  load.trace = trace;
  bool read = status == HR_OK;
  if (read)
    status = hr_serve_load(subject, serve, &load, &result, &error);
  if (status == HR_OK)
    status = hr_report_serve_load(output->stream, &output->options, subject, result, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_INPUT && read && status == HR_ERROR_INVALID)
    code = EXIT_USAGE; /* the trace was checked before */
  if (code == EXIT_FINE && !result->best)
    code = EXIT_FINDINGS;
  hr_load_result_free(result);
  hr_load_trace_free(trace);
  return code;
}

int cli_serve_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  run->options.output = given->options.output_file;
  hr_serve_options options;
  hr_model model;
  hr_workload workload;
  int code = check_load_options(run);
  if (code == CLI_GO_ON)
    code = cli_load_model(run, &model, NULL);
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
  if (code != CLI_GO_ON)
    return code;
  if (!has_load(run))
    return plan(&model, &workload, run->hardware, &options, &output);
  const hr_subject subject = {.model = &model, .workload = &workload, .hardware = run->hardware};
  return simulate(run, &subject, &options, &output);
}
