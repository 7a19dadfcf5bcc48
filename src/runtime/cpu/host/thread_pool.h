/* Threads that wait for work, so that a run starts none and allocates nothing. */
#ifndef HR_RUNTIME_CPU_HOST_THREAD_POOL_H
#define HR_RUNTIME_CPU_HOST_THREAD_POOL_H

#include "runtime/cpu/host/affinity.h"

#include <headroom/status.h>

typedef struct hr_team hr_team;

/** Called once by each member that takes part; member 0 is the caller. */
typedef void (*hr_team_fn)(void *context, int member);

/** A team of `threads` members: the caller of hr_team_run() and threads - 1 that sleep between runs, with all signals
 *  blocked, bound as `placement` says (NULL: not; else it must outlive the team). HR_ERROR_OUT_OF_MEMORY, or
 *  HR_ERROR_BACKEND if a thread cannot be started. The caller owns *team. */
hr_status hr_team_create(int threads, const hr_placement *placement, hr_team **team, hr_error *error);
void hr_team_free(hr_team *team); /* NULL is allowed; no run may be under way */

/** Calls `work` on the caller and on those members that are awake in time, and returns when all that began have
 *  returned. Only member 0 is sure to take part, so that members must draw their shares from a common counter until
 *  nothing is left. May be called from several threads, and by a member itself: while the team is at work for one, the
 *  others work alone, which leaves the number of busy threads what their callers made it. */
void hr_team_run(hr_team *team, hr_team_fn work, void *context);

#endif
