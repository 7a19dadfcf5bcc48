/* SPDX-License-Identifier: Apache-2.0 */
/* scores_body.h for AVX2, FMA and F16C. */
#define SCORES_VERSION hr_scores_avx2
#include "runtime/cpu/onednn/scores_body.h" /* NOLINT(bugprone-suspicious-include) */
