/* SPDX-License-Identifier: Apache-2.0 */
/* One layout under the load: simulated with steps as predicted and at both ends of their bands. */
#include "analysis/load/simulation.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>

/* Tokens of a step with `draft` tokens of which each is accepted with probability `accept` if those before it are, and
 * one that the model adds. Source: Leviathan et al. 2022 (arXiv 2211.17192), equation 1. */
static double tokens_per_step(double accept, int64_t draft)
{
  return accept < 1 ? (1 - pow(accept, (double)(draft + 1))) / (1 - accept) : (double)(draft + 1);
}

static int64_t slots_of(const hr_serve_options *serve, const hr_serve_layout *layout)
{
  int64_t slots = serve->batch > 0 ? serve->batch : serve->batch_max;
  bool counted = layout->cache_tokens == 0; /* states alone: so many sequences fit, however long they are */
  return hr_min64(hr_min64(slots, counted ? layout->largest_batch : slots), HR_LOAD_SEQUENCES_MAX);
}

static void set_cost(const hr_serve_options *serve, hr_load_point *point)
{
  double price_per_s = serve->price_per_device_hour / 3600 * (double)point->devices;
  point->cost_per_million_output_tokens = price_per_s > 0 ? price_per_s / point->output_tokens_per_s * 1e6 : NAN;
}

static bool within(double ns, double limit_ns)
{
  return limit_ns <= 0 || !(ns > limit_ns);
}

void hr_load_mark_limits(const hr_serve_options *serve, hr_load_point *point)
{
  point->meets_ttft = within(point->ttft_ns.p90, serve->ttft_limit_ns);
  point->meets_tpot = within(point->tpot_ns.p90, serve->tpot_limit_ns);
  point->band_meets_ttft = within(point->ttft_high_ns.p90, serve->ttft_limit_ns);
  point->band_meets_tpot = within(point->tpot_high_ns.p90, serve->tpot_limit_ns);
}

/* Engines are compared with servers on devices with measured rates; on others steps have the device's band. */
static void set_ends(const hr_hardware *hardware, const hr_load_engine *engine, hr_load_costs costs[HR_LOAD_ENDS])
{
  if (engine->step_low > 0 && hardware->about.calibration == HR_CALIBRATION_MEASURED)
    hr_load_scale_ends(costs, engine->step_low, engine->step_high);
}

/* A band holds the predicted figure, though a queue may be shorter where steps are longer. */
static hr_load_quantiles bound(const hr_load_quantiles *found, double share, const hr_load_quantiles *predicted,
                               double (*of)(double, double))
{
  return (hr_load_quantiles){.mean = of(share * found->mean, predicted->mean),
                             .p50 = of(share * found->p50, predicted->p50),
                             .p90 = of(share * found->p90, predicted->p90),
                             .p99 = of(share * found->p99, predicted->p99)};
}

void hr_load_set_bands(const hr_load_engine *engine, const hr_load_point *low, const hr_load_point *high,
                       hr_load_point *point)
{
  double ttft_low = engine->ttft_low > 0 ? engine->ttft_low : 1;
  double ttft_high = hr_load_ttft_high(engine, point);
  point->ttft_low_ns = bound(&low->ttft_ns, ttft_low, &point->ttft_ns, fmin);
  point->ttft_high_ns = bound(&high->ttft_ns, ttft_high, &point->ttft_ns, fmax);
  point->tpot_low_ns = bound(&low->tpot_ns, 1, &point->tpot_ns, fmin);
  point->tpot_high_ns = bound(&high->tpot_ns, 1, &point->tpot_ns, fmax);
  point->output_tokens_per_s_low = fmin(high->output_tokens_per_s, point->output_tokens_per_s);
  point->output_tokens_per_s_high = fmax(low->output_tokens_per_s, point->output_tokens_per_s);
  point->band_keeps_up = point->keeps_up && high->keeps_up;
}

/* The tensor-parallel groups of a copy that get requests: they are given out in turn. */
static int64_t groups_of(const hr_load_options *load, const hr_load_point *point)
{
  int64_t all = point->devices / (point->tensor_parallel * point->pipeline_stages);
  int64_t groups = hr_min64(all, load->requests);
  return load->clients > 0 ? hr_min64(groups, load->clients) : groups;
}

