/* SPDX-License-Identifier: Apache-2.0 */
/* Template: decode attention in fp32 arithmetic. A version defines before it includes this
 *   VERSION      its hr_split_version
 *   TILE_ROWS    query rows that share a load: TILE_ROWS × 4 sums of Q·K, TILE_ROWS × 2 · TILE_PAIRS sums of P·V
 *   TILE_PAIRS   pairs of vectors of a V row
 *   SPREAD_PREFETCHES   whether what comes next is prefetched with all columns of V, or with the first ones */
#include "base/checked.h"
#include "runtime/cpu/decode/decode_load.h"
#include "runtime/cpu/decode/decode_weight.h"
#include "runtime/cpu/decode/version.h"

#include <string.h>

#define BLOCK HR_SPLIT_BLOCK
#define KEYS HR_SPLIT_SCRATCH_KEYS
_Static_assert(HR_SPLIT_PAD % SIMD_PAIR == 0, "padded rows are whole pairs");
_Static_assert(TILE_PAIRS *SIMD_PAIR *BLOCK <= HR_SPLIT_SCRATCH_VALUES, "scratch holds a block of V");

/* Whether a row of K or V is widened to scratch memory once, and not by each tile of query rows that loads it. */
HR_INLINE bool is_widened_first(hr_dtype dtype, int64_t rows)
{
  return dtype != HR_FP32 && rows > (dtype == HR_FP8_E4M3 ? TILE_ROWS : 4 * TILE_ROWS);
}

/* ---- Q · K ---- */

