/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise_body.h for AVX2, FMA and F16C. */
#define ROWWISE_TABLE hr_rowwise_avx2
#include "runtime/cpu/rowwise/rowwise_body.h" /* NOLINT(bugprone-suspicious-include) */
