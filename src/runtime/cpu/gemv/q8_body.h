/* SPDX-License-Identifier: Apache-2.0 */
/* Template: products of few tokens with weights in q8_0, on the vectors of simd.h. Included once for each instruction
 * set, with Q8_FUNCTIONS as the name of the functions.
 *
 *   y[t, n] = Σ_b scale[n, b] Σ_i value[n, 32 b + i] x[t, 32 b + i], the sums in fp32
 *
 * Bound: memory bandwidth, 34 bytes for 32 weights, each read once. Values are widened to fp32 and multiplied with x as
 * it is: x rounded to int8, as llama.cpp has it, would save arithmetic that does not show beside memory, and add its
 * error. x is in fp32 and filled up with zeros to whole blocks, so that no block has a rest. */
#include "runtime/cpu/gemv/q8.h"
#include "runtime/cpu/gemv/store.h"
#include "runtime/cpu/simd/quantized.h"

#define PAIRS (HR_Q8_BLOCK / SIMD_PAIR) /* of vectors, of a block */
#define ROWS_MAX 4
#define PASS 4            /* tokens whose sums are in registers */
#define CHAINS 4          /* of sums of one row */
#define STREAM_AHEAD 4096 /* bytes */

#define ROWS_OF(tokens) ((tokens) == 1 ? 1 : SIMD_LANES == 16 ? ((tokens) == 2 ? 4 : 2) : ((tokens) == 2 ? 2 : 1))

/* Some rows of W. */
typedef struct q8_rows {
  const int8_t *values;
  const uint16_t *scales;
  int64_t blocks;
  int64_t ahead; /* bytes to the next rows, which are prefetched meanwhile */
} q8_rows;

/* Σ of a block's products. */
HR_INLINE simd_f32 block_sum(const simd_pair values[PAIRS], const float *x)
{
  simd_f32 sum = values[0].a * simd_load(x);
  sum = simd_fma(values[0].b, simd_load(x + SIMD_LANES), sum);
#pragma GCC unroll 4
  for (int i = 1; i < PAIRS; i++) {
    sum = simd_fma(values[i].a, simd_load(x + i * SIMD_PAIR), sum);
    sum = simd_fma(values[i].b, simd_load(x + i * SIMD_PAIR + SIMD_LANES), sum);
  }
  return sum;
}

HR_INLINE void load_block(const int8_t *from, int64_t ahead, simd_pair values[PAIRS])
{
  __builtin_prefetch(from + ahead, 0, 2);
#pragma GCC unroll 4
  for (int i = 0; i < PAIRS; i++)
    values[i] = simd_load_int8(from + i * SIMD_PAIR);
}

/* Adds the products of a block of the stream. */
HR_INLINE simd_f32 add_streamed(simd_f32 sum, const int8_t *from, float scale, const float *x)
{
  simd_pair values[PAIRS];
  load_block(from, STREAM_AHEAD, values);
  return simd_fma(block_sum(values, x), simd_set1(scale), sum);
}

/* Adds the products of block `at` of each row. */
HR_INLINE void add_block(int rows, int tokens, const q8_rows *of, const float *x, int64_t x_row, int64_t at,
                         float (*scales)[SIMD_LANES], int lane, simd_f32 sums[ROWS_MAX][PASS])
{
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++) {
    simd_pair values[PAIRS];
    load_block(of->values + (row * of->blocks + at) * HR_Q8_BLOCK, of->ahead, values);
    const simd_f32 scale = simd_set1(scales[row][lane]);
#pragma GCC unroll 4
    for (int token = 0; token < tokens; token++)
      sums[row][token] = simd_fma(block_sum(values, x + token * x_row + at * HR_Q8_BLOCK), scale, sums[row][token]);
  }
}

HR_INLINE void multiply_rows(int rows, int tokens, const q8_rows *of, const float *x, int64_t x_row, float *const *to)
{
  simd_f32 sums[ROWS_MAX][PASS];
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
    for (int token = 0; token < tokens; token++)
      sums[row][token] = simd_set1(0);
  for (int64_t at = 0; at < of->blocks; at += SIMD_LANES) {
    const int count = (int)(of->blocks - at < SIMD_LANES ? of->blocks - at : SIMD_LANES);
    float scales[ROWS_MAX][SIMD_LANES];
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++)
      simd_store(scales[row], simd_f32_from_fp16(simd_load_u16(of->scales + row * of->blocks + at)));
    for (int lane = 0; lane < count; lane++)
      add_block(rows, tokens, of, x, x_row, at + lane, scales, lane, sums);
  }
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
    for (int token = 0; token < tokens; token++)
      to[token][row] = simd_reduce_add(sums[row][token]);
}

