/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters by part, counted weight by weight as the published checkpoints store them. */
#include "model/layers/parameters.h"
#include "base/error.h"
#include "model/layers/layer_kinds.h"
#include "model/layers/sizes.h"

static hr_checked64 hidden_norms(const hr_model *m, int64_t norms)
{
  return hr_times(hr_times(hr_checked(m->hidden), (m->norm_weight ? 1 : 0) + (m->norm_weight && m->norm_bias)), norms);
}

/* The `count` weights of residual streams need a linear layer of all streams with a bias, and a scale for each of
 * `kinds`. */
static hr_checked64 connection(const hr_model *m, int64_t count, int64_t kinds)
{
  hr_checked64 linear = hr_times(hr_plus(hr_times(hr_checked(m->hidden), m->residual_streams), hr_checked(1)), count);
  return m->residual_streams == 0 ? hr_checked(0) : hr_plus(linear, hr_checked(kinds));
}

/* Before and behind a mixer or network (arXiv 2512.24880): weights of its input, of its output and of the streams. */
static hr_checked64 layer_connection(const hr_model *m)
{
  return connection(m, m->residual_streams * (2 + m->residual_streams), 3);
}

hr_checked64 hr_final_connection(const hr_model *m)
{
  return m->final_norm ? connection(m, m->residual_streams, 1) : hr_checked(0);
}

static hr_layer_parameters count_layer(const hr_model *model, const hr_layer_group *layer)
{
  hr_layer_parameters of_layer = {.norm = hidden_norms(model, layer->norms)};
  for (size_t i = 0; i < hr_layer_kind_count(); i++) {
    if (hr_layer_kind_at(i)->present(layer))
      hr_layer_kind_at(i)->parameters(model, layer, &of_layer);
  }
  if (hr_has_mixer(layer))
    of_layer.attention = hr_plus(of_layer.attention, layer_connection(model));
  if (hr_has_ffn(layer))
    of_layer.mlp = hr_plus(of_layer.mlp, layer_connection(model));
  return of_layer;
}

hr_checked64 hr_count_layer(const hr_model *model, const hr_layer_group *layer)
{
  hr_layer_parameters of_layer = count_layer(model, layer);
  hr_checked64 mixers = hr_plus(of_layer.attention, of_layer.scan);
  return hr_plus(hr_plus(mixers, of_layer.mlp), hr_plus(of_layer.experts, of_layer.norm));
}

hr_checked64 hr_count_routed(const hr_model *model, const hr_layer_group *layer)
{
  return count_layer(model, layer).experts;
}

/* Counts all layers; the norms include those outside of layers. */
static hr_layer_parameters count_layers(const hr_model *model)
{
  hr_layer_parameters sum = {.norm = hidden_norms(model, model->final_norm + model->embedding_norm)};
  sum.norm = hr_plus(sum.norm, hr_final_connection(model));
  for (size_t i = 0; i < model->group_count; i++) {
    int64_t count = model->groups[i].count;
    hr_layer_parameters of_layer = count_layer(model, &model->groups[i]);
    sum.attention = hr_plus(sum.attention, hr_times(of_layer.attention, count));
    sum.scan = hr_plus(sum.scan, hr_times(of_layer.scan, count));
    sum.mlp = hr_plus(sum.mlp, hr_times(of_layer.mlp, count));
    sum.norm = hr_plus(sum.norm, hr_times(of_layer.norm, count));
    sum.experts = hr_plus(sum.experts, hr_times(of_layer.experts, count));
    sum.idle_experts = hr_plus(sum.idle_experts, hr_times(of_layer.idle_experts, count));
  }
  return sum;
}

static hr_checked64 embedding(const hr_model *m)
{
  if (m->embedding_dim == 0 || m->embedding_dim == m->hidden)
    return hr_times(hr_checked(m->vocabulary), m->hidden);
  hr_checked64 table = hr_times(hr_checked(m->vocabulary), m->embedding_dim);
  hr_checked64 projection = hr_times(hr_checked(m->embedding_dim), m->hidden);
  return hr_plus(table, hr_times(projection, 2)); /* one into the layers, one out of them */
}

static hr_checked64 logit(const hr_model *m)
{
  int64_t outputs[] = {[HR_HEAD_LANGUAGE] = m->vocabulary, [HR_HEAD_CLASSES] = m->classes, [HR_HEAD_NONE] = 0};
  hr_checked64 width = hr_checked(m->embedding_dim > 0 ? m->embedding_dim : m->hidden);
  hr_checked64 all = hr_linear_parameters(width, hr_checked(outputs[m->head]), m->logit_bias);
  bool shared = m->head == HR_HEAD_LANGUAGE && m->tied_embeddings;
  return shared ? hr_checked(m->logit_bias ? m->vocabulary : 0) : all;
}

hr_status hr_count_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error)
{
  hr_parameters counted;
  hr_layer_parameters layers = count_layers(model);
  const struct {
    hr_checked64 count;
    int64_t *place;
    const char *what;
  } parts[] = {
      {embedding(model), &counted.embedding, "the token embedding"},
      {hr_times(hr_checked(model->position_rows), model->hidden), &counted.position, "the position table"},
      {layers.attention, &counted.attention, "attention"},
      {layers.scan, &counted.scan, "the scans"},
      {layers.mlp, &counted.mlp, "the MLP"},
      {layers.experts, &counted.experts, "the experts"},
      {layers.norm, &counted.norm, "the norms"},
      {logit(model), &counted.logit, "the logits"},
  };
  hr_checked64 total = hr_checked(0);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (hr_checked_take(parts[i].count, parts[i].place) != HR_OK)
      return hr_fail(error, HR_ERROR_OVERFLOW, "the parameters of %s do not fit into 63 bits", parts[i].what);
    total = hr_plus(total, parts[i].count);
  }
  if (hr_checked_take(total, &counted.total) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the parameters of the model do not fit into 63 bits");
  counted.excluding_embeddings = counted.attention + counted.scan + counted.mlp + counted.experts + counted.norm;
  counted.active = counted.total - layers.idle_experts.value; /* fewer than all experts */
  *parameters = counted;
  return HR_OK;
}
