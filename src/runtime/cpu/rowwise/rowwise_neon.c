/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise_body.h for NEON. */
#define ROWWISE_TABLE hr_rowwise_neon
#include "runtime/cpu/rowwise/rowwise_body.h" /* NOLINT(bugprone-suspicious-include) */
