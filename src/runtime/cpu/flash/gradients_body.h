/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gradients whose products are FMAs of vectors. A version defines before it includes this
 *   VERSION                                    its hr_gradient_version
 *   PANEL, PAIR, REGISTER_ROWS, DEPTH_STEP     as in micro_body.h; DEPTH_STEP is 1 if not defined
 *   WEIGHT_EXP2                                as in rows_body.h
 *
 * CHUNK and TILE_ROWS are multiples of the rows of micro-kernels, CHUNK of all panels, so that no product has a part
 * that is slow. */
#ifndef DEPTH_STEP
#define DEPTH_STEP 1
#endif
#define CHUNK 192
#define TILE_ROWS 48
#define KEY_GROUP SIMD_LANES
#include "runtime/cpu/flash/gradients.h"
#include "runtime/cpu/flash/micro_body.h"

/* ---- products ---- */

/* C = A B, or C += A B. Row i of A and C needs the columns of B, or the rows, first[i] … end[i] − 1; these are out of
 * range or none in some rows, and neither first nor end decreases from row to row. */
typedef struct product {
  const word *a, *b;
  int64_t a_stride, c_stride;
  float *c;
  int rows;
  const int32_t *first, *end;
} product;

static inline int within(int32_t at, int most)
{
  return at < 0 ? 0 : at < most ? at : most;
}

/* A few rows of C and a panel's columns, or its first vectors. */
static inline void multiply(int rows, int vectors, const gemm_call *p, int64_t depth, bool add)
{
  static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
  _Static_assert(REGISTER_ROWS <= 8, "one for each row");
  const float *factor = add ? ones : NULL;
  if (rows == REGISTER_ROWS)
    gemm_block(REGISTER_ROWS, 0, vectors, p, depth, factor, NULL);
  else if (rows == 2)
    gemm_block(2, 0, vectors, p, depth, factor, NULL);
  else
    gemm_block(1, 0, vectors, p, depth, factor, NULL);
}

/* C = A B of `columns` columns, those alone that a row needs. */
static __attribute__((noinline)) void multiply_visible(const product *x, int64_t depth, int columns)
{
  for (int at = 0; at < columns; at += PANEL_LANES)
    for (int row = 0, rows; row < x->rows; row += rows) {
      rows = block_rows(x->rows - row);
      int first = within(x->first[row], columns), end = within(x->end[row + rows - 1], columns);
      if (first >= end || end <= at || first >= at + PANEL_LANES)
        continue;
      int vectors = (int)hr_ceil_div(hr_min64(end - at, PANEL_LANES), SIMD_LANES);
      const gemm_call p = {x->a + row * x->a_stride, x->b + at * depth, x->a_stride, x->c_stride,
                           x->c + row * x->c_stride + at};
      multiply(rows, vectors, &p, depth, false);
    }
}

/* C += A B of `depth` elements, those alone that a row needs. */
static __attribute__((noinline)) void add_visible(const product *x, int depth, int64_t columns)
{
  const int step = PAIR * DEPTH_STEP;
  for (int64_t at = 0; at < columns; at += PANEL_LANES)
    for (int row = 0, rows; row < x->rows; row += rows) {
      rows = block_rows(x->rows - row);
      int first = within(x->first[row], depth) / step * DEPTH_STEP;
      int end = (int)hr_ceil_div(within(x->end[row + rows - 1], depth), step) * DEPTH_STEP;
      if (first >= end)
        continue;
      const gemm_call p = {x->a + row * x->a_stride + first, x->b + at * (CHUNK / PAIR) + (int64_t)first * PANEL_LANES,
                           x->a_stride, x->c_stride, x->c + row * x->c_stride + at};
      multiply(rows, (int)hr_min64(PANEL_LANES, columns - at) / SIMD_LANES, &p, end - first, true);
    }
}

/* ---- P and dS ---- */

#if PAIR == 1
#define DS_ROWS(tile) ((const word *)(tile)->dp)
#else
#define DS_ROWS(tile) ((const word *)(tile)->ds)
#endif

static inline void store_ds(const hr_gradient_tile *tile, int row, int key, simd_f32 ds)
{
#if PAIR == 2
  simd_store_bf16((uint16_t *)tile->ds + row * CHUNK + key, ds);
#endif
  simd_store(tile->dp + row * CHUNK + key, ds);
}

/* SIMD_LANES keys, of which the row sees some, get P and dS. */
static inline __attribute__((always_inline)) void weigh(const hr_gradient_tile *tile, int row, int key, bool scaled)
{
  const simd_exponent exponent = weight_exponent(tile->scores);
  float *s = tile->s + row * CHUNK + key;
  simd_f32 x = simd_load(s), slope = simd_set1(1);
  if (scaled)
    x = final_scores(tile->scores, x, key_distances(key, tile->position[row]), tile->slope, &slope);
  x = hide_outside(x, tile->first[row] - key, tile->end[row] - key);
  simd_f32 p = WEIGHT_EXP2(&exponent, x + simd_set1(tile->shift[row]));
  simd_f32 ds = p * (simd_load(tile->dp + row * CHUNK + key) - simd_set1(tile->delta[row]));
  simd_store(s, p);
  store_ds(tile, row, key, scaled ? ds * slope : ds);
}

