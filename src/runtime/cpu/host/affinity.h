/* Where the device's threads and memory lie: threads bound one to a core, pages in turn on the memory nodes in use. */
#ifndef HR_RUNTIME_CPU_HOST_AFFINITY_H
#define HR_RUNTIME_CPU_HOST_AFFINITY_H

#include "runtime/cpu/host/topology.h"

#include <stddef.h>

typedef struct hr_placement {
  hwloc_topology_t hwloc; /* borrowed */
  hwloc_cpuset_t *places; /* [threads]; processors that are each one's, where threads are bound */
  hwloc_nodeset_t nodes;  /* memory nodes of the cores that may be used */
  int threads, cores;
  bool interleaved;  /* pages of a buffer go round the nodes */
  char unbound[128]; /* why threads are not bound; "" where they are */
} hr_placement;

/** Finds a place for each of `threads` threads among the processors that `topology` leaves, cores before their second
 *  processors. They are bound where they take every core and the system allows it, unless the user has told OpenMP
 *  where to put threads: which of the cores to take where some are left over is not for one process to say, since
 *  another may come to the same answer. *placement borrows `topology`'s handle. HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_placement_make(const hr_topology *topology, int threads, hr_placement *placement, hr_error *error);
/** Whether threads are bound. */
bool hr_placement_bound(const hr_placement *placement);

/** Leaves threads unbound, as `why` says. */
void hr_placement_give_up(hr_placement *placement, const char *why);

void hr_placement_free(hr_placement *placement); /* one that is all zero is allowed */

/** Binds the calling thread to the place of thread `index`, for good: for threads that are the device's own. Does
 *  nothing where `placement` is NULL or threads are not bound. */
void hr_placement_bind(const hr_placement *placement, int index);

/** Moves the calling thread to the place of thread 0, if it runs elsewhere and its own binding, which stays what it
 *  was, includes that place. Costs a few nanoseconds where it is there already. */
void hr_placement_lead(const hr_placement *placement);

/** Has the pages of an area go round the nodes. False where the system refuses. */
bool hr_placement_interleave(const hr_placement *placement, void *data, size_t bytes);

/** "threads bound one to a core; 2 NUMA nodes, pages in turn on each" */
void hr_placement_describe(const hr_placement *placement, char *text, size_t size);

#endif
