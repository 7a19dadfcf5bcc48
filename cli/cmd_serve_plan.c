/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "side_by_side.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The engine's defaults on this device. */
static hr_status choose_engine(const cli_run *run, hr_serve_options *serve, hr_error *error)
{
  hr_serve_engine engine = run->given[CLI_OPTION_engine] ? run->options.engine : HR_SERVE_VLLM;
  *serve = hr_serve_options_default();
  return hr_serve_options_set_engine(serve, engine, run->hardware, error);
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

/* What is planned, on whatever device. */
typedef struct serve_work {
  hr_model model;
  hr_workload workload;
} serve_work;

/* ---- --emit ---- */

static int check_emit(cli_run *run)
{
  if (!run->given[CLI_OPTION_emit])
    return CLI_GO_ON;
  if (run->given[CLI_OPTION_format] && run->options.format != HR_FORMAT_TABLE)
    return cli_fail(EXIT_USAGE, "--emit: prints a command line, which has no --format");
  if (run->given[CLI_OPTION_engine] && run->options.engine != run->options.emit)
    return cli_fail(EXIT_USAGE, "--emit %s: the plan is by the rules of --engine %s",
                    hr_serve_engine_name(run->options.emit), hr_serve_engine_name(run->options.engine));
  run->options.engine = run->options.emit, run->given[CLI_OPTION_engine] = true;
  return CLI_GO_ON;
}

/* org/name in the address of a built-in model's configuration; false if it is from elsewhere. */
static bool repository_of(const char *text, char *name, size_t size)
{
  static const char begin[] = "https://huggingface.co/", end[] = "/blob/";
  const char *from = strstr(text, begin), *to = from ? strstr(from, end) : NULL;
  if (!to)
    return false;
  from += strlen(begin);
  snprintf(name, size, "%.*s", (int)(to - from), from);
  return true;
}

/* The model as a server loads it: a repository or a folder. */
static int name_model(const cli_run *run, const hr_model *model, char *name, size_t size)
{
  const char *typed = run->arguments[0], config[] = "config.json";
  size_t count, length = strlen(typed), end = sizeof config - 1;
  const hr_catalog_entry *models = hr_catalog_models(&count);
  for (size_t i = 0; i < count && !strchr(typed, '/'); i++) {
    if (strcmp(models[i].name, model->name) == 0 && repository_of(models[i].text, name, size))
      return CLI_GO_ON;
  }
  bool file = length >= end && strcmp(typed + length - end, config) == 0;
  if (typed[0] == '{' || strcmp(typed, "-") == 0 || (!file && !strchr(typed, '/') && access(typed, F_OK) != 0))
    return cli_fail(EXIT_USAGE, "--emit: a server needs a repository, org/name, or a folder, not %.80s", typed);
  snprintf(name, size, "%.*s", (int)(file ? length - end : length), typed);
  if (name[0] == '\0')
    snprintf(name, size, ".");
  return CLI_GO_ON;
}

static hr_status write_plan(const cli_run *run, const serve_work *work, const hr_serve_result *plan, cli_output *output,
                            const char *name, hr_error *error)
{
  const hr_subject subject = {.model = &work->model, .workload = &work->workload, .hardware = run->hardware};
  if (!name[0])
    return hr_report_serve_plan(output->stream, &output->options, &subject, plan, error);
  const hr_serve_point *point = plan->fleet_count > 0 ? plan->fleets[0].point : plan->cheapest;
  if (!point)
    cli_fail(0, "--emit: no plan %s", plan->count > 0 ? "meets the limits" : "fits");
  return point ? hr_report_serve_command(output->stream, &subject, plan, point, name, error) : HR_OK;
}

static int plan(const cli_run *run, const serve_work *work, const hr_serve_options *options, const char *name,
                cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_serve_result *result = NULL;
  hr_status status = hr_serve_plan(run->hardware, &work->model, &work->workload, options, &result, &error);
  if (status == HR_OK)
    status = write_plan(run, work, result, output, name, &error);
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_INPUT && status == HR_ERROR_INVALID)
    code = EXIT_USAGE; /* impossible parallelism; the model was checked before */
  if (code == EXIT_FINE && !result->latency)
    code = EXIT_FINDINGS;
  hr_serve_result_free(result);
  return code;
}

/* ---- several devices ---- */

static const hr_offer_figure offer_figures[] = {
    {"instances", "instances", HR_OFFER_COUNT}, {"tensor_parallel", "t", HR_OFFER_COUNT},
    {"expert_parallel", "e", HR_OFFER_COUNT},   {"batch", "batch", HR_OFFER_COUNT},
    {"ttft_ns", "TTFT", HR_OFFER_TIME},         {"tpot_ns", "TPOT", HR_OFFER_TIME},
    {"request_ns", "request", HR_OFFER_TIME},   {"memory_bytes", "memory", HR_OFFER_BYTES}};

static hr_offer_value exactly(double value)
{
  return (hr_offer_value){value, NAN, NAN};
}

