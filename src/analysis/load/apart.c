/* SPDX-License-Identifier: Apache-2.0 */
/* Disaggregated prefill under a load: how many copies prefill, how many decode, and what requests see. TTFT depends on
 * those that prefill alone, so that they are chosen first. */
#include "analysis/load/simulation.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>

static bool within(double ns, double limit_ns)
{
  return limit_ns <= 0 || !(ns > limit_ns);
}

/* ---- one simulation ---- */

static hr_status simulate(hr_load_cluster *cluster, const hr_load_options *load, hr_load_record *records,
                          hr_load_point *point, hr_error *error)
{
  size_t count = (size_t)load->requests;
  hr_load_fill_requests(load, records);
  HR_TRY(hr_load_simulate_cluster(cluster, records, count, load->clients, error));
  bool decodes = cluster->decode.instances > 0;
  HR_TRY(hr_load_summarize(records, count, decodes ? &cluster->decode.counts : &cluster->prefill.counts, point, error));
  if (decodes)
    point->busy_share /= (double)cluster->decode.instances;
  point->prefill_busy_share = cluster->prefill.counts.busy_ns / point->duration_ns / (double)cluster->prefill.instances;
  return HR_OK;
}

/* ---- those that prefill ---- */

typedef struct prefill_trial {
  const hr_serve_options *serve;
  const hr_load_options *load;
  hr_load_record *records;
  hr_load_prefill *prefill;
  hr_load_point point; /* of the instances that were tried last */
  bool enough;
} prefill_trial;

static hr_status try_prefill(void *context, int64_t instances, bool *enough, hr_error *error)
{
  prefill_trial *trial = context;
  hr_load_prefill *prefill = trial->prefill;
  prefill->instances = instances;
  hr_load_cluster cluster = {.prefill = {.server = &prefill->server, .instances = (size_t)instances}};
  trial->point = (hr_load_point){.prefill_instances = instances};
  HR_TRY(simulate(&cluster, trial->load, trial->records, &trial->point, error));
  const double limit_ns = hr_load_sure_ttft_ns(trial->serve, &prefill->server.engine, &trial->point);
  trial->enough = trial->point.keeps_up && within(trial->point.ttft_ns.p90, limit_ns);
  /* Where no number is within the limit, those that keep up are. */
  *enough = trial->enough || (trial->point.keeps_up && !hr_load_reaches_ttft(&prefill->server, trial->load, limit_ns));
  return HR_OK;
}

/* A prompt's part of a step that is full of them. */
static double full_prompt_ns(const hr_load_server *server, const hr_load_options *load)
{
  double prompt = hr_load_mean_tokens(load->prompt_min, load->prompt_max) * (1 - server->cached);
  double together = fmax((double)server->prefill_tokens / fmax(prompt, 1), 1), tokens = together * fmax(prompt, 1);
  const hr_load_step step = {.prefill_tokens = tokens, .pairs = tokens * 0.5 * prompt};
  return hr_load_step_ns(server->costs, &step) / together;
}

static hr_status count_prefill(prefill_trial *trial, hr_error *error)
{
  bool enough;
  const hr_load_options *load = trial->load;
  if (load->prefill_instances > 0)
    return try_prefill(trial, load->prefill_instances, &enough, error);
  hr_load_fill_requests(load, trial->records);
  double busy = full_prompt_ns(&trial->prefill->server, load) * hr_load_arrival_rate(load, trial->records);
  return hr_load_find_fewest(0.95 * busy, hr_min64(HR_LOAD_INSTANCES_MAX, load->requests), try_prefill, trial, error);
}

static bool is_better(const hr_load_prefill *a, const prefill_trial *a_trial, const hr_load_prefill *b,
                      const prefill_trial *b_trial)
{
  int64_t a_devices = a->instances * a->layout.devices, b_devices = b->instances * b->layout.devices;
  if (b->layout.devices == 0 || a_trial->enough != b_trial->enough)
    return b->layout.devices == 0 || a_trial->enough;
  return a_trial->enough && a_devices != b_devices ? a_devices < b_devices
                                                   : a_trial->point.ttft_ns.p90 < b_trial->point.ttft_ns.p90;
}

static double or_none(double numerator, double rate)
{
  return rate > 0 ? numerator / rate : 0;
}

/* A device sends its part of K and V, with those of the model that drafts, over its own network adapter; within a node
 * nothing is added. */
static double network_ns_per_token(const hr_serve_state *state, const hr_serve_layout *layout)
{
  double bytes = (double)layout->sequence_bytes / (double)state->cached_tokens;
  return or_none(bytes * 1e9, state->hardware->network_bytes_per_s);
}

/* The costs refer to those of what drafts. */
static void copy_prefill(const hr_load_prefill *from, hr_load_prefill *to)
{
  *to = *from;
  for (size_t end = 0; end < HR_LOAD_ENDS; end++) {
    if (from->costs[end].drafter)
      to->costs[end].drafter = &to->costs[from->costs[end].drafter - from->costs];
  }
}

