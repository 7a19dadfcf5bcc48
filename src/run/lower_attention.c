/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and positions of heads, the writing of new tokens to the KV cache, and attention. */
#include "run/tape.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/layer_kinds.h"

#include <math.h>

#define HEADS_ROWS_MAX 256 /* of more the kernels that move 16 bytes at a time are faster */

/* ---- heads ---- */

/* y = x · weight + bias, of columns; NULL: 1 and 0. */
static hr_run_view weighted(hr_lowering *l, hr_run_view x, const void *weight, const void *bias)
{
  const hr_rowwise_operation operations[] = {HR_ROWWISE_WEIGHT, HR_ROWWISE_BIAS};
  const void *const rows[] = {weight, bias};
  for (int i = 0; i < 2; i++) {
    const hr_input_operand inputs[] = {hr_of_view(x), hr_of_address(rows[i])};
    x = rows[i] ? hr_add_rowwise(l, hr_rows_of(operations[i], x.rows, x.columns), inputs, x.columns) : x;
  }
  return x;
}

/* Norms have rows of a head or of all heads. */
static hr_run_view norm_of_heads(hr_lowering *l, hr_run_view heads, const void *weight, const void *bias)
{
  const hr_mixer_attention *m = &l->group->attention;
  const hr_run_view x = hr_packed(l, heads);
  hr_rowwise r = hr_rowwise_default();
  r.operation = l->x->model.norm == HR_NORM_RMS ? HR_ROWWISE_RMS_NORM : HR_ROWWISE_LAYER_NORM;
  r.columns = m->qk_norm == HR_QK_NORM_FULL ? x.columns : m->qk_dim;
  r.rows = x.rows * x.columns / r.columns;
  r.epsilon = l->x->model.numerics.norm_epsilon;
  const bool behind = m->qk_norm == HR_QK_NORM_PER_HEAD; /* each head has its own weight */
  const hr_input_operand inputs[] = {hr_of_view(x),
                                     hr_of_address(weight && !behind ? weight : hr_buffer_data(l->x->ones)),
                                     hr_of_address(bias && !behind ? bias : hr_buffer_data(l->x->zeros))};
  const hr_run_view y = hr_add_rowwise(l, r, inputs, x.columns);
  return behind ? weighted(l, y, weight, bias) : y;
}

/* Norms and rotation of heads, in this order, are done where K and V are written to the cache: those of few tokens, and
 * norms of many with what follows them. */
static bool waits_for_cache(hr_lowering *l, hr_heads_part part)
{
  const hr_mixer_attention *m = &l->group->attention;
  const hr_model *model = &l->x->model;
  const bool many = l->program->shape.phase == HR_PHASE_PREFILL || l->rows > HEADS_ROWS_MAX;
  const bool takes =
      hr_phase_keeps_tokens(l->program->shape.phase) && l->x->device->backend->appends_heads && m->q_heads > 0 &&
      m->qk_norm != HR_QK_NORM_ROTATED && l->heads < (int)part && (!many || part == HR_HEADS_NORMED || l->heads > 0) &&
      (part == HR_HEADS_ROTATED || (m->qk_norm != HR_QK_NORM_FULL && !m->qk_norm_bias && model->norm == HR_NORM_RMS));
  if (takes) {
    l->heads_ops[l->heads != 0] = l->op_index;
    l->heads |= (int)part;
  }
  return takes;
}

static bool side_by_side(hr_run_view q, hr_run_view k)
{
  return q.value == k.value && q.stride == k.stride && q.rows == k.rows && k.offset == q.offset + q.columns;
}

/* Q and K are changed one by one, or together where they are results of one operation. */
static void change_heads(hr_lowering *l, hr_run_view (*change)(hr_lowering *l, hr_run_view heads))
{
  const hr_run_view q = hr_read_view(l, 0), k = hr_read_view(l, 1);
  if (!side_by_side(q, k)) {
    hr_write_view(l, 0, change(l, q));
    hr_write_view(l, 1, change(l, k));
    return;
  }
  const hr_run_view both = change(l, hr_columns_of(q, 0, q.columns + k.columns));
  hr_write_view(l, 0, hr_columns_of(both, 0, q.columns));
  hr_write_view(l, 1, hr_columns_of(both, q.columns, k.columns));
}

static hr_run_view normalized(hr_lowering *l, hr_run_view heads)
{
  return norm_of_heads(l, heads, NULL, NULL);
}

