/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getcpu */
#include "runtime/cpu/host/affinity.h"

#include "base/error.h"
#include "base/names.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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
static bool may_bind(void)
{
  hr_processors own;
  return hr_processors_of_thread(&own) && hr_processors_bind_thread(&own);
}

static void find_reason(const hr_topology *topology, hr_affinity *p)
{
  const char *word = users_word();
  if (word)
    snprintf(p->unbound, sizeof p->unbound, "%s is set", word);
  else if (p->threads < topology->cores)
    snprintf(p->unbound, sizeof p->unbound, "%d of %d cores are used", p->threads, topology->cores);
  else if (topology->other_machine)
    hr_copy_text(p->unbound, sizeof p->unbound, "the topology is not this machine's");
  else if (!may_bind())
    hr_copy_text(p->unbound, sizeof p->unbound, "the system refuses it");
}

/* What is left of a core after its first processors have been taken; one processor of it if `single`. */
static hr_processors place_in(hr_processors core, int taken, bool single)
{
  for (int i = 0; i < taken; i++)
    hr_processors_remove(&core, hr_processors_next(&core, 0));
  int first = hr_processors_next(&core, 0);
  if (!single || first < 0)
    return core;
  hr_processors place = {.words = {0}};
  hr_processors_add(&place, first);
  return place;
}

/* One core for each thread; with more threads than cores one processor each, the first of every core before the second
 * of any. */
static bool find_places(const hr_topology *topology, hr_affinity *p)
{
  p->places = calloc((size_t)p->threads, sizeof *p->places);
  int count = 0, before = -1;
  for (int round = 0; p->places && count < p->threads && count > before; round++) {
    before = count;
    hr_processors core;
    for (int at = 0; count < p->threads && hr_topology_next_core(topology, &at, &core);) {
      p->places[count] = place_in(core, round, p->threads > topology->cores);
      count += hr_processors_next(&p->places[count], 0) >= 0;
    }
  }
  return count == p->threads;
}

/* Whether the system allows memory binding: containers often refuse it. */
static bool may_interleave(const hr_affinity *p)
{
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool may = page != MAP_FAILED && hr_affinity_interleave(p, page, bytes);
  if (page != MAP_FAILED)
    munmap(page, bytes);
  return may;
}

bool hr_affinity_interleave(const hr_affinity *p, void *data, size_t bytes)
{
  if (p->other_machine)
    return true;
  size_t within = (size_t)((uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE));
  return syscall(SYS_mbind, (char *)data - within, bytes + within, MPOL_INTERLEAVE, p->nodes.words,
                 (unsigned long)HR_PROCESSORS_MAX, 0) == 0;
}

static int node_count(const hr_affinity *p)
{
  return hr_processors_count(&p->nodes);
}

hr_status hr_affinity_choose(const hr_topology *topology, int threads, hr_affinity *affinity, hr_error *error)
{
  hr_affinity p = {.threads = threads,
                   .cores = topology->cores,
                   .nodes = hr_topology_nodes(topology),
                   .other_machine = topology->other_machine};
  find_reason(topology, &p);
  if (!find_places(topology, &p)) {
    hr_affinity_free(&p);
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory for the places of %d threads", threads);
  }
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
  free(affinity->places);
  *affinity = (hr_affinity){.places = NULL};
}

void hr_affinity_bind(const hr_affinity *affinity, int index)
{
  if (affinity && hr_affinity_bound(affinity) && index < affinity->threads)
    hr_processors_bind_thread(&affinity->places[index]);
}

void hr_affinity_move_caller(const hr_affinity *affinity)
{
  if (!affinity || !hr_affinity_bound(affinity) || affinity->threads < 2)
    return;
  int processor = sched_getcpu();
  if (processor < 0 || hr_processors_has(&affinity->places[0], processor))
    return;
  hr_processors own;
  if (hr_processors_of_thread(&own) && hr_processors_include(&own, &affinity->places[0]) &&
      hr_processors_bind_thread(&affinity->places[0]))
    hr_processors_bind_thread(&own);
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
