/* SPDX-License-Identifier: Apache-2.0 */
/* Disaggregated prefill under a load: how many copies prefill, how many decode, and what requests see. TTFT depends on
 * those that prefill alone, so that they are chosen first. */
#include "analysis/load/simulation.h"
#include "base/checked.h"
#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>
#include <stdlib.h>

/* A search begins below the least number by the mean load and adds an eighth each time. */
#define TRIALS_MAX 64

static bool within(double ns, double limit_ns)
{
  return limit_ns <= 0 || !(ns > limit_ns);
}

/* The end of the bands at which limits hold. */
static hr_load_end sure_end(const hr_serve_state *state)
{
  return state->options.sure > 0 ? HR_LOAD_HIGH : HR_LOAD_PREDICTED;
}

/* TTFT that a simulation with steps at that end may have. */
static double ttft_limit_ns(const hr_serve_state *state, const hr_load_engine *engine)
{
  double share = state->options.sure > 0 && engine->ttft_high > 0 ? engine->ttft_high : 1;
  return state->options.ttft_limit_ns / share;
}

/* ---- steps of a request ---- */

static double mean_tokens(int64_t least, int64_t most)
{
  return 0.5 * ((double)least + (double)most);
}

/* Time of a prompt that is prefilled by itself. */
static double prompt_ns(const hr_load_server *server, double prompt)
{
  double computed = fmax(prompt * (1 - server->cached), 1);
  const hr_load_step step = {.prefill_tokens = computed, .pairs = computed * (prompt - 0.5 * computed)};
  return hr_load_step_ns(server->costs, &step) + hr_load_behind_ns(server->costs, &step) + server->engine.step_ns;
}

static double decode_step_ns(const hr_load_server *server, double sequences, double context)
{
  const hr_load_step step = {.sequences = sequences, .context = context, .rows = sequences * (double)server->rows};
  double turn_ns = hr_load_step_ns(server->costs, &step) + server->engine.step_ns;
  return turn_ns * server->costs->stages + server->engine.sequence_ns * sequences;
}

