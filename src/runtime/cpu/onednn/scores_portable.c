/* SPDX-License-Identifier: Apache-2.0 */
/* scores_body.h for any processor. */
#define SCORES_VERSION hr_scores_portable
#include "runtime/cpu/onednn/scores_body.h" /* NOLINT(bugprone-suspicious-include) */
