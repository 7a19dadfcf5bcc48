/* SPDX-License-Identifier: Apache-2.0 */
/* Template: products of few tokens with rows of weights on the vectors of simd.h. Included once for each instruction
 * set, with GEMV_TABLE as the name of the table.
 *
 *   registers: accumulators of up to 4 rows of W × 4 tokens, a span of each row, a span of one token
 *
 * Bound: memory bandwidth, as each row of W is read once from memory; x stays in the caches. Hardware prefetchers begin
 * anew with each row, so that prefetches of the next rows, one tile ahead, doubled the rate. A span is a pair of
 * vectors, of which bf16 takes 32-bit words apart, or with AVX512_BF16 one vector of pairs of bf16. */
#include "runtime/cpu/gemv/gemv.h"
#include "runtime/cpu/gemv/store.h"

#if SIMD_LANES == 16 || defined(SIMD_NEON)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif
#define LINE 64 /* bytes of a cache line */

#ifdef __AVX512BF16__
#include "runtime/cpu/simd/avx512_bf16.h"

typedef simd_f32 span; /* of pairs of bf16 */
#define SPAN_REGISTERS 1
#define IS_LOADED(dtype) ((dtype) == HR_BF16) /* without a conversion */

HR_INLINE span load_span(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  (void)dtype;
  const uint16_t *elements = (const uint16_t *)from + at;
  if (__builtin_expect(count == SIMD_PAIR, 1))
    return simd_load(elements);
  return (simd_f32)_mm512_maskz_loadu_epi16((uint32_t)(((uint64_t)1 << count) - 1), elements);
}

HR_INLINE simd_f32 add_products(simd_f32 sum, span w, span x)
{
  return simd_dot_bf16(sum, w, x);
}
#else
typedef simd_pair span;
#define SPAN_REGISTERS 2
#define IS_LOADED(dtype) ((dtype) == HR_FP32)

HR_INLINE span load_span(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  return simd_load_span(dtype, from, at, count);
}

HR_INLINE simd_f32 add_products(simd_f32 sum, span w, span x)
{
  return simd_fma(w.b, x.b, simd_fma(w.a, x.a, sum));
}
#endif

#define ROWS_MAX 4
#define CHAINS 4            /* of sums of one row */
#define STREAM_AHEAD 4096   /* bytes */
#define STREAM_ROW_MIN 512  /* bytes; the sums of a shorter row take longer than its products */
#define STREAM_ROW_END 4096 /* bytes; longer rows are streams of their own */
#define PASS 4              /* tokens whose sums are in registers */
#define BLOCK 512 /* elements of k in which the passes follow each other: of W and x they stay in the first cache */

HR_INLINE const char *element_at(hr_dtype dtype, const void *of, int64_t at)
{
  return (const char *)of + at * (dtype == HR_FP32 ? 4 : 2);
}

/* Some rows of W and tokens. */
typedef struct operands {
  const char *w[ROWS_MAX], *x[HR_GEMM_FEW_ROWS];
  int64_t ahead; /* bytes to the next rows, which are prefetched meanwhile: the next of one row may be the others */
} operands;

HR_INLINE span load_row(hr_dtype dtype, const operands *of, int row, int64_t at, int64_t count, bool prefetches)
{
  const char *row_at = element_at(dtype, of->w[row], at);
  for (int64_t line = 0; prefetches && line < SIMD_PAIR * (dtype == HR_FP32 ? 4 : 2); line += LINE)
    __builtin_prefetch(row_at + of->ahead + line, 0, 2);
  return load_span(dtype, row_at, 0, count);
}

/* Adds the products of `count` elements from `at` on of a row of W, whose stream is prefetched. */
HR_INLINE simd_f32 add_streamed(hr_dtype dtype, simd_f32 sum, const char *w, const void *x, int64_t at, int64_t count)
{
  const char *from = element_at(dtype, w, at);
  for (int64_t line = 0; line < SIMD_PAIR * (dtype == HR_FP32 ? 4 : 2); line += LINE)
    __builtin_prefetch(from + STREAM_AHEAD + line, 0, 2);
  return add_products(sum, load_span(dtype, from, 0, count), load_span(dtype, x, at, count));
}

