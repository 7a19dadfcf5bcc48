/* SPDX-License-Identifier: Apache-2.0 */
/* scores_body.h for AVX-512: F, BW, DQ, VL. */
#define SCORES_VERSION hr_scores_avx512
#include "runtime/cpu/onednn/scores_body.h" /* NOLINT(bugprone-suspicious-include) */
