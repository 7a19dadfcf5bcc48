/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): K and V of all heads are two linear maps of
 * one latent vector of a token, and the rotated part of K is one vector for all heads.
 *
 *   expanded   K and V of each head are computed, then attended to: train and prefill
 *   absorbed   the map to K is moved to the queries and that to V behind attention, which then reads the latent as its
 *              only K and V head (section 2.1.2): decode
 *
 * An indexer (DeepSeek-V3.2, arXiv 2512.02556, section 2.1) has one small key for a token, which is cached, too; the
 * index_topk keys with the largest weighted sums of scores over its heads are attended to.
 *
 * Sizes: docs/operators.md. */
#include "base/error.h"
#include "model/layers/attention_calls.h"
#include "model/layers/indexer.h"
#include "model/layers/operator_tensors.h"
#include "model/layers/sizes.h"
#include "model/layers/weight_roles.h"

#include <headroom/decode.h>
#include <math.h>

static bool present(const hr_layer_group *layer)
{
  return layer->latent.q_heads > 0;
}

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  const hr_mixer_latent *m = &layer->latent;
  HR_TRY(hr_check_range("latent.kv_rank", m->kv_rank, 1, error));
  HR_TRY(hr_check_range("latent.nope_dim", m->nope_dim, 1, error));
  HR_TRY(hr_check_range("latent.v_dim", m->v_dim, 1, error));
  if (m->index_heads == 0)
    return HR_OK;
  HR_TRY(hr_check_range("latent.index_topk", m->index_topk, 1, error));
  HR_TRY(hr_check_range("latent.q_rank", m->q_rank, 1, error)); /* the indexer's queries are made of it */
  return hr_check_range("latent.index_dim", m->index_dim, hr_max64(m->rope_dim, 1), error);
}

/* ---- parameters ---- */

/* Width of all heads together. */
static hr_checked64 width_of(const hr_mixer_latent *m, int64_t dim)
{
  return hr_times(hr_checked(m->q_heads), dim);
}

static hr_checked64 index_width(const hr_mixer_latent *m)
{
  return hr_times(hr_checked(m->index_heads), m->index_dim);
}

static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_mixer_latent *m = &layer->latent;
  hr_checked64 hidden = hr_checked(model->hidden), rank = hr_checked(m->q_rank), kv_rank = hr_checked(m->kv_rank);
  hr_checked64 width = width_of(m, m->nope_dim + m->rope_dim);
  if (m->q_rank == 0) {
    hr_add_linear(to, HR_LINEAR_Q, hidden, width, false);
  } else {
    hr_add_linear(to, HR_LINEAR_Q_DOWN, hidden, rank, m->down_bias);
    hr_add_linear(to, HR_LINEAR_Q_UP, rank, width, false);
  }
  hr_add_linear(to, HR_LINEAR_KV_DOWN, hidden, hr_checked(m->kv_rank + m->rope_dim), m->down_bias);
  hr_add_linear(to, HR_LINEAR_KV_UP, kv_rank, width_of(m, m->nope_dim + m->v_dim), false);
  if (m->index_heads > 0) {
    hr_add_linear(to, HR_LINEAR_INDEX_Q, rank, index_width(m), false);
    hr_add_linear(to, HR_LINEAR_INDEX_K, hidden, hr_checked(m->index_dim), false);
  }
  hr_add_linear(to, HR_LINEAR_O, width_of(m, m->v_dim), hidden, m->output_bias);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  const hr_mixer_latent *m = &layer->latent;
  hr_linears list;
  list.count = 0;
  linears(model, layer, &list);
  to->attention = hr_plus(to->attention, hr_sum_linears(&list));
  to->attention = hr_plus(to->attention, hr_times(hr_checked(model->hidden), m->index_heads)); /* the heads' weights */
  to->norm = hr_plus(to->norm, hr_checked(m->q_rank + m->kv_rank));                            /* RMS norms */
  to->norm = hr_plus(to->norm, hr_checked(m->index_heads > 0 ? 2 * m->index_dim : 0)); /* LayerNorm of its key */
}

/* ---- one device ---- */

/* The latent and the rotated part of K belong to all heads, so that every device has them. */
static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  layer->latent.q_heads = hr_ceil_div(layer->latent.q_heads, workload->tensor_parallel);
}

/* ---- operators ---- */

