/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the last tokens and compressed entries of all of them (DeepSeek-V4; transformers 5.17,
 * modeling_deepseek_v4.py).
 *
 *   K and V    one vector of head_dim of each token, for all heads; the last `window` are attended to and kept
 *   entries    one vector for each `ratio` tokens: the sum of a vector of each token, weighted for each element by a
 *              softmax over them. With `overlaps` it is over twice the tokens, which then have two vectors each
 *   indexer    chooses index_topk entries by keys that are compressed in the same way
 *   O          groups of heads are mapped to o_rank elements each, all of which a last linear layer maps to hidden
 *
 * Sizes: docs/notes/operators.md. */
#include "base/error.h"
#include "model/layers/attention_calls.h"
#include "model/layers/indexer.h"
#include "model/layers/operator_tensors.h"
#include "model/layers/sizes.h"
#include "model/layers/weight_roles.h"

#include <headroom/decode.h>

static bool present(const hr_layer_group *layer)
{
  return layer->compressed.q_heads > 0;
}

static hr_status check_entries(const hr_mixer_compressed *m, hr_error *error)
{
  if (m->index_heads == 0 && m->index_topk == 0)
    return HR_OK;
  HR_TRY(hr_check_range("compressed.ratio", m->ratio, 1, error));
  HR_TRY(hr_check_range("compressed.index_topk", m->index_topk, 1, error));
  HR_TRY(hr_check_range("compressed.index_heads", m->index_heads, 1, error));
  return hr_check_range("compressed.index_dim", m->index_dim, 1, error);
}

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  const hr_mixer_compressed *m = &layer->compressed;
  HR_TRY(hr_check_range("compressed.head_dim", m->head_dim, 1, error));
  HR_TRY(hr_check_at_most("compressed.rope_dim", m->rope_dim, "compressed.head_dim", m->head_dim, error));
  HR_TRY(hr_check_range("compressed.q_rank", m->q_rank, 1, error));
  HR_TRY(hr_check_range("compressed.window", m->window, 1, error));
  HR_TRY(hr_check_range("compressed.o_rank", m->o_rank, 1, error));
  HR_TRY(hr_check_range("compressed.o_groups", m->o_groups, 1, error));
  HR_TRY(hr_check_divides("compressed.o_groups", m->o_groups, "compressed.q_heads", m->q_heads, error));
  return check_entries(m, error);
}

/* ---- parameters ---- */

static hr_checked64 width_of(const hr_mixer_compressed *m)
{
  return hr_times(hr_checked(m->q_heads), m->head_dim);
}

/* Vectors of a token in the sum of an entry, without their weights. */
static int64_t parts(const hr_mixer_compressed *m)
{
  return m->overlaps ? 2 : 1;
}

static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_mixer_compressed *m = &layer->compressed;
  hr_checked64 hidden = hr_checked(model->hidden), rank = hr_checked(m->q_rank);
  hr_checked64 group = hr_times(hr_checked(hr_ceil_div(m->q_heads, m->o_groups)), m->head_dim);
  hr_add_linear(to, HR_LINEAR_Q_DOWN, hidden, rank, false);
  hr_add_linear(to, HR_LINEAR_Q_UP, rank, width_of(m), false);
  hr_add_linear(to, HR_LINEAR_KV_DOWN, hidden, hr_checked(m->head_dim), false);
  if (m->index_heads > 0)
    hr_add_linear(to, HR_LINEAR_INDEX_Q, rank, hr_times(hr_checked(m->index_heads), m->index_dim), false);
  hr_add_linear(to, HR_LINEAR_O_DOWN, group, hr_checked(m->o_rank), false);
  to->items[to->count - 1].count = m->o_groups;
  hr_add_linear(to, HR_LINEAR_O, hr_times(hr_checked(m->o_rank), m->o_groups), hidden, false);
}

/* A compressor has linear layers of the vectors and of their weights, and a bias of the weights for each place in an
 * entry of `dim` elements. */
