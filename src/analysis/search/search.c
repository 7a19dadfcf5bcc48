#include <headroom/search.h>

#include "analysis/search/candidates.h"
#include "analysis/search/step_time.h"
#include "base/checked.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define EVALUATIONS_DEFAULT 5000000
/* How much work goes by between two calls of the progress callback. */
#define PROGRESS_EVERY 4096
#define MLP_SLOTS 4096

/* Times of the MLP part by width, for one hidden size; a slot is taken over by the latest width that maps to it. */
typedef struct mlp_slot {
  int64_t width;
  double time_ns;
} mlp_slot;

/* Parameters as a function of layers L and MLP width f, exact: fixed + L · (layer + f · column). */
typedef struct parameter_form {
  int64_t fixed, layer, column;
} parameter_form;

typedef struct search_state {
  hr_search_space space;
  hr_search_predictor costs;
  hr_search_front front;
  hr_search_pool pool;
  mlp_slot mlp[MLP_SLOTS];
  double outside_ns[HR_SEARCH_VOCABULARIES_MAX]; /* of the hidden size at work */
  uint64_t evaluated, evaluations_max, work;
  bool stopped;
  double done; /* share of the hidden sizes that lie behind */
  hr_progress_fn progress;
  void *context;
} search_state;

/* A hidden size with its heads, and what is known of it before layers, MLP width and vocabulary are chosen. */
typedef struct headed {
  hr_model model;
  double attention_ns;
  int64_t fixed; /* of the form with the model's own vocabulary */
  parameter_form forms[HR_SEARCH_VOCABULARIES_MAX];
} headed;

hr_search_options hr_search_options_default(void)
{
  return (hr_search_options){
      .struct_size = sizeof(hr_search_options), .parameter_band = 0.02, .require_divisible = true, .limit = 20};
}

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

/* Counts are linear in L and in L·f, so three of them give the form. */
static hr_status find_form(const hr_model *model, parameter_form *form)
{
  int64_t one, deeper, wider;
  HR_TRY(count_at(model, 1, 1, &one));
  HR_TRY(count_at(model, 2, 1, &deeper));
  HR_TRY(count_at(model, 1, 2, &wider));
  form->column = wider - one;
  form->layer = deeper - one - form->column;
  form->fixed = one - form->layer - form->column;
  return form->column > 0 && form->layer >= 0 ? HR_OK : HR_ERROR_INVALID;
}

static void ask_caller(search_state *state)
{
  if (state->progress && state->progress(state->context, state->done, "searching shapes") != 0)
    state->stopped = true;
}

/* Counts a piece of work; now and then asks whether to go on. A search in which nearly nothing fits must end too, so
 * work without a shape is limited like shapes are. */
static bool may_go_on(search_state *state)
{
  if (++state->work % PROGRESS_EVERY == 0)
    ask_caller(state);
  if (state->evaluated >= state->evaluations_max || state->work / 4 > state->evaluations_max + PROGRESS_EVERY)
    state->stopped = true;
  return !state->stopped;
}

static double mlp_ns(search_state *state, const headed *at, int64_t width)
{
  mlp_slot *slot = &state->mlp[(uint64_t)(width / state->space.mlp_step) % MLP_SLOTS];
  if (slot->width != width) {
    hr_model model = at->model;
    model.mlp_width = width;
    slot->time_ns = hr_search_part_ns(&state->costs, &model, HR_SEARCH_PART_MLP);
    slot->width = width;
  }
  return slot->time_ns;
}

/* The fastest of one hidden, layers and heads: of all, and of those with no fewer parameters than the model has. */
typedef struct fastest {
  hr_search_point any, as_large;
} fastest;

static void evaluate(search_state *state, const headed *at, const hr_search_point *shape, double outside_ns,
                     fastest *best)
{
  double layer_ns = mlp_ns(state, at, shape->mlp_width);
  int64_t stages = state->space.workload->pipeline_stages;
  if (layer_ns < 0 || !may_go_on(state))
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

/* The widths that the parameter band leaves at this depth: solved for, not tried out. */
static void walk_widths(search_state *state, const headed *at, size_t vocabulary, int64_t layers, fastest *best)
{
  const hr_search_space *space = &state->space;
  const parameter_form *form = &at->forms[vocabulary];
  int64_t least, most, step = space->mlp_step, own = space->model->mlp_width;
  hr_search_mlp_bounds(space, at->model.hidden, &least, &most);
  double base = (double)form->fixed + (double)layers * (double)form->layer;
  double column = (double)layers * (double)form->column;
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
    point.parameters = form->fixed + layers * (form->layer + width * form->column);
    if (point.parameters >= space->parameters_least && point.parameters <= space->parameters_most &&
        width_fits(space, width)) {
      point.useful = point.parameters - (form->fixed - at->fixed);
      evaluate(state, at, &point, state->outside_ns[vocabulary], best);
    }
    width = own_next ? hr_round_up(least, step) : width + step;
    own_next = false;
  }
}

