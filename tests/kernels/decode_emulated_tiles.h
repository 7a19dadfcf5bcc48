/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_TEST_DECODE_EMULATED_TILES_H
#define HR_TEST_DECODE_EMULATED_TILES_H

#include "runtime/device/device.h"

/** decode_split_amx without AMX; needs avx512. */
#if defined(__x86_64__)
extern const hr_kernel hr_decode_amx_emulated;
#endif

#endif
