/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas add up gradients bucket by bucket: parts of the weights' memory that one message has, those of the last
 * layers first, as the backward pass completes them. With ZeRO stage 1 a replica updates its part of every bucket.
 * Sources: Li et al. 2020 (arXiv 2006.15704), section 3.2.3; Rajbhandari et al. 2020 (arXiv 1910.02054), section
 * 5.1. */
#ifndef HR_TRAINING_BUCKETS_H
#define HR_TRAINING_BUCKETS_H

#include "run/tape.h"

/** Elements of the optimizer's rows, of which weights and the parts of buckets are whole numbers. */
#define HR_OPTIMIZER_ROW 4096

/** Elements first … first + count − 1 of the weights, of their gradients, and with `parts` replicas that divide the
 *  optimizer's state, first / parts … of that. */
typedef struct hr_run_bucket {
  int64_t first, count;
} hr_run_bucket;

/** Replicas that divide the optimizer's state; 1: each has all of it. */
static inline int64_t hr_state_parts(const hr_executor *x)
{
  return x->options.zero_stage > 0 ? x->replicas : 1;
}

/** Divides the weights, which are allocated, into x->buckets. */
hr_status hr_run_make_buckets(hr_executor *x, hr_error *error);

/** The replica's part of a bucket. */
hr_run_bucket hr_own_part(const hr_executor *x, const hr_run_bucket *bucket);

/** The weight's gradient has been launched. */
void hr_gradient_is_launched(hr_lowering *l, const void *weight);

/** Puts the sums of all buckets among the launches that there are, each behind the last one of its gradients. */
void hr_lower_gradient_sums(hr_lowering *l);

/** The operator of the list that has the messages; −1: none. */
int hr_operator_of(const hr_lowering *l, hr_operator_id id);

#endif