static hr_checked64 compressor(const hr_model *model, int64_t ratio, int64_t vectors, int64_t dim)
{
  hr_checked64 each = hr_plus(hr_times(hr_checked(model->hidden), 2), hr_checked(ratio));
  return hr_times(hr_times(each, vectors), dim);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  const hr_mixer_compressed *m = &layer->compressed;
  hr_linears list;
  list.count = 0;
  linears(model, layer, &list);
  hr_checked64 sum = hr_plus(hr_sum_linears(&list), hr_checked(m->q_heads)); /* the sinks */
  int64_t norms = m->q_rank + m->head_dim;
  if (m->ratio > 0) {
    sum = hr_plus(sum, compressor(model, m->ratio, parts(m), m->head_dim));
    norms += m->head_dim;
  }
  if (m->index_heads > 0) {
    sum = hr_plus(sum, compressor(model, m->ratio, 2, m->index_dim));
    sum = hr_plus(sum, hr_times(hr_checked(model->hidden), m->index_heads)); /* the heads' weights */
    norms += m->index_dim;
  }
  to->attention = hr_plus(to->attention, sum);
  to->norm = hr_plus(to->norm, hr_checked(norms));
}

/* ---- one device ---- */

/* K and V, entries and indexer belong to all heads, so that every device has them. */
static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  hr_mixer_compressed *m = &layer->compressed;
  m->q_heads = hr_ceil_div(m->q_heads, workload->tensor_parallel);
  m->o_groups = hr_ceil_div(m->o_groups, workload->tensor_parallel);
}

/* ---- operators ---- */

hr_mixer_attention hr_compressed_heads(const hr_mixer_compressed *m)
{
  return (hr_mixer_attention){.q_heads = m->q_heads,
                              .k_heads = 1,
                              .v_heads = 1,
                              .qk_dim = m->head_dim,
                              .v_dim = m->head_dim,
                              .q_rank = m->q_rank,
                              .window = m->window,
                              .rotary_dim = m->rope_dim,
                              .sinks = true};
}

static void rank_norm(hr_operator_builder *builder, int64_t rank, hr_step_tensor tensor, hr_weight_role role)
{
  hr_append_norm(builder, HR_OP_RANK_NORM, hr_checked(builder->shard.rows), rank);
  hr_name_norm(builder, tensor, (int)role, HR_WEIGHT_NONE);
}

static void rotate(hr_operator_builder *builder, hr_operator_id id, const hr_mixer_compressed *m, int64_t heads)
{
  if (builder->model->positions == HR_POSITIONS_ROTARY && m->rope_dim > 0)
    hr_append_rowwise(builder, id, hr_times(hr_checked(builder->shard.rows), heads), m->rope_dim, 2, 2);
}

/* The norm of each head's Q has no weights. */
static void projections(hr_operator_builder *builder, const hr_mixer_compressed *m)
{
  const int64_t rows = builder->shard.rows, hidden = builder->model->hidden;
  hr_append_linear(builder, HR_OP_Q_DOWN, rows, m->q_rank, hidden);
  hr_append_linear(builder, HR_OP_KV_DOWN, rows, m->head_dim, hidden);
  rank_norm(builder, m->q_rank, HR_TENSOR_Q_LOW, HR_WEIGHT_Q_RANK_NORM);
  rank_norm(builder, m->head_dim, HR_TENSOR_KV_LOW, HR_WEIGHT_KV_RANK_NORM);
  hr_append_linear(builder, HR_OP_Q_UP, rows, m->q_heads * m->head_dim, m->q_rank);
  hr_append_norm(builder, HR_OP_QK_NORM, hr_times(hr_checked(rows), m->q_heads), m->head_dim);
  rotate(builder, HR_OP_ROTARY, m, m->q_heads + 1);
}

/* Reads the vectors and their weights and writes an entry for `ratio` tokens, normalized and rotated; backward reads
 * them again and writes their gradients. */
