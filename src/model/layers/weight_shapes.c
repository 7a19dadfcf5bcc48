/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/weight_shapes.h"

#include <string.h>

/* A weight that is there if `present`. */
static void add(hr_weight_shapes *to, hr_weight_role role, bool present, int64_t rows, int64_t columns)
{
  to->of[role] = (hr_weight_shape){1, present ? rows : 0, columns};
}

static void add_linear(hr_weight_shapes *to, hr_weight_role role, int64_t outputs, int64_t inputs, bool bias)
{
  add(to, role, true, outputs, inputs);
  add(to, role + 1, bias, 1, outputs);
}

/* Norms have their bias behind their weight, too. */
static void add_norm(const hr_model *model, hr_weight_shapes *to, hr_weight_role role, bool present, int64_t columns)
{
  add(to, role, present && model->norm_weight, 1, columns);
  add(to, role + 1, present && model->norm_weight && model->norm_bias, 1, columns);
}

/* Hyper-connections have their biases and their scales behind their matrix. */
static void add_connection(const hr_model *model, hr_weight_shapes *to, hr_weight_role role, bool present,
                           int64_t weights, int64_t scales)
{
  const bool streams = present && model->residual_streams > 0;
  add(to, role, streams, weights, model->residual_streams * model->hidden);
  add(to, role + 1, streams, 1, weights);
  add(to, role + 2, streams, 1, scales);
}

static void outside_layers(const hr_model *m, hr_weight_shapes *to)
{
  int64_t width = m->embedding_dim > 0 ? m->embedding_dim : m->hidden;
  const int64_t outputs[] = {[HR_HEAD_LANGUAGE] = m->vocabulary, [HR_HEAD_CLASSES] = m->classes, [HR_HEAD_NONE] = 0};
  bool tied = m->head == HR_HEAD_LANGUAGE && m->tied_embeddings;
  add(to, HR_WEIGHT_TOKEN_EMBEDDING, true, m->vocabulary, width);
  add(to, HR_WEIGHT_POSITION_EMBEDDING, true, m->position_rows, m->hidden);
  add_norm(m, to, HR_WEIGHT_EMBEDDING_NORM, m->embedding_norm, width);
  add(to, HR_WEIGHT_EMBEDDING_PROJECTION_IN, width != m->hidden, m->hidden, width);
  add(to, HR_WEIGHT_EMBEDDING_PROJECTION_OUT, width != m->hidden, width, m->hidden);
  add_connection(m, to, HR_WEIGHT_FINAL_HC, m->final_norm, m->residual_streams, 1);
  add_norm(m, to, HR_WEIGHT_FINAL_NORM, m->final_norm, m->hidden);
  add(to, HR_WEIGHT_LOGIT, !tied, outputs[m->head], width);
  add(to, HR_WEIGHT_LOGIT_BIAS, m->logit_bias && outputs[m->head] > 0, 1, outputs[m->head]);
}

/* ---- layers ---- */

static int64_t gate_width(const hr_mixer_attention *m)
{
  return !m->output_gate ? 0 : m->q_heads * (m->gate_per_head ? 1 : m->v_dim);
}

static void norms_of_heads(const hr_model *model, const hr_mixer_attention *m, hr_weight_shapes *to)
{
  const bool all = m->qk_norm == HR_QK_NORM_PER_HEAD || m->qk_norm == HR_QK_NORM_FULL,
             keys = !m->shared_kv || m->shared_k_norm;
  const bool none = m->qk_norm == HR_QK_NORM_NONE || m->qk_norm == HR_QK_NORM_ROTATED;
  const bool present = !none && model->norm_weight;
  const int64_t q = (all ? m->q_heads : 1) * m->qk_dim, k = (all ? m->k_heads : 1) * m->qk_dim;
  add(to, HR_WEIGHT_Q_NORM, present, 1, q);
  add(to, HR_WEIGHT_Q_NORM_BIAS, present && m->qk_norm_bias, 1, q);
  add(to, HR_WEIGHT_K_NORM, present && keys, 1, k);
  add(to, HR_WEIGHT_K_NORM_BIAS, present && keys && m->qk_norm_bias, 1, k);
}

