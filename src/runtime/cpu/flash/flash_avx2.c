/* Flash attention, fp32 in AVX2; bf16 and fp16 are widened as they are packed.
 *
 *   registers: 6 rows × 2 vectors of sums, 2 of K or V, 1 of Q or P: 15 of 16.
 *
 * On a core of an AMD EPYC (Zen 5), November 2026, one thread, head size 128, length 1024: 95 to 97 GFLOP/s, causal 92
 * to 97, where two multiply-adds of 8 floats a cycle would be 119. */
#define VERSION hr_flash_avx2
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2
#define TILE 6
#include "runtime/cpu/flash/gemm_body.h"