/* Where only some layers have a window, the mean layer's attention depends on how many there are. */
static bool attention_varies_with_depth(const hr_model *model)
{
  return model->window_layers > 0 && model->window_layers < model->layers;
}

static void walk_layers(search_state *state, headed *at)
{
  const hr_search_space *space = &state->space;
  const parameter_form *form = &at->forms[0];
  int64_t least_width, most_width;
  hr_search_mlp_bounds(space, at->model.hidden, &least_width, &most_width);
  double left = (double)space->parameters_most - (double)form->fixed;
  double narrow = (double)form->layer + (double)form->column * (double)least_width;
  double deepest = left / narrow;
  int64_t last = deepest < (double)space->layers_max ? (int64_t)deepest + 1 : space->layers_max;
  double wide = (double)form->layer + (double)form->column * (double)most_width;
  double needed = (double)space->parameters_least - (double)at->forms[space->vocabulary_count - 1].fixed;
  int64_t first = needed / wide > (double)space->layers_min ? (int64_t)(needed / wide) : space->layers_min;
  for (int64_t layers = hr_round_up(hr_max64(first, 1), space->layers_step); layers <= last && !state->stopped;
       layers += space->layers_step) {
    fastest best = {{.time_ns = 0}, {.time_ns = 0}};
    if (!may_go_on(state))
      return;
    if (layers > space->layers_max || layers < space->workload->pipeline_stages)
      continue;
    if (attention_varies_with_depth(space->model)) {
      hr_search_point depth = {.hidden = at->model.hidden,
                               .heads = at->model.q_heads,
                               .layers = layers,
                               .mlp_width = space->model->mlp_width,
                               .vocabulary = space->model->vocabulary};
      hr_model model = hr_search_model(space, &depth);
      at->attention_ns = hr_search_part_ns(&state->costs, &model, HR_SEARCH_PART_ATTENTION);
    }
    for (size_t i = 0; i < space->vocabulary_count && at->attention_ns >= 0; i++)
      walk_widths(state, at, i, layers, &best);
    if (best.any.time_ns > 0)
      hr_search_pool_add(&state->pool, &best.any);
    if (best.as_large.time_ns > 0 && best.as_large.mlp_width != best.any.mlp_width)
      hr_search_pool_add(&state->pool, &best.as_large);
  }
}

static bool prepare(search_state *state, headed *at)
{
  const hr_search_space *space = &state->space;
  at->attention_ns = hr_search_part_ns(&state->costs, &at->model, HR_SEARCH_PART_ATTENTION);
  for (size_t i = 0; i < space->vocabulary_count; i++) {
    hr_model model = at->model;
    model.vocabulary = space->vocabularies[i];
    if (find_form(&model, &at->forms[i]) != HR_OK)
      return false;
  }
  parameter_form own;
  if (find_form(&at->model, &own) != HR_OK)
    return false;
  at->fixed = own.fixed;
  return at->attention_ns >= 0;
}

static bool prepare_outside(search_state *state, const hr_model *model)
{
  for (size_t i = 0; i < state->space.vocabulary_count; i++) {
    hr_model padded = *model;
    padded.vocabulary = state->space.vocabularies[i];
    state->outside_ns[i] = hr_search_part_ns(&state->costs, &padded, HR_SEARCH_PART_OUTSIDE);
    if (state->outside_ns[i] < 0)
      return false;
  }
  return true;
}

static void walk_heads(search_state *state, int64_t hidden)
{
  const hr_search_space *space = &state->space;
  bool outside_known = false;
  for (size_t i = 0; i < space->head_dim_count && !state->stopped; i++) {
    headed at;
    if (!hr_search_with_heads(space, hidden, space->head_dims[i], &at.model))
      continue;
    if (!outside_known && !prepare_outside(state, &at.model))
      return;
    outside_known = true;
    if (prepare(state, &at))
      walk_layers(state, &at);
  }
}

