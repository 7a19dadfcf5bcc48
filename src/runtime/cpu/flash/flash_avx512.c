/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, fp32 in AVX-512; bf16 and fp16 are widened to fp32 as Q, K and V are packed.
 *
 *   registers: 6 rows × 4 vectors of accumulators, 4 of K or V, 1 of Q or P broadcast: 29 of 32.
 *              24 FMAs for 10 loads, so that two FMAs run a cycle; a panel of 64 columns is read from L1
 *              once for 6 rows
 *   Q tile:    48 rows × 128 keys, 24 KiB of scores
 *
 * Bound: FMAs, 239 GFLOP/s on a core of an AMD EPYC (Zen 5), November 2026. At head size 128 a score is 2.14 ns of FMAs
 * and 0.08 ns of exponential. One thread, length 1024: 186 to 189 GFLOP/s (78%); causal 168 to 171 (71%). The GEMMs of
 * a step alone reach nearly all of it; the rest is packing (2% at 512 rows), softmax, and Q and o from L2. Intel Xeon
 * with AMX: 145 GFLOP/s, 80% of 181; causal 138 (76%).
 *
 * Log of what was tried: docs/notes/attention-cpu.md. */
#define VERSION hr_flash_avx512
#define PANEL 4
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 6
#include "runtime/cpu/flash/gemm_body.h"
