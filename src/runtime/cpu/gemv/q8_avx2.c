/* SPDX-License-Identifier: Apache-2.0 */
/* q8_body.h for AVX2, FMA and F16C. */
#define Q8_FUNCTIONS hr_q8_avx2
#include "runtime/cpu/gemv/q8_body.h" /* NOLINT(bugprone-suspicious-include) */
