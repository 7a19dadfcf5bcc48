/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of a training step: the loss, the gradients of each operator in the order of the list, the last
 * layer first, and the optimizer. */
#include "base/checked.h"
#include "base/error.h"
#include "runtime/device/buffer.h"
#include "training/buckets.h"
#include "training/gradients.h"
#include "training/ranks.h"
#include "training/training.h"

#include <stdlib.h>
#include <string.h>

#define GATHERED_BYTES (INT64_C(2) << 20) /* of logits of all ranks, at least */

/* ---- attention ---- */

static hr_attention_backward backward_of(const hr_lowering *l, const hr_attention *call, const hr_run_view dx[4],
                                         int64_t v_head)
{
  const int64_t tokens = l->program->shape.tokens;
  hr_attention_backward b = hr_attention_backward_default();
  b.dq_strides = hr_strides_of(dx[0], call->qk_dim, tokens);
  b.dk_strides = hr_strides_of(dx[1], call->qk_dim, tokens);
  b.dv_strides = hr_strides_of(dx[2], v_head, tokens);
  b.do_strides = hr_strides_of(dx[3], call->v_dim, tokens);
  return b;
}

static void back_attention(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const hr_tape_attention *t = &e->attention;
  const hr_run_view d_o = hr_gradient_of(l, e->output);
  if (pass != HR_PASS_DGRAD || d_o.value < 0)
    return;
  const hr_run_view inputs[3] = {t->q, t->k, t->v};
  hr_run_view dx[4] = {[3] = d_o};
  hr_attention call = t->call;
  for (int i = 0; i < 3; i++) {
    dx[i] = hr_gradient_place(l, inputs[i]);
    call.alignment = hr_min64(call.alignment, hr_view_alignment(l, dx[i]));
  }
  const hr_attention_backward b = backward_of(l, &call, dx, t->v_head);
  hr_launch *launch = hr_add_launch(l, hr_launch_attention_backward);
  if (!launch)
    return;
  launch->arguments.backward = hr_attention_backward_arguments_default();
  if (call.alibi)
    launch->arguments.backward.alibi_slopes = hr_buffer_data(l->x->slopes);
  hr_lowering_fail(l, hr_plans_attention_backward(l->x->plans, &call, &b, &launch->plan, l->error));
  const struct {
    size_t member;
    hr_run_view view;
  } operands[] = {{offsetof(hr_attention_backward_arguments, q), t->q},
                  {offsetof(hr_attention_backward_arguments, k), t->k},
                  {offsetof(hr_attention_backward_arguments, v), t->v},
                  {offsetof(hr_attention_backward_arguments, o), e->output},
                  {offsetof(hr_attention_backward_arguments, lse), t->lse},
                  {offsetof(hr_attention_backward_arguments, d_o), d_o},
                  {offsetof(hr_attention_backward_arguments, dq), dx[0]},
                  {offsetof(hr_attention_backward_arguments, dk), dx[1]},
                  {offsetof(hr_attention_backward_arguments, dv), dx[2]}};
  for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
    hr_bind(l, operands[i].member, operands[i].view);
  for (int i = 0; i < 3; i++)
    hr_add_gradient(l, inputs[i], dx[i]);
}

/* ---- the loss and the optimizer ---- */

/* The columns of another tensor with as many rows. */
static void copy_columns(hr_lowering *l, hr_run_view from, hr_run_view to)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COPY, from.rows, from.columns);
  r.x_stride = hr_is_packed(from) ? 0 : from.stride;
  r.y_stride = hr_is_packed(to) ? 0 : to.stride;
  hr_add_rowwise_into(l, r, (hr_input_operand[]){hr_of_view(from)}, (hr_output_operand[]){{to, NULL}}, 1);
}

/* A rank's columns of the logits; the last one's may be fewer than it has, filled up by weights of 0. */
static hr_run_view columns_of_rank(const hr_lowering *l, hr_run_view all, int64_t rank)
{
  const int64_t own = l->x->model.vocabulary, first = rank * own;
  return hr_columns_of(all, first, hr_max64(0, hr_min64(own, all.columns - first)));
}

