/* SPDX-License-Identifier: Apache-2.0 */
/* hr_serve_load(): checks, and the layouts that fit. */
#include "analysis/load/simulation.h"
#include "analysis/predict/step.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define REQUESTS_MIN 1000
#define REQUESTS_PER_CLIENT 10 /* as servers' benchmarks have it */
#define SEARCHED_S 60.0        /* of a load for which copies are counted, but for at most so many requests */
#define SEARCHED_MAX 10000.0

void hr_load_options_init(hr_load_options *options, size_t size)
{
  HR_INIT(options, size, (hr_load_options){.seed = 1, .instances = 1, .prefill_instances = 1});
}

/* ---- options ---- */

static hr_status check_sources(const hr_load_options *load, hr_error *error)
{
  int sources = (load->rate_per_s > 0) + (load->clients > 0) + (load->trace != NULL);
  if (sources != 1)
    return hr_fail(error, HR_ERROR_INVALID, "load: %s of rate_per_s, clients and trace are given",
                   sources ? "several" : "none");
  if (load->trace && (load->trace_count == 0 || load->trace_count > (size_t)HR_LOAD_REQUESTS_MAX))
    return hr_fail(error, HR_ERROR_INVALID,
                   "trace: it has %zu requests, at least 1 and at most %" PRId64 " can be simulated", load->trace_count,
                   HR_LOAD_REQUESTS_MAX);
  return HR_OK;
}

static hr_status check_number(const char *member, double value, double least, double most, hr_error *error)
{
  if (value >= least && value <= most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected a number from %.9g to %.9g, found %.9g", member, least, most,
                 value);
}

