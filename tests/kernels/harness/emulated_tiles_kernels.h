/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX versions with tile instructions in plain C, which need AVX-512: no kernels of the table. */
#ifndef HR_HARNESS_EMULATED_TILES_KERNELS_H
#define HR_HARNESS_EMULATED_TILES_KERNELS_H

#include "runtime/device/kernel.h"

extern const hr_kernel hr_attention_amx_emulated, hr_decode_amx_emulated;

#endif
