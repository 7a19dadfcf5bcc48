/* Products by oneDNN, for the kernels that are made of them. */
#ifndef HR_RUNTIME_CPU_ONEDNN_GEMM_H
#define HR_RUNTIME_CPU_ONEDNN_GEMM_H

#include "runtime/cpu/cpu.h"

#define HR_TENSOR_RANK 5

/** Matrices as oneDNN sees them: the last two sizes are rows and columns, those before count matrices. A size of 1
 *  beside a larger one of the other factor's stands for the same matrix each time. Strides in elements. */
typedef struct hr_tensor {
  hr_dtype dtype; /* fp32 or bf16 */
  int rank;
  int64_t sizes[HR_TENSOR_RANK], strides[HR_TENSOR_RANK];
} hr_tensor;

typedef struct hr_matmul hr_matmul;

/** Prepares C = A B for tensors A, B, C, by `threads` threads of oneDNN's. HR_ERROR_UNSUPPORTED, with the reason, where
 *  oneDNN does not or only slowly. Sums are fp32. The caller owns *matmul. */
hr_status hr_matmul_create(hr_onednn *onednn, int threads, const hr_tensor tensors[3], hr_matmul **matmul,
                           hr_error *error);
void hr_matmul_free(hr_matmul *matmul); /* NULL is allowed */

/** Bytes of workspace that each run at the same time needs, 64-byte aligned. */
size_t hr_matmul_workspace_bytes(const hr_matmul *matmul);

/** May be called from several threads at once. */
hr_status hr_matmul_run(const hr_matmul *matmul, const void *a, const void *b, void *c, void *workspace,
                        hr_error *error);

#endif
