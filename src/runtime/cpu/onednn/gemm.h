/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs by oneDNN, for the kernels that are made of them. */
#ifndef HR_RUNTIME_CPU_ONEDNN_GEMM_H
#define HR_RUNTIME_CPU_ONEDNN_GEMM_H

#include "runtime/cpu/onednn/engine.h"

#include <headroom/dtype.h>

#define HR_TENSOR_RANK 5

/** Batched matrices as oneDNN sees them: the last two sizes are rows and columns, those before are batch dimensions. A
 *  batch dimension of 1 is broadcast to the other operand's. Strides in elements. */
typedef struct hr_tensor {
  hr_dtype dtype; /* fp32 or bf16 */
  int rank;
  int64_t sizes[HR_TENSOR_RANK], strides[HR_TENSOR_RANK];
} hr_tensor;

typedef struct hr_matmul hr_matmul;

/** Prepares C = A B for tensors A, B, C on `threads` OpenMP threads, with fp32 accumulators. HR_ERROR_UNSUPPORTED, with
 *  the reason, where oneDNN has no code or only slow code. The caller owns *matmul. */
hr_status hr_matmul_create(hr_onednn *onednn, int threads, const hr_tensor tensors[3], hr_matmul **matmul,
                           hr_error *error);
void hr_matmul_free(hr_matmul *matmul); /* NULL is allowed */

/** Bytes of workspace of one run, 64-byte aligned; concurrent runs need one each. */
size_t hr_matmul_workspace_bytes(const hr_matmul *matmul);

/** Thread-safe. */
hr_status hr_matmul_run(const hr_matmul *matmul, const void *a, const void *b, void *c, void *workspace,
                        hr_error *error);

#endif