/* All ranks get the columns of all. */
static hr_run_view gather_columns(hr_lowering *l, hr_run_view own)
{
  const int64_t ranks = l->x->ranks;
  const hr_run_view parts = hr_new_view(l, ranks * own.rows, own.columns);
  const hr_run_view all = hr_new_view(l, own.rows, l->x->whole.vocabulary);
  if (!hr_add_message(l, hr_launch_collective, HR_ALL_GATHER, ranks * own.rows * own.columns))
    return all;
  hr_bind(l, offsetof(hr_collective_call, send), own);
  hr_bind(l, offsetof(hr_collective_call, receive), parts);
  for (int64_t rank = 0; rank < ranks; rank++) {
    const hr_run_view to = columns_of_rank(l, all, rank);
    hr_run_view part = hr_columns_of(parts, 0, to.columns);
    part.offset += rank * own.rows * own.columns;
    part.rows = own.rows;
    if (to.columns > 0)
      copy_columns(l, part, to);
  }
  return all;
}

static hr_run_view rows_of(hr_run_view view, int64_t first, int64_t count)
{
  view.offset += first * view.stride;
  view.rows = count;
  return view;
}

/* Losses of tokens from `first` on and the gradient of the mean one, in one launch. */
static void launch_loss(hr_lowering *l, hr_run_view logits, int64_t first, size_t gradient)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_CROSS_ENTROPY_BACKWARD, logits.rows, logits.columns);
  const hr_run_shape *shape = &l->program->shape;
  float *losses = (float *)hr_buffer_data(l->program->logits) + l->part * l->rows + first;
  r.scale = 1 / (double)(l->x->replicas * shape->microbatches * shape->batch * (shape->tokens - 1));
  const hr_input_operand inputs[] = {hr_of_view(logits), hr_of_address(hr_numbers_of(l, HR_NUMBER_TARGET) + first)};
  hr_add_rowwise_into(l, r, inputs, (hr_output_operand[]){{logits, NULL}, {{.value = -1}, losses}}, 2);
  hr_take_part(l, gradient);
}

/* Some rows at a time, so that those of all ranks take little memory. Columns that fill up stay 0, as their logits. */
static void launch_loss_of_ranks(hr_lowering *l, hr_run_view logits, size_t gradient)
{
  const int64_t own_bytes = logits.columns * (int64_t)hr_element_bytes(l), row_bytes = l->x->ranks * own_bytes;
  const int64_t most = hr_max64(1, hr_max64(GATHERED_BYTES, logits.rows * own_bytes / 8) / row_bytes);
  for (int64_t first = 0; first < logits.rows; first += most) {
    const hr_run_view own = rows_of(logits, first, hr_min64(most, logits.rows - first));
    const hr_run_view all = gather_columns(l, own);
    launch_loss(l, all, first, gradient);
    const hr_run_view back = columns_of_rank(l, all, l->x->rank);
    if (back.columns > 0)
      copy_columns(l, back, hr_columns_of(own, 0, back.columns));
  }
}

static void add_loss(hr_lowering *l, size_t gradient)
{
  const hr_run_view logits = l->tensors[HR_TENSOR_LOGITS];
  l->op_index = gradient;
  for (size_t i = 0; i < gradient; i++) {
    if (l->program->operators.items[i].id == HR_OP_LOSS)
      l->op_index = i;
  }
  if (l->x->ranks > 1)
    launch_loss_of_ranks(l, logits, gradient);
  else
    launch_loss(l, logits, 0, gradient);
  if (l->status == HR_OK)
    l->tape->gradients[logits.value] = logits;
}

/* A step of the replica's part of elements first … first + count − 1. */
static void add_update(hr_lowering *l, const hr_run_bucket *of)
{
  const hr_run_bucket own = hr_own_part(l->x, of);
  const hr_rowwise r = hr_run_optimizer(l->x, own.count);
  hr_launch *launch = hr_add_launch(l, hr_launch_rowwise);
  if (!launch)
    return;
  launch->arguments.rows = hr_run_optimizer_arguments(l->x, own.first, of->first / hr_state_parts(l->x));
  if (l->x->squares) {
    launch->arguments.rows.squares = hr_buffer_data(l->x->squares);
    launch->arguments.rows.squares_count = HR_SQUARES_SUMS;
  }
  hr_lowering_fail(l, hr_plans_rowwise(l->x->plans, &r, &launch->plan, l->error));
}

