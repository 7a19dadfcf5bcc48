/* SPDX-License-Identifier: Apache-2.0 */
/* Where the cycles of persistent.cu go: with HR_CYCLES a warp counts them by phase and writes them down behind each
 * instruction, and a step of Llama-3.1-8B takes 0.4% longer; without, all of this compiles to nothing. */
#include "runtime/cuda/kernels/persistent_cycles_layout.h"

/* Each thread has its counts in registers. */
struct phase_cycles {
#ifdef HR_CYCLES
  mutable int64 last, of[HR_CYCLES_COUNT];

  __device__ static int64 now()
  {
    int64 cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
  }
  __device__ phase_cycles() : last(now()), of()
  {
  }
#endif

  /* A phase ends. */
  __device__ void note(int phase) const
  {
#ifdef HR_CYCLES
    const int64 end = now();
    of[phase] += end - last;
    last = end;
#endif
  }

  /* An instruction ends for the warp, whose phases are from `first` to `end`. */
  __device__ void put(const persistent_call &call, int number, int first, int end) const
  {
#ifdef HR_CYCLES
    int64 *const to = (int64 *)(void *)(call.counters + HR_PERSISTENT_COUNTERS) +
                      ((int64)blockIdx.x * call.count + number) * HR_CYCLES_COUNT;
#pragma unroll
    for (int phase = 0; phase < HR_CYCLES_COUNT; phase++) {
      if (phase >= first && phase < end && threadIdx.x % (WARPS * WARP) == 0)
        to[phase] = of[phase];
      of[phase] = 0;
    }
#endif
  }
};