static void attention(const hr_model *model, const hr_mixer_attention *m, hr_weight_shapes *to)
{
  const int64_t hidden = model->hidden, q = m->q_heads * m->qk_dim, k = m->k_heads * m->qk_dim,
                v = m->v_heads * m->v_dim, gate = gate_width(m);
  const bool keys = !m->shared_kv, values = keys && !m->v_is_k;
  add(to, HR_WEIGHT_Q_DOWN, m->q_rank > 0, m->q_rank, hidden);
  add(to, HR_WEIGHT_Q, true, q + gate, m->q_rank > 0 ? m->q_rank : hidden);
  add(to, HR_WEIGHT_Q_BIAS, m->q_bias, 1, m->gate_unbiased ? q : q + gate);
  add(to, HR_WEIGHT_K, keys, k, hidden);
  add(to, HR_WEIGHT_K_BIAS, keys && m->k_bias, 1, k);
  add(to, HR_WEIGHT_V, values, v, hidden);
  add(to, HR_WEIGHT_V_BIAS, values && m->v_bias, 1, v);
  add(to, HR_WEIGHT_SINKS, m->sinks, 1, m->q_heads);
  add_linear(to, HR_WEIGHT_O, hidden, m->q_heads * m->v_dim, m->output_bias);
  norms_of_heads(model, m, to);
  add(to, HR_WEIGHT_INDEX_Q, m->index_topk > 0, m->k_heads * m->index_dim, hidden);
  add(to, HR_WEIGHT_INDEX_K, m->index_topk > 0, m->index_dim, hidden);
  add(to, HR_WEIGHT_INDEX_Q_NORM, m->index_topk > 0, 1, m->index_dim);
  add(to, HR_WEIGHT_INDEX_K_NORM, m->index_topk > 0, 1, m->index_dim);
}

static void latent_attention(const hr_model *model, const hr_mixer_latent *m, hr_weight_shapes *to)
{
  const int64_t hidden = model->hidden, q = m->q_heads * (m->nope_dim + m->rope_dim), kv = m->kv_rank + m->rope_dim;
  add(to, HR_WEIGHT_Q_DOWN, m->q_rank > 0, m->q_rank, hidden);
  add(to, HR_WEIGHT_Q_DOWN_BIAS, m->q_rank > 0 && m->down_bias, 1, m->q_rank);
  add(to, HR_WEIGHT_Q_RANK_NORM, m->q_rank > 0, 1, m->q_rank);
  add(to, HR_WEIGHT_Q, true, q, m->q_rank > 0 ? m->q_rank : hidden);
  add_linear(to, HR_WEIGHT_KV_DOWN, kv, hidden, m->down_bias);
  add(to, HR_WEIGHT_KV_RANK_NORM, true, 1, m->kv_rank);
  add(to, HR_WEIGHT_KV_UP, true, m->q_heads * (m->nope_dim + m->v_dim), m->kv_rank);
  add(to, HR_WEIGHT_INDEX_Q, m->index_heads > 0, m->index_heads * m->index_dim, m->q_rank);
  add(to, HR_WEIGHT_INDEX_K, m->index_heads > 0, m->index_dim, hidden);
  add(to, HR_WEIGHT_INDEX_K_NORM, m->index_heads > 0, 1, m->index_dim);
  add(to, HR_WEIGHT_INDEX_K_NORM_BIAS, m->index_heads > 0, 1, m->index_dim);
  add(to, HR_WEIGHT_INDEX_WEIGHTS, m->index_heads > 0, m->index_heads, hidden);
  add_linear(to, HR_WEIGHT_O, hidden, m->q_heads * m->v_dim, m->output_bias);
}

static void compressed_attention(const hr_model *model, const hr_mixer_compressed *m, hr_weight_shapes *to)
{
  const int64_t hidden = model->hidden, columns = (m->overlaps ? 2 : 1) * m->head_dim;
  const bool entries = m->ratio > 0, index = m->index_heads > 0;
  add(to, HR_WEIGHT_Q_DOWN, true, m->q_rank, hidden);
  add(to, HR_WEIGHT_Q_RANK_NORM, true, 1, m->q_rank);
  add(to, HR_WEIGHT_Q, true, m->q_heads * m->head_dim, m->q_rank);
  add(to, HR_WEIGHT_KV_DOWN, true, m->head_dim, hidden);
  add(to, HR_WEIGHT_KV_RANK_NORM, true, 1, m->head_dim);
  add(to, HR_WEIGHT_SINKS, true, 1, m->q_heads);
  add(to, HR_WEIGHT_COMPRESS, entries, columns, hidden);
  add(to, HR_WEIGHT_COMPRESS_GATE, entries, columns, hidden);
  add(to, HR_WEIGHT_COMPRESS_POSITIONS, entries, m->ratio, columns);
  add(to, HR_WEIGHT_COMPRESS_NORM, entries, 1, m->head_dim);
  add(to, HR_WEIGHT_INDEX_Q, index, m->index_heads * m->index_dim, m->q_rank);
  add(to, HR_WEIGHT_INDEX_K, index, 2 * m->index_dim, hidden);
  add(to, HR_WEIGHT_INDEX_K_GATE, index, 2 * m->index_dim, hidden);
  add(to, HR_WEIGHT_INDEX_POSITIONS, index, m->ratio, 2 * m->index_dim);
  add(to, HR_WEIGHT_INDEX_K_NORM, index, 1, m->index_dim);
  add(to, HR_WEIGHT_INDEX_WEIGHTS, index, m->index_heads, hidden);
  add(to, HR_WEIGHT_O_DOWN, true, m->o_groups * m->o_rank, m->q_heads / m->o_groups * m->head_dim);
  add(to, HR_WEIGHT_O, true, hidden, m->o_groups * m->o_rank);
}