static void compress(hr_operator_builder *builder, const hr_mixer_compressed *m)
{
  const int64_t rows = builder->shard.rows;
  if (m->ratio == 0)
    return;
  hr_append_linear(builder, HR_OP_COMPRESS_IN, rows, 2 * parts(m) * m->head_dim, builder->model->hidden);
  hr_checked64 read = hr_times(hr_times(hr_checked(rows), 2 * parts(m)), m->head_dim);
  hr_checked64 entries = hr_times(hr_checked(hr_ceil_div(rows, m->ratio)), m->head_dim);
  hr_append_traffic(builder, HR_OP_COMPRESS, HR_KIND_MEMORY, m->head_dim, hr_plus(read, entries),
                    hr_plus(hr_times(read, 2), entries));
}

static hr_indexer indexer_of(const hr_mixer_compressed *m)
{
  return (hr_indexer){.heads = m->index_heads,
                      .dim = m->index_dim,
                      .inputs = m->q_rank,
                      .rotary_dim = hr_min64(m->rope_dim, m->index_dim),
                      .topk = m->index_topk,
                      .block = 1,
                      .ratio = m->ratio,
                      .sums_heads = true};
}

/* A decode step reads the window and the entries, which are K and V, once for all heads. */
static void attend_once(hr_operator_builder *builder, const hr_mixer_attention *heads, int64_t keys)
{
  const int64_t batch = builder->workload->batch;
  const hr_attention_sequences call = {.batch = batch, .q_len = builder->shard.q_len, .kv_len = keys};
  hr_append_attention_call(builder, heads, &call);
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  if (op->kind != HR_KIND_ATTENTION)
    return;
  hr_decode decode = hr_decode_default();
  op->latent = true;
  if (hr_decode_from_latent(&op->attention, &decode, NULL) != HR_OK || hr_decode_bytes(&decode, &op->bytes) != HR_OK)
    hr_record_overflow(builder, HR_OP_ATTENTION);
  hr_read_cache(builder, hr_times(hr_times(hr_checked(keys), heads->qk_dim), batch));
}

/* The window of all tokens is one attention and the entries are another: one kernel does both, but their shapes differ.
 * The second one reads each entry once; Q and O are moved by the first. */
static void attend_to_entries(hr_operator_builder *builder, const hr_mixer_compressed *m,
                              const hr_mixer_attention *heads)
{
  hr_attention_sequences call = hr_call_of_keys(builder, m->ratio);
  if (call.kv_len == 0)
    return;
  call.window = m->index_topk > 0 && m->index_topk < call.kv_len ? m->index_topk : 0;
  const int64_t entries = call.kv_len, bytes = (int64_t)hr_dtype_bytes(builder->workload->dtype);
  hr_append_attention_call(builder, heads, &call);
  hr_operator *op = &builder->to->items[builder->to->count - 1];
  if (op->kind != HR_KIND_ATTENTION)
    return;
  hr_checked64 pairs = hr_times(hr_pairs_of_keys(builder, m->ratio, m->index_topk), builder->workload->batch);
  hr_set_figure(builder, op, hr_times(hr_times(hr_times(pairs, 4), m->q_heads), m->head_dim), &op->flops);
  hr_set_figure(builder, op,
                hr_times(hr_times(hr_times(hr_checked(entries), m->head_dim), builder->workload->batch), bytes),
                &op->bytes);
}

static void attend(hr_operator_builder *builder, const hr_mixer_compressed *m)
{
  const hr_mixer_attention heads = hr_compressed_heads(m);
  const int64_t tokens = builder->shard.kv_len, entries = m->ratio > 0 ? tokens / m->ratio : 0;
  const int64_t chosen = m->index_topk > 0 ? hr_min64(entries, m->index_topk) : entries;
  if (builder->workload->phase == HR_PHASE_DECODE) {
    attend_once(builder, &heads, hr_min64(tokens, m->window) + chosen);
    return;
  }
  hr_append_attention(builder, &heads);
  if (m->ratio > 0)
    attend_to_entries(builder, m, &heads);
}

