/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/layers.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/parameters.h"
#include "model/reshape/reshape.h"

#include <headroom/experimental/model.h>
#include <math.h>
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

/* Counts the parameters of a layer whose parts are one element wide, and part `wider` two. */
static hr_checked64 count_narrow(const hr_model *model, const hr_layer_group *group, hr_ffn_part wider)
{
  int64_t widths[HR_FFN_PARTS];
  for (hr_ffn_part part = HR_FFN_DENSE; part < HR_FFN_PARTS; part++)
    widths[part] = hr_ffn_width(group, part) > 0 ? 1 + (part == wider) : 0;
  hr_layer_group layer = *group;
  layer.dense.width = widths[HR_FFN_DENSE];
  layer.experts.width = widths[HR_FFN_EXPERTS];
  layer.experts.shared_width = widths[HR_FFN_SHARED];
  return hr_count_layer(model, &layer);
}

/* Counts are linear in each width, so a count more than there are widths determines the coefficients. */
static hr_status count_layer(const hr_model *model, const hr_layer_group *group, hr_search_layer *counted)
{
  int64_t narrow, wider;
  HR_TRY(hr_checked_take(count_narrow(model, group, HR_FFN_PARTS), &narrow));
  counted->layer = narrow;
  for (hr_ffn_part part = HR_FFN_DENSE; part < HR_FFN_PARTS; part++) {
    counted->column[part] = 0;
    if (hr_ffn_width(group, part) == 0)
      continue;
    HR_TRY(hr_checked_take(count_narrow(model, group, part), &wider));
    counted->column[part] = wider - narrow;
    counted->layer -= wider - narrow;
  }
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
static double group_ns(hr_search_predictor *predictor, hr_search_heads *heads, const hr_layer_group *layer,
                       hr_search_part part)
{
  hr_model *model = &heads->model;
  const hr_layer_group first = model->groups[0];
  const size_t count = model->group_count;
  int64_t layers = hr_model_layers(model);
  model->group_count = 1;
  model->groups[0] = *layer;
  model->groups[0].count = layers;
  double time_ns = hr_search_part_ns(predictor, model, part);
  model->groups[0] = first;
  model->group_count = count;
  return time_ns;
}

double hr_search_mlp_ns(hr_search_predictor *predictor, const hr_search_space *space, hr_search_heads *heads,
                        size_t group, int64_t width)
{
  hr_layer_group layer = heads->model.groups[group];
  const size_t *of = space->widths.of[group];
  int64_t *const widths[HR_FFN_PARTS] = {&layer.dense.width, &layer.experts.width, &layer.experts.shared_width};
  for (hr_ffn_part part = HR_FFN_DENSE; part < HR_FFN_PARTS; part++) {
    if (hr_ffn_width(&layer, part) > 0)
      *widths[part] = hr_search_width(space, of[part], width);
  }
  return group_ns(predictor, heads, &layer, HR_SEARCH_PART_MLP);
}

bool hr_search_fit_heads(hr_search_predictor *predictor, const hr_search_space *space, hr_search_heads *heads)
{
  const hr_model *model = &heads->model;
  if (count_parameters(space, heads) != HR_OK) /* also checks the model */
    return false;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_layer_group layer = model->groups[i];
    heads->groups[i].attention_ns = group_ns(predictor, heads, &layer, HR_SEARCH_PART_ATTENTION);
    if (heads->groups[i].attention_ns < 0)
      return false;
  }
  return true;
}

/* Widths other than the first are rounded to the step: so far off their share at most. */
static double slack_of(const hr_search_space *space, size_t index)
{
  return index == 0 ? 0 : (double)space->mlp_step;
}

static double share_of(const hr_search_space *space, size_t index)
{
  return index == 0 ? 1 : (double)space->widths.own[index] / (double)space->widths.own[0];
}

