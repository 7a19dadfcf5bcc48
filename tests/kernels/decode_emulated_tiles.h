/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_TEST_DECODE_EMULATED_TILES_H
#define HR_TEST_DECODE_EMULATED_TILES_H

#include "runtime/cpu/decode/version.h"

/** hr_split_amx without AMX; needs avx512. */
#if defined(__x86_64__)
extern const hr_split_version hr_split_amx_emulated;
#endif

#endif
