/* SPDX-License-Identifier: Apache-2.0 */
/* gemv_body.h for AVX-512: F, BW, DQ, VL. */
#define GEMV_TABLE hr_gemv_avx512
#include "runtime/cpu/gemv/gemv_body.h" /* NOLINT(bugprone-suspicious-include) */
