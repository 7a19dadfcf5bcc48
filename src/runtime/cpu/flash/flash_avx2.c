/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, fp32 in AVX2; bf16 and fp16 are widened to fp32 as Q, K and V are packed.
 *
 *   registers: 6 rows × 2 vectors of accumulators, 2 of K or V, 1 of Q or P broadcast: 15 of 16
 *   Q tile:    48 rows × 128 keys, 24 KiB of scores
 *
 * Bound: FMAs, two of 8 floats a cycle, and a weight's 12 instructions, 5 cycles for 8 keys. Intel Xeon (Sapphire
 * Rapids family), November 2026, 2 threads, no mask: 87% of the FMA loop's rate at head size 128, 71% at 64; PyTorch
 * 72% and 54%. Tables and the log of what was tried: docs/notes/attention-cpu.md. */
#define VERSION hr_flash_avx2
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 6
#include "runtime/cpu/flash/gemm_body.h"