void hr_lower_qk_norm(hr_lowering *l)
{
  if (waits_for_cache(l, HR_HEADS_NORMED))
    return;
  static const int weights[] = {HR_WEIGHT_Q_NORM, HR_WEIGHT_K_NORM};
  static const int biases[] = {HR_WEIGHT_Q_NORM_BIAS, HR_WEIGHT_K_NORM_BIAS};
  if (l->group->attention.qk_norm == HR_QK_NORM_ROTATED) {
    change_heads(l, normalized);
    return;
  }
  for (int i = 0; i < 2; i++)
    hr_write_view(l, i,
                  norm_of_heads(l, hr_read_view(l, i), hr_run_weight(l->x, l->layer, weights[i]),
                                hr_run_weight(l->x, l->layer, biases[i])));
}

static hr_run_view rotated(hr_lowering *l, hr_run_view x)
{
  const hr_mixer_attention *m = &l->group->attention;
  hr_rowwise r = hr_rowwise_default();
  r.operation = HR_ROWWISE_ROTARY;
  r.columns = m->qk_dim;
  r.group = x.columns / m->qk_dim;
  r.rows = x.rows * r.group;
  r.period = x.rows;
  r.rotated = m->rotary_dim;
  r.interleaved = l->x->model.numerics.rotary_interleaved;
  r.x_stride = x.stride;
  return hr_add_rowwise(l, r, (hr_input_operand[]){hr_of_view(x), hr_of_view(hr_angles_of(l, false))}, x.columns);
}

void hr_lower_rotary(hr_lowering *l)
{
  if (waits_for_cache(l, HR_HEADS_ROTATED))
    return;
  if (l->group->latent.q_heads > 0)
    hr_lower_latent_rotary(l);
  else
    change_heads(l, rotated);
}

/* ---- attention ---- */

typedef struct attention_views {
  hr_mixer_attention sizes; /* of latent attention: of the form in which it is computed */
  hr_run_view q, k, v, o;
  int64_t v_head; /* elements from a head of V to the next */
} attention_views;

/* Chunks of which none ends are all tokens. */
static bool in_chunks(const hr_lowering *l)
{
  const hr_mixer_attention *m = &l->group->attention;
  return m->window > 0 && m->window_kind == HR_WINDOW_CHUNKED && m->window < l->x->options.tokens;
}

static int64_t alignment_of(const hr_lowering *l, const attention_views *a)
{
  return hr_min64(hr_view_alignment(l, a->q), hr_min64(hr_view_alignment(l, a->k), hr_view_alignment(l, a->v)));
}

/* A norm's weight of heads. */
static const void *norm_weight(const hr_lowering *l, int which)
{
  const void *weight = hr_run_weight(l->x, l->layer, which);
  return !(l->heads & HR_HEADS_NORMED) ? NULL : weight ? weight : hr_buffer_data(l->x->ones);
}

/* What waits for the launch of an append. New tokens that attend to each other read K beside the cache. */
static void add_heads(hr_lowering *l, hr_launch *launch, hr_run_view q, const hr_run_view to[2])
{
  const hr_mixer_attention *m = &l->group->attention;
  const bool rotates = l->heads & HR_HEADS_ROTATED;
  launch->heads = (hr_kv_heads){.q_heads = m->q_heads,
                                .q_row = q.stride,
                                .rotated = rotates ? m->rotary_dim : 0,
                                .interleaved = l->x->model.numerics.rotary_interleaved,
                                .norm_stride = m->qk_norm == HR_QK_NORM_PER_HEAD ? m->qk_dim : 0,
                                .epsilon = l->x->model.numerics.norm_epsilon,
                                .angles = rotates ? hr_buffer_data(hr_angle_table(l)) : NULL,
                                .q_norm = norm_weight(l, HR_WEIGHT_Q_NORM),
                                .k_norm = norm_weight(l, HR_WEIGHT_K_NORM)};
  launch->op_count = 0;
  for (int i = 0; i < (l->heads == (HR_HEADS_NORMED | HR_HEADS_ROTATED) ? 2 : 1); i++)
    hr_take_part(l, l->heads_ops[i]);
  hr_bind(l, offsetof(hr_launch, heads.q) - offsetof(hr_launch, arguments), q);
  hr_bind(l, offsetof(hr_launch, heads.q_to) - offsetof(hr_launch, arguments), to[0]);
  if (l->program->shape.phase == HR_PHASE_PREFILL)
    hr_bind(l, offsetof(hr_launch, heads.k_to) - offsetof(hr_launch, arguments), to[1]);
  l->heads = 0;
}

