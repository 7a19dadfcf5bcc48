/* Batched products through cuBLASLt whose result may have another format than the operands: attention with scores in
 * memory needs Q Kᵀ in fp32. */
#ifndef HR_RUNTIME_CUDA_GEMM_BATCHED_H
#define HR_RUNTIME_CUDA_GEMM_BATCHED_H

#include "runtime/cuda/cuda.h"

#define HR_BATCHED_ALIGNMENT 32 /* bytes, of addresses, rows and batch strides */

/** C [m, n] = A [m, k] · B [k, n], row-major, `batch` of each; b_transposed: B is stored [n, k]. Strides in
 *  elements. */
typedef struct hr_batched {
  int64_t m, n, k, batch;
  bool b_transposed;
  hr_dtype dtype, result;               /* of A and B; of C */
  int64_t lda, ldb, ldc;                /* from one row to the next */
  int64_t a_stride, b_stride, c_stride; /* from one of the batch to the next */
  lt_description description;           /* from here on what hr_batched_prepare() makes */
  lt_layout first, second, third;
  lt_heuristic chosen;
} hr_batched;

/** Looks for an algorithm, in the device's context. Free in any case. HR_ERROR_UNSUPPORTED where there is none. */
hr_status hr_batched_prepare(const hr_cuda *cuda, hr_batched *product, hr_error *error);
void hr_batched_free(const hr_cuda *cuda, hr_batched *product);

/** Starts it, in the context. The workspace has the chosen algorithm's bytes (product->chosen.workspace_bytes).
 *  Addresses are multiples of HR_BATCHED_ALIGNMENT. */
hr_status hr_batched_run(const hr_cuda *cuda, const hr_batched *product, cu_address a, cu_address b, cu_address c,
                         cu_address workspace, hr_error *error);

#endif
