/* SPDX-License-Identifier: Apache-2.0 */
/* gemv_body.h for AVX-512 with AVX512_BF16. */
#define GEMV_TABLE hr_gemv_avx512_bf16
#include "runtime/cpu/gemv/gemv_body.h" /* NOLINT(bugprone-suspicious-include) */
