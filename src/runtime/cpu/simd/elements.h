/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of the formats of <headroom/dtype.h> in memory, loaded and stored as fp32 a pair of vectors at a time.
 *
 * In bf16, vector `a` of a pair has the even elements and `b` the odd ones, so that a shift and a mask take a 32-bit
 * word of memory apart and put it together; in other formats `a` has the first half. `dtype` is a constant where
 * these are used, so that each use is compiled to the code of one format. */
#ifndef HR_RUNTIME_CPU_SIMD_ELEMENTS_H
#define HR_RUNTIME_CPU_SIMD_ELEMENTS_H

#include "runtime/cpu/simd/simd.h"

#include <headroom/dtype.h>

#define SIMD_PAIR (2 * SIMD_LANES) /* elements of a pair */

typedef struct simd_pair {
  simd_f32 a, b;
} simd_pair;

HR_INLINE void simd_put(void *to, simd_f32 x, bool stream)
{
  if (stream)
    simd_stream(to, x);
  else
    simd_store(to, x);
}

HR_INLINE void simd_put_u16(void *to, simd_u16 x, bool stream)
{
  if (stream)
    simd_stream_u16(to, x);
  else
    simd_store_u16(to, x);
}

HR_INLINE simd_pair simd_load_pair(hr_dtype dtype, const void *from, int64_t at)
{
  if (dtype == HR_FP32) {
    const float *elements = (const float *)from + at;
    return (simd_pair){simd_load(elements), simd_load(elements + SIMD_LANES)};
  }
  const uint16_t *elements = (const uint16_t *)from + at;
  if (dtype == HR_BF16) { /* little-endian: the even element is the lower half */
    simd_u32 words = (simd_u32)simd_load(elements);
    return (simd_pair){(simd_f32)(words << 16), (simd_f32)(words & 0xffff0000u)};
  }
  return (simd_pair){simd_f32_from_fp16(simd_load_u16(elements)),
                     simd_f32_from_fp16(simd_load_u16(elements + SIMD_LANES))};
}

/** `stream`: past the caches, to an address that is a multiple of sizeof(simd_f32). */
HR_INLINE void simd_store_pair(hr_dtype dtype, void *to, int64_t at, simd_pair v, bool stream)
{
  if (dtype == HR_FP32) {
    simd_put((float *)to + at, v.a, stream);
    simd_put((float *)to + at + SIMD_LANES, v.b, stream);
    return;
  }
  uint16_t *elements = (uint16_t *)to + at;
  if (dtype == HR_BF16) {
    simd_u32 words = (simd_round_to_bf16(v.a) >> 16) | (simd_round_to_bf16(v.b) & 0xffff0000u);
    simd_put(elements, (simd_f32)words, stream);
    return;
  }
  simd_put_u16(elements, simd_fp16_from_f32(v.a), stream);
  simd_put_u16(elements + SIMD_LANES, simd_fp16_from_f32(v.b), stream);
}

/* The first `count` elements of a pair alone; the others are loaded as 0. */
#ifdef SIMD_MASK_REGISTERS

HR_INLINE simd_pair simd_load_partial(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  uint32_t mask = (uint32_t)(((uint64_t)1 << count) - 1);
  if (dtype == HR_FP32) {
    const float *x = (const float *)from + at;
    return (simd_pair){_mm512_maskz_loadu_ps((__mmask16)mask, x),
                       _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + 16)};
  }
  __m512i elements = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)from + at);
  return simd_load_pair(dtype, &elements, 0);
}

HR_INLINE void simd_store_partial(hr_dtype dtype, void *to, int64_t at, simd_pair v, int64_t count)
{
  uint32_t mask = (uint32_t)(((uint64_t)1 << count) - 1);
  if (dtype == HR_FP32) {
    float *out = (float *)to + at;
    _mm512_mask_storeu_ps(out, (__mmask16)mask, v.a);
    _mm512_mask_storeu_ps(out + 16, (__mmask16)(mask >> 16), v.b);
    return;
  }
  __m512i elements;
  simd_store_pair(dtype, &elements, 0, v, false);
  _mm512_mask_storeu_epi16((uint16_t *)to + at, mask, elements);
}

#else

HR_INLINE simd_pair simd_load_partial(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  simd_pair elements = {simd_set1(0), simd_set1(0)};
  memcpy(&elements, (const char *)from + (size_t)at * element, (size_t)count * element);
  return simd_load_pair(dtype, &elements, 0);
}

HR_INLINE void simd_store_partial(hr_dtype dtype, void *to, int64_t at, simd_pair v, int64_t count)
{
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  simd_pair elements;
  simd_store_pair(dtype, &elements, 0, v, false);
  memcpy((char *)to + (size_t)at * element, &elements, (size_t)count * element);
}

#endif

/** `count` elements, from 1 to SIMD_PAIR; mostly a whole pair. */
HR_INLINE simd_pair simd_load_span(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  return __builtin_expect(count == SIMD_PAIR, 1) ? simd_load_pair(dtype, from, at)
                                                 : simd_load_partial(dtype, from, at, count);
}

HR_INLINE void simd_store_span(hr_dtype dtype, void *to, int64_t at, simd_pair v, int64_t count, bool stream)
{
  if (__builtin_expect(count == SIMD_PAIR, 1))
    simd_store_pair(dtype, to, at, v, stream);
  else
    simd_store_partial(dtype, to, at, v, count);
}

/** Elements from `count` on become `value`. */
HR_INLINE simd_pair simd_fill_from(hr_dtype dtype, simd_pair v, int64_t count, float value)
{
  simd_pair kept = {simd_set1(value), simd_set1(value)};
  for (int i = 0; i < SIMD_LANES; i++) {
    if ((dtype == HR_BF16 ? 2 * i : i) < count)
      kept.a[i] = v.a[i];
    if ((dtype == HR_BF16 ? 2 * i + 1 : i + SIMD_LANES) < count)
      kept.b[i] = v.b[i];
  }
  return kept;
}

#endif
