/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/model/reshape.h"

#include "base/checked.h"

/* value · numerator / denominator if that is a positive integer that fits, else 0. */
static int64_t exact_ratio(int64_t value, int64_t numerator, int64_t denominator)
{
  hr_checked64 product = hr_times(hr_checked(value), numerator);
  return product.overflow || denominator < 1 || product.value % denominator != 0 ? 0 : product.value / denominator;
}

static int64_t scaled_heads(int64_t heads, int64_t q_heads, int64_t new_q_heads)
{
  return heads == 1 ? 1 : exact_ratio(heads, new_q_heads, q_heads);
}

/* Keeps the ratio of q_heads · dim to hidden. */
static int64_t scaled_dim(const hr_model *model, int64_t dim, int64_t hidden, int64_t q_heads)
{
  hr_checked64 width = hr_times(hr_checked(model->q_heads), dim);
  int64_t new_width = width.overflow ? 0 : exact_ratio(width.value, hidden, model->hidden);
  return exact_ratio(new_width, 1, q_heads);
}

bool hr_reshape_heads(const hr_model *model, int64_t hidden, int64_t q_heads, hr_model *changed)
{
  hr_model shape = *model;
  shape.hidden = hidden;
  shape.q_heads = q_heads;
  shape.k_heads = scaled_heads(model->k_heads, model->q_heads, q_heads);
  shape.v_heads = scaled_heads(model->v_heads, model->q_heads, q_heads);
  shape.qk_dim = scaled_dim(model, model->qk_dim, hidden, q_heads);
  shape.v_dim = scaled_dim(model, model->v_dim, hidden, q_heads);
  if (shape.k_heads < 1 || shape.v_heads < 1 || shape.qk_dim < 1 || shape.v_dim < 1)
    return false;
  if (q_heads % shape.k_heads != 0 || q_heads % shape.v_heads != 0)
    return false;
  if (model->rotary_dim > 0) {
    double rotary = (double)model->rotary_dim * (double)shape.qk_dim / (double)model->qk_dim;
    shape.rotary_dim = hr_min64(hr_max64((int64_t)rotary / 2 * 2, 2), shape.qk_dim);
  }
  if (model->q_rank > 0 && hidden != model->hidden) {
    double rank = (double)model->q_rank * (double)hidden / (double)model->hidden;
    shape.q_rank = hr_max64((int64_t)(rank / 64 + 0.5), 1) * 64;
  }
  *changed = shape;
  return true;
}

hr_model hr_reshape_layers(const hr_model *model, int64_t layers)
{
  hr_model shape = *model;
  shape.layers = layers;
  double share = (double)model->window_layers / (double)model->layers;
  shape.window_layers = hr_min64((int64_t)(share * (double)layers + 0.5), layers);
  return shape;
}
