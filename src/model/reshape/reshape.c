/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reshape/reshape.h"

#include "base/checked.h"
#include "model/config/families.h"

#include <headroom/experimental/model.h>
#include <math.h>

/* value · numerator / denominator if that is a positive integer that fits, else 0. */
static int64_t exact_ratio(int64_t value, int64_t numerator, int64_t denominator)
{
  hr_checked64 product = hr_times(hr_checked(value), numerator);
  return product.overflow || denominator < 1 || product.value % denominator != 0 ? 0 : product.value / denominator;
}

static int64_t follow_heads(int64_t heads, int64_t q_heads, int64_t new_q_heads, hr_kv_follow follow)
{
  if (follow == HR_KV_EQUAL)
    return new_q_heads;
  return heads == 1 || follow == HR_KV_COUNT ? heads : exact_ratio(heads, new_q_heads, q_heads);
}

const hr_mixer_attention *hr_main_attention(const hr_model *model)
{
  return &hr_model_main_group(model)->attention;
}

const hr_ffn_dense *hr_main_dense(const hr_model *model)
{
  return &hr_model_main_group(model)->dense;
}

/* The model with q_heads heads, which together are `ratio` times as wide. */
static int64_t scaled_dim(const hr_mixer_attention *own, int64_t dim, hr_width_ratio ratio, int64_t q_heads)
{
  hr_checked64 width = hr_times(hr_checked(own->q_heads), dim);
  int64_t new_width = width.overflow ? 0 : exact_ratio(width.value, ratio.after, ratio.before);
  return exact_ratio(new_width, 1, q_heads);
}

/* The rotary part of heads of another size, an even number. */
static int64_t scaled_rotary(const hr_mixer_attention *own, int64_t qk_dim)
{
  double rotary = (double)own->rotary_dim * (double)qk_dim / (double)own->qk_dim;
  return own->rotary_dim == 0 ? 0 : hr_min64(hr_max64((int64_t)rotary / 2 * 2, 2), qk_dim);
}

static bool reshape_attention(const hr_mixer_attention *own, hr_width_ratio width, int64_t q_heads, hr_kv_follow follow,
                              hr_mixer_attention *changed)
{
  hr_mixer_attention shape = *own;
  if (q_heads < 1)
    return false;
  shape.q_heads = q_heads;
  shape.k_heads = follow_heads(own->k_heads, own->q_heads, q_heads, follow);
  shape.v_heads = follow_heads(own->v_heads, own->q_heads, q_heads, follow);
  shape.qk_dim = scaled_dim(own, own->qk_dim, width, q_heads);
  shape.v_dim = scaled_dim(own, own->v_dim, width, q_heads);
  if (shape.k_heads < 1 || shape.v_heads < 1 || shape.qk_dim < 1 || shape.v_dim < 1)
    return false;
  if (q_heads % shape.k_heads != 0 || q_heads % shape.v_heads != 0)
    return false;
  shape.rotary_dim = scaled_rotary(own, shape.qk_dim);
  if (own->q_rank > 0 && width.after != width.before) {
    double rank = (double)own->q_rank * (double)width.after / (double)width.before;
    shape.q_rank = hr_max64((int64_t)(rank / 64 + 0.5), 1) * 64;
  }
  *changed = shape;
  return true;
}

bool hr_reshape_attention(const hr_model *model, int64_t hidden, hr_width_ratio width, int64_t q_heads,
                          hr_kv_follow follow, hr_model *changed)
{
  int64_t own_heads = hr_main_attention(model)->q_heads;
  if (own_heads < 1)
    return false;
  hr_model shape = *model;
  shape.hidden = hidden;
  for (size_t i = 0; i < model->group_count; i++) {
    const hr_mixer_attention *own = &model->groups[i].attention;
    if (own->q_heads > 0 && !reshape_attention(own, width, exact_ratio(own->q_heads, q_heads, own_heads), follow,
                                               &shape.groups[i].attention))
      return false;
  }
  *changed = shape;
  return true;
}

bool hr_reshape_heads(const hr_model *model, int64_t hidden, int64_t q_heads, hr_model *changed)
{
  return hr_reshape_attention(model, hidden, (hr_width_ratio){hidden, model->hidden}, q_heads, HR_KV_RATIO, changed);
}

