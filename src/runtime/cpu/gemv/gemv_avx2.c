/* SPDX-License-Identifier: Apache-2.0 */
/* gemv_body.h for AVX2, FMA and F16C. */
#define GEMV_TABLE hr_gemv_avx2
#include "runtime/cpu/gemv/gemv_body.h" /* NOLINT(bugprone-suspicious-include) */
