/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"
#include "side_by_side.h"

static hr_status write_plan(const cli_run *run, const cli_serve_work *work, const hr_serve_result *plan,
                            cli_output *output, const char *name, hr_error *error)
{
  const hr_subject subject = {.model = &work->model, .workload = &work->workload, .hardware = run->hardware};
  if (!name[0])
    return hr_report_serve_plan(output->stream, &output->options, &subject, plan, error);
  const hr_serve_point *point = plan->fleet_count > 0 ? plan->fleets[0].point : plan->cheapest;
  if (!point)
    cli_fail(0, "--emit: no plan %s; the report without --emit says why",
             plan->count > 0 ? "meets the limits" : "fits");
  return point ? hr_report_serve_command(output->stream, &subject, plan, point, name, error) : HR_OK;
}

static int plan(const cli_run *run, const cli_serve_work *work, const hr_serve_options *options, const char *name,
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

/* ---- the command ---- */

/* Model, requests and workload, which no device changes. */
static int make_work(cli_run *run, cli_serve_work *work, hr_serve_options *options)
{
  int code = cli_load_model(run, &work->model, NULL);
  if (code == CLI_GO_ON && run->given[CLI_OPTION_draft_model])
    code = cli_load_named_model(run, run->options.draft_model, &work->draft_model);
  if (code != CLI_GO_ON)
    return code;
  *options = cli_make_serving(run, hr_serve_options_default());
  cli_fit_prompt(run, &work->model, options);
  run->options.seq = options->prompt_tokens + options->output_tokens; /* compared with the model's positions */
  if (run->given[CLI_OPTION_draft_model])
    cli_note_positions(&work->draft_model, run->options.seq);
  return cli_make_workload(run, &work->model, &work->workload);
}

/* What is asked of one device; `name` is "" but for --emit. */
static int answer(const cli_run *run, const cli_serve_work *work, const hr_serve_options *options, const char *name)
{
  cli_output output;
  int code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  if (!cli_has_load(run))
    return plan(run, work, options, name, &output);
  return cli_simulate_load(run, work, options, &output);
}

static int check(cli_run *run)
{
  int code = cli_check_emit(run);
  if (code == CLI_GO_ON)
    code = cli_match_engine(run);
  if (code == CLI_GO_ON)
    code = cli_check_load(run);
  return code == CLI_GO_ON ? cli_check_prefill(run) : code;
}

int cli_serve_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  run->options.output = given->options.output_file;
  hr_error error = {.status = HR_OK};
  hr_serve_options options;
  cli_serve_work work;
  hr_hardware *prefill = NULL;
  char name[4096] = ""; /* of the model for --emit; "": a plan is reported */
  int code = check(run);
  if (code == CLI_GO_ON)
    code = make_work(run, &work, &options);
  if (code == CLI_GO_ON && run->given[CLI_OPTION_emit])
    code = cli_name_served(run, &work.model, name, sizeof name);
  if (code == CLI_GO_ON && cli_has_several_devices(run))
    return cli_serve_each(run, &options, &work);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON && cli_choose_engine(run, &options, &error) != HR_OK)
    code = cli_fail_status(error.status, &error);
  if (code == CLI_GO_ON) {
    options = cli_make_serving(run, options);
    cli_fit_prompt(run, &work.model, &options);
    cli_set_formats(run, run->hardware, &work.workload);
    code = cli_load_prefill_device(run, &options, &prefill);
  }
  if (code == CLI_GO_ON)
    code = answer(run, &work, &options, name);
  hr_hardware_free(prefill);
  return code;
}
