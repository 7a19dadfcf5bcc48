/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax attention with K and V heads of its own: multi-head, multi-query, grouped-query, DiffQKV. Sizes:
 * docs/operators.md. */
#include "base/error.h"
#include "model/layers/attention_calls.h"
#include "model/layers/indexer.h"
#include "model/layers/sizes.h"

static bool present(const hr_layer_group *layer)
{
  return layer->attention.q_heads > 0;
}

static hr_status check_indexer(const hr_mixer_attention *m, hr_error *error)
{
  if (m->index_topk == 0)
    return HR_OK;
  if (m->window > 0 || m->shared_kv)
    return hr_fail(error, HR_ERROR_INVALID, "attention.index_topk: a layer with an indexer has %s",
                   m->window > 0 ? "no window" : "its own K and V");
  HR_TRY(hr_check_range("attention.index_dim", m->index_dim, 1, error));
  HR_TRY(hr_check_range("attention.index_block", m->index_block, 1, error));
  return hr_check_divides("attention.index_block", m->index_block, "attention.index_topk", m->index_topk, error);
}

static hr_status check(const hr_layer_group *layer, hr_error *error)
{
  const hr_mixer_attention *m = &layer->attention;
  HR_TRY(hr_check_range("attention.k_heads", m->k_heads, 1, error));
  HR_TRY(hr_check_range("attention.v_heads", m->v_heads, 1, error));
  HR_TRY(hr_check_range("attention.qk_dim", m->qk_dim, 1, error));
  HR_TRY(hr_check_range("attention.v_dim", m->v_dim, 1, error));
  HR_TRY(hr_check_divides("attention.k_heads", m->k_heads, "attention.q_heads", m->q_heads, error));
  HR_TRY(hr_check_divides("attention.v_heads", m->v_heads, "attention.q_heads", m->q_heads, error));
  HR_TRY(hr_check_at_most("attention.rotary_dim", m->rotary_dim, "attention.qk_dim", m->qk_dim, error));
  if ((unsigned)m->window_kind > HR_WINDOW_CHUNKED)
    return hr_fail(error, HR_ERROR_INVALID, "attention.window_kind: %d is not a kind of window", (int)m->window_kind);
  if ((unsigned)m->qk_norm > HR_QK_NORM_ROTATED)
    return hr_fail(error, HR_ERROR_INVALID, "attention.qk_norm: %d is not a kind of Q/K norm", (int)m->qk_norm);
  return check_indexer(m, error);
}

/* ---- parameters ---- */

/* Width of all heads together. */
static hr_checked64 width_of(int64_t heads, int64_t dim)
{
  return hr_times(hr_checked(heads), dim);
}

static hr_checked64 gate_width(const hr_mixer_attention *m)
{
  return m->output_gate ? width_of(m->q_heads, m->gate_per_head ? 1 : m->v_dim) : hr_checked(0);
}

/* Q's bias has the gate's columns, too. */
static hr_checked64 q_bias(const hr_mixer_attention *m)
{
  hr_checked64 q = width_of(m->q_heads, m->qk_dim);
  return !m->q_bias ? hr_checked(0) : m->gate_unbiased ? q : hr_plus(q, gate_width(m));
}

static void list_q(const hr_model *model, const hr_mixer_attention *m, hr_linears *to)
{
  hr_checked64 hidden = hr_checked(model->hidden), rank = hr_checked(m->q_rank);
  hr_checked64 width = hr_plus(width_of(m->q_heads, m->qk_dim), gate_width(m));
  if (m->q_rank == 0) {
    hr_add_linear(to, HR_LINEAR_Q, hidden, width, false);
    return;
  }
  hr_add_linear(to, HR_LINEAR_Q_DOWN, hidden, rank, false);
  hr_add_linear(to, HR_LINEAR_Q_UP, rank, width, false);
}

/* An indexer has a head for each K head, and one key. */
static hr_checked64 index_width(const hr_mixer_attention *m)
{
  return m->index_topk > 0 ? width_of(m->k_heads, m->index_dim) : hr_checked(0);
}

static void list_indexer(const hr_model *model, const hr_mixer_attention *m, hr_linears *to)
{
  if (m->index_topk == 0)
    return;
  hr_add_linear(to, HR_LINEAR_INDEX_Q, hr_checked(model->hidden), index_width(m), false);
  hr_add_linear(to, HR_LINEAR_INDEX_K, hr_checked(model->hidden), hr_checked(m->index_dim), false);
}

