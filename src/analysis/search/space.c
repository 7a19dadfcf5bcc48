/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/space.h"

#include "analysis/model/layer_kinds.h"
#include "analysis/model/reshape.h"
#include "analysis/model/sizes.h"
#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>

/* Default ranges: hidden and layers 3/4 to 4/3 of the model's, the MLP's ratio to hidden 4/5 to 5/4. */
#define NEAR_LESS 0.75
#define NEAR_MORE (4.0 / 3)
#define MLP_LESS 0.8
#define MLP_MORE 1.25

#define SIZE_MOST ((int64_t)1 << 40)

static hr_status check_size(const char *name, int64_t value, hr_error *error)
{
  if (value < 0 || value > SIZE_MOST)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected 0 to 2^40, found %" PRId64, name, value);
  return HR_OK;
}

static hr_status check_range(const char *name, int64_t least, int64_t most, hr_error *error)
{
  char member[48];
  snprintf(member, sizeof member, "%s_min", name);
  HR_TRY(check_size(member, least, error));
  snprintf(member, sizeof member, "%s_max", name);
  HR_TRY(check_size(member, most, error));
  if (least > 0 && most > 0 && least > most)
    return hr_fail(error, HR_ERROR_INVALID, "%s_min %" PRId64 " is above %s_max %" PRId64, name, least, name, most);
  return HR_OK;
}

static hr_status check_options(const hr_search_options *options, hr_error *error)
{
  HR_TRY(hr_check_struct_size("hr_search_options", options->struct_size, sizeof(hr_search_options), error));
  HR_TRY(check_range("hidden", options->hidden_min, options->hidden_max, error));
  HR_TRY(check_range("layers", options->layers_min, options->layers_max, error));
  HR_TRY(check_range("heads", options->heads_min, options->heads_max, error));
  HR_TRY(check_range("head_dim", options->head_dim_min, options->head_dim_max, error));
  HR_TRY(check_range("mlp_width", options->mlp_width_min, options->mlp_width_max, error));
  HR_TRY(check_size("hidden_step", options->hidden_step, error));
  HR_TRY(check_size("mlp_step", options->mlp_step, error));
  HR_TRY(check_size("vocabulary_multiple", options->vocabulary_multiple, error));
  HR_TRY(check_size("query_heads_per_kv", options->query_heads_per_kv, error));
  if (!(options->parameter_band >= 0 && options->parameter_band <= 1))
    return hr_fail(error, HR_ERROR_INVALID, "parameter_band: expected 0 to 1, found %g", options->parameter_band);
  if (options->limit < 1 || options->limit > HR_SEARCH_LIMIT_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "limit: expected 1 to %d, found %zu", HR_SEARCH_LIMIT_MAX, options->limit);
  return HR_OK;
}

static int64_t or_near(int64_t option, int64_t own, double share)
{
  return option > 0 ? option : hr_max64((int64_t)((double)own * share), 1);
}

/* 64 per device, or 8 if that would leave fewer than eight values. */
static int64_t step_for(int64_t option, int64_t least, int64_t most, int64_t t)
{
  if (option > 0)
    return option;
  return (most - least) / (64 * t) >= 8 ? 64 * t : 8 * t;
}

/* Heads and ranks of latent attention stay: which of them a smaller one could replace is not known. */
static bool keeps_heads(const hr_model *model)
{
  return hr_model_main_group(model)->latent.q_heads > 0;
}

static hr_mixer_attention heads_of(const hr_model *model)
{
  return hr_heads_of(hr_model_main_group(model));
}

/* A search varies the heads and the MLP width of the main layers, the others in proportion. */
static hr_status check_layers(const hr_model *model, const hr_search_options *options, hr_error *error)
{
  if (heads_of(model).q_heads == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a search varies the heads of attention, which no layer of %s has",
                   model->name);
  if (keeps_heads(model) && options->query_heads_per_kv > 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "query_heads_per_kv: the latent attention of %s has no K and V heads to share", model->name);
  if (hr_main_mlp_width(model) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "a search varies the width of feed-forward networks, which the main layers of %s do not have",
                   model->name);
  return HR_OK;
}

