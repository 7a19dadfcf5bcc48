/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX version of flash attention with tile instructions in plain C, for processors that have AVX-512 but no
 * AMX. */
#include "attention_emulated_tiles.h"

#if defined(__x86_64__)

#include "emulated_tiles.h"

#define hr_flash_amx hr_flash_amx_emulated
#include "runtime/cpu/flash/flash_amx.c"

#endif
