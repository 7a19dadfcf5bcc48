/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a forward pass: what is before the layers, each layer, what is behind them. */
#include "executor/lower_forward.h"

#include "base/error.h"

#include <headroom/experimental/operators.h>
#include <stdlib.h>

hr_lowering hr_begin_lowering(hr_executor *x, hr_run_program *program, int64_t part, hr_tape *tape, hr_error *error)
{
  static const hr_run_view none = {.value = -1};
  return (hr_lowering){.x = x,
                       .program = program,
                       .tape = tape,
                       .layer = -1,
                       .rows = hr_run_tokens(&program->shape),
                       .part = part,
                       .persists = !tape && hr_run_persists(x, &program->shape),
                       .angles = {none, none},
                       .angles_back = {none, none},
                       .dispatched = none,
                       .narrowed_from = none,
                       .error = error};
}

hr_status hr_tape_begin(const hr_executor *x, hr_tape *tape, hr_error *error)
{
  *tape = (hr_tape){.keeps = true, .received = {.value = -1}};
  tape->starts = calloc((size_t)x->layers + 1, sizeof *tape->starts);
  return tape->starts ? HR_OK : hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step");
}

void hr_tape_end(hr_tape *tape)
{
  void *const lists[] = {tape->entries, tape->gradients, tape->written, tape->partial, tape->sums, tape->starts};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    free(lists[i]);
}

/* Layers that are computed again keep nothing but what they begin with. */
static void lower_layers(hr_lowering *l)
{
  hr_tape *t = l->tape;
  if (t)
    t->keeps = l->x->options.recompute != HR_RECOMPUTE_FULL;
  for (int64_t layer = 0; layer < l->x->layers; layer++) {
    if (t)
      t->starts[layer] = l->tensors[HR_TENSOR_HIDDEN];
    hr_lower_layer(l, layer, HR_PASS_FORWARD);
  }
  if (!t)
    return;
  t->starts[l->x->layers] = l->tensors[HR_TENSOR_HIDDEN];
  t->keeps = true;
}

static bool is_here(const hr_lowering *l, const hr_operator *op)
{
  return !op->in_layer && op->id != HR_OP_PIPELINE_SEND && hr_stage_has(&l->x->weights, op);
}

void hr_lower_forward(hr_lowering *l)
{
  const hr_operators *list = &l->program->operators;
  size_t i = 0;
  for (; i < list->count && !list->items[i].in_layer; i++) {
    if (is_here(l, &list->items[i]))
      hr_lower_operator(l, i);
  }
  lower_layers(l);
  for (; i < list->count && list->items[i].pass == HR_PASS_FORWARD && list->items[i].id != HR_OP_LOSS; i++) {
    if (is_here(l, &list->items[i]))
      hr_lower_operator(l, i);
  }
}
