/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of tensors: their places, and their sums. */
#include "training/gradients.h"

#include "base/checked.h"
#include "base/error.h"
#include "training/buckets.h"
#include "training/training.h"

/* ---- gradients of tensors ---- */

static bool is_whole(const hr_lowering *l, hr_run_view x)
{
  return x.offset == 0 && x.columns == l->program->values[x.value].columns;
}

/* The part of another tensor with the same rows that x is of its own. */
static hr_run_view same_part(hr_run_view whole, hr_run_view x)
{
  return (hr_run_view){whole.value, x.offset, x.rows, whole.stride, x.columns};
}

/* The gradient of a rank's part of a sum is that of the sum. */
static int value_with_gradient(const hr_tape *t, int value)
{
  for (int i = t->sum_count; i-- > 0;) {
    if (t->sums[i].part == value)
      return t->sums[i].sum;
  }
  return value;
}

hr_run_view hr_gradient_of(const hr_lowering *l, hr_run_view x)
{
  const hr_run_view whole = l->tape->gradients[value_with_gradient(l->tape, x.value)];
  if (whole.value < 0 || is_whole(l, x))
    return whole;
  return same_part(whole, x);
}

hr_run_view hr_gradient_place(hr_lowering *l, hr_run_view x)
{
  hr_run_view *wide = &l->tape->gradients[x.value];
  if (l->status != HR_OK || is_whole(l, x))
    return hr_new_view(l, x.rows, x.columns);
  if (wide->value < 0)
    *wide = hr_new_view(l, x.rows, l->program->values[x.value].columns);
  return same_part(*wide, x);
}

/* Rows that are apart: copied there. */
static void copy_into(hr_lowering *l, hr_run_view to, hr_run_view from)
{
  hr_rowwise r = hr_rows_of(HR_ROWWISE_COPY, from.rows, from.columns);
  r.y_stride = to.stride;
  hr_add_rowwise_into(l, r, (hr_input_operand[]){hr_of_view(from)}, (hr_output_operand[]){{to, NULL}}, 1);
}

static bool is_residual(hr_operator_id id)
{
  return id == HR_OP_ATTENTION_RESIDUAL || id == HR_OP_MLP_RESIDUAL;
}

/* The list has the sum as the gradient of the residual that has written x; elsewhere it is the running operator's. */
static size_t operator_of_sum(const hr_lowering *l, hr_run_view x)
{
  const hr_operators *list = &l->program->operators;
  hr_operator_id writer = HR_OPERATOR_ID_COUNT;
  for (int i = 0; i < l->tape->count; i++) {
    if (l->tape->entries[i].output.value == x.value)
      writer = list->items[l->tape->entries[i].op].id;
  }
  for (size_t i = 0; i < list->count && is_residual(writer); i++) {
    if (list->items[i].id == writer && list->items[i].pass == HR_PASS_DGRAD)
      return i;
  }
  return l->op_index;
}

static hr_run_view sum_of(hr_lowering *l, hr_run_view x, hr_run_view a, hr_run_view b)
{
  const size_t running = l->op_index;
  l->op_index = operator_of_sum(l, x);
  const hr_run_view sum = hr_add_pair(l, HR_ROWWISE_RESIDUAL, a, b);
  l->op_index = running;
  return sum;
}

/* Each rank gets the sum of what all have there. */
static void add_up_ranks(hr_lowering *l, hr_run_view gradient)
{
  if (!hr_add_message(l, hr_launch_collective, HR_ALL_REDUCE, gradient.rows * gradient.columns))
    return;
  hr_bind(l, offsetof(hr_collective_call, send), gradient);
  hr_bind(l, offsetof(hr_collective_call, receive), gradient);
}

/* The list has such a sum of the layer's attention and of its feed-forward network. */
static size_t operator_of_ranks(const hr_lowering *l)
{
  const hr_operators *list = &l->program->operators;
  const hr_operator_id wanted = l->op->id == HR_OP_ATTENTION_NORM ? HR_OP_ATTENTION_ALL_REDUCE : HR_OP_MLP_ALL_REDUCE;
  for (size_t i = 0; i < list->count && l->layer >= 0; i++) {
    if (list->items[i].id == wanted && list->items[i].pass == HR_PASS_DGRAD)
      return i;
  }
  return l->op_index;
}

void hr_complete_gradient(hr_lowering *l, hr_run_view x)
{
  const size_t running = l->op_index;
  if (l->status != HR_OK || !l->tape->partial[x.value])
    return;
  l->op_index = operator_of_ranks(l);
  add_up_ranks(l, l->tape->gradients[x.value]);
  l->op_index = running;
  l->tape->partial[x.value] = false;
}

void hr_add_partial_gradient(hr_lowering *l, hr_run_view x, hr_run_view dx)
{
  if (l->status != HR_OK)
    return;
  bool *partial = &l->tape->partial[x.value];
  const bool joins = is_whole(l, x) && (l->tape->gradients[x.value].value < 0 || *partial);
  if (l->x->ranks > 1 && !joins)
    add_up_ranks(l, dx);
  *partial = false; /* what is there is of the same kind */
  hr_add_gradient(l, x, dx);
  *partial = l->x->ranks > 1 && joins;
}

void hr_add_gradient(hr_lowering *l, hr_run_view x, hr_run_view dx)
{
  if (l->status == HR_OK)
    hr_complete_gradient(l, x);
  hr_run_view *has = &l->tape->gradients[x.value];
  if (l->status != HR_OK || has->value == dx.value)
    return;
  if (!is_whole(l, x))
    copy_into(l, hr_gradient_place(l, x), hr_packed(l, dx));
  else if (has->value < 0)
    *has = dx;
  else
    *has = sum_of(l, x, *has, dx);
}

/* ---- gradients of weights ---- */

hr_output_operand hr_begin_weight_gradient(hr_lowering *l, const void *weight, int64_t rows, int64_t columns)
{
  void *address = hr_run_gradient(l->x, weight);
  if (!address || hr_adds_gradients(l))
    return (hr_output_operand){.view = hr_new_view(l, rows, columns)};
  return (hr_output_operand){.view = {.value = -1}, .address = address};
}

void hr_end_weight_gradient(hr_lowering *l, const void *weight, const hr_output_operand *gradient)
{
  const hr_run_view added = gradient->view;
  void *sum = hr_run_gradient(l->x, weight);
  if (gradient->address)
    hr_gradient_is_launched(l, weight);
  if (gradient->address || !sum)
    return;
  hr_add_rowwise_into(l, hr_rows_of(HR_ROWWISE_RESIDUAL, added.rows, added.columns),
                      (hr_input_operand[]){hr_of_address(sum), hr_of_view(added)},
                      (hr_output_operand[]){{{.value = -1}, sum}}, 1);
  hr_gradient_is_launched(l, weight);
}
