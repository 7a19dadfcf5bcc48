/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/enumerate.h"

#include "base/checked.h"
#include "base/error.h"

#include <string.h>

/* Units of work between two calls of the progress callback. */
#define PROGRESS_EVERY 4096

/* Parameters as a function of layers L and MLP width f, exact: fixed + L · (layer + f · column). */
typedef struct parameter_count {
  int64_t fixed, layer, column;
} parameter_count;

/* A hidden size with its heads, and the figures that do not depend on layers and MLP width. */
typedef struct hidden_and_heads {
  hr_model model;
  double attention_ns;
  int64_t fixed; /* parameter_count.fixed with the model's own vocabulary */
  parameter_count counts[HR_SEARCH_VOCABULARIES_MAX];
} hidden_and_heads;

static hr_status count_at(const hr_model *model, int64_t layers, int64_t mlp_width, int64_t *total)
{
  hr_model probe = *model;
  hr_parameters parameters;
  probe.layers = layers;
  probe.window_layers = 0;
  probe.mlp_width = mlp_width;
  HR_TRY(hr_model_parameters(&probe, &parameters, NULL));
  *total = parameters.total;
  return HR_OK;
}

/* Counts are linear in L and in L·f, so three counts determine the coefficients. */
static hr_status fit_parameters(const hr_model *model, parameter_count *count)
{
  int64_t one, deeper, wider;
  HR_TRY(count_at(model, 1, 1, &one));
  HR_TRY(count_at(model, 2, 1, &deeper));
  HR_TRY(count_at(model, 1, 2, &wider));
  count->column = wider - one;
  count->layer = deeper - one - count->column;
  count->fixed = one - count->layer - count->column;
  return count->column > 0 && count->layer >= 0 ? HR_OK : HR_ERROR_INVALID;
}

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

static double mlp_ns(hr_search_state *state, const hidden_and_heads *at, int64_t width)
{
  hr_search_mlp_time *slot = &state->mlp_cache[(uint64_t)(width / state->space.mlp_step) % HR_SEARCH_MLP_CACHE];
  if (slot->width != width) {
    hr_model model = at->model;
    model.mlp_width = width;
    slot->time_ns = hr_search_part_ns(&state->predictor, &model, HR_SEARCH_PART_MLP);
    slot->width = width;
  }
  return slot->time_ns;
}

/* The fastest shapes of one hidden size, layers and heads: of all, and of those with at least the model's
 * parameters. */
typedef struct fastest {
  hr_search_point any, as_large;
} fastest;

static void evaluate(hr_search_state *state, const hidden_and_heads *at, const hr_search_point *shape,
                     double outside_ns, fastest *best)
{
  double layer_ns = mlp_ns(state, at, shape->mlp_width);
  int64_t stages = state->space.workload->pipeline_stages;
  if (layer_ns < 0 || !count_work(state))
    return;
  hr_search_point point = *shape;
  point.time_ns = (double)hr_round_up(point.layers, stages) * (at->attention_ns + layer_ns) + outside_ns;
  state->evaluated++;
  if (best->any.time_ns == 0 || hr_search_before(&point, &best->any))
    best->any = point;
  if (point.useful >= state->space.parameters &&
      (best->as_large.time_ns == 0 || hr_search_before(&point, &best->as_large)))
    best->as_large = point;
  hr_search_front_add(&state->front, &point);
}

static bool width_fits(const hr_search_space *space, int64_t width)
{
  return !space->require_divisible || width % space->workload->tensor_parallel == 0;
}

/* Evaluates the widths within the parameter band at this depth. */
static void enumerate_widths(hr_search_state *state, const hidden_and_heads *at, size_t vocabulary, int64_t layers,
                             fastest *best)
{
  const hr_search_space *space = &state->space;
  const parameter_count *count = &at->counts[vocabulary];
  int64_t least, most, step = space->mlp_step, own = space->model->mlp_width;
  hr_search_mlp_bounds(space, at->model.hidden, &least, &most);
  double base = (double)count->fixed + (double)layers * (double)count->layer;
  double column = (double)layers * (double)count->column;
  double low = ((double)space->parameters_least - base) / column,
         high = ((double)space->parameters_most - base) / column;
  if (high < (double)least || low > (double)most)
    return;
  least = hr_max64(least, low > 1 ? (int64_t)low : 1);
  most = high < (double)most ? (int64_t)high + 1 : most;
  hr_search_point point = {.hidden = at->model.hidden,
                           .heads = at->model.q_heads,
                           .layers = layers,
                           .vocabulary = space->vocabularies[vocabulary]};
  bool own_next = at->model.hidden == space->model->hidden && own % step != 0 && own >= least && own <= most;
  int64_t width = own_next ? own : hr_round_up(least, step);
  while (width <= most && !state->stopped) {
    point.mlp_width = width;
    point.parameters = count->fixed + layers * (count->layer + width * count->column);
    if (point.parameters >= space->parameters_least && point.parameters <= space->parameters_most &&
        width_fits(space, width)) {
      point.useful = point.parameters - (count->fixed - at->fixed);
      evaluate(state, at, &point, state->outside_ns[vocabulary], best);
    }
    width = own_next ? hr_round_up(least, step) : width + step;
    own_next = false;
  }
}

