/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise_body.h for any processor. */
#define ROWWISE_TABLE hr_rowwise_portable
#include "runtime/cpu/rowwise/rowwise_body.h" /* NOLINT(bugprone-suspicious-include) */
