/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_TEST_ATTENTION_EMULATED_TILES_H
#define HR_TEST_ATTENTION_EMULATED_TILES_H

#include "runtime/device/device.h"

/** attention_flash_amx without AMX; needs avx512. */
#if defined(__x86_64__)
extern const hr_kernel hr_attention_amx_emulated;
#endif

#endif
