/* SPDX-License-Identifier: Apache-2.0 */
/* gemv_body.h for any processor. */
#define GEMV_TABLE hr_gemv_portable
#include "runtime/cpu/gemv/gemv_body.h" /* NOLINT(bugprone-suspicious-include) */
