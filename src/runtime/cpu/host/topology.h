/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, cores, caches and memory that this process may use, by hwloc. */
#ifndef HR_RUNTIME_CPU_HOST_TOPOLOGY_H
#define HR_RUNTIME_CPU_HOST_TOPOLOGY_H

#include <headroom/status.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

/** Counts include only what the process's affinity mask allows. */
typedef struct hr_topology {
  hwloc_topology_t hwloc; /* owned; NULL after hr_topology_free() */
  hwloc_cpuset_t allowed; /* owned; processors of the mask */
  int sockets, cores, processors;
  int64_t cache_bytes;      /* all last-level caches together; 0: unknown */
  int64_t core_cache_bytes; /* L2 of one core; 0: unknown */
  int64_t memory_bytes;     /* of the machine */
} hr_topology;

/** Leaves the process one of `parts` equal shares of its cores, at least one core. Where its mask is the whole machine,
 *  it is bound to the share of number `part`, and counts are of that; a smaller mask is a launcher's doing and stays.
 *  Returns how many threads are its share. */
int hr_topology_take_part(hr_topology *topology, int part, int parts);

/** The core after `core` (NULL: the first) that has an allowed processor, NULL behind the last. A processor where the
 *  machine shows no cores. */
hwloc_obj_t hr_topology_next_core(const hr_topology *topology, hwloc_obj_t core);

/** Reads the machine. HR_ERROR_BACKEND if hwloc fails. */
hr_status hr_topology_read(hr_topology *topology, hr_error *error);
void hr_topology_free(hr_topology *topology);

#endif