/* The model's own value first, then by distance from it; of equal distances the smaller first. */
static hr_status list_hidden(const hr_search_options *options, hr_search_space *space, hr_error *error)
{
  int64_t own = space->model->hidden, t = space->workload->tensor_parallel;
  int64_t least = or_near(options->hidden_min, own, NEAR_LESS), most = or_near(options->hidden_max, own, NEAR_MORE);
  int64_t step = step_for(options->hidden_step, least, most, t);
  int64_t down = hr_min64(own - 1, most) / step * step, up = hr_round_up(hr_max64(own + 1, least), step);
  if (most > least && (most - least) / step >= HR_SEARCH_HIDDEN_MAX)
    return hr_fail(error, HR_ERROR_INVALID,
                   "hidden_step: %" PRId64 " gives more than %d sizes between %" PRId64 " and %" PRId64, step,
                   HR_SEARCH_HIDDEN_MAX, least, most);
  if (own >= least && own <= most)
    space->hidden[space->hidden_count++] = own;
  while (space->hidden_count < HR_SEARCH_HIDDEN_MAX && ((down >= least && down > 0) || up <= most)) {
    bool take_down = down >= least && down > 0 && (up > most || own - down <= up - own);
    space->hidden[space->hidden_count++] = take_down ? down : up;
    *(take_down ? &down : &up) += take_down ? -step : step;
  }
  return HR_OK;
}

static void list_vocabularies(const hr_search_options *options, hr_search_space *space)
{
  int64_t own = space->model->vocabulary, t = space->workload->tensor_parallel;
  int64_t multiples[HR_SEARCH_VOCABULARIES_MAX] = {1, 64 * t, 128 * t};
  size_t count = options->keep_vocabulary || options->vocabulary_multiple > 0 ? 1 : HR_SEARCH_VOCABULARIES_MAX;
  if (options->vocabulary_multiple > 0 && !options->keep_vocabulary)
    multiples[0] = options->vocabulary_multiple;
  for (size_t i = 0; i < count; i++) {
    int64_t padded = hr_round_up(own, multiples[i]);
    if (space->vocabulary_count == 0 || space->vocabularies[space->vocabulary_count - 1] != padded)
      space->vocabularies[space->vocabulary_count++] = padded;
  }
}

static void add_head_dim(hr_search_space *space, int64_t dim)
{
  bool is_new = space->head_dim_count == 0 || space->head_dims[space->head_dim_count - 1] < dim;
  if (is_new && space->head_dim_count < HR_SEARCH_HEAD_DIMS_MAX)
    space->head_dims[space->head_dim_count++] = dim;
}

/* Multiples of 8, the smallest granule of any matrix unit; coarser if the range is very wide. */
static void list_head_dims(const hr_search_options *options, hr_search_space *space)
{
  int64_t own = heads_of(space->model).qk_dim;
  bool only_own = keeps_heads(space->model);
  int64_t least = options->head_dim_min > 0 ? options->head_dim_min : hr_min64(only_own ? own : 64, own);
  int64_t most = options->head_dim_max > 0 ? options->head_dim_max : hr_max64(only_own ? own : 128, own);
  int64_t step = hr_round_up(hr_ceil_div(hr_max64(most - least, 1), HR_SEARCH_HEAD_DIMS_MAX - 8), 8);
  if (least > most)
    return;
  add_head_dim(space, least);
  for (int64_t dim = hr_round_up(least, step); dim <= most; dim += step) {
    if (own >= least && own < dim)
      add_head_dim(space, own);
    add_head_dim(space, dim);
  }
  if (own >= least && own <= most)
    add_head_dim(space, own);
  add_head_dim(space, most);
}

static size_t list_width(hr_search_widths *widths, int64_t own)
{
  size_t i = 0;
  while (i < widths->count && widths->own[i] != own)
    i++;
  if (i == widths->count) {
    widths->own[i] = own;
    widths->split[i] = false;
    widths->count++;
  }
  return i;
}

static void list_widths(hr_search_space *space)
{
  const hr_model *model = space->model;
  hr_search_widths *widths = &space->widths;
  widths->count = 0;
  list_width(widths, hr_main_mlp_width(model));
  for (size_t i = 0; i < model->group_count; i++) {
    for (hr_ffn_part part = HR_FFN_DENSE; part < HR_FFN_PARTS; part++) {
      int64_t own = hr_ffn_width(&model->groups[i], part);
      if (own == 0)
        continue;
      size_t index = list_width(widths, own);
      widths->of[i][part] = index;
      widths->split[index] |= part != HR_FFN_EXPERTS || space->workload->expert_parallel <= 1;
    }
  }
}

static hr_status set_band(const hr_search_options *options, hr_search_space *space, hr_error *error)
{
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(space->model, &parameters, error));
  double total = (double)parameters.total;
  space->parameters = parameters.total;
  if (parameters.total > INT64_MAX / 4)
    return hr_fail(error, HR_ERROR_OVERFLOW, "%" PRId64 " parameters are too many to search near", parameters.total);
  space->parameters_least = parameters.total - (int64_t)(total * options->parameter_band);
  space->parameters_most = parameters.total + (int64_t)(total * options->parameter_band);
  return HR_OK;
}

