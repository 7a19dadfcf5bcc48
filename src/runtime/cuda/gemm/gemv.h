/* SPDX-License-Identifier: Apache-2.0 */
/* The tilings and programs of kernels/gemv.cu. */
#ifndef HR_RUNTIME_CUDA_GEMM_GEMV_H
#define HR_RUNTIME_CUDA_GEMM_GEMV_H

#include "runtime/cuda/driver/program.h"

#include <headroom/gemm.h>

/** How the rows of B, and k, are divided among warps. */
typedef struct hr_gemv_tiling {
  bool mma;        /* products by mma.sync */
  int rows;        /* of B, of a warp */
  int row_warps;   /* of a block: each has other rows */
  int k_warps;     /* that share the k of a row */
  int unroll_load; /* bytes in flight of a lane and row */
  int resident;    /* threads of a multiprocessor */
} hr_gemv_tiling;

/** Tiling number `choice` of a GEMM whose rows are aligned to `load` bytes, on a GPU of so many multiprocessors; 0 is
 *  the best by estimate. False if there are fewer. */
bool hr_gemv_tiling_choose(const hr_gemm *gemm, int load, int64_t multiprocessors, int64_t choice,
                           hr_gemv_tiling *tiling);

/** Bytes of a load: the largest power of two up to 16 to which rows, batches and k of A and B are aligned. */
int hr_gemv_load_bytes(const hr_gemm *gemm);

/** The definitions of kernels/gemv.cu, which explains `how`: "HR_EARLY", "HR_GROUPED", what linear.c adds to them, or
 *  "". */
void hr_gemv_defines(const hr_gemm *gemm, const hr_gemv_tiling *tiling, int load, const char *how,
                     char text[HR_DEFINES_SIZE]);

#endif
