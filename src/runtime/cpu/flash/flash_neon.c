/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, fp32 in NEON; bf16 and fp16 are widened as they are packed.
 *
 *   registers: 8 rows × 2 vectors of accumulators, 8 of Q or P, 2 of K or V: 26 of 32.
 *
 * Four words of each of the 8 rows are loaded at once and multiplied by lane (fmla by element): a broadcast load would
 * take a slot of the vector pipes for each. 64 FMAs go with 16 loads; a core with four vector pipes and a latency of 4
 * cycles needs the 16 accumulators.
 *
 * Not measured on hardware: tests run it under qemu. Of gcc 12's code the inner loop has 64 fmla and 16 loads of q
 * registers (8 as pairs), and no spills. */
#define VERSION hr_flash_neon
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2_weight
#define REGISTER_ROWS 8
#define DEPTH_STEP 4
#include "runtime/cpu/flash/gemm_body.h"
