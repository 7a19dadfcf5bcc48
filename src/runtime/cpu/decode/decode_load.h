/* SPDX-License-Identifier: Apache-2.0 */
/* Part of decode_body.h: rows of Q, K and V, in all formats. */
#ifndef HR_RUNTIME_CPU_DECODE_LOAD_H
#define HR_RUNTIME_CPU_DECODE_LOAD_H

#include "base/checked.h"
#include "runtime/cpu/decode/decode_prefetch.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/quantized.h"

#include <string.h>

_Static_assert(SIMD_FP8_FACTOR == HR_SPLIT_FP8_SCALE, "who scales fp8 knows how it is loaded");

/* Lets `statement` appear once for each format of Q and O, which is then a constant. */
#define FOR_DTYPE(dtype, statement) \
  switch (dtype) {                  \
  case HR_FP32: statement(HR_FP32); \
  case HR_BF16: statement(HR_BF16); \
  default: statement(HR_FP16);      \
  }

/* The same for each format of K and V. */
#define FOR_FORMAT(dtype, statement)            \
  switch ((int)(dtype)) {                       \
  case HR_FP8_E4M3: statement(HR_FP8_E4M3);     \
  case HR_SPLIT_INT8: statement(HR_SPLIT_INT8); \
  case HR_FP32: statement(HR_FP32);             \
  case HR_BF16: statement(HR_BF16);             \
  default: statement(HR_FP16);                  \
  }

/* ---- elements of K and V ---- */

HR_INLINE bool is_quantized(hr_dtype dtype)
{
  return dtype == HR_FP8_E4M3 || dtype == HR_SPLIT_INT8;
}

HR_INLINE simd_pair load_pair(hr_dtype dtype, const void *from, int64_t at)
{
  if (!is_quantized(dtype))
    return simd_load_pair(dtype, from, at);
  const char *bytes = (const char *)from + at;
  return dtype == HR_FP8_E4M3 ? simd_load_fp8(bytes) : simd_load_int8(bytes);
}

HR_INLINE simd_pair load_partial(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  if (!is_quantized(dtype))
    return simd_load_partial(dtype, from, at, count);
  char bytes[SIMD_PAIR];
  simd_copy_bytes((const char *)from + at, count, bytes);
  return load_pair(dtype, bytes, 0);
}

/* ---- widening ---- */

HR_INLINE void widen(hr_dtype dtype, const void *from, int64_t dim, float *to)
{
  int64_t at = 0;
  for (; at + SIMD_PAIR <= dim; at += SIMD_PAIR)
    simd_store_pair(HR_FP32, to, at, load_pair(dtype, from, at), false);
  if (at < dim)
    simd_store_pair(HR_FP32, to, at, load_partial(dtype, from, at, dim - at), false);
}

/* Exchanges the order of simd_load_pair() of bf16, of each pair, for that of memory, or back. */
HR_INLINE void reorder(bool to_memory, float *row, int64_t dim)
{
  for (int64_t at = 0; at < dim; at += SIMD_PAIR) {
    float pair[SIMD_PAIR];
    memcpy(pair, row + at, sizeof pair);
    for (int i = 0; i < SIMD_PAIR; i++) {
      int place = i % 2 * SIMD_LANES + i / 2;
      row[at + (to_memory ? i : place)] = pair[to_memory ? place : i];
    }
  }
}

static void load(hr_dtype dtype, bool in_order, const void *from, int64_t dim, int64_t row, float *to)
{
#define LOAD(format)            \
  widen(format, from, dim, to); \
  break
  to += row * hr_round_up(dim, HR_SPLIT_PAD);
  memset(to, 0, (size_t)hr_round_up(dim, HR_SPLIT_PAD) * sizeof *to);
  FOR_DTYPE(dtype, LOAD)
#undef LOAD
  if (in_order && dtype == HR_BF16)
    reorder(true, to, dim);
}

#endif
