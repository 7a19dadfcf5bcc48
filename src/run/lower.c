/* SPDX-License-Identifier: Apache-2.0 */
/* From the list of operators to launches: one function for each way in which an operator is computed. */
#include "run/lower.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/weight_shapes.h"

#include <headroom/experimental/operators.h>

/* ---- operators ---- */

static int64_t embedding_width(const hr_model *model)
{
  return model->embedding_dim > 0 ? model->embedding_dim : model->hidden;
}

/* Adds learned positions to tokens as wide as they are. The table may have rows before that of position 0 (OPT: two).
 */
static hr_run_view with_positions(hr_lowering *l, hr_run_view tokens)
{
  const hr_model *m = &l->x->model;
  const char *table = hr_run_weight(l->x, -1, HR_WEIGHT_POSITION_EMBEDDING);
  const int64_t before = m->position_rows - m->max_positions;
  const bool elsewhere = l->op->id == HR_OP_EMBEDDING && l->x->rank > 0; /* the sum gets them from rank 0 */
  if (!table || tokens.columns != m->hidden || elsewhere)
    return tokens;
  table += (size_t)(before * m->hidden) * hr_element_bytes(l);
  return hr_add_pair(l, HR_ROWWISE_RESIDUAL, tokens,
                     hr_add_gather(l, HR_NUMBER_POSITION, table, m->max_positions, m->hidden));
}

/* Each of several ranks has some rows of the table, and zeros for the other tokens. */
static hr_run_view rows_of_table(hr_lowering *l, const void *rows, int64_t width)
{
  const hr_model *m = &l->x->model;
  if (l->x->ranks == 1)
    return hr_add_gather(l, HR_NUMBER_ID, rows, m->vocabulary, width);
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COMBINE, l->rows, width);
  r.period = m->vocabulary;
  r.group = 1;
  const hr_input_operand inputs[] = {hr_of_address(hr_numbers_of(l, HR_NUMBER_ID)), hr_of_address(rows),
                                     hr_of_address(hr_numbers_of(l, HR_NUMBER_HERE))};
  return hr_add_rowwise(l, r, inputs, width);
}

static void lower_embedding(hr_lowering *l)
{
  const hr_model *m = &l->x->model;
  const int64_t width = embedding_width(m);
  const void *rows = hr_own_weight(l, 0);
  const hr_run_view tokens =
      l->x->weights.q8 && m->tied_embeddings ? hr_add_q8_gather(l, rows, width) : rows_of_table(l, rows, width);
  hr_write_view(l, 0, hr_add_scaled(l, with_positions(l, tokens), m->numerics.embedding_scale));
}

static void lower_norm(hr_lowering *l)
{
  const hr_model *m = &l->x->model;
  const hr_run_view x = hr_read_view(l, 0);
  hr_rowwise r = hr_rows_of(m->norm == HR_NORM_RMS ? HR_ROWWISE_RMS_NORM : HR_ROWWISE_LAYER_NORM, x.rows, x.columns);
  r.epsilon = m->numerics.norm_epsilon;
  const void *weight = l->op->weights[0] ? hr_own_weight(l, 0) : hr_buffer_data(l->x->ones);
  const void *bias = l->op->weights[1] ? hr_own_weight(l, 1) : hr_buffer_data(l->x->zeros);
  const hr_input_operand inputs[] = {hr_of_view(x), hr_of_address(weight), hr_of_address(bias)};
  hr_write_norm(l, &r, inputs);
}

/* Columns of each of the operator's matrices, whose results are side by side; returns their number. */
static int columns_of(const hr_lowering *l, int64_t *columns)
{
  hr_weight_shapes shapes;
  int count = 0;
  hr_list_weights(&l->x->model, l->group, &shapes);
  for (int i = 0; i < HR_OPERATOR_WEIGHTS_MAX && l->op->weights[i] && !hr_weight_is_bias(l->op->weights[i]); i++)
    columns[count++] = shapes.of[l->op->weights[i]].rows;
  return count;
}

/* Only an activation or a residual reads its result. */
static bool may_go_on(hr_operator_id id)
{
  return id == HR_OP_LINEAR_PROJECTION || id == HR_OP_MLP_UP || id == HR_OP_MLP_GATE || id == HR_OP_MLP_DOWN ||
         id == HR_OP_SHARED_UP || id == HR_OP_SHARED_GATE || id == HR_OP_SHARED_DOWN;
}

