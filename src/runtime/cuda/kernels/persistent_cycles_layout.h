/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an instruction whose cycles persistent.cu notes with HR_CYCLES: behind the counters, of each block, of
 * each instruction, HR_CYCLES_COUNT numbers. C includes this header, and NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_PERSISTENT_CYCLES_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_PERSISTENT_CYCLES_LAYOUT_H

/** A phase ends where its comment says, and begins where the one before ends. First those of the first warp that
 *  computes, which attention and linear layers have in common but for their meaning, then those of the warp that
 *  copies. */
enum {
  HR_CYCLES_BEGIN,                 /* x is asked for, or Q, K and V: biases and weights of norms, or angles are there */
  HR_CYCLES_X,                     /* x is there, or Q, K and V are, rotated */
  HR_CYCLES_NORM,                  /* of x; the residual and the shares of experts are there */
  HR_CYCLES_KEYS = HR_CYCLES_NORM, /* all are added */
  HR_CYCLES_TILES,
  HR_CYCLES_SENT = HR_CYCLES_TILES, /* sums of the warps, to other splits */
  HR_CYCLES_RESULTS,                /* stored; of attention those of other splits are there */
  HR_CYCLES_NEXT,                   /* the next instruction is there, and the warps have met */
  HR_CYCLES_COPYING,
  HR_CYCLES_FETCHED = HR_CYCLES_COPYING, /* the instruction */
  HR_CYCLES_CHOSEN,                      /* experts, once their logits are there */
  HR_CYCLES_SLOTS,                       /* that may be filled are waited for */
  HR_CYCLES_COPIES,                      /* are started */
  HR_CYCLES_COUNT
};

#endif
