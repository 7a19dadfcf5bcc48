/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/topology.h"

#include "base/error.h"

static int count_touched(hwloc_topology_t hwloc, hwloc_obj_type_t type, hwloc_const_cpuset_t allowed)
{
  int count = 0;
  for (hwloc_obj_t object = NULL; (object = hwloc_get_next_obj_by_type(hwloc, type, object));)
    count += hwloc_bitmap_intersects(object->cpuset, allowed);
  return count;
}

static int64_t sum_caches(hwloc_topology_t hwloc, hwloc_obj_type_t type, hwloc_const_cpuset_t allowed, int64_t *largest)
{
  int64_t sum = 0;
  *largest = 0;
  for (hwloc_obj_t object = NULL; (object = hwloc_get_next_obj_by_type(hwloc, type, object));) {
    if (!hwloc_bitmap_intersects(object->cpuset, allowed))
      continue;
    int64_t size = (int64_t)object->attr->cache.size;
    sum += size;
    *largest = size > *largest ? size : *largest;
  }
  return sum;
}

static void count_all(hr_topology *topology)
{
  hwloc_topology_t hwloc = topology->hwloc;
  hwloc_const_cpuset_t allowed = topology->allowed;
  topology->processors = hwloc_bitmap_weight(allowed);
  topology->cores = count_touched(hwloc, HWLOC_OBJ_CORE, allowed);
  if (topology->cores < 1 || topology->cores > topology->processors)
    topology->cores = topology->processors; /* some virtual machines report no cores */
  topology->sockets = count_touched(hwloc, HWLOC_OBJ_PACKAGE, allowed);
  int64_t largest;
  topology->cache_bytes = sum_caches(hwloc, HWLOC_OBJ_L3CACHE, allowed, &largest);
  int64_t second = sum_caches(hwloc, HWLOC_OBJ_L2CACHE, allowed, &topology->core_cache_bytes);
  if (topology->cache_bytes == 0)
    topology->cache_bytes = second;
  topology->memory_bytes = (int64_t)hwloc_get_root_obj(hwloc)->total_memory;
}

static hwloc_obj_t next_core(hwloc_topology_t hwloc, hwloc_const_cpuset_t allowed, hwloc_obj_t core)
{
  hwloc_obj_type_t type =
      hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU; /* as count_all() counts */
  do
    core = hwloc_get_next_obj_by_type(hwloc, type, core);
  while (core && !hwloc_bitmap_intersects(core->cpuset, allowed));
  return core;
}

hwloc_obj_t hr_topology_next_core(const hr_topology *topology, hwloc_obj_t core)
{
  return next_core(topology->hwloc, topology->allowed, core);
}

/* Processors of `count` cores from `first` on, of the cores in the mask. */
static void cores_from(hwloc_topology_t hwloc, hwloc_const_cpuset_t allowed, int first, int count, hwloc_cpuset_t set)
{
  int at = 0;
  hwloc_bitmap_zero(set);
  for (hwloc_obj_t core = NULL; (core = next_core(hwloc, allowed, core)); at++) {
    if (at >= first && at < first + count)
      hwloc_bitmap_or(set, set, core->cpuset);
  }
  hwloc_bitmap_and(set, set, allowed);
}

static bool allowed_processors(hwloc_topology_t hwloc, hwloc_cpuset_t allowed)
{
  if (hwloc_get_cpubind(hwloc, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_bitmap_and(allowed, allowed, hwloc_topology_get_topology_cpuset(hwloc));
    if (!hwloc_bitmap_iszero(allowed))
      return true;
  }
  return hwloc_bitmap_copy(allowed, hwloc_topology_get_topology_cpuset(hwloc)) == 0;
}

hr_status hr_topology_read(hr_topology *topology, hr_error *error)
{
  *topology = (hr_topology){.hwloc = NULL};
  if (hwloc_topology_init(&topology->hwloc) != 0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: hwloc has no memory");
  if (hwloc_topology_load(topology->hwloc) != 0) {
    hr_topology_free(topology);
    return hr_fail(error, HR_ERROR_BACKEND, "cpu: hwloc cannot read this machine's topology");
  }
  topology->allowed = hwloc_bitmap_alloc();
  if (!topology->allowed || !allowed_processors(topology->hwloc, topology->allowed)) { /* copying a set takes memory */
    hr_topology_free(topology);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: hwloc has no memory");
  }
  count_all(topology);
  return HR_OK;
}

int hr_topology_take_part(hr_topology *topology, int part, int parts)
{
  hwloc_topology_t hwloc = topology->hwloc;
  hwloc_const_cpuset_t machine = hwloc_topology_get_topology_cpuset(hwloc);
  hwloc_const_cpuset_t allowed = topology->allowed;
  hwloc_cpuset_t own = hwloc_bitmap_alloc();
  int cores = topology->cores, threads = cores;
  if (own) {
    bool bound = !hwloc_bitmap_isequal(allowed, machine);
    int all = bound ? hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) : cores, each = all > parts ? all / parts : 1;
    threads = each < cores ? each : cores; /* also where several are bound to the same socket */
    if (!bound) {
      int first = cores >= parts ? part * each : part % cores;
      cores_from(hwloc, allowed, first, threads, own);
      if (hwloc_set_cpubind(hwloc, own, HWLOC_CPUBIND_PROCESS) == 0 && hwloc_bitmap_copy(topology->allowed, own) == 0)
        count_all(topology);
    }
  }
  hwloc_bitmap_free(own);
  return threads;
}

void hr_topology_free(hr_topology *topology)
{
  hwloc_bitmap_free(topology->allowed);
  if (topology->hwloc)
    hwloc_topology_destroy(topology->hwloc);
  topology->allowed = NULL;
  topology->hwloc = NULL;
}
