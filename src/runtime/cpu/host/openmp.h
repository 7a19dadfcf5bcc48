/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenMP library that oneDNN runs its GEMMs on: how many threads, and where they run. */
#ifndef HR_RUNTIME_CPU_HOST_OPENMP_H
#define HR_RUNTIME_CPU_HOST_OPENMP_H

#include "runtime/cpu/host/affinity.h"

/** Entry points, loaded at run time. */
typedef struct hr_openmp {
  int (*omp_get_max_threads)(void);
  void (*omp_set_num_threads)(int threads);
  int (*omp_get_thread_num)(void);
  /* gcc compiles a parallel region to this call; NULL where the OpenMP library lacks it. */
  void (*GOMP_parallel)(void (*work)(void *), void *context, unsigned threads, unsigned flags);
} hr_openmp;

/** Binds the threads of the calling thread's parallel regions, one to a core, where threads are bound. An OpenMP
 *  library keeps a thread pool for each thread that starts regions, and shares it with the caller's own regions. */
void hr_openmp_bind(const hr_openmp *openmp, const hr_affinity *affinity);

/** Gives those threads the calling thread's affinity, which they had when they were started. */
void hr_openmp_unbind(const hr_openmp *openmp, const hr_affinity *affinity);

/** Sets the number of threads of the calling thread's regions; returns the number before. */
int hr_openmp_set_threads(const hr_openmp *openmp, int threads);

#endif
