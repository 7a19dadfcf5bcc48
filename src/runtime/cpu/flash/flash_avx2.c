/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, fp32 in AVX2; bf16 and fp16 are widened to fp32 as Q, K and V are packed.
 *
 *   registers: 6 rows × 2 vectors of accumulators, 2 of K or V, 1 of Q or P broadcast: 15 of 16
 *   Q tile:    48 rows × 128 keys, 24 KiB of scores
 *
 * Bound: FMAs. One thread on an AMD EPYC (Zen 5), November 2026, head size 128, length 1024: 95 to 97 GFLOP/s (80% of
 * 119, two 8-float FMAs a cycle); causal 92 to 97. */
#define VERSION hr_flash_avx2
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 6
#include "runtime/cpu/flash/gemm_body.h"
