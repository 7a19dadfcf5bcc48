/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling loop of a format that bounds kernels on this processor. */
#ifndef HEADROOM_BENCH_BEST_LOOP_H
#define HEADROOM_BENCH_BEST_LOOP_H

#include "runtime/cpu/ceilings/ceilings.h"

/* The last instruction set that the processor has is the best. */
static inline const hr_cpu_loop *best_loop(const hr_cpu *cpu, hr_ceiling_kind kind, hr_dtype dtype)
{
  size_t count;
  const hr_cpu_loop *loops = hr_cpu_loops(&count), *found = NULL;
  for (size_t i = 0; i < count; i++) {
    if (loops[i].kind == kind && loops[i].dtype == dtype && (!loops[i].needs || hr_isa_has(&cpu->isa, loops[i].needs)))
      found = &loops[i];
  }
  return found;
}

#endif
