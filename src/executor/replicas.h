/* SPDX-License-Identifier: Apache-2.0 */
/* What replicas have to agree about: a difference would give other weights, or ranks that wait for each other. */
#ifndef HR_EXECUTOR_REPLICAS_H
#define HR_EXECUTOR_REPLICAS_H

#include "run/program.h"

/** Each waits for all, and gets HR_ERROR_INVALID that names the first that differs. Without replicas nothing is done:
 *  of the options of executors that train, of what is loaded, and of a training step. */
hr_status hr_replicas_agree_on_options(const hr_executor *x, hr_error *error);
hr_status hr_replicas_agree_on_weights(const hr_executor *x, const char *what, uint64_t seed, hr_error *error);
hr_status hr_replicas_agree_on_step(const hr_executor *x, const hr_executor_input *input, hr_error *error);

/** HR_ERROR_INVALID or HR_ERROR_UNSUPPORTED for options of replicas that an executor does not take. */
hr_status hr_replicas_check(const hr_executor *x, hr_error *error);

#endif
