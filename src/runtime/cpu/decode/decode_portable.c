/* SPDX-License-Identifier: Apache-2.0 */
/* decode_body.h for the compiler's vector extension. */
#define VERSION hr_split_portable
#define TILE_ROWS 2
#define TILE_PAIRS 2
#define SPREAD_PREFETCHES false
#include "runtime/cpu/decode/decode_body.h" /* NOLINT(bugprone-suspicious-include) */