static hr_status fill_prefill(hr_serve_state *apart, const hr_serve_layout *layout, const hr_load_options *load,
                              hr_load_prefill *prefill, hr_error *error)
{
  hr_load_options prompts = *load;
  prompts.output_min = prompts.output_max = 1, prompts.draft = 0;
  prefill->layout = *layout;
  HR_TRY(hr_load_fill_server(apart, layout, &prompts, prefill->costs, &prefill->server, error));
  prefill->server.hands_over = true;
  prefill->server.engine.output_reserved = 0;
  prefill->network_ns = apart->hardware->network_latency_ns;
  prefill->network_ns_per_token = network_ns_per_token(apart, layout);
  return HR_OK;
}

static hr_status choose(hr_serve_state *apart, const hr_serve_state *state, const hr_load_options *load,
                        hr_load_record *records, hr_load_prefill *trial, hr_load_prefill *best, hr_error *error)
{
  hr_serve_layout layouts[HR_SERVE_LAYOUTS_MAX];
  prefill_trial found = {.serve = &state->options, .load = load, .records = records, .prefill = trial};
  prefill_trial best_found = found;
  size_t count;
  HR_TRY(hr_serve_list_layouts(apart, layouts, &count, error));
  for (size_t i = 0; i < count; i++) {
    if (layouts[i].largest_batch == 0)
      continue;
    HR_TRY(fill_prefill(apart, &layouts[i], load, trial, error));
    trial->server.costs = &trial->costs[hr_load_sure_end(&state->options)];
    HR_TRY(count_prefill(&found, error));
    if (!is_better(trial, &found, best, &best_found))
      continue;
    best_found = found;
    copy_prefill(trial, best); /* whose costs each simulation chooses */
  }
  return best->layout.devices > 0 ? HR_OK : hr_serve_no_prefill(state, error);
}

/* Clients wait for their requests, so that any number of instances keeps up: the closed form chooses the layout. */
static hr_status choose_for_clients(hr_serve_state *apart, hr_serve_state *state, const hr_load_options *load,
                                    hr_load_prefill *best, hr_error *error)
{
  HR_TRY(hr_serve_choose_prefill(state, error));
  HR_TRY(fill_prefill(apart, &state->prefill_layout, load, best, error));
  best->instances = hr_max64(load->prefill_instances, 1);
  return HR_OK;
}

hr_status hr_load_choose_prefill(hr_serve_state *state, const hr_load_options *load, hr_load_record *records,
                                 hr_load_prefill *prefill, hr_error *error)
{
  hr_serve_state apart, drafter;
  HR_TRY(hr_serve_fill_prefill_state(state, &apart, &drafter, error));
  *prefill = (hr_load_prefill){.instances = 0};
  if (load->clients > 0)
    return choose_for_clients(&apart, state, load, prefill, error);
  hr_load_prefill *trial = malloc(sizeof *trial);
  if (!trial)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  hr_status status = choose(&apart, state, load, records, trial, prefill, error);
  free(trial);
  return status;
}

/* ---- those that decode ---- */

typedef struct apart_run {
  const hr_serve_state *state;
  const hr_load_options *load;
  const hr_load_prefill *prefill;
  const hr_serve_layout *layout;
  hr_load_record *records;
  hr_load_server prefill_server, decode_server;
  const hr_load_costs *costs;   /* of those that decode, an end each */
  hr_load_point begun, counted; /* before a simulation, and of the fewest instances */
} apart_run;

/* Simulates with steps at an end of their bands, and point->instances that decode. */
static hr_status try_decode(apart_run *run, hr_load_end end, hr_load_point *point, hr_error *error)
{
  const hr_load_prefill *prefill = run->prefill;
  run->prefill_server.costs = &prefill->costs[end], run->decode_server.costs = &run->costs[end];
  double receive_ns = network_ns_per_token(run->state, run->layout);
  hr_load_cluster cluster = {
      .prefill = {.server = &run->prefill_server, .instances = (size_t)prefill->instances},
      .decode = {.server = &run->decode_server, .instances = (size_t)(point->instances * hr_serve_groups(run->layout))},
      .transfer_ns = fmax(prefill->network_ns, run->state->hardware->network_latency_ns),
      .transfer_ns_per_token = fmax(prefill->network_ns_per_token, receive_ns),
      .least_prefill_ns = hr_load_prompt_ns(&run->prefill_server, (double)run->load->prompt_min)};
  return simulate(&cluster, run->load, run->records, point, error);
}

/* Sequences that fit into the cache of a group, as many tokens each. */
static double most_sequences(const hr_load_server *server, double context)
{
  double fitting = server->cache_tokens > 0 ? fmax((double)server->cache_tokens / context, 1) : INFINITY;
  return fmin((double)server->slots, fitting);
}

