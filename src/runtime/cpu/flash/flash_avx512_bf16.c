/* Flash attention, bf16 by AVX-512's products of pairs (vdpbf16ps); softmax in fp32.
 *
 *   Blocks and tiles as in flash_avx512.c, a word being a pair: of K and Q two elements of the head size, of V and P
 *   two keys. Weights are rounded to bf16, their sum is not.
 *
 * Ceilings of a core of an AMD EPYC (Zen 5), November 2026: 477 GFLOP/s of such products, 13 Gexp/s. At head size 128 a
 * score is 1.07 ns of products and 0.08 ns of exponential.
 * There, one thread, processor time beside other programs, head size 128, length 1024: 346 GFLOP/s, 73% of the products
 * alone, 78% of the sum of both; causal 316 to 319; head size 64: 307 to 312, causal 286. */
#define VERSION hr_flash_avx512_bf16
#define PANEL 4
#define PAIR 2
#define WEIGHT_EXP2 simd_exp2_for_bf16
#define TILE 6
#include "runtime/cpu/flash/gemm_body.h"
