/* SPDX-License-Identifier: Apache-2.0 */
#include "run/tape.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static hr_tape_entry *append(hr_lowering *l)
{
  hr_tape *t = l->tape;
  if (t->count == t->room) {
    const int more = t->room > 0 ? 2 * t->room : 64;
    hr_tape_entry *larger = realloc(t->entries, (size_t)more * sizeof *larger);
    if (!larger) {
      l->status = hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step");
      return NULL;
    }
    t->entries = larger;
    t->room = more;
  }
  return &t->entries[t->count++];
}

hr_tape_entry *hr_keep(hr_lowering *l, hr_tape_kind kind, hr_run_view output)
{
  const bool keeps = l->tape && l->tape->keeps && l->status == HR_OK;
  hr_tape_entry *entry = keeps ? append(l) : NULL;
  if (!entry)
    return NULL;
  memset(entry, 0, sizeof *entry);
  entry->kind = kind;
  entry->op = l->op_index;
  entry->layer = l->layer;
  entry->output = output;
  return entry;
}

void hr_keep_gemm(hr_lowering *l, hr_run_view x, const void *weight, const void *bias, hr_run_view output)
{
  hr_tape_entry *entry = hr_keep(l, HR_TAPE_GEMM, output);
  if (!entry)
    return;
  entry->gemm.x = x;
  entry->gemm.weight = weight;
  entry->gemm.bias = bias;
}

void hr_keep_rowwise(hr_lowering *l, const hr_rowwise *problem, const hr_input_operand *inputs, hr_run_view output)
{
  hr_tape_entry *entry = hr_keep(l, HR_TAPE_ROWWISE, output);
  if (!entry)
    return;
  entry->rows.problem = *problem;
  for (int i = 0; i < hr_rowwise_inputs(problem->operation); i++)
    entry->rows.inputs[i] = inputs[i];
}

void hr_keep_route(hr_lowering *l, hr_run_view logits)
{
  hr_tape_entry *entry = hr_keep(l, HR_TAPE_ROUTE, l->routes[HR_ROUTE_WEIGHTS]);
  if (!entry)
    return;
  entry->route.how = l->program->launches[l->program->launch_count - 1].route;
  entry->route.logits = logits;
  memcpy(entry->route.of, l->routes, sizeof entry->route.of);
}

void hr_keep_grouped(hr_lowering *l, const hr_grouped_arguments *how, hr_run_view a, hr_run_view output)
{
  hr_tape_entry *entry = hr_keep(l, HR_TAPE_GROUPED, output);
  if (!entry)
    return;
  entry->grouped = (hr_tape_grouped){*how, a};
}

void hr_keep_exchange(hr_lowering *l, hr_tape_kind kind, hr_run_view sent, hr_run_view output)
{
  hr_tape_entry *entry = hr_keep(l, kind, output);
  if (entry)
    entry->sent = sent;
}

void hr_keep_sum(hr_lowering *l, hr_run_view part, hr_run_view sum)
{
  hr_tape *t = l->tape;
  if (!t || !t->keeps || l->status != HR_OK)
    return;
  if (t->sum_count == t->sum_room) {
    const int more = t->sum_room > 0 ? 2 * t->sum_room : 64;
    hr_summed_value *larger = realloc(t->sums, (size_t)more * sizeof *larger);
    if (!larger) {
      l->status = hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step");
      return;
    }
    t->sums = larger;
    t->sum_room = more;
  }
  t->sums[t->sum_count++] = (hr_summed_value){part.value, sum.value};
}