/* The others' parts of updated weights. */
static void add_gather(hr_lowering *l, const hr_run_bucket *bucket, bool last)
{
  const hr_run_bucket own = hr_own_part(l->x, bucket);
  const size_t element = hr_element_bytes(l);
  char *weights = hr_buffer_data(l->x->weights.memory);
  hr_launch *launch = hr_add_message(l, hr_launch_between_replicas, HR_ALL_GATHER, bucket->count);
  if (!launch)
    return;
  launch->collective.send = weights + (size_t)own.first * element;
  launch->collective.receive = weights + (size_t)bucket->first * element;
  launch->beside = last ? 0 : 1;
  launch->awaits = last && l->x->bucket_count > 1 ? 1 : 0;
}

/* The squares of the replica's parts of all buckets are added up, and then those of all replicas. */
static void add_squares(hr_lowering *l)
{
  const hr_executor *x = l->x;
  for (int i = 0; i < x->bucket_count; i++) {
    const hr_run_bucket own = hr_own_part(x, &x->buckets[i]);
    const hr_rowwise_arguments a = hr_run_optimizer_arguments(x, own.first, 0);
    hr_launch *launch = hr_add_launch(l, hr_launch_squares);
    if (!launch)
      return;
    launch->squares =
        (hr_squares_arguments){x->options.dtype, own.count, a.inputs[0], hr_buffer_data(x->squares), i > 0};
  }
  hr_launch *sum = hr_add_message(l, hr_launch_between_replicas, HR_ALL_REDUCE, HR_SQUARES_SUMS);
  if (!sum)
    return;
  sum->collective.dtype = HR_FP32;
  sum->collective.send = sum->collective.receive = hr_buffer_data(x->squares);
}

/* All at once, or with parts bucket by bucket: one is sent while the next is updated. */
static void add_optimizer(hr_lowering *l)
{
  const hr_executor *x = l->x;
  const hr_run_bucket all = {0, (int64_t)(hr_buffer_bytes(x->weights.memory) / hr_element_bytes(l))};
  const size_t optimizer = l->op_index;
  l->program->optimizer = l->program->launch_count;
  hr_lower_rank_gradients(l);
  if (hr_state_parts(x) == 1) {
    if (x->squares)
      hr_lower_rank_squares(l);
    add_update(l, &all);
    return;
  }
  if (x->squares)
    add_squares(l);
  const int gather = hr_operator_of(l, HR_OP_WEIGHT_ALL_GATHER);
  for (int i = 0; i < x->bucket_count; i++) {
    l->op_index = optimizer;
    add_update(l, &x->buckets[i]);
    l->op_index = (size_t)gather;
    add_gather(l, &x->buckets[i], i + 1 == x->bucket_count);
  }
}

/* ---- the list ---- */

/* Each rank has a part of the gradient of gathered rows. */
static void back_exchange(hr_lowering *l, const hr_tape_entry *e, hr_pass pass)
{
  const bool gathered = e->kind == HR_TAPE_GATHERED;
  const hr_run_view dy = hr_gradient_of(l, e->output), dx = hr_new_view(l, e->sent.rows, e->sent.columns);
  if (pass != HR_PASS_DGRAD || dy.value < 0)
    return;
  hr_add_exchange(l, gathered ? HR_REDUCE_SCATTER : HR_ALL_GATHER, dy, dx);
  hr_add_gradient(l, e->sent, dx);
}

static void (*const back[])(hr_lowering *l, const hr_tape_entry *entry, hr_pass pass) = {
    [HR_TAPE_ROWWISE] = hr_back_rowwise, [HR_TAPE_GEMM] = hr_back_gemm,       [HR_TAPE_ATTENTION] = back_attention,
    [HR_TAPE_ROUTE] = hr_back_route,     [HR_TAPE_GROUPED] = hr_back_grouped, [HR_TAPE_SCATTERED] = back_exchange,
    [HR_TAPE_GATHERED] = back_exchange};

/* An operator's gradients have its name, and name what it works on: a layer may have two norms of ranks. */
static bool is_gradient_of(const hr_operator *gradient, const hr_operator *of)
{
  return gradient->id == of->id && memcmp(gradient->writes, of->writes, sizeof of->writes) == 0 &&
         memcmp(gradient->weights, of->weights, sizeof of->weights) == 0;
}

