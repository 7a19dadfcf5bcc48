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
 *  A framework's linear layer y = x Wᵀ is m = tokens, k = inputs, n = outputs, transpose_b. */
typedef struct hr_gemm {
  size_t struct_size; /* sizeof(hr_gemm), set by hr_gemm_default() */
  int64_t m, n, k;
  int64_t batch;
  hr_dtype dtype; /* of A, B and C */
  bool transpose_a, transpose_b;
} hr_gemm;

/** A 1 × 1 × 1 product of one batch in bf16, nothing transposed. */
HR_API hr_gemm hr_gemm_default(void);

/** HR_OK when every size is at least 1, the format is known and all element and operation counts fit 63 bits;
 *  otherwise HR_ERROR_INVALID or HR_ERROR_OVERFLOW with the field in `error`. */
HR_API hr_status hr_gemm_check(const hr_gemm *gemm, hr_error *error);

/** Floating-point operations, 2·m·n·k·batch. HR_ERROR_OVERFLOW if they do not fit; *flops is then untouched. */
HR_API hr_status hr_gemm_flops(const hr_gemm *gemm, int64_t *flops);

/** Bytes that must move at least once: A, B and C of every batch. HR_ERROR_OVERFLOW as above. */
HR_API hr_status hr_gemm_bytes(const hr_gemm *gemm, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
