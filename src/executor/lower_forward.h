/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering of a step's passes. */
#ifndef HR_EXECUTOR_LOWER_FORWARD_H
#define HR_EXECUTOR_LOWER_FORWARD_H

#include "run/tape.h"

/** The lowering of a part of a program, on a tape if it trains. */
hr_lowering hr_begin_lowering(hr_executor *x, hr_run_program *program, int64_t part, hr_tape *tape, hr_error *error);

/** Makes an empty tape; frees it. */
hr_status hr_tape_begin(const hr_executor *x, hr_tape *tape, hr_error *error);
void hr_tape_end(hr_tape *tape);

/** Appends the launches of all operators up to the loss that the stage has. One that has no embedding begins with
 *  tensor HR_TENSOR_HIDDEN, and one that has no logits ends with that. */
void hr_lower_forward(hr_lowering *l);

/** Appends the launches of all parts of a stage's program, with messages between them. */
hr_status hr_lower_stage(hr_executor *x, hr_run_program *program, hr_error *error);

#endif
