/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <headroom/experimental/training.h>

/* Degrees that the command line names narrow the plan; all others are tried. */
static hr_training_options make_options(const cli_run *run)
{
  const cli_options *given = &run->options;
  hr_training_options plan = hr_training_options_default();
  plan.tensor_parallel = given->tensor_parallel, plan.pipeline_stages = given->pipeline_stages;
  plan.virtual_stages = given->virtual_stages;
  plan.context_parallel = given->context_parallel, plan.expert_parallel = given->expert_parallel;
  plan.batch = given->batch;
  if (given->global_batch > 0)
    plan.global_batch = given->global_batch;
  if (run->given[CLI_OPTION_zero])
    plan.zero_stages = 1u << given->zero;
  if (run->given[CLI_OPTION_recompute])
    plan.recomputes = 1u << given->recompute;
  plan.accepted_by = given->accepted_by;
  plan.tokens = given->tokens;
  plan.price_per_device_hour = given->price;
  plan.power_w = given->power;
  return plan;
}

/* Without --devices those of a node. */
static void set_devices(const cli_run *run, hr_training_options *options)
{
  double per_node = 0;
  const cli_sizes *given = &run->options.plan_devices;
  options->device_counts = given->count;
  for (size_t i = 0; i < given->count; i++)
    options->devices[i] = given->values[i];
  if (given->count > 0)
    return;
  hr_hardware_number(run->hardware, "devices_per_node", &per_node, NULL);
  options->device_counts = 1;
  options->devices[0] = per_node >= 1 ? (int64_t)per_node : 1;
}

/* The step on one device, to which a plan adds the degrees. */
static int make_workload(const cli_run *given, const hr_model *model, hr_workload *workload)
{
  cli_run own = *given, *run = &own;
  cli_options *o = &run->options;
  o->tensor_parallel = o->pipeline_stages = o->virtual_stages = o->context_parallel = o->expert_parallel = 0;
  o->batch = o->zero = 0;
  o->recompute = HR_RECOMPUTE_NONE;
  int code = cli_make_workload(run, model, workload);
  if (code == CLI_GO_ON)
    cli_set_formats(run, run->hardware, workload);
  return code;
}

/* What would make the model itself faster in the first layout: its degrees are chosen already. */
static hr_status advise(const hr_subject *subject, const hr_training_plan *plan, hr_advice **advice, hr_error *error)
{
  hr_advise_options options = hr_advise_options_default();
  options.without_classes = 1u << HR_CHANGE_DEPLOY;
  const hr_training_layout *best = hr_training_plan_best(plan);
  return best ? hr_advise_with(subject->hardware, subject->model, &best->workload, &options, advice, error) : HR_OK;
}

static int plan_for(const cli_run *run, const hr_subject *subject, const hr_training_options *options,
                    cli_output *output)
{
  hr_error error = {.status = HR_OK};
  hr_training_plan *plan = NULL;
  hr_advice *advice = NULL;
  hr_status status = hr_plan_training(subject, options, &plan, &error);
  if (status == HR_OK)
    status = advise(subject, plan, &advice, &error);
  if (status == HR_OK) {
    const hr_training_report report = {
        .plan = plan, .advice = advice, .limit = run->options.limit > 0 ? (size_t)run->options.limit : 10};
    status = hr_report_training(output->stream, &output->options, subject, &report, &error);
  }
  int code = cli_output_close(output, status, &error);
  if (code == EXIT_FINE && !hr_training_plan_best(plan))
    code = EXIT_FINDINGS;
  hr_advice_free(advice);
  hr_training_plan_free(plan);
  return code;
}

int cli_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  hr_training_options options = make_options(run);
  run->options.phase = HR_PHASE_TRAIN, run->given[CLI_OPTION_phase] = true;
  hr_model model;
  hr_workload workload;
  if ((options.price_per_device_hour > 0 || options.power_w > 0) && !(options.tokens > 0))
    return cli_fail(EXIT_USAGE, "--%s: needs --tokens", options.price_per_device_hour > 0 ? "price" : "power");
  int code = cli_load_model(run, &model, NULL);
  if (code == CLI_GO_ON)
    code = cli_load_device(run, "cpu", run->hardware);
  if (code == CLI_GO_ON)
    code = make_workload(run, &model, &workload);
  cli_output output;
  if (code == CLI_GO_ON)
    code = cli_output_open(run, &output);
  if (code != CLI_GO_ON)
    return code;
  set_devices(run, &options);
  return plan_for(run, &(hr_subject){.model = &model, .workload = &workload, .hardware = run->hardware}, &options,
                  &output);
}
