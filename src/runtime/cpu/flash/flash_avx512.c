/* Flash attention, fp32 in AVX-512; bf16 and fp16 are widened as they are packed.
 *
 *   registers: 6 rows × 4 vectors of sums, 4 of K or V, 1 of Q or P, which is the same in all lanes: 29 of 32. A step
 *   of such a block is 24 multiply-adds to 10 loads, so that two of them go a cycle and a panel of 64 columns is read
 *   from the first-level cache once for 6 rows. Tile: 48 rows by 128 keys, 24 KiB of scores.
 *
 * Ceilings of a core of an AMD EPYC (Zen 5), November 2026: 239 GFLOP/s of multiply-adds, 12 Gexp/s (2^x as below, from
 * and to memory). At head size 128 a score is 256 multiply-adds, 2.14 ns, and 0.08 ns of exponential.
 * There, one thread, processor time beside other programs, head size 128, length 1024: 186 to 189 GFLOP/s, 78% of the
 * multiply-adds alone; causal 168 to 171 (71%). The products of a step by themselves reach nearly all of it; the rest
 * is packing, 2% at 512 rows, softmax, and Q and o from the second-level cache. A core of an Intel Xeon with AMX: 145
 * GFLOP/s, 80% of 181; causal 138 (76%). Length 512, causal: blocks that leave out keys that none of their rows sees
 * are 8% faster than whole tiles. Tried on both and no better: blocks of 12 rows by 2 vectors (143 on the Xeon), 64
 * keys at a time (140). */
#define VERSION hr_flash_avx512
#define PANEL 4
#define PAIR 1
#define WEIGHT_EXP2 simd_exp2
#define TILE 6
#include "runtime/cpu/flash/gemm_body.h"