static void lower_linear(hr_lowering *l)
{
  hr_run_linear linear;
  hr_fp8_scales scales;
  int64_t columns[HR_OPERATOR_WEIGHTS_MAX];
  const int count = columns_of(l, columns);
  const int bias_role = l->op->weights[count]; /* 0: none */
  const void *bias = bias_role ? hr_own_weight(l, count) : NULL;
  const bool fuses = hr_begin_linear(l, bias, &linear);
  if (fuses && count == 1 && may_go_on(l->op->id)) {
    hr_write_linear(l, &linear);
    return;
  }
  const hr_run_view all = fuses                                     ? hr_add_fused(l, &linear)
                          : hr_multiplies_q8(&l->x->weights, l->op) ? hr_add_q8_gemm(l, hr_read_view(l, 0), bias)
                          : hr_is_fp8(l, &scales)                   ? hr_add_fp8_gemm(l, hr_read_view(l, 0), bias)
                                                                    : hr_add_gemm(l, hr_read_view(l, 0), bias);
  int64_t first = 0;
  for (int i = 0; i < count; first += columns[i++])
    hr_write_view(l, i, hr_columns_of(all, first, columns[i]));
}

/* Tokens are narrower than positions before it. */
static void lower_projection_in(hr_lowering *l)
{
  lower_linear(l);
  hr_write_view(l, 0, with_positions(l, hr_tensor_view(l, l->op->writes[0])));
}

/* They outlive the step. Those of a part that kernels cannot write in their place are copied there. */
static void keep_logits(hr_lowering *l, hr_run_view logits)
{
  const size_t offset = (size_t)(l->part * logits.rows * logits.columns) * hr_element_bytes(l);
  char *to = (char *)hr_buffer_data(l->program->logits) + offset;
  hr_rowwise copy = hr_rows_of(HR_ROWWISE_COPY, logits.rows, logits.columns);
  copy.y_stride = logits.columns; /* says that addresses may be those of any element */
  if (l->status == HR_OK && offset % 16 == 0)
    l->program->values[logits.value].address = to;
  else
    hr_add_rowwise_into(l, copy, (hr_input_operand[]){hr_of_view(logits)}, (hr_output_operand[]){{{.value = -1}, to}},
                        1);
}

static void lower_logits(hr_lowering *l)
{
  lower_linear(l);
  const hr_numerics *n = &l->x->model.numerics;
  const hr_run_view scaled = hr_add_scaled(l, hr_tensor_view(l, HR_TENSOR_LOGITS), n->logit_scale);
  const hr_run_view capped = hr_add_softcap(l, scaled, n->logit_softcap);
  hr_write_view(l, 0, capped);
  if (!l->tape)
    keep_logits(l, capped);
}

static hr_rowwise_operation activation_of(const hr_model *model, bool gated)
{
  hr_rowwise_operation operation = HR_ROWWISE_COUNT;
  hr_run_activation(model, gated, &operation);
  return operation;
}

static void lower_activation(hr_lowering *l)
{
  const bool gated = l->op->reads[1] != HR_TENSOR_NONE;
  hr_rowwise r = hr_rows_of(activation_of(&l->x->model, gated), 0, 0);
  r.factor = l->x->model.numerics.swiglu_limit;
  if (hr_activate_linear(l, &r))
    return;
  const hr_run_view first = hr_read_view(l, 0);
  r.rows = first.rows, r.columns = first.columns;
  const hr_input_operand inputs[] = {hr_of_view(first), hr_of_view(gated ? hr_read_view(l, 1) : first)};
  hr_write_view(l, 0, hr_add_rowwise(l, r, inputs, first.columns));
  if (l->op->id == HR_OP_EXPERT_ACTIVATION)
    hr_limit_to_own_copies(l);
}

static void add_to_sum(hr_lowering *l, int tensor, hr_run_view *sum)
{
  const double factor = l->x->model.numerics.residual_scale;
  if (!hr_add_to_residual(l, tensor, factor, sum))
    *sum = hr_add_pair(l, HR_ROWWISE_RESIDUAL, *sum, hr_add_scaled(l, hr_tensor_view(l, tensor), factor));
}

static void lower_residual(hr_lowering *l)
{
  hr_run_view sum = hr_read_view(l, 0);
  for (int i = 1; i < HR_OPERATOR_READS_MAX && l->op->reads[i]; i++) {
    const hr_run_linear *p = &l->linears[l->op->reads[i]];
    if (p->waits && p->beside)
      add_to_sum(l, p->beside, &sum);
    add_to_sum(l, l->op->reads[i], &sum);
  }
  hr_write_view(l, 0, sum);
}

/* ---- the list ---- */

typedef void (*lower_fn)(hr_lowering *l);

