/* SPDX-License-Identifier: Apache-2.0 */
/* q8_body.h for AVX-512: F, BW, DQ, VL. */
#define Q8_FUNCTIONS hr_q8_avx512
#include "runtime/cpu/gemv/q8_body.h" /* NOLINT(bugprone-suspicious-include) */