/* From one group to all of them, which are equally busy. */
static void count_groups(int64_t groups, hr_load_point *point)
{
  double all = (double)groups;
  point->requests_per_s *= all;
  point->output_tokens_per_s *= all;
  point->resident_mean *= all;
  point->resident_max *= groups;
  point->preempted *= groups;
  for (size_t i = 0; i < HR_LOAD_INTERVALS; i++) {
    hr_load_interval *interval = &point->timeline[i];
    interval->arrivals *= groups;
    interval->waiting *= all;
    interval->resident *= all;
    interval->output_tokens_per_s *= all;
  }
}

/* One group with its share of the requests stands for all. */
static hr_status simulate_group(const hr_load_server *server, const hr_load_options *load, hr_load_record *records,
                                hr_load_point *point, hr_error *error)
{
  hr_load_counts counts;
  int64_t groups = groups_of(load, point), requests = load->requests / groups;
  for (int64_t i = 1; i < requests && groups > 1; i++)
    records[i] = records[i * groups];
  HR_TRY(hr_load_simulate(server, records, (size_t)requests, hr_ceil_div(load->clients, groups), &counts, error));
  HR_TRY(hr_load_summarize(records, (size_t)requests, &counts, point, error));
  count_groups(groups, point);
  return HR_OK;
}

/* point->instances of the layout, whose point->devices are of one. */
static hr_status simulate(const hr_load_server *server, const hr_load_options *load, hr_load_record *records,
                          hr_load_point *point, hr_error *error)
{
  int64_t groups = point->devices / (point->tensor_parallel * point->pipeline_stages) * point->instances;
  hr_load_fill_requests(load, records);
  if (point->instances == 1)
    return simulate_group(server, load, records, point, error);
  hr_load_cluster cluster = {.prefill = {.server = server, .instances = (size_t)groups}};
  HR_TRY(hr_load_simulate_cluster(&cluster, records, (size_t)load->requests, load->clients, error));
  HR_TRY(hr_load_summarize(records, (size_t)load->requests, &cluster.prefill.counts, point, error));
  point->busy_share /= (double)groups;
  return HR_OK;
}

/* ---- the fewest copies ---- */

typedef struct copies_trial {
  const hr_serve_options *serve;
  const hr_load_options *load;
  hr_load_record *records;
  const hr_load_server *server;
  hr_load_point begun, point; /* before a simulation, and of the copies that were tried last */
} copies_trial;

/* Where no number is within a limit, those that keep up are enough. */
static hr_status try_copies(void *context, int64_t instances, bool *enough, hr_error *error)
{
  copies_trial *trial = context;
  const hr_load_options *load = trial->load;
  const double tpot_ns = trial->serve->tpot_limit_ns;
  trial->point = trial->begun;
  trial->point.instances = instances;
  HR_TRY(simulate(trial->server, load, trial->records, &trial->point, error));
  const double ttft_ns = hr_load_sure_ttft_ns(trial->serve, &trial->server->engine, &trial->point);
  const double idle_ns = hr_load_sure_ttft_ns(trial->serve, &trial->server->engine, &(hr_load_point){0});
  *enough = trial->point.keeps_up &&
            (within(trial->point.ttft_ns.p90, ttft_ns) || !hr_load_reaches_ttft(trial->server, load, idle_ns)) &&
            (within(trial->point.tpot_ns.p90, tpot_ns) || !hr_load_reaches_tpot(trial->server, load, tpot_ns));
  return HR_OK;
}

/* One that does not keep up is busy all the time, so that its rate says how many take the load. */
static hr_status count_copies(copies_trial *trial, hr_error *error)
{
  const hr_load_options *load = trial->load;
  bool enough;
  if (load->instances > 0 || load->clients > 0)
    return HR_OK;
  HR_TRY(try_copies(trial, 1, &enough, error));
  if (enough || load->requests == 1)
    return HR_OK;
  double copies = hr_load_arrival_rate(load, trial->records) * 1e9 / trial->point.requests_per_s;
  return hr_load_find_fewest(trial->point.keeps_up ? 2 : fmax(0.8 * copies, 2),
                             hr_min64(HR_LOAD_INSTANCES_MAX, load->requests), try_copies, trial, error);
}