/* If only some layers have a window, the mean attention time of a layer depends on the number of layers. */
static bool attention_varies_with_depth(const hr_model *model)
{
  return model->window_layers > 0 && model->window_layers < model->layers;
}

static double attention_ns_at_depth(hr_search_state *state, const hidden_and_heads *at, int64_t layers)
{
  const hr_model *own = state->space.model;
  hr_search_point point = {.hidden = at->model.hidden,
                           .heads = at->model.q_heads,
                           .layers = layers,
                           .mlp_width = own->mlp_width,
                           .vocabulary = own->vocabulary};
  hr_model model = hr_search_model(&state->space, &point);
  return hr_search_part_ns(&state->predictor, &model, HR_SEARCH_PART_ATTENTION);
}

/* The depths within the parameter band: from the widest MLP with the largest vocabulary to the narrowest MLP. */
static void layer_bounds(const hr_search_space *space, const hidden_and_heads *at, int64_t *first, int64_t *last)
{
  const parameter_count *count = &at->counts[0];
  int64_t least_width, most_width;
  hr_search_mlp_bounds(space, at->model.hidden, &least_width, &most_width);
  double narrow = (double)count->layer + (double)count->column * (double)least_width;
  double deepest = ((double)space->parameters_most - (double)count->fixed) / narrow;
  *last = deepest < (double)space->layers_max ? (int64_t)deepest + 1 : space->layers_max;
  double wide = (double)count->layer + (double)count->column * (double)most_width;
  double largest_fixed = (double)at->counts[space->vocabulary_count - 1].fixed;
  double shallowest = ((double)space->parameters_least - largest_fixed) / wide;
  *first = shallowest > (double)space->layers_min ? (int64_t)shallowest : space->layers_min;
}

static void enumerate_layers(hr_search_state *state, hidden_and_heads *at)
{
  const hr_search_space *space = &state->space;
  int64_t first, last;
  layer_bounds(space, at, &first, &last);
  for (int64_t layers = hr_round_up(hr_max64(first, 1), space->layers_step); layers <= last && !state->stopped;
       layers += space->layers_step) {
    fastest best = {{.time_ns = 0}, {.time_ns = 0}};
    if (!count_work(state))
      return;
    if (layers > space->layers_max || layers < space->workload->pipeline_stages)
      continue;
    if (attention_varies_with_depth(space->model))
      at->attention_ns = attention_ns_at_depth(state, at, layers);
    for (size_t i = 0; i < space->vocabulary_count && at->attention_ns >= 0; i++)
      enumerate_widths(state, at, i, layers, &best);
    if (best.any.time_ns > 0)
      hr_search_pool_add(&state->pool, &best.any);
    if (best.as_large.time_ns > 0 && best.as_large.mlp_width != best.any.mlp_width)
      hr_search_pool_add(&state->pool, &best.as_large);
  }
}

static bool prepare(hr_search_state *state, hidden_and_heads *at)
{
  const hr_search_space *space = &state->space;
  at->attention_ns = hr_search_part_ns(&state->predictor, &at->model, HR_SEARCH_PART_ATTENTION);
  for (size_t i = 0; i < space->vocabulary_count; i++) {
    hr_model model = at->model;
    model.vocabulary = space->vocabularies[i];
    if (fit_parameters(&model, &at->counts[i]) != HR_OK)
      return false;
  }
  parameter_count own;
  if (fit_parameters(&at->model, &own) != HR_OK)
    return false;
  at->fixed = own.fixed;
  return at->attention_ns >= 0;
}

static bool prepare_outside(hr_search_state *state, const hr_model *model)
{
  for (size_t i = 0; i < state->space.vocabulary_count; i++) {
    hr_model padded = *model;
    padded.vocabulary = state->space.vocabularies[i];
    state->outside_ns[i] = hr_search_part_ns(&state->predictor, &padded, HR_SEARCH_PART_OUTSIDE);
    if (state->outside_ns[i] < 0)
      return false;
  }
  return true;
}

static void enumerate_heads(hr_search_state *state, int64_t hidden)
{
  const hr_search_space *space = &state->space;
  bool outside_known = false;
  for (size_t i = 0; i < space->head_dim_count && !state->stopped; i++) {
    hidden_and_heads at;
    if (!hr_search_with_heads(space, hidden, space->head_dims[i], &at.model))
      continue;
    if (!outside_known && !prepare_outside(state, &at.model))
      return;
    outside_known = true;
    if (prepare(state, &at))
      enumerate_layers(state, &at);
  }
}

void hr_search_enumerate(hr_search_state *state)
{
  for (size_t i = 0; i < state->space.hidden_count && !state->stopped; i++) {
    memset(state->mlp_cache, 0, sizeof state->mlp_cache);
    state->done = (double)i / (double)state->space.hidden_count;
    report_progress(state);
    enumerate_heads(state, state->space.hidden[i]);
  }
}