static const lower_fn functions[HR_OPERATOR_ID_COUNT] = {
    [HR_OP_EMBEDDING] = lower_embedding,
    [HR_OP_EMBEDDING_ALL_REDUCE] = hr_lower_all_reduce,
    [HR_OP_EMBEDDING_REDUCE_SCATTER] = hr_lower_reduce_scatter,
    [HR_OP_EMBEDDING_NORM] = lower_norm,
    [HR_OP_EMBEDDING_PROJECTION_IN] = lower_projection_in,
    [HR_OP_ATTENTION_NORM] = lower_norm,
    [HR_OP_ATTENTION_ALL_GATHER] = hr_lower_all_gather,
    [HR_OP_QKV_TRANSFORM] = lower_linear,
    [HR_OP_Q_TRANSFORM] = lower_linear,
    [HR_OP_Q_DOWN] = lower_linear,
    [HR_OP_KV_DOWN] = hr_lower_kv_down,
    [HR_OP_RANK_NORM] = hr_lower_rank_norm,
    [HR_OP_Q_UP] = lower_linear,
    [HR_OP_KV_UP] = hr_lower_kv_up,
    [HR_OP_K_TRANSFORM] = lower_linear,
    [HR_OP_V_TRANSFORM] = lower_linear,
    [HR_OP_QK_NORM] = hr_lower_qk_norm,
    [HR_OP_ROTARY] = hr_lower_rotary,
    [HR_OP_K_ROTARY_COPY] = hr_lower_k_rotary_copy,
    [HR_OP_Q_ABSORB] = hr_lower_q_absorb,
    [HR_OP_ATTENTION] = hr_lower_attention,
    [HR_OP_O_ABSORB] = hr_lower_o_absorb,
    [HR_OP_LINEAR_PROJECTION] = lower_linear,
    [HR_OP_ATTENTION_ALL_REDUCE] = hr_lower_all_reduce,
    [HR_OP_ATTENTION_REDUCE_SCATTER] = hr_lower_reduce_scatter,
    [HR_OP_ATTENTION_POST_NORM] = lower_norm,
    [HR_OP_ATTENTION_RESIDUAL] = lower_residual,
    [HR_OP_MLP_NORM] = lower_norm,
    [HR_OP_MLP_ALL_GATHER] = hr_lower_all_gather,
    [HR_OP_ROUTER] = hr_lower_router,
    [HR_OP_ROUTER_TOP_K] = hr_lower_routes,
    [HR_OP_DISPATCH] = hr_lower_dispatch,
    [HR_OP_EXPERT_UP] = hr_lower_grouped,
    [HR_OP_EXPERT_GATE] = hr_lower_grouped,
    [HR_OP_EXPERT_ACTIVATION] = lower_activation,
    [HR_OP_EXPERT_DOWN] = hr_lower_grouped,
    [HR_OP_SHARED_UP] = lower_linear,
    [HR_OP_SHARED_GATE] = lower_linear,
    [HR_OP_SHARED_ACTIVATION] = lower_activation,
    [HR_OP_SHARED_DOWN] = lower_linear,
    [HR_OP_SHARED_OUTPUT_GATE] = hr_lower_shared_gate,
    [HR_OP_COMBINE] = hr_lower_combine,
    [HR_OP_MLP_UP] = lower_linear,
    [HR_OP_MLP_GATE] = lower_linear,
    [HR_OP_ACTIVATION] = lower_activation,
    [HR_OP_MLP_DOWN] = lower_linear,
    [HR_OP_MLP_ALL_REDUCE] = hr_lower_all_reduce,
    [HR_OP_MLP_REDUCE_SCATTER] = hr_lower_reduce_scatter,
    [HR_OP_MLP_POST_NORM] = lower_norm,
    [HR_OP_MLP_RESIDUAL] = lower_residual,
    [HR_OP_FINAL_NORM] = lower_norm,
    [HR_OP_LOGIT_ALL_GATHER] = hr_lower_all_gather,
    [HR_OP_EMBEDDING_PROJECTION_OUT] = lower_linear,
    [HR_OP_LOGIT] = lower_logits,
};

void hr_lower_operator(hr_lowering *l, size_t index)
{
  l->op = &l->program->operators.items[index];
  l->op_index = index;
  if (!functions[l->op->id])
    hr_lowering_fail(l,
                     hr_fail(l->error, HR_ERROR_UNSUPPORTED, "%s cannot be run yet", hr_operator_id_name(l->op->id)));
  if (l->status == HR_OK)
    functions[l->op->id](l);
}

void hr_lower_layer(hr_lowering *l, int64_t layer, hr_pass pass)
{
  const hr_operators *list = &l->program->operators;
  l->layer = layer;
  l->group = hr_run_group(l->x, layer);
  for (size_t i = 0; i < list->count; i++) {
    const hr_operator *op = &list->items[i];
    if (op->pass == pass && op->groups >> (l->group - l->x->model.groups) & 1)
      hr_lower_operator(l, i);
  }
  l->layer = -1;
  l->group = NULL;
}
