/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/enumerate.h"

#include "base/checked.h"
#include "model/reshape/reshape.h"

#include <math.h>
#include <string.h>

/* Units of work between two calls of the progress callback. */
#define PROGRESS_EVERY 4096

static void report_progress(hr_search_state *state)
{
  if (state->progress && state->progress(state->context, state->done, "searching shapes") != 0)
    state->stopped = true;
}

/* Counts a unit of work and reports progress now and then; false if the search has to stop. Work that yields no shape
 * is limited, too, so that a search in which hardly any shape fits also ends. */
static bool count_work(hr_search_state *state)
{
  if (++state->work % PROGRESS_EVERY == 0)
    report_progress(state);
  if (state->evaluated >= state->evaluations_max || state->work / 4 > state->evaluations_max + PROGRESS_EVERY)
    state->stopped = true;
  return !state->stopped;
}

/* Predicts a layer with this kind of MLP. */
static double kind_ns(hr_search_state *state, hr_search_heads *heads, size_t kind, int64_t width)
{
  const hr_search_mlp_kinds *kinds = &state->mlp_kinds;
  uint64_t place = (uint64_t)(width / state->space.mlp_step) * kinds->count + kind;
  int64_t key = width * HR_LAYER_GROUPS_MAX + (int64_t)kind;
  hr_search_mlp_time *slot = &state->mlp_cache[place % HR_SEARCH_MLP_CACHE];
  if (slot->key != key) {
    slot->time_ns = hr_search_mlp_ns(&state->predictor, &state->space, heads, kinds->group[kind], width);
    slot->key = key;
  }
  return slot->time_ns;
}

/* Returns the mean of all layers. */
static double mlp_ns(hr_search_state *state, hr_search_heads *heads, const hr_search_depth *at, int64_t width)
{
  double time_ns = 0;
  if (state->mlp_kinds.count == 1)
    return kind_ns(state, heads, 0, width);
  for (size_t kind = 0; kind < state->mlp_kinds.count; kind++) {
    double of_kind = at->mlp_share[kind] > 0 ? kind_ns(state, heads, kind, width) : 0;
    if (of_kind < 0)
      return of_kind;
    time_ns += at->mlp_share[kind] * of_kind;
  }
  return time_ns;
}

/* The fastest shapes of one hidden size, layers and heads: of all, and of those with at least the model's
 * parameters. */
typedef struct fastest {
  hr_search_point any, as_large;
} fastest;

static void evaluate(hr_search_state *state, hr_search_heads *heads, const hr_search_depth *at,
                     const hr_search_point *shape, double outside_ns, fastest *best)
{
  double layer_ns = mlp_ns(state, heads, at, shape->mlp_width);
  int64_t stages = state->space.workload->pipeline_stages;
  if (layer_ns < 0 || !count_work(state))
    return;
  hr_search_point point = *shape;
  point.time_ns =
      state->layer_runs * (double)hr_round_up(point.layers, stages) * (at->attention_ns + layer_ns) + outside_ns;
  state->evaluated++;
  if (best->any.time_ns == 0 || hr_search_before(&point, &best->any))
    best->any = point;
  if (point.useful >= state->space.parameters &&
      (best->as_large.time_ns == 0 || hr_search_before(&point, &best->as_large)))
    best->as_large = point;
  hr_search_front_add(&state->front, &point);
}

static bool count_shape(const hr_search_space *space, const hr_search_depth *at, int64_t width, int64_t fixed,
                        int64_t *parameters)
{
  if (space->widths.count > 1)
    return hr_search_count(space, at, width, fixed, parameters);
  *parameters = fixed + at->layer + width * at->column[0]; /* fits: the widths were solved for */
  return true;
}

static bool width_fits(const hr_search_space *space, int64_t width)
{
  if (space->widths.count > 1)
    return hr_search_width_fits(space, width);
  return !space->require_divisible || !space->widths.split[0] || width % space->width_unit == 0;
}

