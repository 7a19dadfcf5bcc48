/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/openmp.h"

typedef struct region {
  const hr_openmp *openmp;
  const hr_affinity *affinity;
  const hr_processors *all; /* for every thread; NULL: each its own place */
} region;

static void bind_thread(void *context)
{
  const region *r = context;
  int index = r->openmp->omp_get_thread_num();
  if (index == 0) /* the caller */
    return;
  if (r->all)
    hr_processors_bind_thread(r->all);
  else
    hr_affinity_bind(r->affinity, index);
}

static void run_region(region *r)
{
  if (r->openmp->GOMP_parallel && hr_affinity_bound(r->affinity) && r->affinity->threads > 1)
    r->openmp->GOMP_parallel(bind_thread, r, (unsigned)r->affinity->threads, 0);
}

void hr_openmp_bind(const hr_openmp *openmp, const hr_affinity *affinity)
{
  run_region(&(region){.openmp = openmp, .affinity = affinity});
}

void hr_openmp_unbind(const hr_openmp *openmp, const hr_affinity *affinity)
{
  hr_processors own;
  if (hr_processors_of_thread(&own))
    run_region(&(region){.openmp = openmp, .affinity = affinity, .all = &own});
}

int hr_openmp_set_threads(const hr_openmp *openmp, int threads)
{
  int before = openmp->omp_get_max_threads();
  if (before != threads)
    openmp->omp_set_num_threads(threads);
  return before;
}
