/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about an algorithm that cuBLASLt's heuristic returned. */
#ifndef HR_RUNTIME_CUDA_GEMM_ALGORITHM_H
#define HR_RUNTIME_CUDA_GEMM_ALGORITHM_H

#include "runtime/cuda/driver/cublaslt.h"

/** The number of parts that split-K divides k into; 1 also where the kernel chooses. */
int64_t hr_algorithm_split_k(const hr_cublaslt *lt, const lt_heuristic *chosen);

/** The number of split-K partial sums that are stored in the result's dtype, rather than fp32, before they are added; 0
 *  if none is. */
int64_t hr_algorithm_rounded_split_k(const hr_cublaslt *lt, const lt_heuristic *chosen);

/** Describes an algorithm: "algo 66, tile 128x256, stages 64xauto, cluster 2x1x1, split-k 1, waves 1.94". The tile is
 *  m × n of the row-major result; `rounded` says that split-K partial sums are rounded. */
void hr_algorithm_describe(const hr_cublaslt *lt, const lt_heuristic *chosen, bool rounded, char *text, size_t size);

#endif
