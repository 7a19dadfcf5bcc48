/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-plan` under a load: its options and the simulation. */
#include "serve.h"
#include "side_by_side.h"

#include <string.h>

bool cli_has_load(const cli_run *run)
{
  return run->given[CLI_OPTION_rate] || run->given[CLI_OPTION_clients] || run->given[CLI_OPTION_trace];
}

/* What a load alone has. */
int cli_check_load(const cli_run *run)
{
  static const struct {
    int option;
    const char *name;
  } needing[] = {{CLI_OPTION_requests, "requests"},
                 {CLI_OPTION_cached, "cached"},
                 {CLI_OPTION_draft, "draft"},
                 {CLI_OPTION_accept, "accept"},
                 {CLI_OPTION_draft_model, "draft-model"},
                 {CLI_OPTION_seed, "seed"},
                 {CLI_OPTION_prefill_wait, "prefill-wait"}};
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
  if (run->given[CLI_OPTION_draft_model] && !run->given[CLI_OPTION_draft])
    return cli_fail(EXIT_USAGE, "--draft-model: needs --draft");
  if (run->given[CLI_OPTION_trace] &&
      (run->given[CLI_OPTION_prompt] || run->given[CLI_OPTION_output_tokens] || run->given[CLI_OPTION_requests]))
    return cli_fail(EXIT_USAGE, "--trace: has its own lengths and number of requests");
  if (o->trace && strcmp(o->trace, "-") == 0 && cli_has_several_devices(run))
    return cli_fail(EXIT_USAGE, "--trace: standard input is read once; several devices need a file");
  if (given > 0 && (run->given[CLI_OPTION_recommend] || run->given[CLI_OPTION_emit]))
    return cli_fail(EXIT_USAGE, "--%s: is of a steady load; --instances 0 counts copies for --rate",
                    run->given[CLI_OPTION_recommend] ? "recommend" : "emit");
  return CLI_GO_ON;
}

static hr_load_options make_load(const cli_run *run, const hr_serve_options *serve, bool compared)
{
  const cli_options *given = &run->options;
  hr_load_options load = hr_load_options_default();
  load.rate_per_s = given->rate, load.clients = given->clients, load.requests = given->requests;
  load.prompt_min = given->prompt.min > 0 ? given->prompt.min : serve->prompt_tokens;
  load.prompt_max = serve->prompt_tokens;
  load.output_min = given->output_tokens.min, load.output_max = given->output_tokens.max;
  load.cached = given->cached, load.draft = given->draft, load.accept = given->accept;
  load.wait_steps = given->prefill_wait;
  /* The fewest where they are compared by their number. */
  bool counted = serve->disaggregated || compared;
  load.instances = run->given[CLI_OPTION_instances] ? given->instances : counted ? 0 : 1;
  load.prefill_instances = run->given[CLI_OPTION_prefill_instances] ? given->prefill_instances : counted ? 0 : 1;
  if (run->given[CLI_OPTION_seed])
    load.seed = (uint64_t)given->seed;
  return load;
}

hr_status cli_serve_load(const cli_run *run, const cli_serve_work *work, const hr_subject *subject,
                         const hr_serve_options *serve, bool compared, hr_load_result **result, hr_error *error)
{
  hr_load_request *trace = NULL;
  hr_load_options load = make_load(run, serve, compared);
  hr_status status = HR_OK;
  if (run->options.trace)
    status = hr_load_trace_file(run->options.trace, &trace, &load.trace_count, error);
  load.trace = trace;
  load.draft_model = run->given[CLI_OPTION_draft_model] ? &work->draft_model : NULL;
  if (status == HR_OK)
    status = hr_serve_load(subject, serve, &load, result, error);
  else if (status == HR_ERROR_INVALID)
    status = HR_ERROR_UNREADABLE; /* the input, not the options */
  hr_load_trace_free(trace);
  return status;
}

int cli_simulate_load(const cli_run *run, const cli_serve_work *work, const hr_serve_options *serve, cli_output *output)
{
  const hr_subject subject = {.model = &work->model, .workload = &work->workload, .hardware = run->hardware};
  hr_error error = {.status = HR_OK};
  hr_load_result *result = NULL;
  hr_status status = cli_serve_load(run, work, &subject, serve, false, &result, &error);
  if (status == HR_OK)
    status = hr_report_serve_load(output->stream, &output->options, &subject, result, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_INPUT && status == HR_ERROR_INVALID)
    code = EXIT_USAGE; /* the trace was read before */
  /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): nothing failed */
  if (code == EXIT_FINE && !result->best)
    code = EXIT_FINDINGS;
  hr_load_result_free(result);
  return code;
}