static void dense(const hr_model *model, const hr_ffn_dense *m, hr_weight_shapes *to)
{
  add_linear(to, HR_WEIGHT_UP, m->width, model->hidden, m->bias);
  if (m->gated)
    add_linear(to, HR_WEIGHT_GATE, m->width, model->hidden, m->bias);
  add_linear(to, HR_WEIGHT_DOWN, model->hidden, m->width, m->bias);
  add(to, HR_WEIGHT_ACTIVATION, m->activation_parameters > 0, 1, m->activation_parameters);
}

/* Shared experts are one network. A bias that only chooses may be a buffer, which is no parameter. */
static void experts(const hr_model *model, const hr_ffn_experts *m, hr_weight_shapes *to)
{
  const int64_t hidden = model->hidden, columns = m->latent > 0 ? m->latent : hidden;
  add_linear(to, HR_WEIGHT_ROUTER, m->experts, hidden, m->router_bias || model->numerics.router.bias_chooses);
  add_linear(to, HR_WEIGHT_EXPERT_UP, m->width, columns, m->bias);
  if (m->gated)
    add_linear(to, HR_WEIGHT_EXPERT_GATE, m->width, columns, m->bias);
  add_linear(to, HR_WEIGHT_EXPERT_DOWN, columns, m->width, m->bias);
  for (int role = HR_WEIGHT_EXPERT_UP; role <= HR_WEIGHT_EXPERT_DOWN_BIAS; role++)
    to->of[role].count = m->held > 0 ? m->held : m->experts;
  if (m->latent > 0) {
    add_linear(to, HR_WEIGHT_EXPERT_LATENT_DOWN, m->latent, hidden, m->latent_bias);
    add_linear(to, HR_WEIGHT_EXPERT_LATENT_UP, hidden, m->latent, m->latent_bias);
  }
  add_norm(model, to, HR_WEIGHT_EXPERTS_NORM, m->output_norm, hidden);
  if (m->shared_width == 0)
    return;
  add_linear(to, HR_WEIGHT_SHARED_UP, m->shared_width, hidden, m->shared_bias);
  if (m->gated)
    add_linear(to, HR_WEIGHT_SHARED_GATE, m->shared_width, hidden, m->shared_bias);
  add_linear(to, HR_WEIGHT_SHARED_DOWN, hidden, m->shared_width, m->shared_bias);
  add(to, HR_WEIGHT_SHARED_OUTPUT_GATE, m->shared_gate, 1, hidden);
}

/* The operators know which norms a layer has; each has the width of the stream. */
static void norms(const hr_model *model, hr_weight_shapes *to)
{
  add_norm(model, to, HR_WEIGHT_ATTENTION_NORM, true, model->hidden);
  add_norm(model, to, HR_WEIGHT_ATTENTION_POST_NORM, true, model->hidden);
  add_norm(model, to, HR_WEIGHT_MLP_NORM, true, model->hidden);
  add_norm(model, to, HR_WEIGHT_MLP_POST_NORM, true, model->hidden);
}

void hr_list_weights(const hr_model *model, const hr_layer_group *layer, hr_weight_shapes *shapes)
{
  memset(shapes, 0, sizeof *shapes);
  if (!layer) {
    outside_layers(model, shapes);
    return;
  }
  const int64_t streams = model->residual_streams;
  norms(model, shapes);
  add_connection(model, shapes, HR_WEIGHT_ATTENTION_HC, true, streams * (2 + streams), 3);
  add_connection(model, shapes, HR_WEIGHT_MLP_HC, true, streams * (2 + streams), 3);
  if (layer->compressed.q_heads > 0)
    compressed_attention(model, &layer->compressed, shapes);
  if (layer->attention.q_heads > 0)
    attention(model, &layer->attention, shapes);
  if (layer->latent.q_heads > 0)
    latent_attention(model, &layer->latent, shapes);
  if (layer->dense.width > 0)
    dense(model, &layer->dense, shapes);
  if (layer->experts.experts > 0)
    experts(model, &layer->experts, shapes);
}
