/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks send each other between operators. */
#include "run/lower.h"

hr_status hr_launch_collective(const hr_plan *plan, const hr_arguments *arguments, const hr_launch_place *at,
                               hr_error *error)
{
  (void)plan;
  return hr_communicate(at->communicator, (const hr_collective_call *)(const void *)arguments, at->stream, error);
}

/* The rank's part of a sum: of a parallel block that of both branches. */
static hr_run_view part_of_sum(hr_lowering *l)
{
  hr_run_view part = hr_read_view(l, 0);
  for (int i = 1; i < HR_OPERATOR_READS_MAX && l->op->reads[i]; i++)
    part = hr_add_pair(l, HR_ROWWISE_RESIDUAL, part, hr_read_view(l, i));
  return hr_packed(l, part);
}

void hr_lower_all_reduce(hr_lowering *l)
{
  const hr_run_view part = part_of_sum(l), sum = hr_new_view(l, part.rows, part.columns);
  hr_launch *launch = hr_add_launch(l, hr_launch_collective);
  if (!launch)
    return;
  launch->collective = hr_collective_call_default();
  launch->collective.kind = l->op->collective;
  launch->collective.dtype = l->x->options.dtype;
  launch->collective.count = part.rows * part.columns;
  hr_bind(l, offsetof(hr_collective_call, send), part);
  hr_bind(l, offsetof(hr_collective_call, receive), sum);
  hr_write_view(l, 0, sum);
}

/* ---- with a norm ---- */

/* The last launch adds a sum of ranks, which the one before makes, to another tensor. NULL: it does not. */
static hr_launch *sum_of_ranks(const hr_lowering *l, hr_run_view x, hr_run_view *residual)
{
  if (!hr_was_added_last(l, x) || l->sum.launch < 1)
    return NULL;
  hr_launch *before = &l->program->launches[l->sum.launch - 1];
  if (before->run != hr_launch_collective)
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
  if (!reduces || norm->operation != HR_ROWWISE_RMS_NORM || !inputs[1].address || residual.stride != norm->columns)
    return false;
  hr_collective_call call = reduces->collective;
  call.columns = norm->columns;
  return hr_communicator_takes_norm(l->x->options.communicator, &call);
}

/* It takes the place of both launches, so that what it writes lives from there on. */
hr_run_view hr_add_norm_of_ranks(hr_lowering *l, const hr_rowwise *norm, const hr_input_operand inputs[3])
{
  hr_run_program *p = l->program;
  hr_run_view residual;
  hr_launch *launch = sum_of_ranks(l, inputs[0].view, &residual);
  const size_t op = l->op_index;
  p->launch_count--;
  hr_plan_free(p->launches[p->launch_count].plan);
  const hr_launch sums = p->launches[p->launch_count];
  p->launch_count--;
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