/* The mean load takes more instances: a larger batch gives more tokens, up to the first one beyond the limit. */
static double decode_load(const apart_run *run)
{
  const hr_load_options *load = run->load;
  const hr_load_server *server = &run->decode_server;
  double tokens = fmax(hr_load_mean_tokens(load->output_min, load->output_max) - 1, 0);
  double context = hr_load_mean_tokens(load->prompt_min, load->prompt_max);
  double most = most_sequences(server, context), limit_ns = run->state->options.tpot_limit_ns, batch = 1;
  if (!hr_load_reaches_tpot(server, load, limit_ns))
    limit_ns = 0; /* keeping up is all that there is to reach */
  while (batch < most && (limit_ns <= 0 || hr_load_decode_ns(server, batch, context) <= limit_ns))
    batch = fmin(2 * batch, most);
  hr_load_fill_requests(load, run->records);
  double rate = batch / hr_load_decode_ns(server, batch, context);
  return hr_load_arrival_rate(load, run->records) * tokens / rate / (double)hr_serve_groups(run->layout);
}

/* Simulates with steps at the end at which limits hold. */
static hr_status try_instances(void *context, int64_t instances, bool *enough, hr_error *error)
{
  apart_run *run = context;
  const hr_serve_options *serve = &run->state->options;
  run->counted = run->begun;
  run->counted.instances = instances;
  HR_TRY(try_decode(run, hr_load_sure_end(serve), &run->counted, error));
  bool reachable = hr_load_reaches_tpot(&run->decode_server, run->load, serve->tpot_limit_ns);
  *enough = run->counted.keeps_up && (!reachable || within(run->counted.tpot_ns.p90, serve->tpot_limit_ns));
  return HR_OK;
}

/* The fewest instances that keep up within the limit of TPOT; if no number does, the last one that was tried. */
static hr_status count_decode(apart_run *run, hr_error *error)
{
  const hr_load_options *load = run->load;
  bool enough;
  run->decode_server.costs = &run->costs[hr_load_sure_end(&run->state->options)];
  if (load->instances > 0 || load->clients > 0)
    return try_instances(run, hr_max64(load->instances, 1), &enough, error);
  return hr_load_find_fewest(0.95 * decode_load(run), hr_min64(HR_LOAD_INSTANCES_MAX, load->requests), try_instances,
                             run, error);
}

static hr_status simulate_ends(apart_run *run, hr_load_point *point, hr_error *error)
{
  hr_load_point found[HR_LOAD_ENDS];
  hr_load_end counted = hr_load_sure_end(&run->state->options);
  run->begun = *point;
  HR_TRY(count_decode(run, error));
  for (int end = 0; end < HR_LOAD_ENDS; end++) {
    found[end] = run->begun;
    found[end].instances = run->counted.instances;
    if (end != (int)counted)
      HR_TRY(try_decode(run, (hr_load_end)end, &found[end], error));
  }
  found[counted] = run->counted;
  *point = found[HR_LOAD_PREDICTED];
  hr_load_set_bands(&run->decode_server.engine, &found[HR_LOAD_LOW], &found[HR_LOAD_HIGH], point);
  return HR_OK;
}

static void set_devices(const apart_run *run, hr_load_point *point)
{
  const hr_serve_options *serve = &run->state->options;
  double decoding = (double)(point->instances * run->layout->devices);
  double prefilling = (double)(point->prefill_instances * run->prefill->layout.devices);
  double price = serve->price_per_device_hour * decoding + hr_serve_prefill_price(serve) * prefilling;
  point->devices = (int64_t)(decoding + prefilling);
  point->slots = run->decode_server.slots * hr_serve_groups(run->layout) * point->instances;
  point->cost_per_million_output_tokens =
      serve->price_per_device_hour > 0 ? price / 3600 / point->output_tokens_per_s * 1e6 : (double)NAN;
}

hr_status hr_load_fill_apart(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                             const hr_load_prefill *prefill, hr_load_record *records, hr_load_point *point,
                             hr_error *error)
{
  hr_load_costs *costs = malloc(HR_LOAD_TABLES * sizeof *costs);
  apart_run run = {.state = state, .load = load, .prefill = prefill, .layout = layout, .records = records};
  if (!costs)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the simulation");
  run.costs = costs, run.prefill_server = prefill->server;
  *point = (hr_load_point){.tensor_parallel = layout->tensor_parallel,
                           .expert_parallel = layout->expert_parallel,
                           .pipeline_stages = layout->pipeline_stages,
                           .prefill_instances = prefill->instances,
                           .prefill_tensor_parallel = prefill->layout.tensor_parallel};
  hr_status status = hr_load_fill_server(state, layout, load, costs, &run.decode_server, error);
  run.decode_server.engine.arrival_ns = 0;
  if (status == HR_OK)
    status = simulate_ends(&run, point, error);
  free(costs);
  if (status != HR_OK)
    return status;
  set_devices(&run, point);
  hr_load_mark_limits(&state->options, point);
  return HR_OK;
}
