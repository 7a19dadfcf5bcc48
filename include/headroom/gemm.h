/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM problems. Thread safety: hr_gemm is a value, the functions are pure. */
#ifndef HEADROOM_GEMM_H
#define HEADROOM_GEMM_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A batched GEMM: `batch` times C = A B of one size, accumulated in fp32 (fp64 for fp64).
 *
 *  Shapes, row-major: A [m, k] (stored [k, m] if transpose_a), B [k, n] (stored [n, k] if transpose_b), C [m, n].
 *  A framework's linear layer y = x Wᵀ has m = tokens, k = inputs, n = outputs and transpose_b.
 *
 *  Strides are in elements; 0 means packed: rows are contiguous, and so are batches. A leading dimension is the
 *  distance between stored rows, at least the length of a row; the gap is neither read nor written. Batches of C must
 *  not overlap: each begins behind the previous one, or all are side by side within ldc, as heads are in [tokens,
 *  heads, n]. Batches of A and B may overlap. A broadcast operand is one matrix that every batch reads. */
typedef struct hr_gemm {
  size_t struct_size; /* sizeof(hr_gemm), set by hr_gemm_default() */
  int64_t m, n, k;
  int64_t batch;
  hr_dtype dtype; /* of A, B and C */
  bool transpose_a, transpose_b;
  bool broadcast_a, broadcast_b;        /* then the batch stride is 0 */
  int64_t lda, ldb, ldc;                /* leading dimensions */
  int64_t stride_a, stride_b, stride_c; /* from one batch to the next */
  int64_t alignment; /* bytes of which the addresses of a run are multiples: a power of two from the size of an element
                        to 4096; 0: 16 */
  bool
      bias; /* C = A B + bias, which is [n], of the dtype, the same for every row and batch. gemm_cublaslt may round A B
                to the dtype before; the others add in fp32 (fp64 for fp64) */
} hr_gemm;

/** 1 × 1 × 1, one batch, bf16, nothing transposed, packed. */
HR_API void hr_gemm_init(hr_gemm *gemm, size_t size);
HR_DEFAULT(hr_gemm)

/** HR_OK if every size is at least 1, the dtype is in its list, the strides are as hr_gemm demands and all counts of
 *  elements and operations fit 63 bits; otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_gemm_check(const hr_gemm *gemm, hr_error *error);

/** Floating-point operations, 2·m·n·k·batch. HR_ERROR_OVERFLOW if they do not fit; *flops is then untouched. Sizes that
 *  hr_gemm_check() refuses, here and below, have a meaningless count and do no harm. */
HR_API hr_status hr_gemm_flops(const hr_gemm *gemm, int64_t *flops);

/** Least memory traffic in bytes: A, B and C of every batch without gaps, a broadcast operand and the bias once.
 *  HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_gemm_bytes(const hr_gemm *gemm, int64_t *bytes);

/** Memory layout of an operand with all defaults resolved. In elements. */
typedef struct hr_matrix {
  int64_t rows, columns;     /* as stored */
  int64_t leading_dimension; /* from one row to the next */
  int64_t batch_stride;      /* from one batch to the next; 0: all batches read the same matrix */
  int64_t elements;          /* from the first to the end of the last, of all batches: the size of its memory */
} hr_matrix;

/** A of a GEMM that passes hr_gemm_check(). */
HR_API hr_matrix hr_gemm_a(const hr_gemm *gemm);
/** B; as hr_gemm_a(). */
HR_API hr_matrix hr_gemm_b(const hr_gemm *gemm);
/** C; as hr_gemm_a(). */
HR_API hr_matrix hr_gemm_c(const hr_gemm *gemm);

#ifdef __cplusplus
}
#endif
#endif