static void fill_offer(const hr_serve_result *plan, const hr_serve_point *point, hr_offer *offer)
{
  double tokens = (double)plan->options.output_tokens;
  const hr_offer_value values[] = {exactly(NAN),
                                   exactly((double)point->tensor_parallel),
                                   exactly(point->expert_parallel > 1 ? (double)point->expert_parallel : (double)NAN),
                                   exactly((double)point->batch),
                                   {point->ttft_ns, point->ttft_low_ns, point->ttft_high_ns},
                                   {point->tpot_ns, point->tpot_low_ns, point->tpot_high_ns},
                                   exactly(point->request_ns),
                                   exactly((double)point->memory_bytes)};
  memcpy(offer->figures, values, sizeof values);
  offer->devices = (double)point->devices + point->prefill_devices;
  offer->work_per_s = (hr_offer_value){point->output_tokens_per_s, point->requests_per_s_low * tokens,
                                       point->requests_per_s_high * tokens};
}

/* The copies that carry the load of --recommend, which is all that they do. */
static void fill_fleet(const hr_serve_result *plan, hr_offer *offer)
{
  const hr_serve_fleet *fleet = &plan->fleets[0];
  fill_offer(plan, fleet->point, offer);
  offer->figures[0] = exactly((double)fleet->instances);
  offer->devices = (double)fleet->devices;
  offer->work_per_s = exactly(plan->options.recommend * (double)plan->options.output_tokens);
}

/* The cheapest plan on a device, or the fewest devices for a load. */
static hr_status offer_plan(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const serve_work *work = context;
  hr_workload workload = work->workload;
  hr_serve_options options;
  hr_serve_result *plan = NULL;
  cli_set_formats(run, run->hardware, &workload);
  hr_status status = choose_engine(run, &options, error);
  if (status == HR_OK) {
    options = make_options(run, options);
    fit_prompt(run, &work->model, &options);
    status = hr_serve_plan(run->hardware, &work->model, &workload, &options, &plan, error);
  }
  if (status != HR_OK)
    return status;
  offer->dtype = workload.dtype;
  if (plan->fleet_count > 0)
    fill_fleet(plan, offer);
  else if (plan->cheapest)
    fill_offer(plan, plan->cheapest, offer);
  else
    snprintf(offer->why, sizeof offer->why, plan->count > 0 ? "no plan meets the limits" : "no plan fits");
  hr_serve_result_free(plan);
  return HR_OK;
}

static int plan_each(const cli_run *run, const hr_serve_options *options, const serve_work *work)
{
  char about[128];
  snprintf(about, sizeof about, "output tokens of the %s, prompts of %" PRId64 " tokens, outputs of %" PRId64,
           options->recommend > 0 ? "fewest devices for the load" : "cheapest plan", options->prompt_tokens,
           options->output_tokens);
  return cli_side_by_side(run, &(cli_side){.about = about,
                                           .model = &work->model,
                                           .tokens = true,
                                           .figures = offer_figures,
                                           .figure_count = sizeof offer_figures / sizeof *offer_figures,
                                           .fill = offer_plan,
                                           .context = work});
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
  if (given > 0 && (run->given[CLI_OPTION_recommend] || run->given[CLI_OPTION_emit] || run->given[CLI_OPTION_sure] ||
                    cli_has_several_devices(run)))
    return cli_fail(EXIT_USAGE, "a load is simulated on one device, without --recommend, --emit and --sure");
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

/* ---- the command ---- */

/* Model, requests and workload, which no device changes. */
static int make_work(cli_run *run, serve_work *work, hr_serve_options *options)
{
  int code = cli_load_model(run, &work->model, NULL);
  if (code != CLI_GO_ON)
    return code;
  *options = make_options(run, hr_serve_options_default());
  fit_prompt(run, &work->model, options);
  run->options.seq = options->prompt_tokens + options->output_tokens; /* compared with the model's positions */
  return cli_make_workload(run, &work->model, &work->workload);
}

int cli_serve_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  run->options.output = given->options.output_file;
  hr_error error = {.status = HR_OK};
  hr_serve_options options;
  serve_work work;
  char name[4096] = ""; /* of the model for --emit; "": a plan is reported */
  int code = check_emit(run);
  if (code == CLI_GO_ON)
    code = check_load_options(run);
  if (code == CLI_GO_ON)
    code = make_work(run, &work, &options);
  if (code == CLI_GO_ON && run->given[CLI_OPTION_emit])
    code = name_model(run, &work.model, name, sizeof name);
  if (code == CLI_GO_ON && cli_has_several_devices(run))
    return plan_each(run, &options, &work);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON && choose_engine(run, &options, &error) != HR_OK)
    code = cli_fail_status(error.status, &error);
  if (code == CLI_GO_ON) {
    options = make_options(run, options);
    fit_prompt(run, &work.model, &options);
    cli_set_formats(run, run->hardware, &work.workload);
  }
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  if (!has_load(run))
    return plan(run, &work, &options, name, &output);
  const hr_subject subject = {.model = &work.model, .workload = &work.workload, .hardware = run->hardware};
  return simulate(run, &subject, &options, &output);
}
