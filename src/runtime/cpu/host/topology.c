/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/topology.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/device/host.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FOLDER "/sys/devices/system"
#define LINE_SIZE 4096 /* Linux's files in /sys have at most a page */
#define CACHES_MAX 16  /* of a processor */

/* Reads the first line of a file; false if there is none. */
static bool read_line(char line[LINE_SIZE], const char *format, ...) HR_PRINTF(2, 3);

static bool read_line(char line[LINE_SIZE], const char *format, ...)
{
  char path[512];
  va_list arguments;
  va_start(arguments, format);
  int length = hr_write_text_v(path, sizeof path, format, arguments);
  va_end(arguments);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
  bool found = file && fgets(line, LINE_SIZE, file);
  if (file)
    fclose(file);
  return found;
}

static int first_of(const char *list)
{
  const hr_processors set = hr_processors_read(list);
  return hr_processors_next(&set, 0);
}

/* False behind the last cache. */
static bool read_cache(const char *folder, int index, hr_processor *p)
{
  char line[LINE_SIZE];
  if (!read_line(line, "%s/cpu/cpu%d/cache/index%d/level", folder, p->number, index))
    return false;
  const hr_shared kind = line[0] == '3' ? HR_SHARED_L3 : HR_SHARED_L2;
  if ((line[0] != '3' && line[0] != '2') ||
      !read_line(line, "%s/cpu/cpu%d/cache/index%d/type", folder, p->number, index) || line[0] == 'I')
    return true; /* another level, or instructions */
  if (read_line(line, "%s/cpu/cpu%d/cache/index%d/size", folder, p->number, index))
    p->cache_bytes[kind] = (int64_t)1024 * atol(line); /* "32768K" */
  if (read_line(line, "%s/cpu/cpu%d/cache/index%d/shared_cpu_list", folder, p->number, index))
    p->lowest[kind] = first_of(line);
  return true;
}

/* Files of topology/ are called otherwise before Linux 5.3. */
static void read_processor(const char *folder, hr_processor *p)
{
  char line[LINE_SIZE];
  if (read_line(line, "%s/cpu/cpu%d/topology/package_cpus_list", folder, p->number) ||
      read_line(line, "%s/cpu/cpu%d/topology/core_siblings_list", folder, p->number))
    p->lowest[HR_SHARED_SOCKET] = first_of(line);
  if (read_line(line, "%s/cpu/cpu%d/topology/core_cpus_list", folder, p->number) ||
      read_line(line, "%s/cpu/cpu%d/topology/thread_siblings_list", folder, p->number))
    p->lowest[HR_SHARED_CORE] = first_of(line);
  for (int index = 0; index < CACHES_MAX && read_cache(folder, index, p);)
    index++;
}

static void read_nodes(const char *folder, hr_topology *topology)
{
  char line[LINE_SIZE];
  if (!read_line(line, "%s/node/online", folder))
    return;
  const hr_processors nodes = hr_processors_read(line);
  for (int node = -1; (node = hr_processors_next(&nodes, node + 1)) >= 0;) {
    int64_t kib = 0;
    if (read_line(line, "%s/node/node%d/meminfo", folder, node) &&
        sscanf(line, "Node %*d MemTotal: %" SCNd64, &kib) == 1)
      topology->memory_bytes += kib * 1024;
    if (!read_line(line, "%s/node/node%d/cpulist", folder, node))
      continue;
    const hr_processors own = hr_processors_read(line);
    for (int i = 0; i < topology->machine_count; i++) {
      hr_processor *p = &topology->machine[i];
      if (!hr_processors_has(&own, p->number))
        continue;
      p->node = node;
      p->lowest[HR_SHARED_NODE] = hr_processors_next(&own, 0);
    }
  }
}

static int compare_processors(const void *a, const void *b)
{
  const hr_processor *p = a, *q = b;
  for (int kind = 0; kind < HR_SHARED_KINDS; kind++) {
    if (p->lowest[kind] != q->lowest[kind])
      return p->lowest[kind] < q->lowest[kind] ? -1 : 1;
  }
  return p->number < q->number ? -1 : p->number > q->number;
}

static hr_status read_machine(const char *folder, const hr_processors *machine, hr_topology *topology, hr_error *error)
{
  topology->machine = calloc((size_t)hr_processors_count(machine), sizeof *topology->machine);
  if (!topology->machine)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for the processors of this machine");
  for (int number = -1; (number = hr_processors_next(machine, number + 1)) >= 0;) {
    hr_processor *p = &topology->machine[topology->machine_count++];
    *p = (hr_processor){.number = number, .lowest = {-1, -1, -1, -1, number}};
    read_processor(folder, p);
  }
  read_nodes(folder, topology);
  if (topology->memory_bytes == 0)
    topology->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  qsort(topology->machine, (size_t)topology->machine_count, sizeof *topology->machine, compare_processors);
  return HR_OK;
}

/* Whether a processor is the first one seen of those that share a cache, a core … */
static bool stands_for(const hr_topology *topology, int at, hr_shared kind, hr_processors *seen)
{
  const hr_processor *p = &topology->machine[at];
  if (p->lowest[kind] < 0 || hr_processors_has(seen, p->lowest[kind]))
    return false;
  hr_processors_add(seen, p->lowest[kind]);
  return true;
}

static int count_shared(const hr_topology *topology, hr_shared kind, const hr_processors *among)
{
  hr_processors seen = {.words = {0}};
  int count = 0;
  for (int i = 0; i < topology->machine_count; i++)
    count += hr_processors_has(among, topology->machine[i].number) && stands_for(topology, i, kind, &seen);
  return count;
}

