/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool: runs start no thread and allocate nothing. */
#ifndef HR_RUNTIME_CPU_HOST_THREAD_POOL_H
#define HR_RUNTIME_CPU_HOST_THREAD_POOL_H

#include "runtime/cpu/host/affinity.h"

#include <headroom/status.h>

typedef struct hr_thread_pool hr_thread_pool;

/** Called once on each thread that takes part; member 0 is the caller. */
typedef void (*hr_thread_pool_fn)(void *context, int member);

/** A pool of `threads` members: the caller of hr_thread_pool_run() and threads − 1 threads that sleep between runs,
 *  with all signals blocked, bound as `affinity` says (NULL: unbound; else it must outlive the pool).
 *  HR_ERROR_OUT_OF_MEMORY, or HR_ERROR_BACKEND if a thread cannot be started. The caller owns *pool. */
hr_status hr_thread_pool_create(int threads, const hr_affinity *affinity, hr_thread_pool **pool, hr_error *error);
void hr_thread_pool_free(hr_thread_pool *pool); /* NULL is allowed; no run may be under way */

/** Calls `work` on the caller and on those members that wake in time, and returns when all that began have returned.
 *  Only member 0 is certain to take part, so members draw their shares from a common counter until nothing is left.
 *  Thread-safe and reentrant: while the pool works for one caller, other callers, members included, work alone, which
 *  leaves the number of busy threads unchanged. */
void hr_thread_pool_run(hr_thread_pool *pool, hr_thread_pool_fn work, void *context);

#endif
