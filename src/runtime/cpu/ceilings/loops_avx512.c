/* SPDX-License-Identifier: Apache-2.0 */
/* loops_body.h for AVX-512: F, BW, DQ, VL. */
#define LOOP(name) hr_##name##_avx512
#include "runtime/cpu/ceilings/loops_body.h" /* NOLINT(bugprone-suspicious-include) */
