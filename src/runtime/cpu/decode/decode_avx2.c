/* SPDX-License-Identifier: Apache-2.0 */
/* decode_body.h for AVX2 and FMA. */
#define VERSION hr_split_avx2
#define TILE_ROWS 2
#define TILE_PAIRS 2
#define SPREAD_PREFETCHES false
#include "runtime/cpu/decode/decode_body.h" /* NOLINT(bugprone-suspicious-include) */
