/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function on all threads at once, in rounds with barriers between them. */
#ifndef HR_RUNTIME_CPU_CEILINGS_ROUNDS_H
#define HR_RUNTIME_CPU_CEILINGS_ROUNDS_H

#include "runtime/cpu/host/affinity.h"

#include <headroom/status.h>

/** The work of thread `index` in a round. */
typedef void (*hr_round_fn)(void *context, int index, int round);

/** Runs `work` `rounds` times on `threads` threads, the caller among them, bound as `affinity` says, with a barrier
 *  before and after each round. round_ns[i] is the time between the barriers of round i.
 *  HR_ERROR_BACKEND if they cannot all be started, HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_rounds_run(int threads, const hr_affinity *affinity, hr_round_fn work, void *context, int rounds,
                        double *round_ns, hr_error *error);

#endif
