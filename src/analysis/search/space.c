/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/space.h"

#include "analysis/search/grids.h"
#include "analysis/search/heads.h"
#include "analysis/search/options.h"
#include "base/checked.h"
#include "base/error.h"
#include "model/config/families.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/shard.h"
#include "model/layers/sizes.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/model.h>
#include <inttypes.h>
#include <math.h>

/* Default range of the MLP's ratio to hidden, relative to the model's. */
#define MLP_LESS (2.0 / 3)
#define MLP_MORE 1.5

#define LARGEST_SIZE ((int64_t)1 << 40)

/* A search varies the heads and the MLP width of the main layers, the others in proportion. */
static hr_status check_layers(const hr_model *model, const hr_search_options *options, hr_error *error)
{
  if (hr_search_own_heads(model).q_heads == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "a search varies the heads of attention, which no layer of %s has",
                   model->name);
  if (hr_search_keeps_heads(model) && options->query_heads_per_kv > 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "query_heads_per_kv: the latent attention of %s has no K and V heads to share", model->name);
  if (hr_main_mlp_width(model) == 0)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "a search varies the width of feed-forward networks, which the main layers of %s do not have",
                   model->name);
  return HR_OK;
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
  space->parameters_min = parameters.total - (int64_t)(total * options->parameter_band);
  space->parameters_max = parameters.total + (int64_t)(total * options->parameter_band);
  return HR_OK;
}

/* Query heads that every shape has; 0: they vary. */
static int64_t kept_heads(const hr_model *model, const hr_search_options *options)
{
  bool asked =
      options->heads_min > 0 || options->heads_max > 0 || options->head_dim_min > 0 || options->head_dim_max > 0;
  if (hr_search_keeps_heads(model) || (!asked && (options->vary & HR_SEARCH_HEADS) == 0))
    return hr_search_own_heads(model).q_heads;
  return options->heads_min == options->heads_max ? options->heads_min : 0;
}

static void set_heads(const hr_search_options *options, hr_search_space *space)
{
  int64_t kept = kept_heads(space->model, options);
  space->heads_min = options->heads_min > 0 ? options->heads_min : hr_max64(kept, 1);
  space->heads_max = options->heads_max > 0 ? options->heads_max : kept > 0 ? kept : LARGEST_SIZE;
  space->query_heads_per_kv = options->query_heads_per_kv;
  space->varies_kv_heads = (options->vary & HR_SEARCH_KV_HEADS) != 0 && options->query_heads_per_kv == 0;
  space->frees_width = hr_head_dim_is_free(space->model);
  hr_search_list_head_dims(options, space);
}

/* How many widths the parameter band allows at the model's other sizes. */
static int64_t widths_in_band(const hr_search_space *space)
{
  int64_t own = space->widths.own[0];
  hr_model wider = *space->model;
  hr_parameters parameters;
  hr_set_mlp_width(&wider, own + space->share, 1);
  if (hr_model_parameters(&wider, &parameters, NULL) != HR_OK || parameters.total <= space->parameters)
    return INT64_MAX;
  double of_width = (double)(parameters.total - space->parameters) / (double)space->share;
  return (int64_t)fmin((double)(space->parameters_max - space->parameters_min) / of_width, 0x1p62);
}

static void set_mlp(const hr_search_options *options, hr_search_space *space)
{
  bool varies = hr_search_varies(options, HR_SEARCH_MLP, options->mlp_width_min, options->mlp_width_max);
  list_widths(space);
  space->mlp_min = varies ? options->mlp_width_min : space->widths.own[0];
  space->mlp_max = varies ? options->mlp_width_max : space->widths.own[0];
  int64_t least, most;
  hr_search_mlp_bounds(space, space->model->hidden, &least, &most);
  int64_t in_band = space->layers_min < space->layers_max ? INT64_MAX : widths_in_band(space);
  hr_checked64 blocks = hr_times(hr_checked(space->block), space->share);
  int64_t unit = blocks.overflow || blocks.value > LARGEST_SIZE ? space->block : blocks.value;
  space->width_unit = unit;
  space->mlp_step = options->mlp_step > 0 ? options->mlp_step : hr_search_step(space, unit, most - least, in_band);
}

hr_status hr_search_space_make(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                               const hr_search_options *options, hr_search_space *space, hr_error *error)
{
  HR_TRY(hr_search_check_options(options, error));
  HR_TRY(hr_model_check(model, error));
  HR_TRY(hr_workload_check(workload, model, error));
  HR_TRY(check_layers(model, options, error));
  space->model = model;
  space->workload = workload;
  space->hidden_count = space->vocabulary_count = space->head_dim_count = 0;
  space->require_divisible = options->require_divisible;
  space->granule = hr_search_granule(hardware, workload->dtype);
  space->block = hr_search_block(model);
  HR_TRY(set_band(options, space, error));
  HR_TRY(hr_search_list_served(options, kept_heads(model, options), space, error));
  set_heads(options, space);
  HR_TRY(hr_search_list_hidden(options, space, error));
  hr_search_list_vocabularies(options, space);
  hr_search_bounds_near(hr_search_varies(options, HR_SEARCH_LAYERS, options->layers_min, options->layers_max),
                        hr_model_layers(model), options->layers_min, options->layers_max, &space->layers_min,
                        &space->layers_max);
  int64_t parts = hr_virtual_stages(workload);
  space->layers_step = options->require_divisible || parts > 1 ? workload->pipeline_stages * parts : 1;
  set_mlp(options, space);
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
    if (space->require_divisible && space->widths.split[i] && scaled % space->width_unit != 0)
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

hr_model hr_search_model(const hr_search_space *space, const hr_search_point *point)
{
  hr_model model = *space->model;
  hr_search_with_heads(space, point->hidden, &point->heads, &model);
  hr_set_mlp_width(&model, point->mlp_width, space->mlp_step);
  model.vocabulary = point->vocabulary;
  return hr_reshape_layers(&model, point->layers);
}

uint32_t hr_search_varied(const hr_search_space *space)
{
  uint32_t varied = 0;
  int64_t least, most;
  hr_search_mlp_bounds(space, space->model->hidden, &least, &most);
  varied |= space->hidden_count > 1 ? HR_SEARCH_HIDDEN : 0;
  varied |= space->heads_min < space->heads_max && space->head_dim_count > 0 ? HR_SEARCH_HEADS : 0;
  varied |= least < most ? HR_SEARCH_MLP : 0;
  varied |=
      space->vocabulary_count > 1 || space->vocabularies[0] != space->model->vocabulary ? HR_SEARCH_VOCABULARY : 0;
  varied |= space->layers_min < space->layers_max ? HR_SEARCH_LAYERS : 0;
  varied |= space->varies_kv_heads ? HR_SEARCH_KV_HEADS : 0;
  return varied;
}