/* The new tokens' K and V, of a latent cache the same; the room for them is taken before the step. */
static void append_to_cache(hr_lowering *l, hr_run_view *q, hr_run_view *k, hr_run_view v)
{
  const bool prefill = l->program->shape.phase == HR_PHASE_PREFILL, changes = l->heads != 0;
  const hr_run_view from[] = {*q, *k};
  *q = changes ? hr_new_view(l, q->rows, q->columns) : *q;
  *k = changes && prefill ? hr_new_view(l, k->rows, k->columns) : *k;
  hr_launch *launch = hr_add_launch(l, NULL);
  if (!launch)
    return;
  launch->cache = l->x->caches[l->layer];
  launch->part = l->part;
  launch->append = hr_kv_append_default();
  launch->append.k_row = from[1].stride, launch->append.v_row = v.stride;
  hr_bind(l, offsetof(hr_kv_append, k), from[1]);
  hr_bind(l, offsetof(hr_kv_append, v), v);
  if (changes)
    add_heads(l, launch, from[0], (hr_run_view[]){*q, *k});
}

/* 0: that of K's size. Both forms of latent attention have that of the expanded heads. */
static double scale_of(const hr_lowering *l)
{
  const hr_mixer_latent *m = &l->group->latent;
  const double scale = l->x->model.numerics.attention_scale;
  return scale == 0 && m->q_heads > 0 ? 1 / sqrt((double)(m->nope_dim + m->rope_dim)) : scale;
}

static const float *sinks_of(const hr_lowering *l)
{
  return hr_run_weight(l->x, l->layer, HR_WEIGHT_SINKS);
}

/* What sinks leave of each head: kernels of a whole sequence have none, but the sum that they take part in. */
static hr_run_view beside_sinks(hr_lowering *l, hr_run_view o, hr_run_view lse)
{
  const hr_mixer_attention *m = &l->group->attention;
  hr_rowwise r = hr_rows_of(HR_ROWWISE_SINK, l->rows * m->q_heads, m->v_dim);
  r.period = l->program->shape.tokens;
  r.group = m->q_heads;
  const hr_input_operand inputs[] = {hr_of_view(o), hr_of_view(lse), hr_of_address(sinks_of(l))};
  return hr_add_rowwise(l, r, inputs, o.columns);
}

/* New tokens attend to each other. */
static void attend(hr_lowering *l, attention_views *a)
{
  const hr_mixer_attention *m = &a->sizes;
  const bool keeps_lse = m->sinks || l->tape;
  const hr_run_view lse = keeps_lse ? hr_new_words(l, l->rows * m->q_heads) : (hr_run_view){.value = -1};
  const int64_t tokens = l->program->shape.tokens;
  hr_attention call = l->op->attention;
  call.batch = l->program->shape.batch, call.q_len = call.kv_len = tokens;
  call.first_keys = in_chunks(l) && m->window < tokens;
  call.mask = HR_MASK_CAUSAL;
  call.scale = (float)scale_of(l);
  call.softcap = (float)l->x->model.numerics.attention_softcap;
  call.alibi = l->x->model.positions == HR_POSITIONS_ALIBI;
  call.q_strides = hr_strides_of(a->q, call.qk_dim, tokens);
  call.k_strides = hr_strides_of(a->k, call.qk_dim, tokens);
  call.v_strides = hr_strides_of(a->v, a->v_head, tokens);
  call.o_strides = hr_strides_of(a->o, call.v_dim, tokens);
  call.alignment = alignment_of(l, a);
  hr_launch *launch = hr_add_launch(l, hr_launch_attention);
  if (!launch)
    return;
  launch->arguments.attention = hr_attention_arguments_default();
  if (keeps_lse)
    hr_bind(l, offsetof(hr_attention_arguments, lse), lse);
  if (call.alibi)
    launch->arguments.attention.alibi_slopes = hr_buffer_data(l->x->slopes);
  if (call.first_keys)
    launch->arguments.attention.first_keys = hr_numbers_of(l, HR_NUMBER_FIRST);
  hr_lowering_fail(l, hr_plans_attention(l->x->plans, &call, &launch->plan, l->error));
  hr_bind(l, offsetof(hr_attention_arguments, q), a->q);
  hr_bind(l, offsetof(hr_attention_arguments, k), a->k);
  hr_bind(l, offsetof(hr_attention_arguments, v), a->v);
  hr_bind(l, offsetof(hr_attention_arguments, o), a->o);
  hr_tape_entry *entry = hr_keep(l, HR_TAPE_ATTENTION, a->o);
  if (entry)
    entry->attention = (hr_tape_attention){call, a->q, a->k, a->v, lse, a->v_head};
  a->o = m->sinks ? beside_sinks(l, a->o, lse) : a->o;
}

