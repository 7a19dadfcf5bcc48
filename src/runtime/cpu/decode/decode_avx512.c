/* SPDX-License-Identifier: Apache-2.0 */
/* decode_body.h for AVX-512. */
#define VERSION hr_split_avx512
#define TILE_ROWS 4
#define TILE_PAIRS 2
#define SPREAD_PREFETCHES true
#include "runtime/cpu/decode/decode_body.h" /* NOLINT(bugprone-suspicious-include) */
