/* SPDX-License-Identifier: Apache-2.0 */
/* Template: the micro-kernel, a product of a few rows and a panel in FMAs of vectors. A version defines before it
 * includes this, besides what vectors_body.h asks for
 *   REGISTER_ROWS              rows of the micro-kernel: REGISTER_ROWS × PANEL vectors of accumulators, PANEL of B and
 *                              one of A, broadcast
 *   DEPTH_STEP                 words of a row of A loaded at once: 1, or SIMD_LANES with simd_load_factors() and
 *                              REGISTER_ROWS vectors of A
 */
#include "runtime/cpu/flash/vectors_body.h"

/* The largest scores of a row in each lane. */
typedef float row_lanes[SIMD_LANES];

/* sum + a · b of words; a is broadcast. */
static inline simd_f32 fma_words(simd_f32 sum, simd_f32 a, simd_f32 b)
{
#if PAIR == 1
  return simd_fma(a, b, sum);
#else
  return simd_dot_bf16(sum, a, b);
#endif
}

/* DEPTH_STEP words of a row of A, by index: in memory, or in a vector whose lanes are factors of FMAs. */
#if DEPTH_STEP == 1
typedef const word *row_words;
HR_INLINE row_words load_row(const word *a)
{
  return a;
}
#else
typedef simd_f32 row_words;
HR_INLINE row_words load_row(const word *a)
{
  return simd_load_factors(a);
}
#endif

/* The micro-kernel: C = factor · C + A B for a few rows of A and the columns of a panel of B, over `depth` words; with
 * factor NULL, C = A B. `most` keeps the largest elements of C's rows, lane by lane; may be NULL. */
static inline __attribute__((always_inline)) void micro_kernel(int rows, int vectors, const word *a, int64_t a_stride,
                                                               const word *b, int64_t depth, float *c, int64_t c_stride,
                                                               const float *factor, row_lanes *most)
{
  simd_f32 acc[REGISTER_ROWS][PANEL];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      acc[i][j] = simd_set1(0);
      if (factor)
        acc[i][j] = simd_load(c + i * c_stride + j * SIMD_LANES) * simd_set1(factor[i]);
    }
#pragma GCC unroll 4
  for (int64_t w = 0; w < depth; w += DEPTH_STEP) {
    row_words words[REGISTER_ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
      words[i] = load_row(a + i * a_stride + w);
#pragma GCC unroll 4
    for (int k = 0; k < DEPTH_STEP; k++) {
      simd_f32 columns[PANEL];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++)
        columns[j] = simd_load((const float *)b + (w + k) * PANEL_LANES + j * SIMD_LANES);
#pragma GCC unroll 8
      for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
          acc[i][j] = fma_words(acc[i][j], simd_set1(words[i][k]), columns[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      simd_store(c + i * c_stride + j * SIMD_LANES, acc[i][j]);
#pragma GCC unroll 8
  for (int i = 0; i < rows && most; i++) {
    simd_f32 largest = simd_load(most[i]);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      largest = simd_max(acc[i][j], largest);
    simd_store(most[i], largest);
  }
}

/* Rows of A and C, and a panel of B or its last vectors. */
typedef struct gemm_call {
  const word *a, *b;
  int64_t a_stride, c_stride;
  float *c;
} gemm_call;

static inline __attribute__((always_inline)) void gemm_block(int rows, int row, int vectors, const gemm_call *p,
                                                             int64_t depth, const float *factor, row_lanes *most)
{
  const word *a = p->a + row * p->a_stride;
  float *c = p->c + row * p->c_stride;
  factor = factor ? factor + row : NULL;
  most = most ? most + row : NULL;
  if (vectors == PANEL) {
    micro_kernel(rows, PANEL, a, p->a_stride, p->b, depth, c, p->c_stride, factor, most);
    return;
  }
  for (int j = 0; j < vectors; j++)
    micro_kernel(rows, 1, a, p->a_stride, p->b + j * SIMD_LANES, depth, c + j * SIMD_LANES, p->c_stride, factor, most);
}

/* Rows of the next micro-kernel: REGISTER_ROWS, 2 or 1. */
static inline int block_rows(int left)
{
  return left >= REGISTER_ROWS ? REGISTER_ROWS : left >= 2 ? 2 : 1;
}
