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

hr_run_view hr_gradient_of(const hr_lowering *l, hr_run_view x)
{
  const hr_run_view whole = l->tape->gradients[x.value];
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

void hr_add_gradient(hr_lowering *l, hr_run_view x, hr_run_view dx)
{
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
  if (!address || l->program->shape.adds)
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
