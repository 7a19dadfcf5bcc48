/* All threads at once, round by round. */
#ifndef HR_RUNTIME_CPU_CEILINGS_ROUNDS_H
#define HR_RUNTIME_CPU_CEILINGS_ROUNDS_H

#include "runtime/cpu/host/affinity.h"

#include <headroom/status.h>

/** What thread `index` does in a round. */
typedef void (*hr_round_fn)(void *context, int index, int round);

/** Starts `threads` threads, the caller being one of them, bound as `affinity` says, which do `work` `rounds` times,
 *  each round begun and ended together. round_ns[i]: from when all had begun round i until all had ended it.
 *  HR_ERROR_BACKEND if they cannot all be started, HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_rounds_run(int threads, const hr_affinity *affinity, hr_round_fn work, void *context, int rounds,
                        double *round_ns, hr_error *error);

#endif
