/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas and stages tell each other what they have to agree about, as a difference would give other weights, or ranks
 * that wait for each other, and what only the last stage has. */
#ifndef HR_EXECUTOR_REPLICAS_H
#define HR_EXECUTOR_REPLICAS_H

#include "run/program.h"

/** Each waits for all, and gets HR_ERROR_INVALID that names the first that differs; nothing is done of one alone: of
 *  options, of what is loaded, of a training step of replicas, and of any step of stages. */
hr_status hr_replicas_agree_on_options(const hr_executor *x, hr_error *error);
hr_status hr_replicas_agree_on_weights(const hr_executor *x, const char *what, uint64_t seed, hr_error *error);
hr_status hr_replicas_agree_on_step(const hr_executor *x, const hr_executor_input *input, hr_error *error);
hr_status hr_stages_agree_on_step(const hr_executor *x, const hr_executor_input *input, hr_error *error);

/** All stages get what the last one has, `bytes` of it. */
hr_status hr_take_from_last(const hr_executor *x, void *what, size_t bytes, hr_error *error);

/** hr_communicator_meet() of each of the executor's communicators. */
hr_status hr_meet_all(const hr_executor *x, hr_error *error);

/** HR_ERROR_INVALID or HR_ERROR_UNSUPPORTED for options of replicas that an executor does not take. */
hr_status hr_replicas_check(const hr_executor *x, hr_error *error);

#endif
