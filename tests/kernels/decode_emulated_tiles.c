/* SPDX-License-Identifier: Apache-2.0 */
/* The AMX version of decode attention with tile instructions in plain C, for processors that have AVX-512 but no
 * AMX. */
#include "decode_emulated_tiles.h"

#if defined(__x86_64__)

#include "emulated_tiles.h"

#define hr_split_amx hr_split_amx_emulated
#include "runtime/cpu/decode/decode_amx.c"

#endif