static hr_status simulate_ends(const hr_serve_options *serve, hr_load_server *server,
                               const hr_load_costs costs[HR_LOAD_ENDS], const hr_load_options *load,
                               hr_load_record *records, hr_load_point *point, hr_error *error)
{
  copies_trial trial = {.serve = serve, .load = load, .records = records, .server = server, .begun = *point};
  hr_load_point found[HR_LOAD_ENDS];
  trial.point = *point;
  server->costs = &costs[hr_load_sure_end(serve)];
  HR_TRY(count_copies(&trial, error));
  for (int end = HR_LOAD_ENDS - 1; end >= 0; end--) {
    found[end] = *point;
    found[end].instances = trial.point.instances;
    server->costs = &costs[end];
    HR_TRY(simulate(server, load, records, &found[end], error));
  }
  *point = found[HR_LOAD_PREDICTED];
  hr_load_set_bands(&server->engine, &found[HR_LOAD_LOW], &found[HR_LOAD_HIGH], point);
  return HR_OK;
}

/* The tables of what drafts are behind those of the model. */
static hr_status fill_drafter(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                              const hr_load_server *server, hr_load_costs *costs, hr_error *error)
{
  const hr_serve_layout own = hr_serve_drafter_layout(state->drafter, layout);
  hr_load_costs *tables = costs + HR_LOAD_ENDS;
  HR_TRY(hr_load_fill_costs(state->drafter, &own, server->slots, (load->prompt_min + load->prompt_max) / 2,
                            load->prompt_max + load->output_max, tables, error));
  set_ends(state->hardware, &server->engine, tables);
  for (int end = 0; end < HR_LOAD_ENDS; end++)
    costs[end].drafter = &tables[end], costs[end].drafts = (double)load->draft;
  return HR_OK;
}

hr_status hr_load_fill_server(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                              hr_load_costs *costs, hr_load_server *server, hr_error *error)
{
  int64_t slots = slots_of(&state->options, layout), rows = load->draft + 1;
  *server =
      (hr_load_server){.engine = hr_load_engine_of(state->hardware, state->options.engine, layout->tensor_parallel),
                       .costs = costs,
                       .slots = slots,
                       .cache_tokens = layout->cache_tokens,
                       .prefill_tokens = state->options.prefill_tokens,
                       .wait_steps = load->wait_steps,
                       .cached = load->cached,
                       .rows = rows,
                       .tokens_per_step = tokens_per_step(load->accept, load->draft)};
  HR_TRY(hr_load_fill_costs(state, layout, slots * rows, (load->prompt_min + load->prompt_max) / 2,
                            load->prompt_max + load->output_max, costs, error));
  set_ends(state->hardware, &server->engine, costs);
  return state->drafter ? fill_drafter(state, layout, load, server, costs, error) : HR_OK;
}

static hr_status fill_point(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                            hr_load_costs costs[HR_LOAD_TABLES], hr_load_record *records, hr_load_point *point,
                            hr_error *error)
{
  hr_load_server server;
  HR_TRY(hr_load_fill_server(state, layout, load, costs, &server, error));
  *point = (hr_load_point){.tensor_parallel = layout->tensor_parallel,
                           .expert_parallel = layout->expert_parallel,
                           .pipeline_stages = layout->pipeline_stages,
                           .devices = layout->devices,
                           .instances = hr_max64(load->instances, 1)};
  HR_TRY(simulate_ends(&state->options, &server, costs, load, records, point, error));
  point->devices *= point->instances;
  point->slots = server.slots * hr_serve_groups(layout) * point->instances;
  set_cost(&state->options, point);
  hr_load_mark_limits(&state->options, point);
  return HR_OK;
}

hr_status hr_load_fill_point(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                             hr_load_record *records, hr_load_point *point, hr_error *error)
{
  hr_load_costs *costs = malloc(HR_LOAD_TABLES * sizeof *costs);
  if (!costs)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  hr_status status = fill_point(state, layout, load, costs, records, point, error);
  free(costs);
  return status;
}
