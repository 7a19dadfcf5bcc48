/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters by part, counted weight by weight as the published checkpoints store them. */
#include "analysis/model/parameters.h"
#include "base/checked.h"
#include "base/error.h"

/* A linear layer from `in` to `out` features. */
static hr_checked64 linear(hr_checked64 in, hr_checked64 out, bool bias)
{
  hr_checked64 weight = hr_times(in, out.value);
  weight.overflow |= out.overflow;
  return bias ? hr_plus(weight, out) : weight;
}

/* Width of all heads together. */
static hr_checked64 heads_width(int64_t heads, int64_t dim)
{
  return hr_times(hr_checked(heads), dim);
}

static hr_checked64 attention_of_a_layer(const hr_model *m)
{
  hr_checked64 hidden = hr_checked(m->hidden);
  hr_checked64 q_width = heads_width(m->q_heads, m->qk_dim);
  hr_checked64 q = linear(hidden, q_width, m->q_bias);
  if (m->q_rank > 0) { /* two linear layers: hidden → q_rank → q_width; the second has the bias */
    hr_checked64 down = linear(hidden, hr_checked(m->q_rank), false);
    q = hr_plus(down, linear(hr_checked(m->q_rank), q_width, m->q_bias));
  }
  hr_checked64 k = linear(hidden, heads_width(m->k_heads, m->qk_dim), m->k_bias);
  hr_checked64 v = linear(hidden, heads_width(m->v_heads, m->v_dim), m->v_bias);
  hr_checked64 output = linear(heads_width(m->q_heads, m->v_dim), hidden, m->output_bias);
  return hr_plus(hr_plus(q, k), hr_plus(v, output));
}

static hr_checked64 mlp_of_a_layer(const hr_model *m)
{
  hr_checked64 hidden = hr_checked(m->hidden), width = hr_checked(m->mlp_width);
  hr_checked64 up = linear(hidden, width, m->mlp_bias);
  hr_checked64 gate = m->mlp_gated ? up : hr_checked(0);
  return hr_plus(hr_plus(up, gate), linear(width, hidden, m->mlp_bias));
}

static hr_checked64 qk_norms_of_a_layer(const hr_model *m)
{
  int64_t vectors[] = {
      [HR_QK_NORM_NONE] = 0,
      [HR_QK_NORM_SHARED] = 2,
      [HR_QK_NORM_PER_HEAD] = m->q_heads + m->k_heads,
      [HR_QK_NORM_FULL] = m->q_heads + m->k_heads,
  };
  hr_checked64 weights = hr_times(hr_checked(m->qk_dim), vectors[m->qk_norm]);
  return m->qk_norm_bias ? hr_times(weights, 2) : weights;
}

static hr_checked64 norms(const hr_model *m)
{
  hr_checked64 each = hr_times(hr_checked(m->hidden), (m->norm_weight ? 1 : 0) + (m->norm_weight && m->norm_bias));
  hr_checked64 in_layers = hr_times(hr_plus(hr_times(each, m->layer_norms), qk_norms_of_a_layer(m)), m->layers);
  return hr_plus(in_layers, hr_times(each, m->final_norm + m->embedding_norm));
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
  int64_t width = m->embedding_dim > 0 ? m->embedding_dim : m->hidden;
  hr_checked64 map = m->tied_embeddings ? hr_checked(0) : hr_times(hr_checked(m->vocabulary), width);
  return m->logit_bias ? hr_plus(map, hr_checked(m->vocabulary)) : map;
}

hr_status hr_count_parameters(const hr_model *model, hr_parameters *parameters, hr_error *error)
{
  hr_parameters counted;
  const struct {
    hr_checked64 count;
    int64_t *place;
    const char *what;
  } parts[] = {
      {embedding(model), &counted.embedding, "the token embedding"},
      {hr_times(hr_checked(model->position_rows), model->hidden), &counted.position, "the position table"},
      {hr_times(attention_of_a_layer(model), model->layers), &counted.attention, "attention"},
      {hr_times(mlp_of_a_layer(model), model->layers), &counted.mlp, "the MLP"},
      {norms(model), &counted.norm, "the norms"},
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
  counted.excluding_embeddings = counted.attention + counted.mlp + counted.norm;
  *parameters = counted;
  return HR_OK;
}
