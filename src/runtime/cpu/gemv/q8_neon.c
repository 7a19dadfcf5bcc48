/* SPDX-License-Identifier: Apache-2.0 */
/* q8_body.h for NEON. */
#define Q8_FUNCTIONS hr_q8_neon
#include "runtime/cpu/gemv/q8_body.h" /* NOLINT(bugprone-suspicious-include) */