static hr_status check_options(const hr_load_options *load, hr_error *error)
{
  const struct {
    const char *member;
    double value, least, most;
  } numbers[] = {
      {"rate_per_s", load->rate_per_s, 0, 1e9},
      {"clients", (double)load->clients, 0, (double)HR_LOAD_REQUESTS_MAX},
      {"requests", (double)load->requests, 1, (double)HR_LOAD_REQUESTS_MAX},
      {"prompt_min", (double)load->prompt_min, 1, (double)load->prompt_max},
      {"prompt_max", (double)load->prompt_max, 1, (double)HR_LOAD_TOKENS_MAX},
      {"output_min", (double)load->output_min, 1, (double)load->output_max},
      {"output_max", (double)load->output_max, 1, (double)HR_LOAD_TOKENS_MAX},
      {"cached", load->cached, 0, 0.999999},
      {"accept", load->accept, 0, 1},
      {"draft", (double)load->draft, 0, (double)HR_LOAD_DRAFT_MAX},
      {"wait_steps", (double)load->wait_steps, 0, 1e6},
      {"instances", (double)load->instances, 0, HR_LOAD_INSTANCES_MAX},
      {"prefill_instances", (double)load->prefill_instances, 0, HR_LOAD_INSTANCES_MAX},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    HR_TRY(check_number(numbers[i].member, numbers[i].value, numbers[i].least, numbers[i].most, error));
  return HR_OK;
}

static hr_status check_draft_model(const hr_load_options *load, hr_error *error)
{
  if (load->draft_model && load->draft == 0)
    return hr_fail(error, HR_ERROR_INVALID, "draft_model: it drafts no tokens");
  return HR_OK;
}

static hr_status check_trace(const hr_load_options *load, hr_error *error)
{
  for (size_t i = 0; load->trace && i < load->trace_count; i++) {
    const hr_load_request *request = &load->trace[i];
    bool ordered = request->arrival_ns >= (i > 0 ? request[-1].arrival_ns : 0) && request->arrival_ns <= 1e18;
    bool sized = request->prompt >= 1 && request->prompt <= HR_LOAD_TOKENS_MAX && request->output >= 1 &&
                 request->output <= HR_LOAD_TOKENS_MAX;
    if (!ordered || !sized)
      return hr_fail(error, HR_ERROR_INVALID, "trace: request %zu %s", i + 1,
                     ordered ? "has a number of tokens that cannot be simulated" : "arrives before the one before it");
  }
  return HR_OK;
}

static void span_of_trace(hr_load_options *load)
{
  load->requests = (int64_t)load->trace_count;
  load->prompt_min = load->output_min = HR_LOAD_TOKENS_MAX;
  load->prompt_max = load->output_max = 1;
  for (size_t i = 0; i < load->trace_count; i++) {
    const hr_load_request *request = &load->trace[i];
    load->prompt_min = hr_min64(load->prompt_min, request->prompt);
    load->prompt_max = hr_max64(load->prompt_max, request->prompt);
    load->output_min = hr_min64(load->output_min, request->output);
    load->output_max = hr_max64(load->output_max, request->output);
  }
}

static int64_t or_default(int64_t given, int64_t otherwise)
{
  return given != 0 ? given : otherwise;
}

/* Whether copies keep up shows in what follows the first of the requests that they may have at a time. */
static double searched_s(const hr_serve_options *serve, const hr_load_options *load)
{
  double request_s = (serve->ttft_limit_ns + serve->tpot_limit_ns * (double)load->output_max) / 1e9;
  return fmax(SEARCHED_S, 4 * request_s);
}

static void fill_load(const hr_serve_options *serve, hr_load_options *load)
{
  load->prompt_min = or_default(load->prompt_min, serve->prompt_tokens);
  load->prompt_max = or_default(load->prompt_max, load->prompt_min);
  load->output_min = or_default(load->output_min, serve->output_tokens);
  load->output_max = or_default(load->output_max, load->output_min);
  int64_t requests = hr_min64(REQUESTS_PER_CLIENT * load->clients, HR_LOAD_REQUESTS_MAX);
  if (load->instances == 0 && load->rate_per_s > 0)
    requests = (int64_t)fmin(load->rate_per_s * searched_s(serve, load), SEARCHED_MAX);
  load->requests = or_default(load->requests, hr_max64(requests, REQUESTS_MIN));
}

/* ---- all of them ---- */

static bool is_better(const hr_load_point *a, const hr_load_point *b, bool by_devices)
{
  if (!b)
    return true;
  if (by_devices && a->devices != b->devices)
    return a->devices < b->devices;
  return a->output_tokens_per_s > b->output_tokens_per_s;
}

static bool meets(const hr_load_point *point, bool sure)
{
  bool predicted = point->keeps_up && point->meets_ttft && point->meets_tpot;
  return predicted && (!sure || (point->band_keeps_up && point->band_meets_ttft && point->band_meets_tpot));
}

static void choose(hr_load_result *result, bool sure)
{
  for (size_t i = 0; i < result->count; i++) {
    const hr_load_point *point = &result->points[i];
    if (meets(point, sure) && is_better(point, result->best, true))
      result->best = point;
    if (is_better(point, result->shown, false))
      result->shown = point;
  }
  if (result->best)
    result->shown = result->best;
}

/* `prefill` is NULL where the devices that decode prefill, too. */
static hr_status simulate_layouts(hr_serve_state *state, const hr_load_options *load, const hr_load_prefill *prefill,
                                  hr_load_record *records, hr_load_result *result, hr_error *error)
{
  hr_serve_layout layouts[HR_SERVE_LAYOUTS_MAX];
  size_t count;
  HR_TRY(hr_serve_list_layouts(state, layouts, &count, error));
  for (size_t i = 0; i < count; i++) {
    hr_load_point *point = &result->points[result->count];
    if (layouts[i].largest_batch == 0)
      continue;
    HR_TRY(prefill ? hr_load_fill_apart(state, &layouts[i], load, prefill, records, point, error)
                   : hr_load_fill_point(state, &layouts[i], load, records, point, error));
    result->count++;
  }
  choose(result, state->options.sure > 0);
  return HR_OK;
}

static hr_status simulate_apart(hr_serve_state *state, const hr_load_options *load, hr_load_record *records,
                                hr_load_result *result, hr_error *error)
{
  hr_load_prefill *prefill = malloc(sizeof *prefill);
  if (!prefill)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  hr_status status = hr_load_choose_prefill(state, load, records, prefill, error);
  if (status == HR_OK)
    status = simulate_layouts(state, load, prefill, records, result, error);
  free(prefill);
  return status;
}

static hr_status run(hr_serve_state *state, const hr_load_options *load, hr_load_result *result, hr_error *error)
{
  hr_load_record *records = calloc((size_t)load->requests, sizeof *records);
  result->points = calloc(HR_SERVE_LAYOUTS_MAX, sizeof *result->points);
  state->step = malloc(sizeof *state->step);
  if (state->drafter)
    state->drafter->step = state->step;
  hr_status status;
  if (records && result->points && state->step)
    status = state->options.disaggregated ? simulate_apart(state, load, records, result, error)
                                          : simulate_layouts(state, load, NULL, records, result, error);
  else
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  free(records);
  free(state->step);
  state->step = NULL;
  return status;
}

/* What drafts has the sizes of the plan, and no reserve of its own. */
static hr_status fill_drafter(const hr_subject *subject, const hr_model *model, const hr_serve_options *serve,
                              hr_serve_state *drafter, hr_error *error)
{
  hr_serve_options own = *serve;
  own.pipeline_stages = 1;
  HR_TRY(hr_serve_fill_state(subject->hardware, model, subject->workload, &own, drafter, error));
  drafter->options.reserve_bytes = 0;
  return HR_OK;
}

hr_status hr_serve_load(const hr_subject *subject, const hr_serve_options *serve, const hr_load_options *load,
                        hr_load_result **result, hr_error *error)
{
  HR_NEED(error, subject, serve, load, result);
  const hr_model *model = subject->model;
  const hr_workload *workload = subject->workload;
  HR_NEED(error, subject->hardware, model, workload);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_serve_options, serve, error);
  HR_TAKE(hr_load_options, load, error);
  const hr_model *drafts = load->draft_model;
  HR_TAKE(hr_model, drafts, error);
  hr_load_options filled = *load;
  hr_serve_options largest = *serve;
  hr_serve_state state = {0}, drafter;
  if (serve->disaggregated && hr_serve_decodes_first(serve->engine))
    return hr_fail(error, HR_ERROR_INVALID, "disaggregated: a prefill of this engine gives no token to hand over");
  if (!serve->disaggregated && load->prefill_instances > 1)
    return hr_fail(error, HR_ERROR_INVALID, "prefill_instances: only those of disaggregated plans prefill alone");
  HR_TRY(check_sources(load, error));
  HR_TRY(check_trace(load, error));
  HR_TRY(check_draft_model(load, error));
  if (load->trace)
    span_of_trace(&filled);
  fill_load(serve, &filled);
  HR_TRY(check_options(&filled, error));
  largest.prompt_tokens = filled.prompt_max, largest.output_tokens = filled.output_max;
  HR_TRY(hr_serve_fill_state(subject->hardware, model, workload, &largest, &state, error));
  if (drafts) {
    HR_TRY(fill_drafter(subject, drafts, &largest, &drafter, error));
    state.drafter = &drafter;
  }
  hr_load_result *made = calloc(1, sizeof *made);
  if (!made)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  hr_status status = run(&state, &filled, made, error);
  if (status != HR_OK) {
    hr_load_result_free(made);
    return status;
  }
  made->serve = state.options;
  made->load = filled;
  made->load.trace = NULL, made->load.trace_count = 0;
  *result = made;
  return HR_OK;
}

void hr_load_result_free(hr_load_result *result)
{
  if (!result)
    return;
  free(result->points);
  free(result);
}
