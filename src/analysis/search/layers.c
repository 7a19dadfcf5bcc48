/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/layers.h"

#include "analysis/model/layer_kinds.h"
#include "analysis/model/parameters.h"
#include "analysis/model/reshape.h"
#include "base/checked.h"
#include "base/error.h"

#include <string.h>

static bool have_same_mlp_part(const hr_layer_group *a, const hr_layer_group *b)
{
  hr_layer_group alike = *a;
  alike.attention = b->attention;
  alike.latent = b->latent;
  return hr_has_mixer(a) == hr_has_mixer(b) && hr_same_layer(&alike, b); /* a layer without a mixer has other norms */
}

void hr_search_find_mlp_kinds(const hr_model *model, hr_search_mlp_kinds *kinds)
{
  kinds->count = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    size_t kind = 0;
    while (kind < kinds->count && !have_same_mlp_part(&model->groups[kinds->group[kind]], &model->groups[i]))
      kind++;
    if (kind == kinds->count)
      kinds->group[kinds->count++] = i;
    kinds->of[i] = kind;
  }
}

/* Counts are linear in the width, so two counts determine the coefficients. */
static hr_status count_layer(const hr_model *model, const hr_layer_group *group, hr_search_layer *counted)
{
  hr_layer_group layer = *group;
  int64_t one, wider;
  layer.dense.width = group->dense.width > 0 ? 1 : 0;
  HR_TRY(hr_checked_take(hr_count_layer(model, &layer), &one));
  layer.dense.width = group->dense.width > 0 ? 2 : 0;
  HR_TRY(hr_checked_take(hr_count_layer(model, &layer), &wider));
  counted->column = wider - one;
  counted->layer = one - counted->column;
  return HR_OK;
}

static hr_status count_outside(const hr_model *model, int64_t *outside)
{
  hr_parameters parameters;
  HR_TRY(hr_model_parameters(model, &parameters, NULL));
  *outside = parameters.total;
  for (size_t i = 0; i < model->group_count; i++)
    *outside -= model->groups[i].count * hr_count_layer(model, &model->groups[i]).value;
  return HR_OK;
}

static hr_status count_parameters(const hr_search_space *space, hr_search_heads *heads)
{
  hr_model *model = &heads->model;
  const int64_t own = model->vocabulary;
  hr_status status = count_outside(model, &heads->fixed);
  for (size_t i = 0; i < space->vocabulary_count && status == HR_OK; i++) {
    model->vocabulary = space->vocabularies[i];
    status = count_outside(model, &heads->fixed_with[i]);
  }
  model->vocabulary = own;
  for (size_t i = 0; i < model->group_count && status == HR_OK; i++)
    status = count_layer(model, &model->groups[i], &heads->groups[i]);
  return status;
}

/* Time of a part of a layer of one group: that of a model with such layers alone, which *heads is for the while. */
static double group_ns(hr_search_predictor *predictor, hr_search_heads *heads, size_t group, int64_t mlp_width,
                       hr_search_part part)
{
  hr_model *model = &heads->model;
  const hr_layer_group first = model->groups[0];
  const size_t count = model->group_count;
  int64_t layers = hr_model_layers(model);
  model->group_count = 1;
  model->groups[0] = group == 0 ? first : model->groups[group];
  model->groups[0].count = layers;
  if (model->groups[0].dense.width > 0)
    model->groups[0].dense.width = mlp_width;
  double time_ns = hr_search_part_ns(predictor, model, part);
  model->groups[0] = first;
  model->group_count = count;
  return time_ns;
}

double hr_search_mlp_ns(hr_search_predictor *predictor, hr_search_heads *heads, size_t group, int64_t width)
{
  return group_ns(predictor, heads, group, width, HR_SEARCH_PART_MLP);
}

bool hr_search_fit_heads(hr_search_predictor *predictor, const hr_search_space *space, hr_search_heads *heads)
{
  const hr_model *model = &heads->model;
  if (count_parameters(space, heads) != HR_OK) /* also checks the model */
    return false;
  for (size_t i = 0; i < model->group_count; i++) {
    int64_t width = model->groups[i].dense.width;
    heads->groups[i].attention_ns = group_ns(predictor, heads, i, width, HR_SEARCH_PART_ATTENTION);
    if (heads->groups[i].attention_ns < 0)
      return false;
  }
  return true;
}

/* Adds the layers of a group to the mixture. */
static bool mix(const hr_search_layer *of_layer, int64_t count, double *mlp_share, hr_search_depth *depth)
{
  double share = (double)count / (double)depth->layers;
  depth->attention_ns += share * of_layer->attention_ns;
  *mlp_share += share;
  hr_checked64 layer = hr_plus(hr_checked(depth->layer), hr_times(hr_checked(of_layer->layer), count));
  hr_checked64 column = hr_plus(hr_checked(depth->column), hr_times(hr_checked(of_layer->column), count));
  return hr_checked_take(layer, &depth->layer) == HR_OK && hr_checked_take(column, &depth->column) == HR_OK;
}

bool hr_search_mix_layers(const hr_search_heads *heads, const hr_search_mlp_kinds *kinds, int64_t layers,
                          hr_search_depth *depth)
{
  const hr_model *model = &heads->model;
  depth->layers = layers;
  depth->layer = depth->column = 0;
  depth->attention_ns = 0;
  memset(depth->mlp_share, 0, kinds->count * sizeof *depth->mlp_share);
  if (model->group_count == 1)
    return mix(&heads->groups[0], layers, &depth->mlp_share[0], depth) && depth->column > 0;
  const hr_model mixture = hr_reshape_layers(model, layers); /* its groups in the same order; some may have gone */
  size_t own = 0;
  for (size_t i = 0; i < mixture.group_count; i++, own++) {
    while (!hr_same_layer(&model->groups[own], &mixture.groups[i]))
      own++;
    if (!mix(&heads->groups[own], mixture.groups[i].count, &depth->mlp_share[kinds->of[own]], depth))
      return false;
  }
  return depth->column > 0;
}