/* One row, read as a single stream, with several sums that hide the latency of the additions. */
HR_INLINE float multiply_row(const q8_rows *of, const float *x)
{
  simd_f32 sums[CHAINS];
  for (int i = 0; i < CHAINS; i++)
    sums[i] = simd_set1(0);
  for (int64_t first = 0; first < of->blocks; first += SIMD_LANES) {
    const int count = (int)(of->blocks - first < SIMD_LANES ? of->blocks - first : SIMD_LANES);
    float scales[SIMD_LANES];
    simd_store(scales, simd_f32_from_fp16(simd_load_u16(of->scales + first)));
    const int8_t *values = of->values + first * HR_Q8_BLOCK;
    const float *x_at = x + first * HR_Q8_BLOCK;
    int at = 0;
    for (; at + CHAINS <= count; at += CHAINS) {
#pragma GCC unroll 4
      for (int i = 0; i < CHAINS; i++)
        sums[i] = add_streamed(sums[i], values + (at + i) * HR_Q8_BLOCK, scales[at + i], x_at + (at + i) * HR_Q8_BLOCK);
    }
    for (; at < count; at++)
      sums[0] = add_streamed(sums[0], values + at * HR_Q8_BLOCK, scales[at], x_at + at * HR_Q8_BLOCK);
  }
  return simd_reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* `rows` rows from `first` on; the second pass over them finds them in the first cache. */
HR_INLINE void multiply_all(int rows, int tokens, const hr_q8_arguments *a, int64_t first, float *to[HR_Q8_TOKENS])
{
  const int64_t blocks = hr_q8_blocks(a->w.columns), x_row = blocks * HR_Q8_BLOCK;
  const q8_rows of = {.values = hr_q8_values(&a->w) + first * x_row,
                      .scales = hr_q8_scales(&a->w) + first * blocks,
                      .blocks = blocks,
                      .ahead = rows * x_row};
  if (rows == 1 && tokens == 1) {
    to[0][0] = multiply_row(&of, a->room);
    return;
  }
  multiply_rows(rows, tokens < PASS ? tokens : PASS, &of, a->room, x_row, to);
  if (tokens > PASS)
    multiply_rows(rows, tokens - PASS, &of, a->room + PASS * x_row, x_row, to + PASS);
}

static void store(hr_dtype dtype, const float *sums, const void *bias, void *to, int64_t count)
{
  if (dtype == HR_FP32)
    store_sums(HR_FP32, sums, bias, to, count);
  else if (dtype == HR_BF16)
    store_sums(HR_BF16, sums, bias, to, count);
  else
    store_sums(HR_FP16, sums, bias, to, count);
}

static void store_rows(const hr_q8_arguments *a, float (*sums)[HR_Q8_GROUP], int64_t first, int64_t last)
{
  const int64_t element = a->dtype == HR_FP32 ? 4 : 2;
  for (int64_t token = 0; token < a->tokens; token++)
    store(a->dtype, sums[token], a->bias ? (const char *)a->bias + first * element : NULL,
          (char *)a->y + (token * a->y_row + first) * element, last - first);
}

HR_INLINE void multiply(int tokens, const hr_q8_arguments *a, int64_t first, int64_t last)
{
  float sums[HR_Q8_TOKENS][HR_Q8_GROUP];
  float *to[HR_Q8_TOKENS];
  for (int64_t row = first; row < last;) {
    const bool whole = last - row >= ROWS_OF(tokens);
    for (int token = 0; token < tokens; token++)
      to[token] = sums[token] + (row - first);
    if (whole)
      multiply_all(ROWS_OF(tokens), tokens, a, row, to);
    else
      multiply_all(1, tokens, a, row, to);
    row += whole ? ROWS_OF(tokens) : 1;
  }
  store_rows(a, sums, first, last);
}

#define MULTIPLY(tokens)                                                               \
  static void multiply_##tokens(const hr_q8_arguments *a, int64_t first, int64_t last) \
  {                                                                                    \
    multiply(tokens, a, first, last);                                                  \
  }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
MULTIPLY(7)
MULTIPLY(8)

/* ---- widening ---- */

/* Finite numbers in the order of memory. */
HR_INLINE void store_vector(hr_dtype dtype, void *to, int64_t at, simd_f32 x)
{
  if (dtype == HR_FP32)
    simd_store((float *)to + at, x);
  else if (dtype == HR_BF16)
    simd_store_u16((uint16_t *)to + at, simd_bf16_from_f32(x));
  else
    simd_store_u16((uint16_t *)to + at, simd_fp16_from_f32(x));
}

HR_INLINE void widen_block(hr_dtype dtype, const int8_t *values, float scale, void *to, int64_t at)
{
#pragma GCC unroll 4
  for (int i = 0; i < PAIRS; i++) {
    const simd_pair x = simd_load_int8(values + i * SIMD_PAIR);
    store_vector(dtype, to, at + i * SIMD_PAIR, x.a * scale);
    store_vector(dtype, to, at + i * SIMD_PAIR + SIMD_LANES, x.b * scale);
  }
}

HR_INLINE void widen_row(hr_dtype dtype, const hr_q8_arguments *a, int64_t from, void *to)
{
  const int64_t blocks = hr_q8_blocks(a->w.columns), whole = a->w.columns / HR_Q8_BLOCK;
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  const int8_t *values = hr_q8_values(&a->w) + from * blocks * HR_Q8_BLOCK;
  const uint16_t *scales = hr_q8_scales(&a->w) + from * blocks;
  for (int64_t at = 0; at < blocks; at += SIMD_LANES) {
    const simd_f32 some = simd_f32_from_fp16(simd_load_u16(scales + at));
    float of[SIMD_LANES], rest[HR_Q8_BLOCK];
    simd_store(of, some);
    for (int64_t i = at; i < blocks && i < at + SIMD_LANES; i++) {
      const bool is_whole = i < whole;
      widen_block(dtype, values + i * HR_Q8_BLOCK, of[i - at], is_whole ? to : rest, is_whole ? i * HR_Q8_BLOCK : 0);
      if (!is_whole)
        memcpy((char *)to + (size_t)(i * HR_Q8_BLOCK) * element, rest, (size_t)(a->w.columns % HR_Q8_BLOCK) * element);
    }
  }
}

static void widen(const hr_q8_arguments *a, int64_t from, int64_t to)
{
  if (a->dtype == HR_FP32)
    widen_row(HR_FP32, a, from, (float *)a->y + to * a->y_row);
  else if (a->dtype == HR_BF16)
    widen_row(HR_BF16, a, from, (uint16_t *)a->y + to * a->y_row);
  else
    widen_row(HR_FP16, a, from, (uint16_t *)a->y + to * a->y_row);
}

HR_INLINE simd_f32 load_vector(hr_dtype dtype, const void *from, int64_t at)
{
  if (dtype == HR_FP32)
    return simd_load((const float *)from + at);
  const simd_u16 x = simd_load_u16((const uint16_t *)from + at);
  return dtype == HR_BF16 ? simd_f32_from_bf16(x) : simd_f32_from_fp16(x);
}

HR_INLINE void widen_x_row(hr_dtype dtype, const void *from, int64_t count, int64_t padded, float *to)
{
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  int64_t at = 0;
  for (; at + SIMD_LANES <= count; at += SIMD_LANES)
    simd_store(to + at, load_vector(dtype, from, at));
  if (at < count) {
    float rest[SIMD_LANES] = {0};
    memcpy(rest, (const char *)from + (size_t)at * element, (size_t)(count - at) * element);
    simd_store(to + at, load_vector(dtype, rest, 0));
    at += SIMD_LANES;
  }
  for (; at < padded; at++)
    to[at] = 0;
}

static void widen_x(const hr_q8_arguments *a)
{
  const int64_t padded = hr_q8_blocks(a->w.columns) * HR_Q8_BLOCK;
  for (int64_t token = 0; token < a->tokens; token++) {
    const void *from = (const char *)a->x + token * a->x_row * (a->dtype == HR_FP32 ? 4 : 2);
    float *to = a->room + token * padded;
    if (a->dtype == HR_FP32)
      widen_x_row(HR_FP32, from, a->w.columns, padded, to);
    else if (a->dtype == HR_BF16)
      widen_x_row(HR_BF16, from, a->w.columns, padded, to);
    else
      widen_x_row(HR_FP16, from, a->w.columns, padded, to);
  }
}

const hr_q8_functions Q8_FUNCTIONS = {
    .multiply = {multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6, multiply_7, multiply_8},
    .widen = widen,
    .widen_x = widen_x};
