/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getcpu */
#include "runtime/cpu/host/affinity.h"

#include "base/error.h"
#include "base/names.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Environment variables by which users set OpenMP's affinity. */
static const char *const users_words[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};

static const char *users_word(void)
{
  for (size_t i = 0; i < sizeof users_words / sizeof *users_words; i++) {
    const char *value = getenv(users_words[i]);
    if (value && value[0])
      return users_words[i];
  }
  return NULL;
}

/* Tests permission by setting the calling thread's affinity to its present value. */
static bool may_bind(hwloc_topology_t hwloc)
{
  hwloc_cpuset_t own = hwloc_bitmap_alloc();
  bool may = own && hwloc_get_cpubind(hwloc, own, HWLOC_CPUBIND_THREAD) == 0 &&
             hwloc_set_cpubind(hwloc, own, HWLOC_CPUBIND_THREAD) == 0;
  hwloc_bitmap_free(own);
  return may;
}

static void find_reason(const hr_topology *topology, hr_affinity *p)
{
  const char *word = users_word();
  if (word)
    snprintf(p->unbound, sizeof p->unbound, "%s is set", word);
  else if (p->threads < topology->cores)
    snprintf(p->unbound, sizeof p->unbound, "%d of %d cores are used", p->threads, topology->cores);
  else if (!hwloc_topology_is_thissystem(topology->hwloc))
    hr_copy_text(p->unbound, sizeof p->unbound, "the topology is not this machine's");
  else if (!may_bind(topology->hwloc))
    hr_copy_text(p->unbound, sizeof p->unbound, "the system refuses it");
}

/* One core for each thread; with more threads than cores one processor each, the first of every core before the second
 * of any. */
static bool find_places(const hr_topology *topology, hr_affinity *p)
{
  p->places = calloc((size_t)p->threads, sizeof(hwloc_cpuset_t));
  int at = 0, before = -1;
  for (int round = 0; p->places && at < p->threads && at > before; round++) {
    before = at;
    for (hwloc_obj_t core = NULL; at < p->threads && (core = hr_topology_next_core(topology, core));) {
      hwloc_cpuset_t place = hwloc_bitmap_dup(core->cpuset);
      if (!place)
        return false;
      hwloc_bitmap_and(place, place, topology->allowed);
      for (int i = 0; i < round; i++)
        hwloc_bitmap_clr(place, (unsigned)hwloc_bitmap_first(place));
      if (p->threads > topology->cores)
        hwloc_bitmap_singlify(place);
      if (hwloc_bitmap_iszero(place))
        hwloc_bitmap_free(place);
      else
        p->places[at++] = place;
    }
  }
  return at == p->threads;
}

void hr_affinity_disable(hr_affinity *affinity, const char *why)
{
  if (hr_affinity_bound(affinity))
    hr_copy_text(affinity->unbound, sizeof affinity->unbound, why);
}

/* Not hwloc_cpuset_to_nodeset(): its header has an assertion, which a library must not contain. */
static void find_nodes(const hr_topology *topology, hwloc_nodeset_t nodes)
{
  for (hwloc_obj_t node = NULL; (node = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, node));) {
    if (hwloc_bitmap_intersects(node->cpuset, topology->allowed))
      hwloc_bitmap_set(nodes, node->os_index);
  }
}

/* Whether the system allows memory binding: containers often refuse it. */
static bool may_interleave(const hr_affinity *p)
{
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = hwloc_alloc(p->hwloc, bytes);
  bool may = page && hr_affinity_interleave(p, page, bytes);
  if (page)
    hwloc_free(p->hwloc, page, bytes);
  return may;
}

bool hr_affinity_interleave(const hr_affinity *p, void *data, size_t bytes)
{
  return hwloc_set_area_membind(p->hwloc, data, bytes, p->nodes, HWLOC_MEMBIND_INTERLEAVE, HWLOC_MEMBIND_BYNODESET) ==
         0;
}

static int node_count(const hr_affinity *p)
{
  return hwloc_bitmap_weight(p->nodes);
}

hr_status hr_affinity_choose(const hr_topology *topology, int threads, hr_affinity *affinity, hr_error *error)
{
  hr_affinity p = {
      .hwloc = topology->hwloc, .threads = threads, .cores = topology->cores, .nodes = hwloc_bitmap_alloc()};
  find_reason(topology, &p);
  if (!p.nodes || !find_places(topology, &p)) {
    hr_affinity_free(&p);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for the places of %d threads", threads);
  }
  find_nodes(topology, p.nodes);
  p.interleaved = node_count(&p) > 1 && may_interleave(&p);
  *affinity = p;
  return HR_OK;
}

bool hr_affinity_bound(const hr_affinity *affinity)
{
  return !affinity->unbound[0];
}

void hr_affinity_free(hr_affinity *affinity)
{
  for (int i = 0; affinity->places && i < affinity->threads; i++)
    hwloc_bitmap_free(affinity->places[i]);
  free(affinity->places);
  hwloc_bitmap_free(affinity->nodes);
  *affinity = (hr_affinity){.hwloc = NULL};
}

void hr_affinity_bind(const hr_affinity *affinity, int index)
{
  if (affinity && hr_affinity_bound(affinity) && index < affinity->threads)
    hwloc_set_cpubind(affinity->hwloc, affinity->places[index], HWLOC_CPUBIND_THREAD);
}

void hr_affinity_move_caller(const hr_affinity *affinity)
{
  if (!affinity || !hr_affinity_bound(affinity) || affinity->threads < 2)
    return;
  int processor = sched_getcpu();
  if (processor < 0 || hwloc_bitmap_isset(affinity->places[0], (unsigned)processor))
    return;
  hwloc_cpuset_t own = hwloc_bitmap_alloc();
  if (own && hwloc_get_cpubind(affinity->hwloc, own, HWLOC_CPUBIND_THREAD) == 0 &&
      hwloc_bitmap_isincluded(affinity->places[0], own) &&
      hwloc_set_cpubind(affinity->hwloc, affinity->places[0], HWLOC_CPUBIND_THREAD) == 0)
    hwloc_set_cpubind(affinity->hwloc, own, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(own);
}

void hr_affinity_describe(const hr_affinity *affinity, char *text, size_t size)
{
  char threads[160];
  if (hr_affinity_bound(affinity))
    snprintf(threads, sizeof threads, "bound one to a %s", affinity->threads > affinity->cores ? "processor" : "core");
  else
    snprintf(threads, sizeof threads, "not bound: %s", affinity->unbound);
  int nodes = node_count(affinity);
  snprintf(text, size, "threads %s; %d NUMA node%s%s", threads, nodes, nodes == 1 ? "" : "s",
           nodes <= 1              ? ""
           : affinity->interleaved ? ", pages interleaved"
                                   : ", pages where the system puts them");
}