/* A query with what it sees of its slot is a sequence. */
static void see_chunks(hr_lowering *l, hr_decode *call, hr_decode_arguments *arguments)
{
  call->batch = l->rows, call->q_len = 1;
  call->kv_len = l->group->attention.window;
  arguments->lengths = hr_numbers_of(l, HR_NUMBER_LENGTH);
  arguments->page_starts = hr_numbers_of(l, HR_NUMBER_PAGE);
}

/* They attend to all tokens of their slots. */
static void attend_to_cache(hr_lowering *l, const attention_views *a)
{
  const hr_mixer_attention *m = &a->sizes;
  hr_decode call = hr_decode_default();
  hr_decode_arguments arguments = hr_decode_arguments_default();
  hr_lowering_fail(l, hr_kv_cache_decode(l->x->caches[l->layer], l->program->shape.batch, &call, &arguments, l->error));
  if (l->status == HR_OK && l->part > 0) {
    const int64_t before = l->part * l->program->shape.batch;
    arguments.lengths += before, arguments.pages += before * call.table_pitch;
  }
  call.q_len = l->program->shape.tokens;
  call.q_heads = m->q_heads;
  call.window = m->window_kind == HR_WINDOW_SLIDING ? m->window : 0;
  if (in_chunks(l))
    see_chunks(l, &call, &arguments);
  call.sinks = m->sinks;
  call.alibi = l->x->model.positions == HR_POSITIONS_ALIBI;
  call.scale = (float)scale_of(l);
  call.softcap = (float)l->x->model.numerics.attention_softcap;
  call.q_strides = hr_strides_of(a->q, m->qk_dim, call.q_len);
  call.o_strides = hr_strides_of(a->o, m->v_dim, call.q_len);
  call.alignment = hr_view_alignment(l, a->q);
  hr_launch *launch = hr_add_launch(l, hr_launch_decode);
  if (!launch)
    return;
  launch->arguments.decode = arguments;
  launch->arguments.decode.sinks = sinks_of(l);
  launch->arguments.decode.alibi_slopes = call.alibi ? hr_buffer_data(l->x->slopes) : NULL;
  hr_lowering_fail(l, hr_plans_decode(l->x->plans, &call, &launch->plan, l->error));
  hr_bind(l, offsetof(hr_decode_arguments, q), a->q);
  hr_bind(l, offsetof(hr_decode_arguments, o), a->o);
}

static attention_views plain_attention(hr_lowering *l)
{
  const bool grows = l->x->model.numerics.query_growth != 0 && l->group->attention.rotary_dim == 0;
  const hr_run_view q = hr_read_view(l, 0);
  return (attention_views){.sizes = l->group->attention,
                           .q = grows ? hr_add_weighted_rows(l, q, hr_of_address(hr_numbers_of(l, HR_NUMBER_GROWTH)))
                                      : q,
                           .k = hr_read_view(l, 1),
                           .v = hr_read_view(l, 2),
                           .v_head = l->group->attention.v_dim};
}

/* V of the expanded form stands behind K of its head. */
static attention_views latent_attention(const hr_lowering *l)
{
  const hr_mixer_latent *m = &l->group->latent;
  const bool decode = l->program->shape.phase == HR_PHASE_DECODE;
  return (attention_views){.sizes = decode ? hr_absorbed_attention(m) : hr_expanded_attention(m),
                           .q = l->tensors[HR_TENSOR_Q],
                           .k = l->tensors[HR_TENSOR_K],
                           .v = l->tensors[HR_TENSOR_V],
                           .v_head = m->nope_dim + m->v_dim};
}

/* The list has the tokens behind whole chunks as an operator before that of the chunks, and one launch is both. */
static bool was_launched(const hr_lowering *l)
{
  const int64_t chunk = l->group->attention.window, tokens = l->program->shape.tokens;
  return in_chunks(l) && l->program->shape.phase != HR_PHASE_DECODE && tokens > chunk && tokens % chunk > 0 &&
         l->op->attention.q_len == chunk;
}

void hr_lower_attention(hr_lowering *l)
{
  const bool latent = l->group->latent.q_heads > 0;
  if (was_launched(l)) {
    hr_take_part(l, l->op_index);
    return;
  }
  attention_views a = latent ? latent_attention(l) : plain_attention(l);
  if (hr_phase_keeps_tokens(l->program->shape.phase))
    append_to_cache(l, &a.q, latent ? &l->cached : &a.k, latent ? l->cached : a.v);
  a.o = hr_new_view(l, l->rows, a.sizes.q_heads * a.sizes.v_dim);
  if (l->program->shape.phase == HR_PHASE_DECODE)
    attend_to_cache(l, &a);
  else
    attend(l, &a);
  hr_write_view(l, 0, a.o);
}
