/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs with few rows of A, as in decoding, which kernels of their own take. */
#ifndef HR_RUNTIME_OPERATION_FEW_ROWS_H
#define HR_RUNTIME_OPERATION_FEW_ROWS_H

#include <headroom/gemm.h>
#include <stddef.h>

#define HR_GEMM_FEW_ROWS 8

/** Whether A is plain and has up to HR_GEMM_FEW_ROWS rows, and B is transposed; if not, `why` says what is not. */
bool hr_gemm_has_few_rows(const hr_gemm *gemm, char *why, size_t why_size);

#endif
