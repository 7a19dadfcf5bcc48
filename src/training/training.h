/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor that trains has beside weights: a gradient of each, and the optimizer's state. */
#ifndef HR_RUN_TRAINING_H
#define HR_RUN_TRAINING_H

#include "run/executor.h"

/** HR_ERROR_UNSUPPORTED, saying what it is, if the model runs but has no gradients yet. */
hr_status hr_run_check_training(const hr_model *model, hr_error *error);

/** Bytes for `weight_bytes` of weights. */
int64_t hr_run_training_bytes(const hr_executor *x, int64_t weight_bytes);

/** Allocates it behind the weights. */
hr_status hr_run_allocate_training(hr_executor *x, hr_error *error);

/** Puts zeros into gradients, means and variances, and the weights into their fp32 copy: before the first step, and
 *  after each loading. */
hr_status hr_run_begin_training(hr_executor *x, hr_error *error);

/** Where the gradient of a weight is: as far from x->gradients as the weight from the weights' memory. NULL: it is none
 *  of the model's weights. */
void *hr_run_gradient(const hr_executor *x, const void *weight);

/** The optimizer's step over so many weights, and its operands from a weight and a state on, both in elements. */
hr_rowwise hr_run_optimizer(const hr_executor *x, int64_t elements);
hr_rowwise_arguments hr_run_optimizer_arguments(const hr_executor *x, int64_t weight, int64_t state);

#endif