static void operators(hr_operator_builder *builder)
{
  const hr_mixer_compressed *m = &builder->layer->compressed;
  const int64_t rows = builder->shard.rows;
  const hr_indexer indexer = indexer_of(m);
  projections(builder, m);
  compress(builder, m);
  hr_append_indexer(builder, &indexer);
  attend(builder, m);
  rotate(builder, HR_OP_O_ROTARY, m, m->q_heads);
  hr_append_group_linear(builder, HR_OP_O_DOWN, rows, m->o_groups, m->o_rank,
                         hr_ceil_div(m->q_heads, m->o_groups) * m->head_dim);
  hr_append_linear(builder, HR_OP_LINEAR_PROJECTION, rows, builder->model->hidden, m->o_groups * m->o_rank);
}

/* ---- memory ---- */

/* Columns of what the compressors' linear layers write. */
static hr_checked64 compressed_columns(const hr_mixer_compressed *m)
{
  hr_checked64 entries = hr_checked(m->ratio > 0 ? 2 * parts(m) * m->head_dim : 0);
  return hr_plus(entries, hr_checked(m->index_heads > 0 ? 4 * m->index_dim : 0));
}

/* Both ranks before and behind their norms, Q before and behind its norm, O, and what compressors and groups write. */
static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  const hr_mixer_compressed *m = &c->layer->compressed;
  const hr_mixer_attention heads = hr_compressed_heads(m);
  hr_checked64 columns = hr_plus(hr_times(width_of(m), 3), hr_checked(2 * (m->q_rank + m->head_dim)));
  columns = hr_plus(hr_plus(columns, compressed_columns(m)), hr_times(hr_checked(m->o_rank), m->o_groups));
  hr_checked64 per_token = hr_times(columns, (int64_t)hr_dtype_bytes(c->workload->dtype));
  return hr_plus(hr_times(per_token, c->shard->rows), hr_saved_scores(c, &heads));
}

static hr_checked64 live_elements(const hr_layer_context *c)
{
  const hr_mixer_compressed *m = &c->layer->compressed;
  const hr_mixer_attention heads = hr_compressed_heads(m);
  const hr_indexer indexer = indexer_of(m);
  hr_checked64 columns = hr_plus(hr_plus(hr_times(width_of(m), 2), hr_checked(m->head_dim)), compressed_columns(m));
  return hr_plus(hr_plus(hr_times(columns, c->shard->rows), hr_live_scores(c, &heads)), hr_index_elements(c, &indexer));
}

static hr_checked64 cache_elements(const hr_layer_group *layer, int64_t tokens)
{
  const hr_mixer_compressed *m = &layer->compressed;
  const int64_t entries = m->ratio > 0 ? tokens / m->ratio : 0;
  hr_checked64 sum = hr_times(hr_checked(m->head_dim), hr_min64(tokens, m->window));
  return hr_plus(sum, hr_times(hr_checked(m->head_dim + (m->index_heads > 0 ? m->index_dim : 0)), entries));
}

/* Vectors and weights of the tokens of an entry that is not full, and with `overlaps` of those before it. */
static hr_checked64 state_bytes(const hr_layer_group *layer, const hr_workload *workload)
{
  const hr_mixer_compressed *m = &layer->compressed;
  hr_checked64 columns = compressed_columns(m);
  if (m->overlaps)
    columns = hr_plus(columns, hr_checked(2 * (m->head_dim + (m->index_heads > 0 ? m->index_dim : 0))));
  return hr_times(hr_times(columns, m->ratio), (int64_t)hr_dtype_bytes(workload->dtype));
}

const hr_layer_kind hr_mixer_compressed_kind = {
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
    .state_bytes = state_bytes,
};