/* The gradients of what the forward operator has launched in the layer, the last first. */
static void lower_gradients(hr_lowering *l, size_t index)
{
  const hr_operators *list = &l->program->operators;
  const hr_tape *t = l->tape;
  l->op = &list->items[index];
  l->op_index = index;
  for (int i = t->count; i-- > 0 && l->status == HR_OK;) {
    const hr_tape_entry *entry = &t->entries[i];
    if (entry->layer != l->layer || !is_gradient_of(l->op, &list->items[entry->op]))
      continue;
    if (entry->kind != HR_TAPE_GATHERED)
      hr_complete_gradient(l, entry->output);
    back[entry->kind](l, entry, l->op->pass);
  }
}

/* Room for the gradients of all values that there are. */
static void add_gradient_room(hr_lowering *l)
{
  hr_tape *t = l->tape;
  const int values = l->program->value_count;
  if (l->status != HR_OK)
    return;
  hr_run_view *larger = realloc(t->gradients, ((size_t)values + 1) * sizeof *larger);
  t->gradients = larger ? larger : t->gradients;
  bool *partial = larger ? realloc(t->partial, ((size_t)values + 1) * sizeof *partial) : NULL;
  if (!partial) {
    hr_lowering_fail(l, hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step"));
    return;
  }
  t->partial = partial;
  for (; t->gradient_room < values; t->gradient_room++) {
    larger[t->gradient_room] = (hr_run_view){.value = -1};
    partial[t->gradient_room] = false;
  }
}

/* The layer once more, from what it began with. Its result has the gradient of the one before. */
static void compute_again(hr_lowering *l, int64_t layer)
{
  hr_tape *t = l->tape;
  t->keeps = true;
  l->tensors[HR_TENSOR_HIDDEN] = t->starts[layer];
  hr_lower_layer(l, layer, HR_PASS_RECOMPUTE);
  t->keeps = false;
  add_gradient_room(l);
  if (l->status == HR_OK)
    t->gradients[l->tensors[HR_TENSOR_HIDDEN].value] = t->gradients[t->starts[layer + 1].value];
}

static bool has_gradients(const hr_operator *op)
{
  return op->pass == HR_PASS_DGRAD || op->pass == HR_PASS_WGRAD;
}

static void lower_layer_back(hr_lowering *l, int64_t layer)
{
  const hr_operators *list = &l->program->operators;
  if (l->x->options.recompute == HR_RECOMPUTE_FULL)
    compute_again(l, layer);
  l->layer = layer;
  l->group = hr_run_group(l->x, layer);
  for (size_t i = 0; i < list->count; i++) {
    if (has_gradients(&list->items[i]) && list->items[i].groups >> (l->group - l->x->model.groups) & 1)
      lower_gradients(l, i);
  }
  l->layer = -1;
  l->group = NULL;
}

/* Gradients outside of layers, which the last stage has, up to the first one of a layer; returns where they end. */
static size_t lower_head_back(hr_lowering *l)
{
  const hr_operators *list = &l->program->operators;
  size_t i = 0;
  while (i < list->count && !has_gradients(&list->items[i]))
    i++;
  for (; i < list->count && !list->items[i].in_layer; i++) {
    if (list->items[i].id == HR_OP_LOSS && l->x->weights.ends)
      add_loss(l, i);
    else
      lower_gradients(l, i);
  }
  if (!l->x->weights.ends && l->status == HR_OK)
    l->tape->gradients[l->tape->starts[l->x->layers].value] = l->tape->received;
  return i;
}

void hr_lower_backward(hr_lowering *l)
{
  const hr_operators *list = &l->program->operators;
  l->tape->keeps = false;
  add_gradient_room(l);
  if (l->status != HR_OK)
    return;
  size_t i = lower_head_back(l);
  for (int64_t layer = l->x->layers; layer-- > 0;)
    lower_layer_back(l, layer);
  for (; i < list->count; i++) {
    if (!list->items[i].in_layer && list->items[i].id != HR_OP_OPTIMIZER)
      lower_gradients(l, i);
  }
}

void hr_lower_optimizer(hr_lowering *l)
{
  hr_lower_gradient_sums(l);
  l->op_index = (size_t)hr_operator_of(l, HR_OP_OPTIMIZER);
  add_optimizer(l);
}