static inline void clear(const hr_gradient_tile *tile, int row, int from, int to)
{
  for (int key = from; key < to; key += SIMD_LANES) {
    simd_store(tile->s + row * CHUNK + key, simd_set1(0));
    store_ds(tile, row, key, simd_set1(0));
  }
}

/* P and dS in the place of S and dP; 0 for keys that a row does not see. */
static void weigh_rows(const hr_gradient_tile *tile)
{
  const int keys = (int)hr_round_up(tile->keys, SIMD_LANES);
  for (int row = 0; row < tile->rows; row++) {
    int first = within(tile->first[row], tile->keys) / SIMD_LANES * SIMD_LANES;
    int end = (int)hr_round_up(within(tile->end[row], tile->keys), SIMD_LANES);
    if (tile->first[row] >= tile->end[row])
      first = end = 0;
    clear(tile, row, 0, first);
    if (tile->scores->scaled_first)
      for (int key = first; key < end; key += SIMD_LANES)
        weigh(tile, row, key, true);
    else
      for (int key = first; key < end; key += SIMD_LANES)
        weigh(tile, row, key, false);
    clear(tile, row, end, keys);
  }
}

/* SIMD_LANES rows and keys of the transpose, in words; rows behind the last are 0. */
static inline void transpose_block(const float *from, int rows, void *to, int row, int key)
{
  simd_f32 block[SIMD_LANES];
#pragma GCC unroll 16
  for (int i = 0; i < SIMD_LANES; i++)
    block[i] = i < rows ? simd_load(from + i * CHUNK) : simd_set1(0);
  simd_transpose(block);
#pragma GCC unroll 16
  for (int i = 0; i < SIMD_LANES; i++)
#if PAIR == 2
    simd_store_bf16((uint16_t *)to + (key + i) * TILE_ROWS + row, block[i]);
#else
    simd_store((float *)to + (key + i) * TILE_ROWS + row, block[i]);
#endif
}

static void transpose_tile(const hr_gradient_tile *tile, const float *from, void *to)
{
  for (int row = 0; row < tile->rows; row += SIMD_LANES)
    for (int key = 0; key < tile->keys; key += SIMD_LANES)
      transpose_block(from + row * CHUNK + key, tile->rows - row, to, row, key);
}

/* ---- tiles ---- */

/* The queries that see a key: first … end − 1. */
typedef struct key_queries {
  int32_t first[CHUNK], end[CHUNK];
} key_queries;

static void find_queries(const hr_gradient_tile *tile, key_queries *of)
{
  int first = 0, end = 0;
  for (int key = 0; key < tile->keys; key++) {
    while (first < tile->rows && tile->end[first] <= key)
      first++;
    while (end < tile->rows && tile->first[end] <= key)
      end++;
    of->first[key] = first;
    of->end[key] = end;
  }
}

static void run_tile(hr_gradient_tile *tile)
{
  key_queries queries;
  const product s = {tile->q_rows, tile->k_transposed, tile->qk_words, CHUNK,
                     tile->s,      tile->rows,         tile->first,    tile->end};
  const product dp = {tile->do_rows, tile->v_transposed, tile->v_words, CHUNK,
                      tile->dp,      tile->rows,         tile->first,   tile->end};
  const product dq = {DS_ROWS(tile), tile->k_panels, CHUNK / PAIR, tile->qk_columns,
                      tile->dq,      tile->rows,     tile->first,  tile->end};
  const product dv = {tile->p_back, tile->do_panels, TILE_ROWS / PAIR, tile->v_columns,
                      tile->dv,     tile->keys,      queries.first,    queries.end};
  const product dk = {tile->ds_back, tile->q_panels, TILE_ROWS / PAIR, tile->qk_columns,
                      tile->dk,      tile->keys,     queries.first,    queries.end};
  find_queries(tile, &queries);
  multiply_visible(&s, tile->qk_words, tile->keys);
  multiply_visible(&dp, tile->v_words, tile->keys);
  weigh_rows(tile);
  transpose_tile(tile, tile->s, tile->p_back);
  transpose_tile(tile, tile->dp, tile->ds_back);
  add_visible(&dv, tile->rows, tile->v_columns);
  add_visible(&dk, tile->rows, tile->qk_columns);
  add_visible(&dq, tile->keys, tile->qk_columns);
}

/* ---- rows ---- */

static float dot(hr_dtype dtype, const void *a, const void *b, int64_t dim)
{
  const size_t bytes = hr_dtype_bytes(dtype);
  simd_f32 sum = simd_set1(0);
  for (int64_t d = 0; d < dim; d += (int64_t)SIMD_LANES * PAIR)
    sum = fma_words(sum, load_words(dtype, (const char *)a + (size_t)d * bytes, dim - d),
                    load_words(dtype, (const char *)b + (size_t)d * bytes, dim - d));
  return simd_reduce_add(sum);
}

static void store(const float *from, float factor, int64_t dim, hr_dtype dtype, void *to)
{
  store_row(from, simd_set1(factor), dim, dtype, to);
}

const hr_gradient_version VERSION = {.lanes = PANEL_LANES,
                                     .value_group = SIMD_LANES,
                                     .pair = PAIR,
                                     .depth_group = DEPTH_STEP,
                                     .tile_rows = TILE_ROWS,
                                     .chunk = CHUNK,
                                     .pack_rows = pack_q,
                                     .pack_transposed = pack_k,
                                     .pack_panels = pack_v,
                                     .run_tile = run_tile,
                                     .dot = dot,
                                     .store = store};
