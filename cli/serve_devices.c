/* SPDX-License-Identifier: Apache-2.0 */
/* `serve-plan` of several devices side by side: the cheapest plan or the fewest devices on each. */
#include "serve.h"
#include "side_by_side.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const hr_offer_figure offer_figures[] = {
    {"instances", "instances", HR_OFFER_COUNT}, {"tensor_parallel", "t", HR_OFFER_COUNT},
    {"expert_parallel", "e", HR_OFFER_COUNT},   {"pipeline_stages", "p", HR_OFFER_COUNT},
    {"batch", "batch", HR_OFFER_COUNT},         {"ttft_ns", "TTFT", HR_OFFER_TIME},
    {"tpot_ns", "TPOT", HR_OFFER_TIME},         {"request_ns", "request", HR_OFFER_TIME},
    {"memory_bytes", "memory", HR_OFFER_BYTES}};

static hr_offer_value exactly(double value)
{
  return (hr_offer_value){value, NAN, NAN};
}

static hr_offer_value above_one(int64_t degree)
{
  return exactly(degree > 1 ? (double)degree : (double)NAN);
}

static void fill_offer(const hr_serve_result *plan, const hr_serve_point *point, hr_offer *offer)
{
  double tokens = (double)plan->options.output_tokens;
  const hr_offer_value values[] = {exactly(NAN),
                                   exactly((double)point->tensor_parallel),
                                   above_one(point->expert_parallel),
                                   above_one(point->pipeline_stages),
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

/* A run's options on its device. */
static hr_status choose_options(const cli_run *run, const cli_serve_work *work, hr_serve_options *options,
                                hr_error *error)
{
  hr_status status = cli_choose_engine(run, options, error);
  if (status != HR_OK)
    return status;
  *options = cli_make_serving(run, *options);
  cli_fit_prompt(run, &work->model, options);
  return HR_OK;
}

/* The cheapest plan on a device, or the fewest devices for a steady load. */
static hr_status offer_plan(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const cli_serve_work *work = context;
  hr_workload workload = work->workload;
  hr_serve_options options;
  hr_serve_result *plan = NULL;
  cli_set_formats(run, run->hardware, &workload);
  hr_status status = choose_options(run, work, &options, error);
  if (status == HR_OK)
    status = hr_serve_plan(run->hardware, &work->model, &workload, &options, &plan, error);
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

/* ---- under a load ---- */

static const hr_offer_figure load_figures[] = {
    {"instances", "instances", HR_OFFER_COUNT},       {"tensor_parallel", "t", HR_OFFER_COUNT},
    {"expert_parallel", "e", HR_OFFER_COUNT},         {"prefill_instances", "prefill instances", HR_OFFER_COUNT},
    {"ttft_p90_ns", "TTFT p90", HR_OFFER_TIME},       {"tpot_p90_ns", "TPOT p90", HR_OFFER_TIME},
    {"request_p90_ns", "request p90", HR_OFFER_TIME}, {"busy_share", "busy", HR_OFFER_SHARE}};

static void fill_load(const hr_load_result *load, hr_offer *offer)
{
  const hr_load_point *best = load->best;
  const hr_load_options *asked = &load->load;
  const hr_offer_value values[] = {exactly((double)best->instances),
                                   exactly((double)best->tensor_parallel),
                                   above_one(best->expert_parallel),
                                   exactly(best->prefill_instances > 0 ? (double)best->prefill_instances : (double)NAN),
                                   {best->ttft_ns.p90, best->ttft_low_ns.p90, best->ttft_high_ns.p90},
                                   {best->tpot_ns.p90, best->tpot_low_ns.p90, best->tpot_high_ns.p90},
                                   exactly(best->request_ns.p90),
                                   exactly(best->busy_share)};
  memcpy(offer->figures, values, sizeof values);
  offer->devices = (double)best->devices;
  offer->work_per_s =
      (hr_offer_value){best->output_tokens_per_s, best->output_tokens_per_s_low, best->output_tokens_per_s_high};
  if (asked->rate_per_s > 0) /* which all carry, however long the last requests take */
    offer->work_per_s = exactly(asked->rate_per_s * 0.5 * (double)(asked->output_min + asked->output_max));
}

static hr_status offer_load(const cli_run *run, const void *context, hr_offer *offer, hr_error *error)
{
  const cli_serve_work *work = context;
  hr_workload workload = work->workload;
  hr_serve_options options;
  hr_load_result *load = NULL;
  cli_set_formats(run, run->hardware, &workload);
  const hr_subject subject = {.model = &work->model, .workload = &workload, .hardware = run->hardware};
  hr_status status = choose_options(run, work, &options, error);
  if (status == HR_OK)
    status = cli_serve_load(run, work, &subject, &options, true, &load, error);
  if (status != HR_OK)
    return status;
  offer->dtype = workload.dtype;
  if (load->best)
    fill_load(load, offer);
  else
    snprintf(offer->why, sizeof offer->why, "no layout %s", load->count > 0 ? "keeps up within the limits" : "fits");
  hr_load_result_free(load);
  return HR_OK;
}

static void write_about(const cli_run *run, const hr_serve_options *options, char about[128])
{
  const char *plan = cli_has_load(run) || options->recommend > 0 ? "fewest devices for the load" : "cheapest plan";
  snprintf(about, 128, "output tokens of the %s, prompts of %s%" PRId64 " tokens, outputs of %s%" PRId64, plan,
           run->options.prompt.min < run->options.prompt.max ? "up to " : "", options->prompt_tokens,
           run->options.output_tokens.min < run->options.output_tokens.max ? "up to " : "", options->output_tokens);
}

int cli_serve_each(const cli_run *run, const hr_serve_options *options, const cli_serve_work *work)
{
  char about[128];
  bool loaded = cli_has_load(run);
  write_about(run, options, about);
  return cli_side_by_side(run, &(cli_side){.about = about,
                                           .model = &work->model,
                                           .tokens = true,
                                           .figures = loaded ? load_figures : offer_figures,
                                           .figure_count = loaded ? sizeof load_figures / sizeof *load_figures
                                                                  : sizeof offer_figures / sizeof *offer_figures,
                                           .fill = loaded ? offer_load : offer_plan,
                                           .context = work});
}