/* Evaluates the widths within the parameter band at this depth. */
static void enumerate_widths(hr_search_state *state, hr_search_heads *heads, size_t vocabulary,
                             const hr_search_depth *at, fastest *best)
{
  const hr_search_space *space = &state->space;
  int64_t fixed = heads->fixed_with[vocabulary], hidden = heads->model.hidden;
  int64_t least, most, step = space->mlp_step, own = space->widths.own[0];
  hr_search_mlp_bounds(space, hidden, &least, &most);
  double low, high;
  hr_search_solve_widths(space, at, (double)space->parameters_min - (double)fixed,
                         (double)space->parameters_max - (double)fixed, &low, &high);
  if (high < (double)least || low > (double)most)
    return;
  least = hr_max64(least, low > 1 ? (int64_t)low : 1);
  most = high < (double)most ? (int64_t)high + 1 : most;
  hr_search_point point = {
      .hidden = hidden, .heads = heads->layout, .layers = at->layers, .vocabulary = space->vocabularies[vocabulary]};
  bool own_next = hidden == space->model->hidden && own % step != 0 && own >= least && own <= most;
  int64_t width = own_next ? own : hr_round_up(least, step);
  while (width <= most && !state->stopped) {
    point.mlp_width = width;
    bool counted = count_shape(space, at, width, fixed, &point.parameters);
    if (!counted || point.parameters < space->parameters_min || point.parameters > space->parameters_max) {
      count_work(state);
    } else if (width_fits(space, width)) {
      point.useful = point.parameters - (fixed - heads->fixed);
      evaluate(state, heads, at, &point, state->outside_ns[vocabulary], best);
    }
    width = own_next ? hr_round_up(least, step) : width + step;
    own_next = false;
  }
}

/* The depths within the parameter band: from the widest MLP with the largest vocabulary to the narrowest MLP. */
static void layer_bounds(const hr_search_space *space, const hr_search_heads *at, int64_t *first, int64_t *last)
{
  int64_t min_width, max_width;
  hr_search_mlp_bounds(space, at->model.hidden, &min_width, &max_width);
  double narrow, wide;
  hr_search_layer_bounds(space, at, min_width, max_width, &narrow, &wide);
  double deepest = ((double)space->parameters_max - (double)at->fixed_with[0]) / narrow;
  *last = deepest < (double)space->layers_max ? (int64_t)deepest + 1 : space->layers_max;
  double largest_fixed = (double)at->fixed_with[space->vocabulary_count - 1];
  double shallowest = ((double)space->parameters_min - largest_fixed) / wide;
  *first = shallowest > (double)space->layers_min ? (int64_t)shallowest : space->layers_min;
}

static void enumerate_depth(hr_search_state *state, hr_search_heads *heads, const hr_search_depth *at)
{
  fastest best = {{.time_ns = 0}, {.time_ns = 0}};
  for (size_t i = 0; i < state->space.vocabulary_count; i++)
    enumerate_widths(state, heads, i, at, &best);
  if (best.any.time_ns > 0)
    hr_search_pool_add(&state->pool, &best.any);
  if (best.as_large.time_ns > 0 && best.as_large.mlp_width != best.any.mlp_width)
    hr_search_pool_add(&state->pool, &best.as_large);
}

static void enumerate_layers(hr_search_state *state, hr_search_heads *heads)
{
  const hr_search_space *space = &state->space;
  int64_t first, last;
  layer_bounds(space, heads, &first, &last);
  for (int64_t layers = hr_round_up(hr_max64(first, 1), space->layers_step); layers <= last && !state->stopped;
       layers += space->layers_step) {
    hr_search_depth at;
    if (!count_work(state))
      return;
    if (layers > space->layers_max || layers < space->workload->pipeline_stages)
      continue;
    if (hr_search_mix_layers(space, heads, &state->mlp_kinds, layers, &at))
      enumerate_depth(state, heads, &at);
  }
}

static bool prepare_outside(hr_search_state *state, hr_model *model)
{
  const int64_t own = model->vocabulary;
  bool known = true;
  for (size_t i = 0; i < state->space.vocabulary_count && known; i++) {
    model->vocabulary = state->space.vocabularies[i];
    state->outside_ns[i] = hr_search_part_ns(&state->predictor, model, HR_SEARCH_PART_OUTSIDE);
    known = state->outside_ns[i] >= 0;
  }
  model->vocabulary = own;
  return known;
}

static void enumerate_heads(hr_search_state *state, int64_t hidden)
{
  const hr_search_space *space = &state->space;
  bool outside_known = false;
  hr_search_list_layouts(space, hidden, &state->layouts);
  for (size_t i = 0; i < state->layouts.count && !state->stopped; i++) {
    hr_search_heads heads = {.layout = state->layouts.layouts[i]};
    if (!hr_search_with_heads(space, hidden, &heads.layout, &heads.model))
      continue;
    if (!hr_search_fit_heads(&state->predictor, space, &heads))
      continue;
    if (!outside_known && !prepare_outside(state, &heads.model))
      return;
    outside_known = true;
    enumerate_layers(state, &heads);
  }
}

void hr_search_enumerate(hr_search_state *state)
{
  hr_search_find_mlp_kinds(state->space.model, &state->mlp_kinds);
  state->layer_runs = hr_search_layer_runs(state->space.workload);
  for (size_t i = 0; i < state->space.hidden_count && !state->stopped; i++) {
    memset(state->mlp_cache, 0, sizeof state->mlp_cache);
    state->done = (double)i / (double)state->space.hidden_count;
    report_progress(state);
    enumerate_heads(state, state->space.hidden[i]);
  }
}
