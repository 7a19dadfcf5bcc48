/* SPDX-License-Identifier: Apache-2.0 */
/* Batched GEMM through cuBLASLt whose result may have another dtype than the operands: attention with scores in memory
 * needs Q Kᵀ in fp32. */
#ifndef HR_RUNTIME_CUDA_GEMM_BATCHED_H
#define HR_RUNTIME_CUDA_GEMM_BATCHED_H

#include "runtime/cuda/driver/context.h"

#include <headroom/dtype.h>
#include <stdbool.h>

#define HR_BATCHED_ALIGNMENT 32 /* bytes, of addresses, rows and batch strides */

/** C [m, n] = A [m, k] · B [k, n], row-major, `batch` of each; b_transposed: B is stored [n, k]. Strides in
 *  elements. */
typedef struct hr_batched {
  int64_t m, n, k, batch;
  bool b_transposed;
  hr_dtype dtype, result;               /* of A and B; of C */
  int64_t lda, ldb, ldc;                /* from one row to the next */
  int64_t a_stride, b_stride, c_stride; /* from one matrix of the batch to the next */
  lt_description description;           /* from here on set by hr_batched_prepare() */
  lt_layout first, second, third;
  lt_heuristic chosen;
} hr_batched;

/** Finds an algorithm, in the device's context. HR_ERROR_UNSUPPORTED if cuBLASLt has none. Free it also after an
 *  error. */
hr_status hr_batched_prepare(const hr_cuda *cuda, hr_batched *batched, hr_error *error);
void hr_batched_free(const hr_cuda *cuda, hr_batched *batched);

/** Queues the batched GEMM, in the device's context. The workspace has batched->chosen.workspace_bytes;
 *  addresses are multiples of HR_BATCHED_ALIGNMENT. */
hr_status hr_batched_run(const hr_cuda_queue *queue, const hr_batched *batched, cu_address a, cu_address b,
                         cu_address c, cu_address workspace, hr_error *error);

#endif
