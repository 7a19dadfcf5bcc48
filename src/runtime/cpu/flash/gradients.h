/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention on the CPU: the interface between the common part (gradients.c) and the versions, one for each
 * instruction set. Formulas: <headroom/experimental/attention_backward.h>; the order of the loops is
 * FlashAttention-2's (Dao, arXiv 2307.08691, algorithm 2), keys outside and queries inside:
 *
 *   item:  one sequence, the heads that share K or V heads, every so-many-th block of keys          one thread
 *   block: CHUNK keys of each of these heads; K and V are packed, dK and dV kept in fp32
 *   tile:  up to TILE_ROWS queries of one head: S = Q Kᵀ and dP = dO Vᵀ, then P and dS,
 *          then dV += Pᵀ dO, dK += dSᵀ Q, dQ += dS K
 *
 * Each score is computed once. dQ is kept in fp32 by each item and added up in the end, in a fixed order; so equal
 * runs give the same bits with equally many threads, on which the number of parts depends. */
#ifndef HR_RUNTIME_CPU_FLASH_GRADIENTS_H
#define HR_RUNTIME_CPU_FLASH_GRADIENTS_H

#include "runtime/cpu/flash/flash.h"

/** Queries of a head and keys of a block. Packed operands of a product A B are rows of words (A), panels of columns
 *  (B), or panels of columns that were rows (B transposed). */
typedef struct hr_gradient_tile {
  const hr_flash_scores *scores;
  int rows, keys;
  int64_t qk_words, v_words;     /* of a packed row of Q or K; of dO or V */
  int64_t qk_columns, v_columns; /* floats of a row of dQ or dK; of dV */
  const void *q_rows, *do_rows, *q_panels, *do_panels;
  const void *k_panels, *k_transposed, *v_transposed;
  int32_t first[HR_FLASH_TILE_ROWS_MAX], end[HR_FLASH_TILE_ROWS_MAX]; /* visible keys of a row, from the block's first;
                                                                         may be out of range */
  int32_t position[HR_FLASH_TILE_ROWS_MAX];                           /* of a query, from the block's first key */
  float shift[HR_FLASH_TILE_ROWS_MAX];                                /* −lse in the unit of S, added to a score */
  float delta[HR_FLASH_TILE_ROWS_MAX];
  float slope;            /* of ALiBi */
  float *s, *dp;          /* [tile_rows][chunk]; P and dS take their place where words are fp32 */
  void *ds;               /* dS in words of pairs, otherwise unused */
  void *p_back, *ds_back; /* Pᵀ and dSᵀ, [chunk][tile_rows] */
  float *dq, *dk, *dv;    /* are added to */
} hr_gradient_tile;

/** A version: sizes, and functions on rows and tiles. The first sizes and packing functions are as in
 *  hr_flash_version. */
typedef struct hr_gradient_version {
  int lanes, value_group, pair, depth_group, tile_rows, chunk;
  void (*pack_rows)(hr_dtype dtype, const void *from, int64_t dim, bool negate, void *to, int64_t words);
  void (*pack_transposed)(hr_dtype dtype, const void *from, int64_t stride, int rows, int64_t dim, void *to,
                          int64_t words);
  void (*pack_panels)(hr_dtype dtype, const void *from, int64_t stride, int rows, int64_t dim, void *to);
  void (*run_tile)(hr_gradient_tile *tile);
  float (*dot)(hr_dtype dtype, const void *a, const void *b, int64_t dim);
  /** Elements of a row: factor · from. */
  void (*store)(const float *from, float factor, int64_t dim, hr_dtype dtype, void *to);
} hr_gradient_version;

extern const hr_gradient_version hr_gradients_portable;
#if defined(__x86_64__)
extern const hr_gradient_version hr_gradients_avx2, hr_gradients_avx512, hr_gradients_avx512_bf16;
#elif defined(__aarch64__)
extern const hr_gradient_version hr_gradients_neon;
#endif

#endif
