/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, cores, caches and memory that this process may use, from Linux's files in /sys/devices/system. */
#ifndef HR_RUNTIME_CPU_HOST_TOPOLOGY_H
#define HR_RUNTIME_CPU_HOST_TOPOLOGY_H

#include "runtime/cpu/host/processors.h"

#include <headroom/status.h>
#include <stdbool.h>
#include <stdint.h>

/** What processors share, largest first. */
typedef enum hr_shared { HR_SHARED_SOCKET, HR_SHARED_NODE, HR_SHARED_L3, HR_SHARED_L2, HR_SHARED_CORE } hr_shared;

#define HR_SHARED_KINDS 5

/** A processor of the machine. */
typedef struct hr_processor {
  int number, node;                     /* the system's; node 0 where it shows none */
  int lowest[HR_SHARED_KINDS];          /* the lowest processor that shares it, which stands for it; -1: unknown */
  int64_t cache_bytes[HR_SHARED_KINDS]; /* of HR_SHARED_L3 and HR_SHARED_L2; 0: unknown */
} hr_processor;

/** Counts include only what the process's affinity mask allows. */
typedef struct hr_topology {
  hr_processor *machine; /* [machine_count], owned; by socket, node, caches, core and number */
  int machine_count;
  bool other_machine;    /* read from the folder HEADROOM_CPU_TOPOLOGY, not this machine's */
  hr_processors allowed; /* of the mask */
  int sockets, cores, processors;
  int64_t cache_bytes;      /* all last-level caches together; 0: unknown */
  int64_t core_cache_bytes; /* L2 of one core; 0: unknown */
  int64_t memory_bytes;     /* of the machine */
} hr_topology;

/** Leaves the process one of `parts` equal shares of its cores, at least one core. Where its mask is the whole machine,
 *  it is bound to the share of number `part`, and counts are of that; a smaller mask is a launcher's doing and stays.
 *  Returns how many threads are its share. */
int hr_topology_take_part(hr_topology *topology, int part, int parts);

/** Allowed processors of the next core; *at is 0 for the first core, and moves on. Sockets, nodes and caches have
 *  their cores one after another. False behind the last. A processor where the system shows no cores. */
bool hr_topology_next_core(const hr_topology *topology, int *at, hr_processors *core);

/** The NUMA nodes that have allowed processors, by the system's numbers. */
hr_processors hr_topology_nodes(const hr_topology *topology);

/** Reads the machine; the environment variable HEADROOM_CPU_TOPOLOGY names a folder in place of /sys/devices/system,
 *  of a machine that is described and not there. HR_ERROR_BACKEND if no processor is found, HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_topology_read(hr_topology *topology, hr_error *error);
void hr_topology_free(hr_topology *topology);

#endif
