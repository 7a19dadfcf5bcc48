/* SPDX-License-Identifier: Apache-2.0 */
/* Template: a version whose GEMMs are FMAs of vectors. A version defines before it includes this
 *   VERSION                    its hr_flash_version
 *   PANEL, PAIR, WEIGHT_EXP2   as in rows_body.h
 *   REGISTER_ROWS              rows of the micro-kernel: REGISTER_ROWS × PANEL vectors of accumulators, PANEL of B and
 *                              one of A, broadcast
 *   DEPTH_STEP                 words of a row of A loaded at once: 1, or SIMD_LANES with simd_load_factors() and
 *                              REGISTER_ROWS vectors of A
 */
#ifndef DEPTH_STEP
#define DEPTH_STEP 1
#endif
#define CHUNK 128
#define STEP 128
#define TILE_ROWS 48
#define KEY_GROUP SIMD_LANES
#include "runtime/cpu/flash/rows_body.h"

/* The largest scores of a row in each lane. */
typedef float row_lanes[SIMD_LANES];

#include "runtime/cpu/flash/softmax_body.h"

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

/* Keys of the step that a block of rows needs: those that its last row sees. */
static inline int needed_keys(const hr_flash_step *step, int last_row)
{
  int end = step->end[last_row];
  return end < 0 ? 0 : end < step->keys ? end : step->keys;
}

/* Both GEMMs stay functions of their own: inlined into run_step() by gcc 12, their loops lose 5%. */

/* S = Q Kᵀ, without the keys that no row of a block sees. */
static __attribute__((noinline)) void gemm_scores(const hr_flash_step *step, row_lanes *most)
{
  int columns;
  for (int row = 0; row < step->rows; row++)
    simd_store(most[row], simd_set1(-__builtin_inff()));
  for (int key = 0; key < step->keys; key += columns) {
    int at = step->first_key + key, in_panel = at % PANEL_LANES;
    columns = (int)hr_min64(step->keys - key, PANEL_LANES - in_panel);
    gemm_call p = {step->q, (const word *)step->k + at / PANEL_LANES * step->depth * PANEL_LANES + in_panel,
                   step->depth, STEP, step->s + key};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int seen_here = (int)hr_min64(needed_keys(step, row + rows - 1) - key, columns);
      int vectors = (int)hr_ceil_div(hr_max64(seen_here, 0), SIMD_LANES);
      if (rows == REGISTER_ROWS)
        gemm_block(REGISTER_ROWS, row, vectors, &p, step->depth, NULL, most);
      else if (rows == 2)
        gemm_block(2, row, vectors, &p, step->depth, NULL, most);
      else
        gemm_block(1, row, vectors, &p, step->depth, NULL, most);
    }
  }
}

/* o = factor · o + P V */
static __attribute__((noinline)) void gemm_values(const hr_flash_step *step)
{
  const float *factor = step->fresh ? NULL : step->factor;
  const word *weights = PAIR == 1 ? (const word *)step->s : (const word *)step->p;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    int vectors = (int)hr_min64(PANEL_LANES, step->values - d) / SIMD_LANES;
    gemm_call p = {weights, (const word *)step->v + d * (CHUNK / PAIR) + step->first_key / PAIR * PANEL_LANES,
                   STEP / PAIR, step->values, step->o + d};
    for (int row = 0, rows; row < step->rows; row += rows) {
      rows = block_rows(step->rows - row);
      int64_t depth = hr_round_up(hr_ceil_div(needed_keys(step, row + rows - 1), PAIR), DEPTH_STEP);
      if (rows == REGISTER_ROWS)
        gemm_block(REGISTER_ROWS, row, vectors, &p, depth, factor, NULL);
      else if (rows == 2)
        gemm_block(2, row, vectors, &p, depth, factor, NULL);
      else
        gemm_block(1, row, vectors, &p, depth, factor, NULL);
    }
  }
}

static void run_step(hr_flash_step *step, hr_flash_step *next)
{
  (void)next;
  _Alignas(64) row_lanes most[TILE_ROWS];
  gemm_scores(step, most);
  softmax(step, most);
  gemm_values(step);
}

const hr_flash_version VERSION = {.lanes = PANEL_LANES,
                                  .key_group = KEY_GROUP,
                                  .value_group = SIMD_LANES,
                                  .pair = PAIR,
                                  .depth_group = DEPTH_STEP,
                                  .tile_rows = TILE_ROWS,
                                  .chunk = CHUNK,
                                  .step = STEP,
                                  .score_floats = TILE_ROWS * STEP,
                                  .weights = PAIR == 1 ? 0 : TILE_ROWS * STEP,
                                  .pack_rows = 16,
                                  .pack_q = pack_q,
                                  .pack_k = pack_k,
                                  .pack_v = pack_v,
                                  .run_step = run_step,
                                  .finish = finish,
                                  .exp2 = exp2_array};
