/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention in the compiler's vector extension, for any processor; bf16 and fp16 are widened to fp32 as Q, K and
 * V are packed.
 *
 *   registers: 4 rows × 2 vectors of 4 accumulators, 2 of K or V, 1 of Q or P broadcast: 11, which every 64-bit
 *              processor has
 *   Q tile:    48 rows × 128 keys, 24 KiB of scores
 *
 * Bound: multiplies and adds; plain x86-64 has no FMA. One thread on an AMD EPYC (Zen 5), November 2026, head size 64,
 * length 1024: 23.6 GFLOP/s. */
#define VERSION hr_flash_portable
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 4
#include "runtime/cpu/flash/gemm_body.h"