hr_status hr_search_space_make(const hr_model *model, const hr_workload *workload, const hr_search_options *options,
                               hr_search_space *space, hr_error *error)
{
  HR_TRY(check_options(options, error));
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(check_layers(model, options, error));
  space->model = model;
  space->workload = workload;
  space->hidden_count = space->vocabulary_count = space->head_dim_count = 0;
  HR_TRY(set_band(options, space, error));
  HR_TRY(list_hidden(options, space, error));
  list_vocabularies(options, space);
  space->require_divisible = options->require_divisible;
  space->query_heads_per_kv = options->query_heads_per_kv;
  space->layers_min = or_near(options->layers_min, hr_model_layers(model), NEAR_LESS);
  space->layers_max = or_near(options->layers_max, hr_model_layers(model), NEAR_MORE);
  space->layers_step = options->require_divisible ? workload->pipeline_stages : 1;
  space->heads_min = hr_max64(options->heads_min, 1);
  space->heads_max = options->heads_max > 0 ? options->heads_max : SIZE_MOST;
  list_head_dims(options, space);
  list_widths(space);
  space->mlp_min = options->mlp_width_min;
  space->mlp_max = options->mlp_width_max;
  int64_t least, most;
  hr_search_mlp_bounds(space, model->hidden, &least, &most);
  space->mlp_step = step_for(options->mlp_step, least, most, workload->tensor_parallel);
  return HR_OK;
}

int64_t hr_search_width(const hr_search_space *space, size_t index, int64_t width)
{
  return index == 0 ? width
                    : hr_scale_mlp_width(space->widths.own[index], space->widths.own[0], width, space->mlp_step);
}

bool hr_search_width_fits(const hr_search_space *space, int64_t width)
{
  for (size_t i = 0; i < space->widths.count; i++) {
    int64_t scaled = hr_search_width(space, i, width);
    if (scaled > HR_MODEL_SIZE_MAX)
      return false;
    if (space->require_divisible && space->widths.split[i] && scaled % space->workload->tensor_parallel != 0)
      return false;
  }
  return true;
}

void hr_search_mlp_bounds(const hr_search_space *space, int64_t hidden, int64_t *least, int64_t *most)
{
  double own = (double)space->widths.own[0] * (double)hidden / (double)space->model->hidden;
  *least = space->mlp_min > 0 ? space->mlp_min : hr_max64((int64_t)(own * MLP_LESS), 1);
  *most = space->mlp_max > 0 ? space->mlp_max : hr_max64((int64_t)(own * MLP_MORE), 1);
  *most = hr_min64(*most, HR_MODEL_SIZE_MAX);
}

static bool heads_split(const hr_mixer_attention *heads, int64_t t)
{
  if (heads->q_heads == 0)
    return true;
  bool k_splits = heads->k_heads % t == 0 || t % heads->k_heads == 0;
  bool v_splits = heads->v_heads % t == 0 || t % heads->v_heads == 0;
  return heads->q_heads % t == 0 && k_splits && v_splits;
}

static bool divisible(const hr_search_space *space, const hr_model *model)
{
  int64_t t = space->workload->tensor_parallel;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention heads = hr_heads_of(&model->groups[i]);
    if (!heads_split(&heads, t))
      return false;
  }
  return model->hidden % t == 0;
}

static bool with_heads(const hr_search_space *space, int64_t hidden, int64_t heads, hr_model *model)
{
  int64_t ratio = space->query_heads_per_kv;
  if (keeps_heads(space->model)) {
    *model = *space->model;
    model->hidden = hidden;
    return true;
  }
  if (!hr_reshape_heads(space->model, hidden, heads, model))
    return false;
  return ratio == 0 || (heads % ratio == 0 && hr_set_kv_heads(model, heads / ratio, heads / ratio));
}

bool hr_search_with_heads(const hr_search_space *space, int64_t hidden, int64_t head_dim, hr_model *model)
{
  const hr_mixer_attention own = heads_of(space->model);
  int64_t own_hidden = space->model->hidden, heads = own.q_heads;
  if (!keeps_heads(space->model)) {
    hr_checked64 width = hr_times(hr_times(hr_checked(own.q_heads), own.qk_dim), hidden);
    if (width.overflow || width.value % own_hidden != 0 || width.value / own_hidden % head_dim != 0)
      return false;
    heads = width.value / own_hidden / head_dim;
  } else if (head_dim != own.qk_dim) {
    return false;
  }
  if (heads < space->heads_min || heads > space->heads_max || !with_heads(space, hidden, heads, model))
    return false;
  return !space->require_divisible || divisible(space, model);
}

hr_model hr_search_model(const hr_search_space *space, const hr_search_point *point)
{
  hr_model model = *space->model;
  with_heads(space, point->hidden, point->heads, &model);
  hr_set_mlp_width(&model, point->mlp_width, space->mlp_step);
  model.vocabulary = point->vocabulary;
  return hr_reshape_layers(&model, point->layers);
}