static int64_t sum_caches(const hr_topology *topology, hr_shared kind, int64_t *largest)
{
  hr_processors seen = {.words = {0}};
  int64_t sum = 0;
  *largest = 0;
  for (int i = 0; i < topology->machine_count; i++) {
    const hr_processor *p = &topology->machine[i];
    if (!hr_processors_has(&topology->allowed, p->number) || !stands_for(topology, i, kind, &seen))
      continue;
    sum += p->cache_bytes[kind];
    *largest = p->cache_bytes[kind] > *largest ? p->cache_bytes[kind] : *largest;
  }
  return sum;
}

static void count_caches(hr_topology *topology)
{
  int64_t largest;
  topology->cache_bytes = sum_caches(topology, HR_SHARED_L3, &largest);
  int64_t second = sum_caches(topology, HR_SHARED_L2, &topology->core_cache_bytes);
  if (second == 0 && topology->cache_bytes == 0 && !topology->other_machine) { /* the C library asks the processor */
    topology->core_cache_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    topology->cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    second = topology->core_cache_bytes * topology->cores;
  }
  if (topology->cache_bytes <= 0)
    topology->cache_bytes = second;
}

static void count_all(hr_topology *topology)
{
  topology->processors = hr_processors_count(&topology->allowed);
  topology->cores = count_shared(topology, HR_SHARED_CORE, &topology->allowed);
  topology->sockets = count_shared(topology, HR_SHARED_SOCKET, &topology->allowed);
  count_caches(topology);
}

bool hr_topology_next_core(const hr_topology *topology, int *at, hr_processors *core)
{
  *core = (hr_processors){.words = {0}};
  for (int of = -1; *at < topology->machine_count; ++*at) {
    const hr_processor *p = &topology->machine[*at];
    if (of >= 0 && p->lowest[HR_SHARED_CORE] != of)
      return true;
    if (!hr_processors_has(&topology->allowed, p->number))
      continue;
    of = p->lowest[HR_SHARED_CORE];
    hr_processors_add(core, p->number);
  }
  return hr_processors_next(core, 0) >= 0;
}

hr_processors hr_topology_nodes(const hr_topology *topology)
{
  hr_processors nodes = {.words = {0}};
  for (int i = 0; i < topology->machine_count; i++) {
    if (hr_processors_has(&topology->allowed, topology->machine[i].number))
      hr_processors_add(&nodes, topology->machine[i].node);
  }
  return nodes;
}

/* Allowed processors of `count` cores from `first` on. */
static hr_processors cores_from(const hr_topology *topology, int first, int count)
{
  hr_processors set = {.words = {0}}, core;
  for (int i = 0, at = 0; i < first + count && hr_topology_next_core(topology, &at, &core); i++) {
    if (i >= first)
      hr_processors_add_all(&set, &core);
  }
  return set;
}

static hr_processors machine_set(const hr_topology *topology)
{
  hr_processors set = {.words = {0}};
  for (int i = 0; i < topology->machine_count; i++)
    hr_processors_add(&set, topology->machine[i].number);
  return set;
}

/* Processors that are online, of those that the control group leaves. */
static bool find_machine(const char *folder, bool other, hr_processors *machine)
{
  char line[LINE_SIZE];
  if (read_line(line, "%s/cpu/online", folder))
    *machine = hr_processors_read(line);
  else if (other || !hr_processors_of_process(machine))
    return false;
  if (!other && hr_host_group_processors(line, sizeof line)) {
    const hr_processors group = hr_processors_read(line), both = hr_processors_in_both(machine, &group);
    if (hr_processors_next(&both, 0) >= 0)
      *machine = both;
  }
  return hr_processors_next(machine, 0) >= 0;
}

hr_status hr_topology_read(hr_topology *topology, hr_error *error)
{
  const char *named = getenv("HEADROOM_CPU_TOPOLOGY");
  bool other = named && named[0];
  const char *folder = other ? named : SYSTEM_FOLDER;
  hr_processors machine, own;
  *topology = (hr_topology){.other_machine = other};
  if (!find_machine(folder, other, &machine))
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: no processor is listed in %s/cpu/online", folder);
  HR_TRY(read_machine(folder, &machine, topology, error));
  topology->allowed = machine;
  if (!other && hr_processors_of_process(&own)) {
    own = hr_processors_in_both(&own, &machine);
    if (hr_processors_next(&own, 0) >= 0)
      topology->allowed = own;
  }
  count_all(topology);
  return HR_OK;
}

int hr_topology_take_part(hr_topology *topology, int part, int parts)
{
  const hr_processors machine = machine_set(topology);
  bool bound = !hr_processors_equal(&topology->allowed, &machine);
  int cores = topology->cores, all = bound ? count_shared(topology, HR_SHARED_CORE, &machine) : cores;
  int each = all > parts ? all / parts : 1;
  int threads = each < cores ? each : cores; /* also where several are bound to the same socket */
  if (!bound) {
    const hr_processors own = cores_from(topology, cores >= parts ? part * each : part % cores, threads);
    if (!topology->other_machine && hr_processors_bind_process(&own)) {
      topology->allowed = own;
      count_all(topology);
    }
  }
  return threads;
}

void hr_topology_free(hr_topology *topology)
{
  free(topology->machine);
  topology->machine = NULL;
}
