/* Matrix products. Thread safety: hr_gemm is a value, the functions are pure. */
#ifndef HEADROOM_GEMM_H
#define HEADROOM_GEMM_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** `batch` products C = A B of one size; accumulation is in fp32 (fp64 for fp64).
 *
 *  Shapes, row-major: A [m, k] (stored [k, m] if transpose_a), B [k, n] (stored [n, k] if transpose_b), C [m, n].
 *  A framework's linear layer y = x Wᵀ is m = tokens, k = inputs, n = outputs, transpose_b.
 *
 *  Strides are in elements and 0 where nothing lies between: rows follow each other, and so do batches. A leading
 *  dimension is from one stored row to the next and at least as long as a row; nothing is read or written in the gap.
 *  Batches of C must not overlap: each begins behind the one before, or they lie side by side within the rows of ldc,
 *  as heads do in [tokens, heads, n]. Those of A and B may lie anyhow; a broadcast operand is one matrix that every
 *  batch reads. */
typedef struct hr_gemm {
  size_t struct_size; /* sizeof(hr_gemm), set by hr_gemm_default() */
  int64_t m, n, k;
  int64_t batch;
  hr_dtype dtype; /* of A, B and C */
  bool transpose_a, transpose_b;
  bool broadcast_a, broadcast_b;        /* then the batch stride is 0 */
  int64_t lda, ldb, ldc;                /* leading dimensions */
  int64_t stride_a, stride_b, stride_c; /* from one batch to the next */
} hr_gemm;

/** A 1 × 1 × 1 product of one batch in bf16, nothing transposed. */
HR_API hr_gemm hr_gemm_default(void);

/** HR_OK when every size is at least 1, the format is known, the strides are as hr_gemm says and all element and
 *  operation counts fit 63 bits; otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_gemm_check(const hr_gemm *gemm, hr_error *error);

/** Floating-point operations, 2·m·n·k·batch. HR_ERROR_OVERFLOW if they do not fit; *flops is then untouched. */
HR_API hr_status hr_gemm_flops(const hr_gemm *gemm, int64_t *flops);

/** Bytes that must move at least once: A, B and C of every batch without their gaps, a broadcast operand once.
 *  HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_gemm_bytes(const hr_gemm *gemm, int64_t *bytes);

/** How an operand is stored, with what hr_gemm leaves at 0 worked out. In elements. */
typedef struct hr_matrix {
  int64_t rows, columns;     /* as stored */
  int64_t leading_dimension; /* from one row to the next */
  int64_t batch_stride;      /* from one batch to the next; 0: all read the same */
  int64_t elements;          /* from the first to behind the last of all batches: what its memory has room for */
} hr_matrix;

/** A of a product that passes hr_gemm_check(). */
HR_API hr_matrix hr_gemm_a(const hr_gemm *gemm);
/** B, as hr_gemm_a(). */
HR_API hr_matrix hr_gemm_b(const hr_gemm *gemm);
/** C, as hr_gemm_a(). */
HR_API hr_matrix hr_gemm_c(const hr_gemm *gemm);

#ifdef __cplusplus
}
#endif
#endif
