/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks send each other between operators. */
#include "run/tape.h"

hr_launch *hr_add_message(hr_lowering *l, hr_launch_fn between, hr_collective_kind kind, int64_t count)
{
  hr_launch *launch = hr_add_launch(l, between);
  if (!launch)
    return NULL;
  launch->collective = hr_collective_call_default();
  launch->collective.kind = kind;
  launch->collective.dtype = l->x->options.dtype;
  launch->collective.count = count;
  return launch;
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
  if (!hr_add_message(l, hr_launch_collective, l->op->collective, part.rows * part.columns))
    return;
  hr_bind(l, offsetof(hr_collective_call, send), part);
  hr_bind(l, offsetof(hr_collective_call, receive), sum);
  hr_keep_sum(l, part, sum);
  hr_write_view(l, 0, sum);
}
