/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of tensors while the backward pass is lowered. */
#ifndef HR_RUN_GRADIENTS_H
#define HR_RUN_GRADIENTS_H

#include "run/tape.h"

/** The gradient of a tensor; value −1: nothing depends on it. */
hr_run_view hr_gradient_of(const hr_lowering *l, hr_run_view x);

/** Where a launch that can write rows apart may put the gradient of x: among the columns of a wider one, or packed. */
hr_run_view hr_gradient_place(hr_lowering *l, hr_run_view x);

/** x has the gradient dx, beside those that it has. What hr_gradient_place() has given is there already. */
void hr_add_gradient(hr_lowering *l, hr_run_view x, hr_run_view dx);

/** The same of a tensor that every rank has, by a weight of which each has a part: dx is the rank's part of a sum. */
void hr_add_partial_gradient(hr_lowering *l, hr_run_view x, hr_run_view dx);

/** Adds up what ranks have of the gradient of x, if that is needed: before it is read. */
void hr_complete_gradient(hr_lowering *l, hr_run_view x);

/** Where a launch puts the gradient of a weight of rows × columns, which then goes to hr_end_weight_gradient(): where
 *  that of the weight is, or into a tensor of its own, if it is added there or the model does not have the weight. */
hr_output_operand hr_begin_weight_gradient(hr_lowering *l, const void *weight, int64_t rows, int64_t columns);
void hr_end_weight_gradient(hr_lowering *l, const void *weight, const hr_output_operand *gradient);

/** Appends the launches of an entry's gradients, of a GEMM those of the pass. */
void hr_back_gemm(hr_lowering *l, const hr_tape_entry *entry, hr_pass pass);
void hr_back_rowwise(hr_lowering *l, const hr_tape_entry *entry, hr_pass pass);

/** The same of a layer of experts: of the choice, of the GEMMs of copies, of the copies, of the sum of their results,
 *  and of a gate of rows. */
void hr_back_route(hr_lowering *l, const hr_tape_entry *entry, hr_pass pass);
void hr_back_grouped(hr_lowering *l, const hr_tape_entry *entry, hr_pass pass);
void hr_back_copies(hr_lowering *l, const hr_tape_entry *entry, hr_run_view dy);
void hr_back_combine(hr_lowering *l, const hr_tape_entry *entry, hr_run_view dy);
void hr_back_gate(hr_lowering *l, const hr_tape_entry *entry, hr_run_view dy);

/** The same of columns before a rotated part, of latent attention. */
void hr_back_join(hr_lowering *l, const hr_tape_entry *entry, hr_run_view dy);

/** Appends the loss and the backward pass; a stage without the loss begins with the gradient that it has received. */
void hr_lower_backward(hr_lowering *l);

/** Appends the optimizer, behind the sums of gradients over replicas. */
void hr_lower_optimizer(hr_lowering *l);

#endif
