/* SPDX-License-Identifier: Apache-2.0 */
/* Template: packing rows, final scores, and storing rows, for the forward call and for gradients. A version defines
 * before it includes this
 *   CHUNK           rows that a packed block has room for
 *   KEY_GROUP       rows are padded with zeros to whole groups
 *   PANEL           lanes of a panel, in vectors
 *   PAIR            elements in a word: 1, all widened to fp32, or 2, bf16 as it is (AVX512_BF16)
 */
#ifndef HR_RUNTIME_CPU_FLASH_VECTORS_BODY_H
#define HR_RUNTIME_CPU_FLASH_VECTORS_BODY_H

#include "base/checked.h"
#include "runtime/cpu/flash/flash.h"
#include "runtime/cpu/simd/exp.h"
#if PAIR == 2
#include "runtime/cpu/simd/avx512_bf16.h"
#endif

#include <string.h>

#define PANEL_LANES (PANEL * SIMD_LANES)

typedef float word __attribute__((may_alias)); /* fp32 or a pair of bf16, copied as it is */

/* SIMD_LANES words of elements. */
HR_INLINE simd_f32 load_whole(hr_dtype dtype, const void *from)
{
#if PAIR == 1
  if (dtype == HR_BF16)
    return simd_f32_from_bf16(simd_load_u16(from));
  if (dtype == HR_FP16)
    return simd_f32_from_fp16(simd_load_u16(from));
#else
  (void)dtype;
#endif
  return simd_load(from);
}

static __attribute__((noinline)) simd_f32 load_partial(hr_dtype dtype, const void *from, int64_t count)
{
  char bytes[4 * SIMD_LANES] = {0};
  if (count > 0)
    memcpy(bytes, from, (size_t)count * hr_dtype_bytes(dtype));
  return load_whole(dtype, bytes);
}

/* The first `count` elements, as words; zeros behind them. */
HR_INLINE simd_f32 load_words(hr_dtype dtype, const void *from, int64_t count)
{
  return count < (int64_t)SIMD_LANES * PAIR ? load_partial(dtype, from, count) : load_whole(dtype, from);
}

/* x with the sign of every element flipped. */
static inline simd_f32 negated(simd_f32 x)
{
  return (simd_f32)((simd_u32)x ^ (PAIR == 2 ? 0x80008000U : 0x80000000U));
}

static void store_words(void *to, simd_f32 x, int64_t words)
{
  char bytes[4 * SIMD_LANES];
  if (words >= SIMD_LANES) {
    simd_store(to, x);
    return;
  }
  simd_store(bytes, x);
  memcpy(to, bytes, (size_t)words * 4);
}

static void pack_q(hr_dtype dtype, const void *from, int64_t dim, bool negate, void *to, int64_t depth)
{
  size_t bytes = hr_dtype_bytes(dtype);
  for (int64_t w = 0; w < depth; w += SIMD_LANES) {
    simd_f32 x = load_words(dtype, (const char *)from + (size_t)(w * PAIR) * bytes, dim - w * PAIR);
    if (negate)
      x = negated(x);
    store_words((char *)to + 4 * w, x, depth - w);
  }
}

/* SIMD_LANES keys by SIMD_LANES words of each, transposed. */
static inline void pack_k_block(hr_dtype dtype, const char *from, int64_t stride, int keys, int64_t dim,
                                int64_t word_at, word *to, int64_t depth)
{
  simd_f32 rows[SIMD_LANES];
  size_t bytes = hr_dtype_bytes(dtype);
#pragma GCC unroll 16
  for (int i = 0; i < SIMD_LANES; i++)
    rows[i] = i < keys ? load_words(dtype, from + i * stride + (size_t)(word_at * PAIR) * bytes, dim - word_at * PAIR)
                       : simd_set1(0);
  simd_transpose(rows);
  int words = (int)hr_min64(SIMD_LANES, depth - word_at);
#pragma GCC unroll 16
  for (int i = 0; i < SIMD_LANES; i++)
    if (i < words)
      simd_store((float *)to + (word_at + i) * PANEL_LANES, rows[i]);
}

/* Prefetches the SIMD_LANES keys that follow those from `key` on; rows of fp32 at any distance. */
static inline void prefetch_keys(const char *from, int64_t stride, int key, int keys, int64_t bytes)
{
  int64_t distance = PAIR == 1 ? HR_FLASH_PREFETCH_STRIDE : stride;
  int end = key + 2 * SIMD_LANES < keys ? key + 2 * SIMD_LANES : keys;
  for (int i = key + SIMD_LANES; i < end; i++)
    hr_flash_prefetch(from + i * stride, distance, bytes);
}

static void pack_k(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to, int64_t depth)
{
  for (int key = 0; key < keys; key += SIMD_LANES) {
    prefetch_keys(from, stride, key, keys, dim * (int64_t)hr_dtype_bytes(dtype));
    word *block = (word *)to + (key / PANEL_LANES) * depth * PANEL_LANES + key % PANEL_LANES;
    for (int64_t w = 0; w < depth; w += SIMD_LANES)
      pack_k_block(dtype, (const char *)from + key * stride, stride, keys - key, dim, w, block, depth);
  }
}

