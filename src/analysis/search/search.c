/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/search.h>

#include "analysis/predict/step.h"
#include "analysis/search/difference.h"
#include "analysis/search/enumerate.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATIONS_DEFAULT 5000000

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

/* Predicts shape->model with hr_predict_step(), so that its time equals that of the other commands. */
static hr_status predict_shape(const hr_search_state *state, double base_ns, hr_step *step, hr_search_shape *shape,
                               hr_error *error)
{
  hr_parameters parameters;
  HR_TRY(hr_fill_step(state->predictor.hardware, &shape->model, state->space.workload, step, error));
  HR_TRY(hr_model_parameters(&shape->model, &parameters, error));
  shape->parameters = parameters.total;
  shape->parameter_change = (double)parameters.total / (double)state->space.parameters - 1;
  shape->step_time_ns = step->about.time_ns;
  shape->predicted_gain = base_ns / step->about.time_ns - 1;
  hr_search_describe_difference(state->space.model, state->space.workload, shape);
  return HR_OK;
}

/* A padding that cannot be predicted, as it is too large, is none. */
static void keep_faster_padding(const hr_search_state *state, const hr_model *padded, hr_step *step,
                                hr_search_result *result)
{
  hr_search_shape shape = {.model = *padded};
  if (predict_shape(state, result->base_time_ns, step, &shape, NULL) != HR_OK || shape.change_class != HR_CHANGE_FREE)
    return;
  if (shape.step_time_ns < (result->has_free ? result->free.step_time_ns : result->base_time_ns)) {
    result->free = shape;
    result->has_free = true;
  }
}

/* Rows of zeros leave a model what it is: those that pad the vocabulary, and the MLP's width to what a tile takes. */
static void find_free_shape(const hr_search_state *state, hr_step *step, hr_search_result *result)
{
  const hr_search_space *space = &state->space;
  int64_t t = space->workload->tensor_parallel;
  int64_t own = hr_search_varied(space) & HR_SEARCH_MLP ? hr_main_mlp_width(space->model) : 0;
  for (size_t i = 0; i < space->vocabulary_count; i++) {
    hr_model padded = *space->model;
    padded.vocabulary = space->vocabularies[i];
    keep_faster_padding(state, &padded, step, result);
    for (int64_t granule = 64; granule <= 256 && own > 0 && own % (256 * t) != 0; granule *= 2) {
      hr_set_mlp_width(&padded, hr_round_up(own, granule * t), granule * t);
      keep_faster_padding(state, &padded, step, result);
    }
  }
}

/* The step of a point with what its replicas wait for and what eager mode launches, which are in no sum of parts. A
 * point that cannot be predicted comes last. */
static double predicted_ns(const hr_search_state *state, const hr_search_point *point, hr_step *step)
{
  hr_model model = hr_search_model(&state->space, point);
  hr_status status = hr_fill_step(state->predictor.hardware, &model, state->space.workload, step, NULL);
  return status == HR_OK ? step->about.time_ns : INFINITY;
}

/* Gives the points that were kept the time that is reported, so that they are chosen by it. */
static hr_status predict_points(hr_search_state *state, hr_step *step, hr_error *error)
{
  hr_search_front *summed = malloc(sizeof *summed);
  if (!summed)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a search");
  *summed = state->front;
  state->front.count = 0;
  for (size_t i = 0; i < summed->count; i++) {
    summed->points[i].time_ns = predicted_ns(state, &summed->points[i], step);
    hr_search_front_add(&state->front, &summed->points[i]);
  }
  for (size_t i = 0; i < state->pool.count; i++) {
    state->pool.points[i].time_ns = predicted_ns(state, &state->pool.points[i], step);
    hr_search_front_add(&state->front, &state->pool.points[i]);
  }
  free(summed);
  return HR_OK;
}

/* Fills the shapes that are no slower than the model. */
static hr_status fill_shapes(const hr_search_state *state, const hr_search_point *picked, size_t count, hr_step *step,
                             hr_search_result *result, hr_error *error)
{
  for (size_t i = 0; i < count; i++) {
    hr_search_shape *shape = &result->shapes[result->count];
    shape->model = hr_search_model(&state->space, &picked[i]);
    shape->pareto = on_front(&state->front, &picked[i]);
    HR_TRY(predict_shape(state, result->base_time_ns, step, shape, error));
    result->count += shape->step_time_ns <= result->base_time_ns;
  }
  qsort(result->shapes, result->count, sizeof *result->shapes, compare_shapes);
  return HR_OK;
}

static hr_status fill_result(hr_search_state *state, size_t limit, hr_step *step, hr_search_point *picked,
                             hr_search_result *result, hr_error *error)
{
  result->evaluated = state->evaluated;
  result->complete = !state->stopped;
  result->base_parameters = state->space.parameters;
  result->varied = hr_search_varied(&state->space);
  result->unserved = state->layouts.unserved;
  result->served_count = state->space.served_count;
  memcpy(result->served, state->space.served, sizeof result->served);
  result->unserved_count = state->space.unserved_count;
  memcpy(result->unserved_on, state->space.unserved_on, sizeof result->unserved_on);
  HR_TRY(hr_fill_step(state->predictor.hardware, state->space.model, state->space.workload, step, error));
  result->base_time_ns = step->about.time_ns;
  if (step->about.replica_ns > 0 || step->about.optimizer_ns > 0 || step->about.host_ns > 0)
    HR_TRY(predict_points(state, step, error));
  find_free_shape(state, step, result);
  hr_search_sort(state->pool.points, state->pool.count);
  /* The tolerance keeps a model that is its own best answer: the sums may differ in the last digit. */
  int64_t apart = hr_max64((state->space.parameters_max - state->space.parameters_min) / 8, 1);
  size_t count = hr_search_pick(&state->front, &state->pool, result->base_time_ns * (1 + 1e-9), apart, limit, picked);
  return fill_shapes(state, picked, count, step, result, error);
}

static hr_status run(hr_search_state *state, const hr_search_options *options, const hr_model *model,
                     const hr_workload *workload, hr_step *step, hr_search_point *picked, hr_search_result *result,
                     hr_error *error)
{
  HR_TRY(hr_fill_step(state->predictor.hardware, model, workload, step,
                      error)); /* fails early if the model cannot be predicted */
  HR_TRY(hr_search_space_make(state->predictor.hardware, model, workload, options, &state->space, error));
  state->evaluations_max = options->evaluations_max ? options->evaluations_max : EVALUATIONS_DEFAULT;
  hr_search_enumerate(state);
  return fill_result(state, options->limit, step, picked, result, error);
}

hr_status hr_search(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                    const hr_search_options *options, hr_search_result **result, hr_error *error)
{
  HR_NEED(error, hardware, model, workload, options, result);
  HR_TAKE(hr_model, model, error);
  HR_TAKE(hr_workload, workload, error);
  HR_TAKE(hr_search_options, options, error);
  size_t limit = options->limit < 1 || options->limit > HR_SEARCH_LIMIT_MAX ? 1 /* refused below */ : options->limit;
  hr_search_state *state = calloc(1, sizeof *state);
  hr_step *step = malloc(sizeof *step);
  hr_search_point *picked = calloc(limit, sizeof *picked);
  hr_search_result *found = calloc(1, sizeof *found);
  if (found)
    found->shapes = calloc(limit, sizeof *found->shapes);
  hr_status status;
  if (state && step && picked && found && found->shapes) {
    state->predictor.hardware = hardware;
    state->predictor.workload = workload;
    state->progress = options->progress;
    state->context = options->context;
    status = run(state, options, model, workload, step, picked, found, error);
  } else {
    status = hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a search");
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
