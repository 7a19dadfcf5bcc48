#include "runtime/cpu/onednn/openmp.h"

typedef struct region {
  const hr_dnnl *api;
  const hr_placement *placement;
  hwloc_const_cpuset_t all; /* for every thread; NULL: each its place */
} region;

static void bind_member(void *context)
{
  const region *r = context;
  int index = r->api->omp_get_thread_num();
  if (index == 0) /* the caller */
    return;
  if (r->all)
    hwloc_set_cpubind(r->placement->hwloc, r->all, HWLOC_CPUBIND_THREAD);
  else
    hr_placement_bind(r->placement, index);
}

static void run_region(region *r)
{
  if (r->api->GOMP_parallel && hr_placement_bound(r->placement) && r->placement->threads > 1)
    r->api->GOMP_parallel(bind_member, r, (unsigned)r->placement->threads, 0);
}

void hr_openmp_bind(const hr_dnnl *api, const hr_placement *placement)
{
  run_region(&(region){.api = api, .placement = placement});
}

void hr_openmp_unbind(const hr_dnnl *api, const hr_placement *placement)
{
  hwloc_cpuset_t own = hwloc_bitmap_alloc();
  if (own && hwloc_get_cpubind(placement->hwloc, own, HWLOC_CPUBIND_THREAD) == 0)
    run_region(&(region){.api = api, .placement = placement, .all = own});
  hwloc_bitmap_free(own);
}