/* Adds the products of a pair of each Q row and each K row. */
HR_INLINE void multiply_pair(hr_dtype dtype, int rows, const char *const k[KEYS], const float *q, int64_t pitch,
                             int64_t at, int64_t count, simd_f32 sums[TILE_ROWS][KEYS])
{
  simd_pair query[TILE_ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
    query[i] = simd_load_pair(HR_FP32, q + i * pitch, at);
#pragma GCC unroll 4
  for (int j = 0; j < KEYS; j++) {
    simd_pair key = count == SIMD_PAIR ? load_pair(dtype, k[j], at) : load_partial(dtype, k[j], at, count);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
      sums[i][j] = simd_fma(query[i].b, key.b, simd_fma(query[i].a, key.a, sums[i][j]));
  }
}

HR_INLINE void multiply_tile(hr_dtype dtype, int rows, const char *const k[KEYS], int64_t dim, const float *q,
                             int64_t pitch, float *s)
{
  simd_f32 sums[TILE_ROWS][KEYS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < KEYS; j++)
      sums[i][j] = simd_set1(0);
  int64_t at = 0;
#pragma GCC unroll 1
  for (; at + SIMD_PAIR <= dim; at += SIMD_PAIR)
    multiply_pair(dtype, rows, k, q, pitch, at, SIMD_PAIR, sums);
  if (at < dim)
    multiply_pair(dtype, rows, k, q, pitch, at, dim - at, sums);
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
    simd_reduce_add_four(sums[i], s + i * BLOCK);
}

HR_INLINE void multiply_rows(hr_dtype dtype, const hr_split_step *step, const char *const k[KEYS], int64_t dim, int key)
{
  int64_t pitch = hr_round_up(step->dim, HR_SPLIT_PAD), row = 0;
  for (; row + TILE_ROWS <= step->rows; row += TILE_ROWS)
    multiply_tile(dtype, TILE_ROWS, k, dim, step->q + row * pitch, pitch, step->s + row * BLOCK + key);
  const float *q = step->q + row * pitch;
  float *s = step->s + row * BLOCK + key;
  switch (step->rows - row) {
#if TILE_ROWS > 2
  case 3: multiply_tile(dtype, 3, k, dim, q, pitch, s); break;
  case 2: multiply_tile(dtype, 2, k, dim, q, pitch, s); break;
#endif
  case 1: multiply_tile(dtype, 1, k, dim, q, pitch, s); break;
  default: break;
  }
}

/* Products with K rows behind the last are those of the last. */
HR_INLINE void multiply_block(hr_dtype dtype, const hr_split_step *step)
{
  const hr_split_rows *from = &step->from;
  prefetcher ahead = prefetch_during(&step->ahead, from->keys), later = prefetch_during(&step->later, from->keys);
  const bool wide = is_widened_first(dtype, step->rows);
  int64_t padded = hr_round_up(step->dim, HR_SPLIT_PAD);
  for (int key = 0; key < from->keys; key += KEYS) {
    const char *k[KEYS];
    prefetch(&ahead, KEYS);
    prefetch(&later, KEYS);
    for (int j = 0; j < KEYS; j++)
      k[j] = from->at[hr_min64(key + j, from->keys - 1)] + from->offset;
    for (int j = 0; j < KEYS && wide; j++) {
      widen(dtype, k[j], step->dim, step->scratch + j * padded);
      k[j] = (const char *)(step->scratch + j * padded);
    }
    if (wide)
      multiply_rows(HR_FP32, step, k, hr_round_up(step->dim, SIMD_PAIR), key);
    else
      multiply_rows(dtype, step, k, step->dim, key);
  }
}

static void multiply(const hr_split_step *step)
{
#define MULTIPLY(format) return multiply_block(format, step)
  FOR_FORMAT(step->dtype, MULTIPLY)
#undef MULTIPLY
}

/* ---- scales of a quantized cache ---- */

static void scale_keys(const hr_split_step *step, const float *scales)
{
  for (int64_t row = 0; row < step->rows; row++)
    for (int key = 0; key < BLOCK; key += SIMD_LANES) {
      float *s = step->s + row * BLOCK + key;
      simd_store(s, simd_load(s) * simd_load(scales + key));
    }
}

/* ---- softmax ---- */

HR_INLINE simd_f32 visible_scores(const hr_split_scores *scores, const float *s, int first, int end)
{
  simd_f32 x = simd_load(s) * simd_set1(scores->scale);
  if (scores->softcap > 0)
    x = simd_tanh(x) * simd_set1(scores->softcap);
  return simd_select(simd_lanes_between(first, end), x, simd_set1(-__builtin_inff()));
}

/* Returns what rescales the sums so far. The base is 0 for weights while all scores are −inf. */
HR_INLINE float softmax_row(const hr_split_scores *scores, float *s, int first, int end, float *base, float *total)
{
  if (first >= end)
    return 1;
  int from = first / SIMD_LANES * SIMD_LANES;
  simd_f32 largest = simd_set1(-__builtin_inff()), sum = simd_set1(0);
  for (int j = from; j < end; j += SIMD_LANES) {
    simd_f32 x = visible_scores(scores, s + j, first - j, end - j);
    simd_store(s + j, x);
    largest = simd_max(x, largest);
  }
  const simd_exponent ratio = weight_exponent(0), exponent = weight_exponent(scores->top);
  float before = *base, most = simd_reduce_max(largest), factor[SIMD_LANES] = {1};
  if (most > before) {
    simd_store(factor, weight_of(&ratio, simd_set1(before - most)));
    *base = most;
  }
  simd_f32 shift = simd_set1(*base == -__builtin_inff() ? 0 : -*base);
  for (int j = from; j < end; j += SIMD_LANES) {
    simd_f32 weight = weight_of(&exponent, simd_load(s + j) + shift);
    simd_store(s + j, weight);
    sum = sum + weight;
  }
  *total = *total * factor[0] + simd_reduce_add(sum);
  return factor[0];
}

static void online_softmax(const hr_split_step *step, const hr_split_scores *scores)
{
  for (int64_t row = 0; row < step->rows; row++) {
    int64_t query = row % step->q_len;
    step->factor[row] = softmax_row(scores, step->s + row * BLOCK, step->first[query], step->end[query],
                                    step->base + row, step->total + row);
  }
}

/* ---- P · V ---- */

/* Query rows and columns of O. */
typedef struct value_tile {
  const float *p; /* [rows][BLOCK] */
  float *o;
  const float *factor;       /* NULL: 1 */
  prefetcher *ahead, *later; /* NULL: none */
  int64_t pitch;             /* of o */
  int64_t at, count;         /* first column, and those of the last pair */
  int first, end;            /* keys */
} value_tile;

HR_INLINE void add_tile(hr_dtype dtype, int rows, int pairs, const hr_split_rows *v, const value_tile *t)
{
  simd_pair sums[TILE_ROWS][TILE_PAIRS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < pairs; j++) {
      simd_f32 factor = simd_set1(t->factor ? t->factor[i] : 1);
      sums[i][j] = simd_load_pair(HR_FP32, t->o + i * t->pitch, t->at + j * SIMD_PAIR);
      sums[i][j].a = sums[i][j].a * factor;
      sums[i][j].b = sums[i][j].b * factor;
    }
#pragma GCC unroll 1
  for (int key = t->first; key < t->end; key++) {
    const char *row = v->at[key] + v->offset;
    if (t->ahead) {
      prefetch(t->ahead, 1);
      prefetch(t->later, 1);
    }
#pragma GCC unroll 4
    for (int j = 0; j < pairs; j++) {
      simd_pair value = t->count == SIMD_PAIR ? load_pair(dtype, row, t->at + j * SIMD_PAIR)
                                              : load_partial(dtype, row, t->at, t->count);
#pragma GCC unroll 8
      for (int i = 0; i < rows; i++) {
        simd_f32 weight = simd_set1(t->p[i * BLOCK + key]);
        sums[i][j].a = simd_fma(weight, value.a, sums[i][j].a);
        sums[i][j].b = simd_fma(weight, value.b, sums[i][j].b);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < pairs; j++)
      simd_store_pair(HR_FP32, t->o + i * t->pitch, t->at + j * SIMD_PAIR, sums[i][j], false);
}

HR_INLINE void add_some_rows(hr_dtype dtype, int64_t rows, int pairs, const hr_split_rows *v, const value_tile *t)
{
  switch (rows) {
#if TILE_ROWS > 2
  case 4: add_tile(dtype, 4, pairs, v, t); break;
  case 3: add_tile(dtype, 3, pairs, v, t); break;
#endif
  case 2: add_tile(dtype, 2, pairs, v, t); break;
  default: add_tile(dtype, 1, pairs, v, t); break;
  }
}

/* Keys that not all query rows of a tile see are added row by row, so that a NaN reaches only those that see it. */
HR_INLINE void add_columns(hr_dtype dtype, const hr_split_step *step, int pairs, const hr_split_rows *v, value_tile t,
                           int64_t column)
{
  for (int64_t row = 0; row < step->rows; row += TILE_ROWS) {
    int64_t rows = hr_min64(TILE_ROWS, step->rows - row);
    int first = 0, end = BLOCK;
    for (int64_t i = row; i < row + rows; i++) {
      first = step->first[i % step->q_len] > first ? step->first[i % step->q_len] : first;
      end = step->end[i % step->q_len] < end ? step->end[i % step->q_len] : end;
    }
    end = end > first ? end : first;
    t.p = step->s + row * BLOCK, t.o = step->o + row * t.pitch + column;
    t.factor = step->factor + row, t.first = first, t.end = end;
    add_some_rows(dtype, rows, pairs, v, &t);
    t.ahead = NULL, t.factor = NULL;
    for (int64_t i = row; i < row + rows; i++, t.p += BLOCK, t.o += t.pitch) {
      t.first = step->first[i % step->q_len], t.end = (int)hr_min64(first, step->end[i % step->q_len]);
      if (t.first < t.end)
        add_tile(dtype, 1, pairs, v, &t);
      t.first = (int)hr_max64(end, step->first[i % step->q_len]), t.end = step->end[i % step->q_len];
      if (t.first < t.end)
        add_tile(dtype, 1, pairs, v, &t);
    }
  }
}

/* The columns from `at` on, from V itself, or widened where many query rows read them. `ahead` and `later`: what is
 * prefetched meanwhile, or NULL. */
HR_INLINE void add_column_tile(hr_dtype dtype, const hr_split_step *step, int pairs, int64_t at, int64_t count,
                               prefetcher *ahead, prefetcher *later)
{
  const bool wide = is_widened_first(dtype, step->rows);
  value_tile t = {
      .pitch = hr_round_up(step->dim, HR_SPLIT_PAD), .at = at, .count = count, .ahead = ahead, .later = later};
  if (!wide) {
    add_columns(dtype, step, pairs, &step->from, t, 0);
    return;
  }
  const char *rows[BLOCK];
  int64_t element = is_quantized(dtype) ? 1 : (int64_t)hr_dtype_bytes(dtype);
  int64_t width = (int64_t)pairs * SIMD_PAIR, offset = step->from.offset + at * element;
  for (int key = 0; key < step->from.keys; key++) {
    float *to = step->scratch + key * width;
    widen(dtype, step->from.at[key] + offset, count == SIMD_PAIR ? width : count, to);
    rows[key] = (const char *)to;
  }
  hr_split_rows widened = {.at = rows, .keys = step->from.keys};
  t.at = 0, t.count = SIMD_PAIR;
  add_columns(HR_FP32, step, pairs, &widened, t, at);
}

/* Prefetches are spread over all columns, or over the first ones where others follow for more tiles of query rows. */
HR_INLINE void add_block(hr_dtype dtype, const hr_split_step *step)
{
  const int64_t width = (int64_t)TILE_PAIRS * SIMD_PAIR;
  const bool spread = SPREAD_PREFETCHES && step->rows <= TILE_ROWS;
  int64_t passes = spread ? step->dim / width + hr_ceil_div(step->dim % width, SIMD_PAIR) : 1, at = 0;
  prefetcher ahead = prefetch_during(&step->ahead, (int)passes * step->from.keys);
  prefetcher later = prefetch_during(&step->later, (int)passes * step->from.keys);
  for (; at + width <= step->dim; at += width) {
    const bool now = spread || at == 0;
    add_column_tile(dtype, step, TILE_PAIRS, at, SIMD_PAIR, now ? &ahead : NULL, now ? &later : NULL);
  }
  for (; at < step->dim; at += SIMD_PAIR) {
    const bool now = spread || at == 0;
    add_column_tile(dtype, step, 1, at, hr_min64(SIMD_PAIR, step->dim - at), now ? &ahead : NULL, now ? &later : NULL);
  }
}

static void add_values(const hr_split_step *step)
{
#define ADD(format) return add_block(format, step)
  FOR_FORMAT(step->dtype, ADD)
#undef ADD
}

/* ---- sums ---- */

static float exponential(float x)
{
  const simd_exponent ratio = weight_exponent(0);
  float lanes[SIMD_LANES];
  simd_store(lanes, weight_of(&ratio, simd_set1(x)));
  return lanes[0];
}

static void merge(const hr_split_sums *sums, const hr_split_sums *more)
{
  for (int64_t row = 0; row < sums->rows; row++) {
    float a = sums->base[row], b = more->base[row], base = a > b ? a : b;
    float shift = base == -__builtin_inff() ? 0 : base;
    simd_f32 own = simd_set1(exponential(a - shift)), other = simd_set1(exponential(b - shift));
    float *o = sums->o + row * sums->pitch, *o_more = more->o + row * sums->pitch;
    for (int64_t at = 0; at < sums->pitch; at += SIMD_LANES)
      simd_store(o + at, simd_fma(simd_load(o_more + at), other, simd_load(o + at) * own));
    sums->total[row] = more->total[row] * other[0] + sums->total[row] * own[0];
    sums->base[row] = base;
  }
}

static void at_least(const float *s, int64_t count, float bound, uint64_t *bits)
{
  for (int64_t word = 0; word < hr_ceil_div(count, 64); word++) {
    uint64_t smaller = 0;
    for (int lane = 0; lane < 64; lane += SIMD_LANES)
      smaller |= (uint64_t)simd_bits(simd_less(simd_load(s + word * 64 + lane), simd_set1(bound))) << lane;
    bits[word] = ~smaller;
  }
  if (count % 64 != 0)
    bits[count / 64] &= ((uint64_t)1 << count % 64) - 1;
}

HR_INLINE void store_row(hr_dtype dtype, const float *o, float share, int64_t dim, void *to)
{
  for (int64_t at = 0; at < dim; at += SIMD_PAIR) {
    simd_pair x = simd_load_pair(HR_FP32, o, at);
    x.a = x.a * simd_set1(share);
    x.b = x.b * simd_set1(share);
    simd_store_span(dtype, to, at, x, hr_min64(SIMD_PAIR, dim - at), false);
  }
}

static void store(hr_dtype dtype, bool in_order, float *o, float share, int64_t dim, void *to)
{
  if (in_order && dtype == HR_BF16)
    reorder(false, o, dim);
#define STORE(format) return store_row(format, o, share, dim, to)
  FOR_DTYPE(dtype, STORE)
#undef STORE
}

const hr_split_version VERSION = {.load = load,
                                  .multiply = multiply,
                                  .scale_keys = scale_keys,
                                  .online_softmax = online_softmax,
                                  .add_values = add_values,
                                  .merge = merge,
                                  .at_least = at_least,
                                  .store = store};