/* Requests per ns. */
static double arrival_rate(const hr_load_options *load, const hr_load_record *records)
{
  double span_ns = records[load->requests - 1].arrival_ns - records[0].arrival_ns;
  return span_ns > 0 ? (double)(load->requests - 1) / span_ns : 0;
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

static int64_t begin_at(double load)
{
  return (int64_t)fmin(fmax(floor(load), 1), HR_LOAD_INSTANCES_MAX);
}

static int64_t more(int64_t instances)
{
  return instances + hr_max64(instances / 8, 1);
}

/* ---- those that prefill ---- */

/* What is known of a number of instances of a layout. */
typedef struct prefill_trial {
  hr_load_point point;
  bool enough;
} prefill_trial;

static hr_status try_prefill(const hr_serve_state *state, const hr_load_options *load, hr_load_prefill *prefill,
                             hr_load_record *records, prefill_trial *trial, hr_error *error)
{
  hr_load_cluster cluster = {.prefill = {.server = &prefill->server, .instances = (size_t)prefill->instances}};
  trial->point = (hr_load_point){.prefill_instances = prefill->instances};
  HR_TRY(simulate(&cluster, load, records, &trial->point, error));
  double limit_ns = ttft_limit_ns(state, &prefill->server.engine);
  trial->enough = trial->point.keeps_up && within(trial->point.ttft_ns.p90, limit_ns);
  return HR_OK;
}

/* The fewest instances of prefill->layout that are enough; if no number is, the last one that was tried. */
static hr_status count_prefill(const hr_serve_state *state, const hr_load_options *load, hr_load_prefill *prefill,
                               hr_load_record *records, prefill_trial *trial, hr_error *error)
{
  double one_ns = prompt_ns(&prefill->server, mean_tokens(load->prompt_min, load->prompt_max));
  double limit_ns = ttft_limit_ns(state, &prefill->server.engine);
  bool reachable = within(one_ns + prefill->server.engine.arrival_ns, limit_ns);
  hr_load_fill_requests(load, records);
  prefill->instances = load->prefill_instances;
  if (load->prefill_instances > 0)
    return try_prefill(state, load, prefill, records, trial, error);
  prefill->instances = begin_at(0.7 * one_ns * arrival_rate(load, records));
  for (int i = 0; i < TRIALS_MAX; i++) {
    HR_TRY(try_prefill(state, load, prefill, records, trial, error));
    bool done = trial->enough || (!reachable && trial->point.keeps_up);
    if (done || more(prefill->instances) > hr_min64(HR_LOAD_INSTANCES_MAX, load->requests))
      return HR_OK;
    prefill->instances = more(prefill->instances);
  }
  return HR_OK;
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

/* A device sends its part of K and V over its own network adapter; within a node nothing is added. */
static double network_ns_per_token(const hr_serve_state *state, const hr_serve_layout *layout)
{
  double bytes = (double)layout->sequence_bytes / (double)state->cached_tokens;
  return or_none(bytes * 1e9, state->hardware->network_bytes_per_s);
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
  prefill_trial found, best_found = {.enough = false};
  size_t count;
  HR_TRY(hr_serve_list_layouts(apart, layouts, &count, error));
  for (size_t i = 0; i < count; i++) {
    if (layouts[i].largest_batch == 0)
      continue;
    HR_TRY(fill_prefill(apart, &layouts[i], load, trial, error));
    trial->server.costs = &trial->costs[sure_end(state)];
    HR_TRY(count_prefill(state, load, trial, records, &found, error));
    if (!is_better(trial, &found, best, &best_found))
      continue;
    best_found = found;
    *best = *trial; /* whose costs each simulation chooses */
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
  hr_serve_state apart;
  HR_TRY(hr_serve_fill_prefill_state(state, &apart, error));
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
  const hr_load_costs *costs; /* of those that decode, an end each */
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
      .least_prefill_ns = prompt_ns(&run->prefill_server, (double)run->load->prompt_min)};
  return simulate(&cluster, run->load, run->records, point, error);
}

/* Below the instances that the mean load takes with any batch. */
static double decode_load(const apart_run *run)
{
  const hr_load_options *load = run->load;
  const hr_load_server *server = &run->decode_server;
  double tokens = fmax(mean_tokens(load->output_min, load->output_max) - 1, 0), least_ns = INFINITY;
  for (double batch = 1; batch <= (double)server->slots; batch *= 2)
    least_ns = fmin(least_ns, decode_step_ns(server, batch, 1) / batch);
  hr_load_fill_requests(load, run->records);
  return arrival_rate(load, run->records) * tokens / server->tokens_per_step * least_ns /
         (double)hr_serve_groups(run->layout);
}

static bool is_reachable(const apart_run *run)
{
  double step_ns = decode_step_ns(&run->decode_server, 1, mean_tokens(run->load->prompt_min, run->load->prompt_max));
  return within(step_ns / run->decode_server.tokens_per_step, run->state->options.tpot_limit_ns);
}

/* The fewest instances that keep up within the limit of TPOT, with steps at `end`; if no number does, the last one that
 * was tried. */
static hr_status count_decode(apart_run *run, hr_load_end end, hr_load_point *point, hr_error *error)
{
  const hr_load_options *load = run->load;
  run->decode_server.costs = &run->costs[end];
  bool reachable = is_reachable(run);
  if (load->instances > 0 || load->clients > 0) {
    point->instances = hr_max64(load->instances, 1);
    return try_decode(run, end, point, error);
  }
  int64_t instances = begin_at(0.9 * decode_load(run));
  const hr_load_point given = *point;
  for (int i = 0; i < TRIALS_MAX; i++) {
    *point = given;
    point->instances = instances;
    HR_TRY(try_decode(run, end, point, error));
    bool done = point->keeps_up && (!reachable || within(point->tpot_ns.p90, run->state->options.tpot_limit_ns));
    if (done || more(instances) > hr_min64(HR_LOAD_INSTANCES_MAX, load->requests))
      return HR_OK;
    instances = more(instances);
  }
  return HR_OK;
}

static hr_status simulate_ends(apart_run *run, hr_load_point *point, hr_error *error)
{
  hr_load_point found[HR_LOAD_ENDS] = {*point, *point, *point};
  hr_load_end counted = sure_end(run->state);
  HR_TRY(count_decode(run, counted, &found[counted], error));
  for (int end = 0; end < HR_LOAD_ENDS; end++) {
    found[end].instances = found[counted].instances;
    if (end != (int)counted)
      HR_TRY(try_decode(run, (hr_load_end)end, &found[end], error));
  }
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
  hr_load_costs *costs = malloc(HR_LOAD_ENDS * sizeof *costs);
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
