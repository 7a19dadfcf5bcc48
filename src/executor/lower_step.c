/* SPDX-License-Identifier: Apache-2.0 */
/* The launches of a whole step: the forward pass, and of training the backward pass and the optimizer. */
#include "executor/lower_forward.h"
#include "training/gradients.h"

#include "base/error.h"

static hr_status lower_training(hr_lowering *l)
{
  hr_lower_forward(l);
  hr_lower_backward(l);
  hr_lower_optimizer(l);
  return l->status;
}

hr_status hr_lower(hr_executor *x, hr_run_program *program, hr_error *error)
{
  const bool trains = program->shape.phase == HR_PHASE_TRAIN;
  hr_tape tape;
  if (x->stages > 1)
    return hr_lower_stage(x, program, error);
  hr_lowering l = hr_begin_lowering(x, program, 0, trains ? &tape : NULL, error);
  if (trains) {
    HR_TRY(hr_tape_begin(x, &tape, error));
    hr_status status = lower_training(&l);
    hr_tape_end(&tape);
    return status;
  }
  hr_lower_forward(&l);
  hr_overlap_sums(&l);
  program->optimizer = program->launch_count;
  return l.status;
}
