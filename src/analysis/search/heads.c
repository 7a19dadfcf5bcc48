/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/search/heads.h"

#include "base/checked.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/split.h"

#include <headroom/experimental/model.h>

/* Heads and ranks of latent attention stay: which of them a smaller one could replace is not known. */
bool hr_search_keeps_heads(const hr_model *model)
{
  return hr_model_main_group(model)->latent.q_heads > 0;
}

hr_mixer_attention hr_search_own_heads(const hr_model *model)
{
  return hr_heads_of(hr_model_main_group(model));
}

/* Recurrent mixers that stay as they are have been the caller's choice, whatever they spread over. */
static bool is_served(const hr_search_space *space, const hr_model *model)
{
  for (size_t i = 0; i < space->served_count; i++) {
    if (!hr_split_of(model, space->served[i], space->workload->expert_parallel, HR_SPLIT_HEADS).whole)
      return false;
  }
  for (size_t i = 0; i < model->group_count; i++) {
    int64_t scan = model->groups[i].scan.heads;
    if (scan != space->model->groups[i].scan.heads && scan % space->share != 0)
      return false;
  }
  return model->hidden % space->share == 0;
}

static bool with_attention(const hr_search_space *space, int64_t hidden, const hr_search_layout *layout,
                           hr_model *model)
{
  const hr_mixer_attention own = hr_search_own_heads(space->model);
  if (hr_search_keeps_heads(space->model)) {
    *model = *space->model;
    model->hidden = hidden;
    return true;
  }
  if (!hr_reshape_attention(space->model, hidden, layout->width, layout->q_heads, layout->follow, model))
    return false;
  if (layout->follow != HR_KV_EQUAL)
    return true;
  /* V heads keep their ratio to K heads, unless one ratio for both was asked for. */
  int64_t v_heads = layout->k_heads;
  if (space->query_heads_per_kv == 0) {
    hr_checked64 scaled = hr_times(hr_checked(layout->k_heads), own.v_heads);
    if (scaled.overflow || scaled.value % own.k_heads != 0)
      return false;
    v_heads = scaled.value / own.k_heads;
  }
  return hr_set_kv_heads(model, layout->k_heads, v_heads);
}

bool hr_search_with_heads(const hr_search_space *space, int64_t hidden, const hr_search_layout *layout, hr_model *model)
{
  return with_attention(space, hidden, layout, model) && hr_reshape_scans(space->model, model);
}

static bool is_listed(const hr_search_layouts *layouts, const hr_search_layout *layout)
{
  for (size_t i = 0; i < layouts->count; i++) {
    const hr_search_layout *other = &layouts->layouts[i];
    if (other->q_heads == layout->q_heads && other->head_dim == layout->head_dim && other->k_heads == layout->k_heads)
      return true;
  }
  return false;
}

/* False if there are no such heads or they do not spread. */
static bool add_layout(const hr_search_space *space, int64_t hidden, hr_search_layout layout,
                       hr_search_layouts *layouts)
{
  hr_model model;
  if (layouts->count == HR_SEARCH_LAYOUTS_MAX || !hr_search_with_heads(space, hidden, &layout, &model) ||
      !is_served(space, &model))
    return false;
  layout.k_heads = hr_heads_of(hr_model_main_group(&model)).k_heads;
  if (!is_listed(layouts, &layout))
    layouts->layouts[layouts->count++] = layout;
  return true;
}

static bool add_kv_heads(const hr_search_space *space, int64_t hidden, hr_search_layout layout, int64_t k_heads,
                         hr_search_layouts *layouts)
{
  layout.follow = HR_KV_EQUAL;
  layout.k_heads = k_heads;
  return k_heads > 0 && layout.q_heads % k_heads == 0 && add_layout(space, hidden, layout, layouts);
}

