/* Sockets, cores, caches and memory that this process may use, by hwloc. */
#ifndef HR_RUNTIME_TOPOLOGY_H
#define HR_RUNTIME_TOPOLOGY_H

#include <headroom/status.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

/** Counts are of what the process's affinity mask leaves. */
typedef struct hr_topology {
  hwloc_topology_t hwloc; /* owned; NULL after hr_topology_free() */
  int sockets, cores, processors, numa_nodes;
  int64_t cache_bytes;      /* all last-level caches together; 0: not told */
  int64_t core_cache_bytes; /* second level of one core; 0: not told */
  int64_t memory_bytes;     /* of the machine */
} hr_topology;

/** Reads the machine. HR_ERROR_BACKEND if hwloc fails. */
hr_status hr_topology_read(hr_topology *topology, hr_error *error);
void hr_topology_free(hr_topology *topology);

#endif
