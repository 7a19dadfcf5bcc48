/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks send each other between operators. */
#include "run/tape.h"

#include "base/checked.h"

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

void hr_add_exchange(hr_lowering *l, hr_collective_kind kind, hr_run_view send, hr_run_view receive)
{
  if (!hr_add_message(l, hr_launch_collective, kind, hr_max64(send.rows, receive.rows) * send.columns))
    return;
  hr_bind(l, offsetof(hr_collective_call, send), send);
  hr_bind(l, offsetof(hr_collective_call, receive), receive);
}

void hr_lower_all_reduce(hr_lowering *l)
{
  const hr_run_view part = part_of_sum(l), sum = hr_new_view(l, part.rows, part.columns);
  hr_add_exchange(l, l->op->collective, part, sum);
  hr_keep_sum(l, part, sum);
  hr_write_view(l, 0, sum);
}

void hr_lower_reduce_scatter(hr_lowering *l)
{
  const hr_run_view part = part_of_sum(l), own = hr_new_view(l, part.rows / l->x->ranks, part.columns);
  hr_add_exchange(l, l->op->collective, part, own);
  hr_keep_exchange(l, HR_TAPE_SCATTERED, part, own);
  hr_write_view(l, 0, own);
}

void hr_lower_all_gather(hr_lowering *l)
{
  const hr_run_view own = hr_packed(l, hr_read_view(l, 0));
  const hr_run_view all = hr_new_view(l, own.rows * l->x->ranks, own.columns);
  hr_add_exchange(l, l->op->collective, own, all);
  hr_keep_exchange(l, HR_TAPE_GATHERED, own, all);
  hr_write_view(l, 0, all);
}
