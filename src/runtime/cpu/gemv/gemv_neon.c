/* SPDX-License-Identifier: Apache-2.0 */
/* gemv_body.h for NEON. */
#define GEMV_TABLE hr_gemv_neon
#include "runtime/cpu/gemv/gemv_body.h" /* NOLINT(bugprone-suspicious-include) */
