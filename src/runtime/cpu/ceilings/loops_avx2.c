/* SPDX-License-Identifier: Apache-2.0 */
/* loops_body.h for AVX2, FMA and F16C. */
#define LOOP(name) hr_##name##_avx2
#include "runtime/cpu/ceilings/loops_body.h" /* NOLINT(bugprone-suspicious-include) */
