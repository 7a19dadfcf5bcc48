/* Flash attention, plain C, whatever the processor; bf16 and fp16 are widened as they are packed.
 *
 *   registers: 4 rows × 2 vectors of 4 sums, 2 of K or V, 1 of Q or P: 11, which every 64-bit processor has.
 *
 * On a core of an AMD EPYC (Zen 5), November 2026, one thread, head size 64, length 1024, compiled for plain x86-64,
 * which has no fused multiply-add: 23.6 GFLOP/s. */
#define VERSION hr_flash_portable
#define PANEL 2
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2
#define TILE 4
#include "runtime/cpu/flash/gemm_body.h"