hr_mixer_attention hr_expanded_attention(const hr_mixer_latent *m)
{
  return (hr_mixer_attention){.q_heads = m->q_heads,
                              .k_heads = m->q_heads,
                              .v_heads = m->q_heads,
                              .qk_dim = m->nope_dim + m->rope_dim,
                              .v_dim = m->v_dim,
                              .q_rank = m->q_rank,
                              .rotary_dim = m->rope_dim};
}

hr_mixer_attention hr_absorbed_attention(const hr_mixer_latent *m)
{
  return (hr_mixer_attention){
      .q_heads = m->q_heads, .k_heads = 1, .v_heads = 1, .qk_dim = m->kv_rank + m->rope_dim, .v_dim = m->kv_rank};
}

static void rank_norm(hr_operator_builder *builder, int64_t rank, hr_step_tensor tensor, hr_weight_role role)
{
  hr_append_norm(builder, HR_OP_RANK_NORM, hr_checked(builder->shard.rows), rank);
  hr_name_norm(builder, tensor, (int)role, HR_WEIGHT_NONE);
}

/* The ranks are computed by every device, because all of a rank belongs to each head. */
static void projections(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  int64_t rows = builder->shard.rows, hidden = builder->model->hidden, width = m->q_heads * (m->nope_dim + m->rope_dim);
  if (m->q_rank > 0)
    hr_append_linear(builder, HR_OP_Q_DOWN, rows, m->q_rank, hidden);
  else
    hr_append_linear(builder, HR_OP_Q_TRANSFORM, rows, width, hidden);
  hr_append_linear(builder, HR_OP_KV_DOWN, rows, m->kv_rank + m->rope_dim, hidden);
  if (m->q_rank > 0)
    rank_norm(builder, m->q_rank, HR_TENSOR_Q_LOW, HR_WEIGHT_Q_RANK_NORM);
  rank_norm(builder, m->kv_rank, HR_TENSOR_KV_LOW, HR_WEIGHT_KV_RANK_NORM);
  if (m->q_rank > 0)
    hr_append_linear(builder, HR_OP_Q_UP, rows, width, m->q_rank);
}

/* Each query head is rotated, and the one vector of K. */
static void rotary(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  hr_checked64 vectors = hr_times(hr_checked(builder->shard.rows), m->q_heads + 1);
  if (builder->model->positions == HR_POSITIONS_ROTARY && m->rope_dim > 0)
    hr_append_rowwise(builder, HR_OP_ROTARY, vectors, m->rope_dim, 2, 2);
}

/* ---- the indexer ---- */

/* Every device has the whole indexer, because each head of attention needs all of its choice. */
static hr_indexer indexer_of(const hr_mixer_latent *m)
{
  return (hr_indexer){.heads = m->index_heads,
                      .dim = m->index_dim,
                      .inputs = m->q_rank,
                      .rotary_dim = m->rope_dim,
                      .topk = m->index_topk,
                      .block = 1,
                      .sums_heads = true};
}

static void choose_keys(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  const hr_indexer indexer = indexer_of(m);
  hr_append_indexer(builder, &indexer);
}

/* A window of this width has as many keys of each token as are chosen: with it, FLOPs and cache reads are those of the
 * choice. A kernel that gathers rows is taken to read them as fast as a window's. */
static hr_mixer_attention of_chosen(hr_mixer_attention attention, const hr_mixer_latent *m)
{
  attention.window = m->index_topk;
  return attention;
}

/* K and V of every head. The rotated part is copied to each K head; backward adds up its gradients. */
static void expanded(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  const hr_mixer_attention attention = of_chosen(hr_expanded_attention(m), m);
  hr_append_linear(builder, HR_OP_KV_UP, builder->shard.rows, m->q_heads * (m->nope_dim + m->v_dim), m->kv_rank);
  rotary(builder, m);
  if (m->rope_dim > 0)
    hr_append_rowwise(builder, HR_OP_K_ROTARY_COPY, hr_times(hr_checked(builder->shard.rows), m->q_heads + 1),
                      m->rope_dim, 1, 1);
  choose_keys(builder, m);
  hr_append_attention(builder, &attention);
}

/* One GEMM per head, of all tokens with the head's part of the map to K or V. */
static void absorb(hr_operator_builder *builder, hr_operator_id id, const hr_mixer_latent *m, int64_t outputs,
                   int64_t inputs, bool transpose)
{
  hr_gemm_sizes sizes = {.m = builder->shard.rows,
                         .n = outputs,
                         .k = inputs,
                         .transpose_b = transpose,
                         .matrices_a = m->q_heads,
                         .matrices_b = m->q_heads,
                         .matrices_c = m->q_heads};
  hr_append_gemm(builder, id, HR_KIND_BMM, HR_PASS_FORWARD, &sizes);
}

