/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention, bf16 by AVX-512's dot products of pairs (vdpbf16ps); softmax in fp32.
 *
 *   registers and Q tile as in flash_avx512.c. A 32-bit word is a pair: of Q and K two elements of a head, of P and V
 *   two keys. Weights are rounded to bf16; their sum is not.
 *
 * Bound: vdpbf16ps, 477 GFLOP/s on a core of an AMD EPYC (Zen 5), November 2026. At head size 128 a score is 1.07 ns of
 * GEMM and 0.08 ns of exponential. One thread, length 1024: 346 GFLOP/s (73%; 78% of the sum of both); causal 316 to
 * 319; head size 64: 307 to 312, causal 286. */
#define VERSION hr_flash_avx512_bf16
#define PANEL 4
#define PAIR 2
#define WEIGHT_EXP2 simd_exp2_weight_for_bf16
#define REGISTER_ROWS 6
#include "runtime/cpu/flash/gemm_body.h"
