/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that ceilings.c and ceilings.cu share. C includes this header, and NVRTC compiles it into the kernels. */
#ifndef HR_RUNTIME_CUDA_KERNELS_CEILINGS_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_CEILINGS_LAYOUT_H

enum {
  HR_CEILINGS_THREADS = 256, /* of every block */
  HR_CEILINGS_FMA_CHAINS = 32,
  HR_CEILINGS_EXP_CHAINS = 8
};

#endif