/* Lists the linear layers; q_bias() has the bias of Q. */
static void linears(const hr_model *model, const hr_layer_group *layer, hr_linears *to)
{
  const hr_mixer_attention *m = &layer->attention;
  hr_checked64 hidden = hr_checked(model->hidden);
  list_q(model, m, to);
  if (!m->shared_kv) {
    hr_add_linear(to, HR_LINEAR_K, hidden, width_of(m->k_heads, m->qk_dim), m->k_bias);
    if (!m->v_is_k)
      hr_add_linear(to, HR_LINEAR_V, hidden, width_of(m->v_heads, m->v_dim), m->v_bias);
  }
  list_indexer(model, m, to);
  hr_add_linear(to, HR_LINEAR_O, width_of(m->q_heads, m->v_dim), hidden, m->output_bias);
}

static hr_checked64 norm_parameters(const hr_model *model, const hr_mixer_attention *m)
{
  if (!model->norm_weight)
    return hr_checked(0);
  bool keys = !m->shared_kv || m->shared_k_norm;
  int64_t heads = m->q_heads + (keys ? m->k_heads : 0);
  int64_t vectors[] = {[HR_QK_NORM_NONE] = 0,
                       [HR_QK_NORM_SHARED] = keys ? 2 : 1,
                       [HR_QK_NORM_PER_HEAD] = heads,
                       [HR_QK_NORM_FULL] = heads,
                       [HR_QK_NORM_ROTATED] = 0};
  hr_checked64 weights = hr_times(hr_checked(m->qk_dim), vectors[m->qk_norm]);
  hr_checked64 indexer = hr_checked(m->index_topk > 0 ? 2 * m->index_dim : 0); /* of its queries and of its key */
  return hr_plus(m->qk_norm_bias ? hr_times(weights, 2) : weights, indexer);
}

static void parameters(const hr_model *model, const hr_layer_group *layer, hr_layer_parameters *to)
{
  const hr_mixer_attention *m = &layer->attention;
  hr_linears list;
  list.count = 0;
  linears(model, layer, &list);
  hr_checked64 beside = hr_plus(q_bias(m), hr_checked(m->sinks ? m->q_heads : 0));
  to->attention = hr_plus(to->attention, hr_plus(hr_sum_linears(&list), beside));
  to->norm = hr_plus(to->norm, norm_parameters(model, m));
}

/* ---- one device ---- */

static void shard(hr_layer_group *layer, const hr_workload *workload)
{
  int64_t t = workload->tensor_parallel;
  layer->attention.q_heads = hr_ceil_div(layer->attention.q_heads, t);
  layer->attention.k_heads = hr_ceil_div(layer->attention.k_heads, t); /* at least 1: replicated where t is larger */
  layer->attention.v_heads = hr_ceil_div(layer->attention.v_heads, t);
}

/* ---- operators ---- */

/* Columns of Q, K, V and O on the device. The check of the whole model's parameters has bounded them. */
static int64_t q_columns(const hr_mixer_attention *m)
{
  return m->q_heads * m->qk_dim;
}

static int64_t k_columns(const hr_mixer_attention *m)
{
  return m->shared_kv ? 0 : m->k_heads * m->qk_dim;
}

static int64_t v_columns(const hr_mixer_attention *m)
{
  return m->shared_kv ? 0 : m->v_heads * m->v_dim;
}

static int64_t o_columns(const hr_mixer_attention *m)
{
  return m->q_heads * m->v_dim;
}

static int64_t gate_columns(const hr_mixer_attention *m)
{
  return gate_width(m).value;
}

/* One GEMM for Q, K and V. An augmented Q (SIGMA, Table 7) is two GEMMs of its own: every device holds the whole result
 * of the first, so q_rank is not split; the second is split over the heads. */
static void qkv_transform(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  int64_t hidden = builder->model->hidden, rows = builder->shard.rows;
  int64_t q = q_columns(m) + gate_columns(m);
  if (m->q_rank == 0) {
    hr_append_linear(builder, HR_OP_QKV_TRANSFORM, rows, q + k_columns(m) + (m->v_is_k ? 0 : v_columns(m)), hidden);
    return;
  }
  hr_append_linear(builder, HR_OP_Q_DOWN, rows, m->q_rank, hidden);
  hr_append_linear(builder, HR_OP_Q_UP, rows, q, m->q_rank);
  if (m->shared_kv)
    return;
  hr_append_linear(builder, HR_OP_K_TRANSFORM, rows, k_columns(m), hidden);
  if (!m->v_is_k)
    hr_append_linear(builder, HR_OP_V_TRANSFORM, rows, v_columns(m), hidden);
}

/* Q and K of each token: norm and rotation. Heads are normalized one by one or all together. Shared K are in the cache
 * normalized without weights; those of a layer's own norm of them multiply its Q. */