bool hr_reshape_scans(const hr_model *own, hr_model *model)
{
  hr_model changed = *model;
  for (size_t i = 0; i < own->group_count && model->hidden != own->hidden; i++) {
    const hr_mixer_scan *before = &own->groups[i].scan;
    hr_mixer_scan *scan = &changed.groups[i].scan;
    if (before->heads == 0 || !hr_scan_follows_hidden(own, before))
      continue;
    scan->heads = exact_ratio(before->heads, model->hidden, own->hidden);
    if (scan->heads < 1 || (scan->groups > 0 && scan->heads % scan->groups != 0))
      return false;
    double rank = (double)before->rank * (double)model->hidden / (double)own->hidden;
    scan->rank = before->rank > 0 ? hr_max64((int64_t)(rank + 0.5), 1) : 0;
  }
  *model = changed;
  return true;
}

static void drop_empty_groups(hr_model *model)
{
  size_t kept = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    if (model->groups[i].count > 0)
      model->groups[kept++] = model->groups[i];
  }
  model->group_count = kept;
}

hr_model hr_reshape_layers(const hr_model *model, int64_t layers)
{
  hr_model shape = *model;
  double own_layers = (double)hr_model_layers(model), before = 0;
  int64_t given = 0; /* rounds the sums, so that the counts add up to `layers` */
  for (size_t i = 0; i < model->group_count; i++) {
    before += (double)model->groups[i].count;
    int64_t sum = (int64_t)(before / own_layers * (double)layers + 0.5);
    shape.groups[i].count = hr_min64(sum, layers) - given;
    given += shape.groups[i].count;
  }
  drop_empty_groups(&shape);
  return shape;
}

bool hr_set_kv_heads(hr_model *model, int64_t k_heads, int64_t v_heads)
{
  const hr_mixer_attention main = *hr_main_attention(model);
  hr_model changed = *model;
  for (size_t i = 0; i < changed.group_count; i++) {
    hr_mixer_attention *attention = &changed.groups[i].attention;
    if (attention->q_heads == 0)
      continue;
    attention->k_heads = exact_ratio(k_heads, attention->q_heads, main.q_heads);
    attention->v_heads = exact_ratio(v_heads, attention->q_heads, main.q_heads);
    if (attention->k_heads < 1 || attention->v_heads < 1 || attention->q_heads % attention->k_heads != 0 ||
        attention->q_heads % attention->v_heads != 0)
      return false;
  }
  *model = changed;
  return true;
}

bool hr_halve_k_heads(hr_model *model)
{
  hr_model changed = *model;
  for (size_t i = 0; i < changed.group_count; i++) {
    hr_mixer_attention *attention = &changed.groups[i].attention;
    if (attention->qk_dim % 2 != 0)
      return false;
    if (attention->q_heads == 0)
      continue;
    attention->rotary_dim = scaled_rotary(attention, attention->qk_dim / 2);
    attention->qk_dim /= 2;
  }
  *model = changed;
  return true;
}

int64_t hr_ffn_width(const hr_layer_group *layer, hr_ffn_part part)
{
  bool experts = layer->experts.experts > 0;
  const int64_t widths[HR_FFN_PARTS] = {
      [HR_FFN_DENSE] = layer->dense.width,
      [HR_FFN_EXPERTS] = experts ? layer->experts.width : 0,
      [HR_FFN_SHARED] = experts ? layer->experts.shared_width : 0,
  };
  return widths[part];
}

int64_t hr_main_mlp_width(const hr_model *model)
{
  const hr_layer_group *main = hr_model_main_group(model);
  int64_t of_expert = hr_ffn_width(main, HR_FFN_EXPERTS);
  return of_expert > 0 ? of_expert : main->dense.width;
}

int64_t hr_scale_mlp_width(int64_t own, int64_t main, int64_t width, int64_t granule)
{
  if (own == 0 || width == main)
    return own;
  if (own == main)
    return width;
  double scaled = (double)own * (double)width / (double)main;
  double granules = fmax(floor(scaled / (double)granule + 0.5), 1);
  return (int64_t)fmin(granules * (double)granule, 0x1p62);
}

void hr_set_mlp_width(hr_model *model, int64_t width, int64_t granule)
{
  int64_t main = hr_main_mlp_width(model);
  for (size_t i = 0; i < model->group_count && main > 0; i++) {
    hr_layer_group *layer = &model->groups[i];
    int64_t *const widths[HR_FFN_PARTS] = {&layer->dense.width, &layer->experts.width, &layer->experts.shared_width};
    for (size_t part = 0; part < HR_FFN_PARTS; part++)
      *widths[part] = hr_scale_mlp_width(*widths[part], main, width, granule);
  }
}
