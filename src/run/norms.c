/* SPDX-License-Identifier: Apache-2.0 */
/* Norms. One behind a sum is computed by the launch of that sum, also where ranks add it up. */
#include "run/tape.h"

#include "base/error.h"

/* The last launch has added x up. */
static bool was_added_last(const hr_lowering *l, hr_run_view x)
{
  const hr_run_sum *sum = &l->sum;
  return l->status == HR_OK && sum->launch == l->program->launch_count - 1 && sum->launch > 0 &&
         sum->result.value == x.value && sum->result.rows == x.rows && sum->result.columns == x.columns;
}

/* ---- of a sum ---- */

static hr_rowwise with_sum(const hr_lowering *l, hr_rowwise norm)
{
  norm.operation =
      norm.operation == HR_ROWWISE_RMS_NORM ? HR_ROWWISE_RESIDUAL_RMS_NORM : HR_ROWWISE_RESIDUAL_LAYER_NORM;
  norm.dtype = l->x->options.dtype;
  return norm;
}

/* The plan is kept for the launch. */
static bool has_kernel(hr_lowering *l, const hr_rowwise *rows)
{
  hr_plan *plan = NULL;
  const hr_status status = hr_plans_rowwise(l->x->plans, rows, &plan, NULL);
  hr_plan_free(plan);
  if (status == HR_ERROR_OUT_OF_MEMORY)
    hr_lowering_fail(l, hr_fail(l->error, status, "not enough memory for a step's launches"));
  return status == HR_OK;
}

/* The operator of the sum keeps the launch. */
static hr_run_view add_both(hr_lowering *l, hr_rowwise norm, const hr_input_operand inputs[3])
{
  const hr_rowwise rows = with_sum(l, norm);
  const hr_input_operand all[] = {hr_of_view(l->sum.of[0]), hr_of_view(l->sum.of[1]), inputs[1], inputs[2]};
  const size_t op = l->op_index;
  hr_launch *last = &l->program->launches[--l->program->launch_count];
  l->op_index = last->ops[0];
  hr_plan_free(last->plan);
  const hr_run_view y = hr_new_view(l, rows.rows, rows.columns);
  hr_add_rowwise_into(l, rows, all, (hr_output_operand[]){{y, NULL}, {l->sum.result, NULL}}, 2);
  l->op_index = op;
  hr_take_part(l, op);
  hr_keep_rowwise(l, &norm, inputs, y);
  return y;
}

/* ---- of a sum of ranks ---- */

/* The last launch adds a sum of ranks, which the one before makes, to another tensor. NULL: it does not. */
static hr_launch *sum_of_ranks(const hr_lowering *l, hr_run_view x, hr_run_view *residual)
{
  if (!was_added_last(l, x))
    return NULL;
  hr_launch *before = &l->program->launches[l->sum.launch - 1];
  if (before->run != hr_launch_collective || before->collective.kind != HR_ALL_REDUCE)
    return NULL;
  for (int i = 0; i < 2; i++) {
    *residual = l->sum.of[1 - i];
    if (l->sum.of[i].value == before->operands[1].value)
      return before;
  }
  return NULL;
}

bool hr_ends_sum_of_ranks(const hr_lowering *l, const hr_rowwise *norm, const hr_input_operand inputs[3])
{
  hr_run_view residual;
  const hr_launch *reduces = sum_of_ranks(l, inputs[0].view, &residual);
  if (l->tape || !reduces || norm->operation != HR_ROWWISE_RMS_NORM || !inputs[1].address ||
      residual.stride != norm->columns || hr_pieces_of(l) > 1)
    return false;
  hr_collective_call call = reduces->collective;
  call.columns = norm->columns;
  return hr_communicator_takes_norm(l->x->options.communicator, &call);
}

/* It takes the place of both launches, so that what it writes lives from there on. */
static hr_run_view add_norm_of_ranks(hr_lowering *l, const hr_rowwise *norm, const hr_input_operand inputs[3])
{
  hr_run_program *p = l->program;
  hr_run_view residual;
  hr_launch *launch = sum_of_ranks(l, inputs[0].view, &residual);
  const size_t op = l->op_index;
  p->launch_count--;
  hr_plan_free(p->launches[p->launch_count].plan);
  const hr_launch sums = p->launches[p->launch_count];
  p->launch_count--;
  /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): hr_ends_sum_of_ranks() found one */
  const hr_run_view y = hr_new_view(l, residual.rows, residual.columns);
  if (l->status != HR_OK)
    return y;
  p->launch_count++;
  p->values[launch->operands[1].value].bytes = 0;
  p->values[l->sum.result.value].first = p->launch_count - 1;
  launch->operands[1].value = y.value;
  launch->collective.columns = norm->columns;
  launch->collective.epsilon = norm->epsilon;
  launch->collective.norm_weight = inputs[1].address;
  hr_bind(l, offsetof(hr_collective_call, residual), residual);
  hr_bind(l, offsetof(hr_collective_call, residual_sum), l->sum.result);
  hr_take_part(l, sums.ops[0]);
  hr_take_part(l, op);
  return y;
}

/* ---- any ---- */

hr_run_view hr_add_norm(hr_lowering *l, hr_rowwise rows, const hr_input_operand inputs[3])
{
  const hr_rowwise both = with_sum(l, rows);
  if (hr_ends_sum_of_ranks(l, &rows, inputs))
    return add_norm_of_ranks(l, &rows, inputs);
  return was_added_last(l, inputs[0].view) && has_kernel(l, &both) ? add_both(l, rows, inputs)
                                                                   : hr_add_rowwise(l, rows, inputs, rows.columns);
}