/* The scale is that of the expanded heads. A fused kernel reads the one K head, V with it, once. */
static void attend_to_latents(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  const hr_mixer_attention attention = of_chosen(hr_absorbed_attention(m), m);
  hr_append_attention(builder, &attention);
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  if (op->kind != HR_KIND_ATTENTION)
    return;
  op->latent = true;
  op->attention.scale = (float)(1 / sqrt((double)(m->nope_dim + m->rope_dim)));
  hr_decode decode = hr_decode_default();
  if (hr_decode_from_latent(&op->attention, &decode, NULL) != HR_OK || hr_decode_bytes(&decode, &op->bytes) != HR_OK)
    hr_record_overflow(builder, HR_OP_ATTENTION);
  hr_read_cache(builder,
                hr_times(hr_times(hr_checked(op->attention.kv_len), op->attention.qk_dim), op->attention.batch));
}

/* The map to K and V is stored [heads, nope_dim + v_dim, kv_rank]. */
static void absorbed(hr_operator_builder *builder, const hr_mixer_latent *m)
{
  rotary(builder, m);
  choose_keys(builder, m);
  absorb(builder, HR_OP_Q_ABSORB, m, m->kv_rank, m->nope_dim, false);
  attend_to_latents(builder, m);
  absorb(builder, HR_OP_O_ABSORB, m, m->v_dim, m->kv_rank, true);
}

static void operators(hr_operator_builder *builder)
{
  const hr_mixer_latent *m = &builder->layer->latent;
  projections(builder, m);
  if (builder->workload->phase == HR_PHASE_DECODE)
    absorbed(builder, m);
  else
    expanded(builder, m);
  hr_append_linear(builder, HR_OP_LINEAR_PROJECTION, builder->shard.rows, builder->model->hidden,
                   m->q_heads * m->v_dim);
}

/* ---- memory ---- */

/* Q, K, V and O of the expanded heads. */
static hr_checked64 expanded_columns(const hr_mixer_latent *m)
{
  return hr_times(width_of(m, m->nope_dim + m->rope_dim + m->v_dim), 2);
}

/* Both ranks before and behind their norms, and Q, K, V and O. */
static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  const hr_mixer_latent *m = &c->layer->latent;
  const hr_mixer_attention attention = hr_expanded_attention(m);
  hr_checked64 columns = hr_plus(expanded_columns(m), hr_checked(2 * (m->q_rank + m->kv_rank)));
  hr_checked64 per_token = hr_times(columns, (int64_t)hr_dtype_bytes(c->workload->dtype));
  return hr_plus(hr_times(per_token, c->shard->rows), hr_saved_scores(c, &attention));
}

/* Inputs and outputs of attention: of the absorbed form the queries and the result in the latent's size. */
static hr_checked64 live_elements(const hr_layer_context *c)
{
  const hr_mixer_latent *m = &c->layer->latent;
  bool decode = c->workload->phase == HR_PHASE_DECODE;
  const hr_mixer_attention attention = decode ? hr_absorbed_attention(m) : hr_expanded_attention(m);
  hr_checked64 columns = decode ? width_of(m, 2 * m->kv_rank + m->rope_dim)
                                : hr_plus(expanded_columns(m), hr_checked(m->kv_rank + m->rope_dim));
  const hr_indexer indexer = indexer_of(m);
  return hr_plus(hr_plus(hr_times(columns, c->shard->rows), hr_live_scores(c, &attention)),
                 hr_index_elements(c, &indexer));
}

static hr_checked64 cache_elements(const hr_layer_group *layer, int64_t tokens)
{
  const hr_mixer_latent *m = &layer->latent;
  return hr_times(hr_checked(m->kv_rank + m->rope_dim + (m->index_heads > 0 ? m->index_dim : 0)), tokens);
}

const hr_layer_kind hr_mixer_latent_kind = {
    .is_mixer = true,
    .present = present,
    .check = check,
    .parameters = parameters,
    .linears = linears,
    .shard = shard,
    .operators = operators,
    .saved_bytes = saved_bytes,
    .live_elements = live_elements,
    .cache_elements = cache_elements,
};