#if PAIR == 1
static inline void pack_value_row(hr_dtype dtype, const char *from, int64_t dim, float *to)
{
  size_t bytes = hr_dtype_bytes(dtype);
  for (int64_t d = 0; d < dim; d += SIMD_LANES)
    simd_store(to + (d / PANEL_LANES) * CHUNK * PANEL_LANES + d % PANEL_LANES,
               load_words(dtype, from + (size_t)d * bytes, dim - d));
}

/* Row by row: a row's columns are contiguous, while rows may be pages apart. */
static void pack_v(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to)
{
  int padded = (int)hr_ceil_div(keys, KEY_GROUP) * KEY_GROUP;
  for (int key = 0; key < keys; key++) {
    if (key % SIMD_LANES == 0)
      prefetch_keys(from, stride, key, keys, dim * (int64_t)hr_dtype_bytes(dtype));
    pack_value_row(dtype, (const char *)from + key * stride, dim, (float *)to + key * PANEL_LANES);
  }
  for (int64_t d = 0; d < dim; d += SIMD_LANES)
    for (int key = keys; key < padded; key++)
      simd_store((float *)to + ((d / PANEL_LANES) * CHUNK + key) * PANEL_LANES + d % PANEL_LANES, simd_set1(0));
}
#else
/* Word [j][d] holds element d of keys 2j and 2j + 1. `key` is the first of two rows. */
static inline void pack_pairs(hr_dtype dtype, const char *from, int64_t stride, int key, int keys, int64_t dim,
                              float *to)
{
  const char *even_row = from + key * stride, *odd_row = even_row + stride;
  for (int64_t d = 0; d < dim; d += (int64_t)SIMD_LANES * 2) {
    simd_f32 even = key < keys ? load_words(dtype, even_row + 2 * d, dim - d) : simd_set1(0);
    simd_f32 odd = key + 1 < keys ? load_words(dtype, odd_row + 2 * d, dim - d) : simd_set1(0);
    for (int half = 0; half < 2 && d + half * SIMD_LANES < dim; half++) {
      int64_t column = d + half * SIMD_LANES;
      float *panel = to + (column / PANEL_LANES) * (CHUNK / 2) * PANEL_LANES + column % PANEL_LANES;
      simd_store(panel + key / 2 * PANEL_LANES,
                 half ? simd_interleave_high_u16(even, odd) : simd_interleave_low_u16(even, odd));
    }
  }
}

/* Row by row: a row's columns are contiguous, while rows may be pages apart. */
static void pack_v(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to)
{
  int padded = (int)hr_ceil_div(keys, KEY_GROUP) * KEY_GROUP;
  for (int key = 0; key < padded; key += 2) {
    if (key % SIMD_LANES == 0)
      prefetch_keys(from, stride, key, keys, 2 * dim);
    pack_pairs(dtype, from, stride, key, keys, dim, to);
  }
}
#endif

HR_INLINE simd_exponent weight_exponent(const hr_flash_scores *scores)
{
  return (simd_exponent){simd_set1(scores->to_log2), simd_set1(scores->add), simd_set1(scores->least)};
}

/* Soft cap and ALiBi make the final scores of keys at a distance from the query; *slope is the derivative by the scaled
 * score. */
HR_INLINE simd_f32 final_scores(const hr_flash_scores *scores, simd_f32 x, simd_f32 distance, float alibi_slope,
                                simd_f32 *slope)
{
  *slope = simd_set1(1);
  if (scores->softcap > 0) {
    simd_f32 capped = simd_tanh(x * simd_set1(scores->softcap_scale));
    *slope = simd_fma(-capped, capped, *slope);
    x = capped * simd_set1(scores->softcap);
  } else {
    x = x * simd_set1(scores->scale);
  }
  return scores->alibi ? simd_fma(simd_set1(alibi_slope), distance, x) : x;
}

/* Distances of the keys first, first + 1, … from a query's position. */
HR_INLINE simd_f32 key_distances(int first, int32_t position)
{
  return __builtin_convertvector(simd_lane_numbers(), simd_f32) + (float)(first - position);
}

/* Scores of the lanes first … end − 1; −inf in the others. */
static inline simd_f32 hide_outside(simd_f32 scores, int first, int end)
{
  return simd_select(simd_lanes_between(first, end), scores, simd_set1(-__builtin_inff()));
}

static inline void store_values(hr_dtype dtype, void *to, simd_f32 x)
{
#if PAIR == 2
  (void)dtype;
  simd_store_bf16(to, x);
#else
  if (dtype == HR_BF16)
    simd_store_u16(to, simd_bf16_from_f32(x));
  else if (dtype == HR_FP16)
    simd_store_u16(to, simd_fp16_from_f32(x));
  else
    simd_store(to, x);
#endif
}

/* Elements of a row: factor · from. */
static inline void store_row(const float *from, simd_f32 factor, int64_t dim, hr_dtype dtype, void *to)
{
  size_t bytes = hr_dtype_bytes(dtype);
  int64_t d = 0;
  for (; d + SIMD_LANES <= dim; d += SIMD_LANES)
    store_values(dtype, (char *)to + (size_t)d * bytes, simd_load(from + d) * factor);
  if (d < dim) {
    char last[4 * SIMD_LANES];
    store_values(dtype, last, simd_load(from + d) * factor);
    memcpy((char *)to + (size_t)d * bytes, last, (size_t)(dim - d) * bytes);
  }
}

#endif
