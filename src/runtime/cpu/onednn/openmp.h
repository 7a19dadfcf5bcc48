/* Where OpenMP's threads run. */
#ifndef HR_RUNTIME_CPU_ONEDNN_OPENMP_H
#define HR_RUNTIME_CPU_ONEDNN_OPENMP_H

#include "runtime/cpu/host/affinity.h"
#include "runtime/cpu/onednn/loader.h"

/** Binds the threads that work for the calling one, each to its place, where threads are bound. An OpenMP library keeps
 *  a team for each thread that starts regions, and shares it with the caller's own regions. */
void hr_openmp_bind(const hr_dnnl *api, const hr_placement *placement);

/** Gives those threads the calling thread's binding, which they had when they were started. */
void hr_openmp_unbind(const hr_dnnl *api, const hr_placement *placement);

#endif
