/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise_body.h for AVX-512: F, BW, DQ, VL. */
#define ROWWISE_TABLE hr_rowwise_avx512
#include "runtime/cpu/rowwise/rowwise_body.h" /* NOLINT(bugprone-suspicious-include) */