/* Adds the products of `count` elements from `at` on. */
HR_INLINE void add_span(hr_dtype dtype, int rows, int first, int tokens, const operands *of, int64_t at, int64_t count,
                        simd_f32 sums[ROWS_MAX][PASS])
{
  span of_w[ROWS_MAX];
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
    of_w[row] = load_row(dtype, of, row, at, count, first == 0);
#pragma GCC unroll 4
  for (int token = 0; token < tokens; token++) {
    span of_x = load_span(dtype, of->x[first + token], at, count);
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++)
      sums[row][token] = add_products(sums[row][token], of_w[row], of_x);
  }
}

/* Adds the products of elements at … end − 1 for `tokens` tokens from `first` on. */
HR_INLINE void add_pass(hr_dtype dtype, int rows, int first, int tokens, const operands *of, int64_t at, int64_t end,
                        simd_f32 all[ROWS_MAX][HR_GEMM_FEW_ROWS])
{
  simd_f32 sums[ROWS_MAX][PASS];
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
    for (int token = 0; token < tokens; token++)
      sums[row][token] = all[row][first + token];
  for (; at + SIMD_PAIR <= end; at += SIMD_PAIR)
    add_span(dtype, rows, first, tokens, of, at, SIMD_PAIR, sums);
  if (at < end)
    add_span(dtype, rows, first, tokens, of, at, end - at, sums);
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
    for (int token = 0; token < tokens; token++)
      all[row][first + token] = sums[row][token];
}

HR_INLINE operands operands_of(hr_dtype dtype, int rows, int tokens, const hr_gemv_job *job, int64_t first)
{
  operands of;
  for (int token = 0; token < tokens; token++)
    of.x[token] = element_at(dtype, job->x, token * job->x_row);
  for (int row = 0; row < rows; row++)
    of.w[row] = element_at(dtype, job->w, (first + row) * job->w_row);
  of.ahead = rows * job->w_row * (dtype == HR_FP32 ? 4 : 2);
  return of;
}

/* Products of `rows` rows of W, up to ROWS_MAX, with all tokens. */
HR_INLINE void multiply_rows(hr_dtype dtype, int rows, int tokens, const hr_gemv_job *job, int64_t first,
                             float *to[HR_GEMM_FEW_ROWS])
{
  const operands of = operands_of(dtype, rows, tokens, job, first);
  const int64_t block = tokens > PASS ? BLOCK : job->k;
  simd_f32 sums[ROWS_MAX][HR_GEMM_FEW_ROWS];
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 8
    for (int token = 0; token < tokens; token++)
      sums[row][token] = simd_set1(0);
  for (int64_t at = 0; at < job->k; at += block) {
    const int64_t end = job->k - at < block ? job->k : at + block;
    add_pass(dtype, rows, 0, tokens < PASS ? tokens : PASS, &of, at, end, sums);
    if (tokens > PASS)
      add_pass(dtype, rows, PASS, tokens - PASS, &of, at, end, sums);
  }
#pragma GCC unroll 4
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 8
    for (int token = 0; token < tokens; token++)
      to[token][row] = simd_reduce_add(sums[row][token]);
}

