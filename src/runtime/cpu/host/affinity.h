/* SPDX-License-Identifier: Apache-2.0 */
/* Affinity of the device's threads and memory: threads bound one to a core, pages interleaved over NUMA nodes. */
#ifndef HR_RUNTIME_CPU_HOST_AFFINITY_H
#define HR_RUNTIME_CPU_HOST_AFFINITY_H

#include "runtime/cpu/host/topology.h"

#include <stddef.h>

typedef struct hr_affinity {
  hr_processors *places; /* [threads]; the processors of each thread, where threads are bound */
  hr_processors nodes;   /* NUMA nodes of the cores that may be used */
  int threads, cores;
  bool other_machine; /* no thread or page is bound */
  bool interleaved;   /* pages of a buffer are interleaved over the nodes */
  char unbound[128];  /* why threads are not bound; "" where they are */
} hr_affinity;

/** Chooses processors for each of `threads` threads among those of `topology`, every core before the second processor
 *  of any. Threads are bound if they take every core and the system allows it, unless the user has set OpenMP's
 *  affinity variables. With cores to spare they are not bound: another process might choose the same cores.
 *  HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_affinity_choose(const hr_topology *topology, int threads, hr_affinity *affinity, hr_error *error);
void hr_affinity_free(hr_affinity *affinity); /* an all-zero one is allowed */

/** Whether threads are bound. */
bool hr_affinity_bound(const hr_affinity *affinity);

/** Binds the calling thread, one of the device's own, to the processors of thread `index`, permanently. Does nothing if
 *  `affinity` is NULL or threads are not bound. */
void hr_affinity_bind(const hr_affinity *affinity, int index);

/** Moves the calling thread to the processors of thread 0 if it runs elsewhere and its own affinity mask, which is left
 *  unchanged, includes them. A few nanoseconds if it runs there already. */
void hr_affinity_move_caller(const hr_affinity *affinity);

/** Interleaves the pages of an area over the nodes. False if the system refuses. */
bool hr_affinity_interleave(const hr_affinity *affinity, void *data, size_t bytes);

/** "threads bound one to a core; 2 NUMA nodes, pages interleaved" */
void hr_affinity_describe(const hr_affinity *affinity, char *text, size_t size);

#endif