static void walk(search_state *state)
{
  for (size_t i = 0; i < state->space.hidden_count && !state->stopped; i++) {
    memset(state->mlp, 0, sizeof state->mlp);
    state->done = (double)i / (double)state->space.hidden_count;
    ask_caller(state);
    walk_heads(state, state->space.hidden[i]);
  }
}

static int compare_shapes(const void *a, const void *b)
{
  const hr_search_shape *left = a, *right = b;
  if (left->step_time_ns != right->step_time_ns)
    return left->step_time_ns < right->step_time_ns ? -1 : 1;
  return left->parameters > right->parameters ? -1 : left->parameters < right->parameters;
}

static bool on_front(const hr_search_front *front, const hr_search_point *point)
{
  for (size_t i = 0; i < front->count; i++) {
    if (front->points[i].time_ns == point->time_ns && front->points[i].useful == point->useful)
      return true;
  }
  return false;
}

/* What is reported is predicted again, by the function that everybody else uses. */
static hr_status report_shape(const search_state *state, const hr_search_point *point, double base_ns, hr_step *step,
                              hr_search_shape *shape, hr_error *error)
{
  hr_parameters parameters;
  *shape = (hr_search_shape){.model = hr_search_model(&state->space, point)};
  HR_TRY(hr_predict_step(state->costs.hardware, &shape->model, state->space.workload, step, error));
  HR_TRY(hr_model_parameters(&shape->model, &parameters, error));
  shape->parameters = parameters.total;
  shape->parameter_change = (double)parameters.total / (double)state->space.parameters - 1;
  shape->step_time_ns = step->time_ns;
  shape->predicted_gain = base_ns / step->time_ns - 1;
  shape->pareto = on_front(&state->front, point);
  return HR_OK;
}

static hr_status fill_result(search_state *state, size_t limit, hr_step *step, hr_search_point *picked,
                             hr_search_result *result, hr_error *error)
{
  result->evaluated = state->evaluated;
  result->complete = !state->stopped;
  result->base_parameters = state->space.parameters;
  HR_TRY(hr_predict_step(state->costs.hardware, state->space.model, state->space.workload, step, error));
  result->base_time_ns = step->time_ns;
  hr_search_sort(state->pool.points, state->pool.count);
  /* A model that is its own best answer is listed: the sums may differ in the last digit. */
  int64_t apart = hr_max64((state->space.parameters_most - state->space.parameters_least) / 8, 1);
  size_t count = hr_search_pick(&state->front, &state->pool, result->base_time_ns * (1 + 1e-9), apart, limit, picked);
  for (size_t i = 0; i < count; i++)
    HR_TRY(report_shape(state, &picked[i], result->base_time_ns, step, &result->shapes[i], error));
  result->count = count;
  qsort(result->shapes, count, sizeof *result->shapes, compare_shapes);
  return HR_OK;
}

static hr_status run(search_state *state, const hr_search_options *options, const hr_model *model,
                     const hr_workload *workload, hr_step *step, hr_search_point *picked, hr_search_result *result,
                     hr_error *error)
{
  HR_TRY(hr_predict_step(state->costs.hardware, model, workload, step, error)); /* says early what cannot be */
  HR_TRY(hr_search_space_make(model, workload, options, &state->space, error));
  state->evaluations_max = options->evaluations_max ? options->evaluations_max : EVALUATIONS_DEFAULT;
  walk(state);
  return fill_result(state, options->limit, step, picked, result, error);
}

hr_status hr_search(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                    const hr_search_options *options, hr_progress_fn progress, void *context, hr_search_result **result,
                    hr_error *error)
{
  HR_NEED(error, hardware, model, workload, options, result);
  size_t limit = options->limit >= 1 && options->limit <= 4096 ? options->limit : 1; /* others are refused below */
  search_state *state = calloc(1, sizeof *state);
  hr_step *step = malloc(sizeof *step);
  hr_search_point *picked = calloc(limit, sizeof *picked);
  hr_search_result *found = calloc(1, sizeof *found);
  if (found)
    found->shapes = calloc(limit, sizeof *found->shapes);
  hr_status status;
  if (state && step && picked && found && found->shapes) {
    state->costs.hardware = hardware;
    state->costs.workload = workload;
    state->progress = progress;
    state->context = context;
    status = run(state, options, model, workload, step, picked, found, error);
  } else {
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "no memory for a search");
  }
  free(picked);
  free(step);
  free(state);
  if (status == HR_OK)
    *result = found;
  else
    hr_search_result_free(found);
  return status;
}

void hr_search_result_free(hr_search_result *result)
{
  if (result)
    free(result->shapes);
  free(result);
}