void hr_search_layer_bounds(const hr_search_space *space, const hr_search_heads *heads, int64_t min_width,
                            int64_t max_width, double *smallest, double *largest)
{
  *smallest = INFINITY;
  *largest = 0;
  for (size_t i = 0; i < heads->model.group_count; i++) {
    const hr_search_layer *of_layer = &heads->groups[i];
    double narrow = (double)of_layer->layer, wide = narrow;
    for (size_t part = 0; part < HR_FFN_PARTS; part++) {
      double column = (double)of_layer->column[part];
      if (column <= 0)
        continue;
      size_t width = space->widths.of[i][part];
      double share = share_of(space, width), slack = slack_of(space, width);
      narrow += column * fmax((double)min_width * share - slack, 0);
      wide += column * ((double)max_width * share + slack);
    }
    *smallest = fmin(*smallest, narrow);
    *largest = fmax(*largest, wide);
  }
}

void hr_search_solve_widths(const hr_search_space *space, const hr_search_depth *depth, double least, double most,
                            double *narrowest, double *widest)
{
  double column = 0, slack = 0;
  for (size_t i = 0; i < space->widths.count; i++) {
    column += (double)depth->column[i] * share_of(space, i);
    slack += (double)depth->column[i] * slack_of(space, i);
  }
  *narrowest = (least - (double)depth->layer - slack) / column;
  *widest = (most - (double)depth->layer + slack) / column;
}

bool hr_search_count(const hr_search_space *space, const hr_search_depth *depth, int64_t width, int64_t outside,
                     int64_t *parameters)
{
  hr_checked64 sum = hr_plus(hr_checked(outside), hr_checked(depth->layer));
  sum = hr_plus(sum, hr_times(hr_checked(depth->column[0]), width));
  for (size_t i = 1; i < space->widths.count; i++)
    sum = hr_plus(sum, hr_times(hr_checked(depth->column[i]), hr_search_width(space, i, width)));
  return hr_checked_take(sum, parameters) == HR_OK;
}

/* ---- depth ---- */

/* Adds the layers of a group to the mixture. */
static bool mix(const hr_search_space *space, const hr_search_heads *heads, size_t group, int64_t count,
                double *mlp_share, hr_search_depth *depth)
{
  const hr_search_layer *of_layer = &heads->groups[group];
  double share = (double)count / (double)depth->layers;
  depth->attention_ns += share * of_layer->attention_ns;
  *mlp_share += share;
  hr_checked64 layer = hr_plus(hr_checked(depth->layer), hr_times(hr_checked(of_layer->layer), count));
  for (size_t part = 0; part < HR_FFN_PARTS; part++) {
    if (of_layer->column[part] == 0)
      continue;
    int64_t *sum = &depth->column[space->widths.of[group][part]];
    if (hr_checked_take(hr_plus(hr_checked(*sum), hr_times(hr_checked(of_layer->column[part]), count)), sum) != HR_OK)
      return false;
  }
  return hr_checked_take(layer, &depth->layer) == HR_OK;
}

bool hr_search_mix_layers(const hr_search_space *space, const hr_search_heads *heads, const hr_search_mlp_kinds *kinds,
                          int64_t layers, hr_search_depth *depth)
{
  const hr_model *model = &heads->model;
  depth->layers = layers;
  depth->layer = 0;
  memset(depth->column, 0, space->widths.count * sizeof *depth->column);
  depth->attention_ns = 0;
  memset(depth->mlp_share, 0, kinds->count * sizeof *depth->mlp_share);
  if (model->group_count == 1)
    return mix(space, heads, 0, layers, &depth->mlp_share[0], depth) && depth->column[0] > 0;
  const hr_model mixture = hr_reshape_layers(model, layers); /* its groups in the same order; some may have gone */
  size_t own = 0;
  for (size_t i = 0; i < mixture.group_count; i++, own++) {
    while (!hr_same_layer(&model->groups[own], &mixture.groups[i]))
      own++;
    if (!mix(space, heads, own, mixture.groups[i].count, &depth->mlp_share[kinds->of[own]], depth))
      return false;
  }
  return depth->column[0] > 0;
}
