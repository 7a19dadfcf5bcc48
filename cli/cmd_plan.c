/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "side_by_side.h"

#include <headroom/experimental/training.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

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
  plan.price_per_device_hour = cli_only(&given->price);
  plan.power_w = cli_only(&given->power);
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

/* ---- several devices ---- */

static const hr_offer_figure offer_figures[] = {{"tensor_parallel", "t", HR_OFFER_COUNT},
                                                {"pipeline_stages", "p", HR_OFFER_COUNT},
                                                {"context_parallel", "cp", HR_OFFER_COUNT},
                                                {"expert_parallel", "e", HR_OFFER_COUNT},
                                                {"data_parallel", "dp", HR_OFFER_COUNT},
                                                {"zero_stage", "ZeRO", HR_OFFER_COUNT},
                                                {"batch", "b", HR_OFFER_COUNT},
                                                {"microbatches", "m", HR_OFFER_COUNT},
                                                {"step_time_ns", "step", HR_OFFER_TIME},
                                                {"memory_bytes", "memory", HR_OFFER_BYTES},
                                                {"model_efficiency", "MFU", HR_OFFER_SHARE},
                                                {"days", "days", HR_OFFER_NUMBER},
                                                {"cost", "cost", HR_OFFER_COUNT}};

/* What is planned for each device. */
typedef struct training_work {
  hr_model model;
  const hr_training_options *options;
} training_work;

static hr_offer_value exactly(double value)
{
  return (hr_offer_value){value, NAN, NAN};
}

static hr_offer_value degree(int64_t value)
{
  return exactly(value > 1 ? (double)value : (double)NAN);
}

static void fill_offer(const hr_training_layout *layout, hr_offer *offer)
{
  const hr_workload *w = &layout->workload;
  const hr_offer_value values[] = {exactly((double)w->tensor_parallel),
                                   exactly((double)w->pipeline_stages),
                                   degree(w->context_parallel),
                                   degree(w->expert_parallel),
                                   exactly((double)w->data_parallel),
                                   exactly((double)w->zero_stage),
                                   exactly((double)w->batch),
                                   exactly((double)w->microbatches),
                                   {layout->time_ns, layout->low_ns, layout->high_ns},
                                   exactly((double)layout->memory_bytes),
                                   exactly(layout->model_efficiency),
                                   exactly(layout->days),
                                   exactly(layout->cost)};
  memcpy(offer->figures, values, sizeof values);
  offer->dtype = w->dtype;
  offer->devices = (double)layout->devices;
  offer->work_per_s = (hr_offer_value){layout->tokens_per_s, layout->tokens_per_s_low, layout->tokens_per_s_high};
}

/* The fastest layout on a device. */
static hr_status offer_layout(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const training_work *work = context;
  hr_training_options options = *work->options;
  hr_training_plan *plan = NULL;
  hr_workload workload;
  if (isfinite(offer->price_per_hour))
    options.price_per_device_hour = offer->price_per_hour;
  if (make_workload(run, &work->model, &workload) != CLI_GO_ON)
    return error->status = HR_ERROR_INVALID;
  set_devices(run, &options);
  const hr_subject subject = {.model = &work->model, .workload = &workload, .hardware = run->hardware};
  hr_status status = hr_plan_training(&subject, &options, &plan, error);
  const hr_training_layout *best = status == HR_OK ? hr_training_plan_best(plan) : NULL;
  if (best)
    fill_offer(best, offer);
  else if (status == HR_OK)
    snprintf(offer->why, sizeof offer->why, "no layout fits");
  hr_training_plan_free(plan);
  return status;
}

static int plan_each(const cli_run *run, const hr_training_options *options)
{
  char about[128];
  training_work work = {.options = options};
  int code = cli_load_model(run, &work.model, NULL);
  snprintf(about, sizeof about, "tokens of the fastest layout, global batch of %" PRId64, options->global_batch);
  return code == CLI_GO_ON
             ? cli_side_by_side(run, &(cli_side){.about = about,
                                                 .model = &work.model,
                                                 .tokens = true,
                                                 .figures = offer_figures,
                                                 .figure_count = sizeof offer_figures / sizeof *offer_figures,
                                                 .fill = offer_layout,
                                                 .context = &work})
             : code;
}

/* ---- the command ---- */

int cli_plan(const cli_run *given)
{
  cli_run own = *given, *run = &own;
  hr_training_options options = make_options(run);
  run->options.phase = HR_PHASE_TRAIN, run->given[CLI_OPTION_phase] = true;
  hr_model model;
  hr_workload workload;
  if (cli_has_several_devices(run))
    return plan_each(run, &options);
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
