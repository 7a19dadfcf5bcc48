/* SPDX-License-Identifier: Apache-2.0 */
/* loops_body.h for NEON. */
#define LOOP(name) hr_##name##_neon
#include "runtime/cpu/ceilings/loops_body.h" /* NOLINT(bugprone-suspicious-include) */
