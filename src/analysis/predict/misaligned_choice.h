/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel cuBLASLt takes for a misaligned GEMM on Hopper. */
#ifndef HR_ANALYSIS_PREDICT_NARROW_CHOICE_H
#define HR_ANALYSIS_PREDICT_NARROW_CHOICE_H

#include <headroom/gemm.h>

/** The tile, and how often k is split. */
typedef struct hr_misaligned_choice {
  int64_t m, n, splits;
} hr_misaligned_choice;

/** Chooses by decision trees that scripts/learn_choices.py learns from the answers of cuBLASLt's heuristic.
 *  `aligned_2`: an operand or the result is aligned to less than 4 bytes. */
hr_misaligned_choice hr_choose_misaligned(const hr_gemm *gemm, bool aligned_2);

#endif