/* The number of K heads nearest to the model's ratio, of those that spread. */
static bool add_nearest_kv_heads(const hr_search_space *space, int64_t hidden, hr_search_layout layout,
                                 hr_search_layouts *layouts)
{
  const hr_mixer_attention own = hr_search_own_heads(space->model);
  int64_t ideal = hr_max64((int64_t)((double)own.k_heads * (double)layout.q_heads / (double)own.q_heads + 0.5), 1);
  bool added = false;
  for (int64_t away = 0; !added && away < hr_min64(layout.q_heads, HR_SEARCH_LAYOUTS_MAX); away++)
    added = add_kv_heads(space, hidden, layout, ideal + away, layouts) ||
            (ideal > away && add_kv_heads(space, hidden, layout, ideal - away, layouts));
  return added;
}

/* The K and V heads that the options allow beside so many query heads. */
static bool add_query_heads(const hr_search_space *space, int64_t hidden, hr_search_layout layout,
                            hr_search_layouts *layouts)
{
  const hr_mixer_attention own = hr_search_own_heads(space->model);
  int64_t ratio = space->query_heads_per_kv;
  if (ratio > 0)
    return layout.q_heads % ratio == 0 && add_kv_heads(space, hidden, layout, layout.q_heads / ratio, layouts);
  layout.follow = HR_KV_RATIO;
  bool added = add_layout(space, hidden, layout, layouts);
  if (own.k_heads == own.q_heads && own.v_heads == own.q_heads && !space->varies_kv_heads)
    return added;
  layout.follow = HR_KV_COUNT;
  added |= add_layout(space, hidden, layout, layouts);
  for (int64_t i = 1; space->varies_kv_heads && i <= hr_min64(layout.q_heads, HR_SEARCH_LAYOUTS_MAX); i++)
    added |= add_kv_heads(space, hidden, layout, i, layouts);
  return added || add_nearest_kv_heads(space, hidden, layout, layouts);
}

/* Heads of each size that together are `width` wide. */
static void add_width(const hr_search_space *space, int64_t hidden, int64_t width, hr_width_ratio ratio,
                      hr_search_layouts *layouts)
{
  for (size_t i = 0; i < space->head_dim_count; i++) {
    int64_t dim = space->head_dims[i], heads = width / dim;
    hr_search_layout layout = {.q_heads = heads, .head_dim = dim, .width = ratio};
    if (width % dim == 0 && heads >= space->heads_min && heads <= space->heads_max &&
        !add_query_heads(space, hidden, layout, layouts))
      layouts->unserved++;
  }
}

/* Tries as many heads as the model has, of each other size. */
static void add_sizes(const hr_search_space *space, int64_t hidden, hr_search_layouts *layouts)
{
  const hr_mixer_attention own = hr_search_own_heads(space->model);
  if (own.q_heads < space->heads_min || own.q_heads > space->heads_max)
    return;
  for (size_t i = 0; i < space->head_dim_count; i++) {
    int64_t dim = space->head_dims[i];
    hr_search_layout layout = {.q_heads = own.q_heads, .head_dim = dim, .width = {dim, own.qk_dim}};
    if (dim != own.qk_dim && !add_query_heads(space, hidden, layout, layouts))
      layouts->unserved++;
  }
}

void hr_search_list_layouts(const hr_search_space *space, int64_t hidden, hr_search_layouts *layouts)
{
  const hr_mixer_attention own = hr_search_own_heads(space->model);
  int64_t own_hidden = space->model->hidden;
  layouts->count = 0;
  if (hr_search_keeps_heads(space->model)) {
    bool allowed = own.q_heads >= space->heads_min && own.q_heads <= space->heads_max;
    for (size_t i = 0; i < space->head_dim_count && allowed; i++) {
      if (space->head_dims[i] == own.qk_dim)
        add_layout(space, hidden, (hr_search_layout){.q_heads = own.q_heads, .head_dim = own.qk_dim}, layouts);
    }
    return;
  }
  hr_checked64 own_width = hr_times(hr_checked(own.q_heads), own.qk_dim), width = hr_times(own_width, hidden);
  if (!width.overflow && width.value % own_hidden == 0)
    add_width(space, hidden, width.value / own_hidden, (hr_width_ratio){hidden, own_hidden}, layouts);
  if (own_width.overflow || !space->frees_width)
    return;
  if (hidden != own_hidden)
    add_width(space, hidden, own_width.value, (hr_width_ratio){1, 1}, layouts);
  add_sizes(space, hidden, layouts);
}