/* The product of one row of W with one token. Several sums hide the latency of the additions. */
HR_INLINE float multiply_row(hr_dtype dtype, const hr_gemv_job *job, int64_t row)
{
  const char *w = element_at(dtype, job->w, row * job->w_row);
  simd_f32 sums[CHAINS];
  int64_t at = 0;
  for (int i = 0; i < CHAINS; i++)
    sums[i] = simd_set1(0);
  for (; at + CHAINS * SIMD_PAIR <= job->k; at += CHAINS * SIMD_PAIR) {
#pragma GCC unroll 4
    for (int i = 0; i < CHAINS; i++)
      sums[i] = add_streamed(dtype, sums[i], w, job->x, at + i * SIMD_PAIR, SIMD_PAIR);
  }
  for (; at + SIMD_PAIR <= job->k; at += SIMD_PAIR)
    sums[0] = add_streamed(dtype, sums[0], w, job->x, at, SIMD_PAIR);
  if (at < job->k)
    sums[1] = add_streamed(dtype, sums[1], w, job->x, at, job->k - at);
  return simd_reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Once a group of rows: one function for all numbers of tokens. */
#define STORE(dtype)                                                                                                \
  static __attribute__((noinline)) void store_##dtype(const float *sums, const void *bias, void *to, int64_t count) \
  {                                                                                                                 \
    store_sums(HR_##dtype, sums, bias, to, count);                                                                  \
  }
STORE(BF16)
#ifndef __AVX512BF16__
STORE(FP32)
STORE(FP16)
#endif

typedef void (*store_fn)(const float *sums, const void *bias, void *to, int64_t count);

/* Short rows of W are read one after another, as a single stream of memory, which is up to a fifth faster than as
 * ROWS_MAX streams with rows of 0.5 to 4 KiB, and slower with longer ones (AMD EPYC, Zen 5, 2026-11-28). Each row then
 * reads x anew, which must not take a conversion. */
HR_INLINE bool is_one_stream(hr_dtype dtype, int tokens, const hr_gemv_job *job)
{
  const int64_t bytes = job->w_row * (dtype == HR_FP32 ? 4 : 2);
  return tokens == 1 && IS_LOADED(dtype) && bytes >= STREAM_ROW_MIN && bytes < STREAM_ROW_END;
}

HR_INLINE void multiply(hr_dtype dtype, store_fn store, int tokens, const hr_gemv_job *job, int64_t first, int64_t last)
{
  const int most = (REGISTERS - 2 * SPAN_REGISTERS) / ((tokens < PASS ? tokens : PASS) + SPAN_REGISTERS);
  const int rows = most < ROWS_MAX ? most : ROWS_MAX;
  float sums[HR_GEMM_FEW_ROWS][HR_GEMV_GROUP];
  float *to[HR_GEMM_FEW_ROWS];
  const bool streams = is_one_stream(dtype, tokens, job);
  for (int64_t row = first; row < last && streams; row++)
    sums[0][row - first] = multiply_row(dtype, job, row);
  for (int64_t row = first; row < last && !streams;) {
    for (int token = 0; token < tokens; token++)
      to[token] = sums[token] + (row - first);
    const bool whole = last - row >= rows;
    if (whole)
      multiply_rows(dtype, rows, tokens, job, row, to);
    else
      multiply_rows(dtype, 1, tokens, job, row, to);
    row += whole ? rows : 1;
  }
  for (int token = 0; token < tokens; token++)
    store(sums[token], job->bias ? element_at(dtype, job->bias, first) : NULL,
          (char *)(uintptr_t)element_at(dtype, job->y, token * job->y_row + first), last - first);
}

#define GEMV(dtype, tokens)                                                                \
  static void gemv_##dtype##_##tokens(const hr_gemv_job *job, int64_t first, int64_t last) \
  {                                                                                        \
    multiply(HR_##dtype, store_##dtype, tokens, job, first, last);                         \
  }
#define EACH(dtype) \
  GEMV(dtype, 1)    \
  GEMV(dtype, 2) GEMV(dtype, 3) GEMV(dtype, 4) GEMV(dtype, 5) GEMV(dtype, 6) GEMV(dtype, 7) GEMV(dtype, 8)
#define ENTRIES(dtype)                                                                                          \
  {                                                                                                             \
    gemv_##dtype##_1, gemv_##dtype##_2, gemv_##dtype##_3, gemv_##dtype##_4, gemv_##dtype##_5, gemv_##dtype##_6, \
        gemv_##dtype##_7, gemv_##dtype##_8                                                                      \
  }

EACH(BF16)
#ifdef __AVX512BF16__
hr_gemv_table GEMV_TABLE = {[HR_BF16] = ENTRIES(BF16)};
#else
EACH(FP32)
EACH(FP16)
hr_gemv_table GEMV_TABLE = {[HR_FP32] = ENTRIES(FP32), [HR_FP16] = ENTRIES(FP16), [HR_BF16] = ENTRIES(BF16)};
#endif
