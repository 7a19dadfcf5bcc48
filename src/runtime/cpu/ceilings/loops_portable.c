/* SPDX-License-Identifier: Apache-2.0 */
/* loops_body.h for any processor. */
#define LOOP(name) hr_##name##_portable
#include "runtime/cpu/ceilings/loops_body.h" /* NOLINT(bugprone-suspicious-include) */