static void prepare_heads(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  int64_t heads = m->q_heads + (m->shared_kv ? 0 : m->k_heads);
  hr_checked64 rows = hr_checked(builder->shard.rows), head_rows = hr_times(rows, heads);
  const bool behind = m->qk_norm == HR_QK_NORM_ROTATED;
  if (m->qk_norm == HR_QK_NORM_FULL)
    hr_append_norm(builder, HR_OP_QK_NORM, rows, q_columns(m) + k_columns(m));
  else if (m->qk_norm != HR_QK_NORM_NONE && !behind)
    hr_append_norm(builder, HR_OP_QK_NORM, head_rows, m->qk_dim);
  if (builder->model->positions == HR_POSITIONS_ROTARY && m->rotary_dim > 0)
    hr_append_rowwise(builder, HR_OP_ROTARY, head_rows, m->rotary_dim, 2, 2);
  if (behind)
    hr_append_norm(builder, HR_OP_QK_NORM, head_rows, m->qk_dim);
}

/* Reads O and the gate, writes O; backward reads both and the gradient of the result, writes one of each. */
static void gate_output(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  hr_checked64 rows = hr_checked(builder->shard.rows);
  hr_checked64 outputs = hr_times(rows, o_columns(m)), gates = hr_times(rows, gate_columns(m));
  hr_append_traffic(builder, HR_OP_ATTENTION_GATE, HR_KIND_MEMORY, o_columns(m), hr_plus(hr_times(outputs, 2), gates),
                    hr_plus(hr_times(outputs, 3), hr_times(gates, 2)));
}

/* A device has the indexer's heads of its K heads, as vLLM's MiniMax-M3. */
static hr_indexer indexer_of(const hr_model *model, const hr_mixer_attention *m)
{
  return (hr_indexer){.heads = m->index_topk > 0 ? m->k_heads : 0,
                      .dim = m->index_dim,
                      .inputs = model->hidden,
                      .rotary_dim = hr_min64(m->rotary_dim, m->index_dim),
                      .topk = m->index_topk,
                      .block = hr_max64(m->index_block, 1)};
}

/* A window of this width has as many keys as are chosen, as in latent attention; of a chosen block that is not full yet
 * all keys count. */
static void attend(hr_operator_builder *builder, const hr_mixer_attention *m)
{
  const hr_indexer indexer = indexer_of(builder->model, m);
  hr_mixer_attention chosen = *m;
  hr_append_indexer(builder, &indexer);
  if (m->index_topk > 0)
    chosen.window = m->index_topk, chosen.window_kind = HR_WINDOW_SLIDING;
  hr_append_attention(builder, &chosen);
}

static void operators(hr_operator_builder *builder)
{
  const hr_mixer_attention *m = &builder->layer->attention;
  qkv_transform(builder, m);
  prepare_heads(builder, m);
  attend(builder, m);
  if (m->output_gate)
    gate_output(builder, m);
  hr_append_linear(builder, HR_OP_LINEAR_PROJECTION, builder->shard.rows, builder->model->hidden, o_columns(m));
}

/* ---- memory ---- */

/* Q, K, V and O; Q and K twice with a norm, the gate and its product. */
static hr_checked64 saved_bytes(const hr_layer_context *c)
{
  const hr_mixer_attention *m = &c->layer->attention;
  int64_t qk = q_columns(m) + k_columns(m), o = o_columns(m);
  hr_checked64 columns = hr_checked(qk + v_columns(m) + o + m->q_rank);
  if (m->qk_norm != HR_QK_NORM_NONE)
    columns = hr_plus(columns, hr_checked(qk));
  if (m->output_gate)
    columns = hr_plus(columns, hr_checked(o + gate_columns(m)));
  hr_checked64 per_token = hr_times(columns, (int64_t)hr_dtype_bytes(c->workload->dtype));
  return hr_plus(hr_times(per_token, c->shard->rows), hr_saved_scores(c, m));
}

static hr_checked64 live_elements(const hr_layer_context *c)
{
  const hr_mixer_attention *m = &c->layer->attention;
  int64_t columns = q_columns(m) + k_columns(m) + v_columns(m) + o_columns(m) + gate_columns(m);
  const hr_indexer indexer = indexer_of(c->model, m);
  return hr_plus(hr_plus(hr_times(hr_checked(columns), c->shard->rows), hr_live_scores(c, m)),
                 hr_index_elements(c, &indexer));
}

static hr_checked64 cache_elements(const hr_layer_group *layer, int64_t tokens)
{
  const hr_mixer_attention *m = &layer->attention;
  int64_t kept = m->window > 0 ? hr_min64(tokens, m->window) : tokens;
  int64_t index = m->index_topk > 0 ? m->index_dim : 0;
  return hr_times(hr_checked(k_columns(m) + v_columns(m) + index), kept);
}

const hr_layer_kind hr_mixer_attention_kind = {
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
