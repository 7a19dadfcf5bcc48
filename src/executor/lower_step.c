/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a whole step: what is before the layers, each layer, what is behind them, and the backward pass. */
#include "base/error.h"
#include "training/gradients.h"

#include <headroom/experimental/operators.h>
#include <stdlib.h>

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

/* Up to the loss. */
static void lower_forward(hr_lowering *l)
{
  const hr_operators *list = &l->program->operators;
  size_t i = 0;
  for (; i < list->count && !list->items[i].in_layer; i++)
    hr_lower_operator(l, i);
  lower_layers(l);
  for (; i < list->count && list->items[i].pass == HR_PASS_FORWARD && list->items[i].id != HR_OP_LOSS; i++) {
    if (!list->items[i].in_layer)
      hr_lower_operator(l, i);
  }
}

static hr_status lower_training(hr_lowering *l)
{
  hr_tape tape = {.keeps = true};
  tape.starts = calloc((size_t)l->x->layers + 1, sizeof *tape.starts);
  if (!tape.starts)
    return hr_fail(l->error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a training step");
  l->tape = &tape;
  lower_forward(l);
  hr_lower_backward(l);
  free(tape.entries);
  free(tape.gradients);
  free(tape.written);
  free(tape.partial);
  free(tape.sums);
  free(tape.starts);
  return l->status;
}

hr_status hr_lower(hr_executor *x, hr_run_program *program, hr_error *error)
{
  static const hr_run_view none = {.value = -1};
  hr_lowering l = {.x = x,
                   .program = program,
                   .layer = -1,
                   .rows = program->shape.batch * program->shape.tokens,
                   .angles = {none, none},
                   .angles_back = {none, none},
                   .dispatched = none,
                   .error = error};
  if (program->shape.phase == HR_PHASE_TRAIN)
    return lower_training(&l);
  lower_forward(&l);
  hr_overlap_sums(&l);
  program->optimizer = program->launch_count;
  return l.status;
}
