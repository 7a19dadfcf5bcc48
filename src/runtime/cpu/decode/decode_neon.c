/* SPDX-License-Identifier: Apache-2.0 */
/* decode_body.h for NEON. */
#define VERSION hr_split_neon
#define TILE_ROWS 4
#define TILE_PAIRS 2
#define SPREAD_PREFETCHES false
#include "runtime/cpu/decode/decode_body.h" /* NOLINT(bugprone-suspicious-include) */
