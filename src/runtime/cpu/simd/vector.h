/* Vectors of floats in whatever width the file that includes this is compiled for (cmake/instruction_sets.cmake):
 * AVX-512, AVX2 with FMA and F16C, or four floats of any processor. Arithmetic is the compiler's vector extension:
 * a + b, a * b. Flash attention has vectors of its own, which transpose and know no formats (flash_vector_avx512.h …).
 *
 * Elements of the formats of <headroom/dtype.h> are loaded and stored two vectors at a time (hr_pair). Of bf16 the even
 * elements are in one and the odd in the other, so that a word of memory is taken apart and put together by a shift and
 * a mask. `dtype` is a constant where these are used, so that each use is compiled to the code of one format. */
#ifndef HR_RUNTIME_CPU_SIMD_VECTOR_H
#define HR_RUNTIME_CPU_SIMD_VECTOR_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HR_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HR_LANES 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#define HR_LANES 8
#else
#define HR_LANES 4
#endif

#define HR_PAIR (2 * HR_LANES) /* elements of a pair */

typedef float hr_floats __attribute__((vector_size(4 * HR_LANES)));
typedef uint32_t hr_words __attribute__((vector_size(4 * HR_LANES)));
typedef uint16_t hr_halves __attribute__((vector_size(2 * HR_LANES)));

/** Elements 0 … HR_PAIR − 1: the first half and the second half; of bf16 the even ones and the odd ones. */
typedef struct hr_pair {
  hr_floats a, b;
} hr_pair;

HR_INLINE hr_floats hr_all(float value)
{
  return value - (hr_floats){0};
}

/* Without optimisation gcc's intrinsics are macros, whose masks of -1 its own warnings dislike. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* ---- what the widths do differently ---- */

/* Of two values of which one is NaN, the second is the larger and the smaller. */

#if HR_LANES == 16

HR_INLINE hr_floats hr_larger(hr_floats a, hr_floats b)
{
  return _mm512_max_ps(a, b);
}
HR_INLINE hr_floats hr_smaller(hr_floats a, hr_floats b)
{
  return _mm512_min_ps(a, b);
}
HR_INLINE hr_floats hr_fma(hr_floats a, hr_floats b, hr_floats c)
{
  return _mm512_fmadd_ps(a, b, c);
}
HR_INLINE hr_floats hr_round(hr_floats a)
{
  return _mm512_roundscale_ps(a, 8);
} /* to nearest, no exceptions */
HR_INLINE hr_floats hr_scale(hr_floats a, hr_floats power)
{
  return _mm512_scalef_ps(a, power);
} /* a 2^power, of the power's floor */
HR_INLINE hr_floats hr_fraction(hr_floats a)
{
  return _mm512_reduce_ps(a, 9);
} /* a less its floor, 0 of infinities, no exceptions */

/* `value`, 0 where x is below `limit`. */
HR_INLINE hr_floats hr_unless_below(hr_floats value, hr_floats x, float limit)
{
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, hr_all(limit), _CMP_NLT_UQ), value);
}

HR_INLINE hr_floats hr_widen_fp16(hr_halves from)
{
  return _mm512_cvtph_ps((__m256i)from);
}
HR_INLINE hr_halves hr_narrow_fp16(hr_floats from)
{
  return (hr_halves)_mm512_cvtps_ph(from, 8);
}
HR_INLINE void hr_stream(void *to, hr_floats v)
{
  _mm512_stream_ps(to, v);
}
HR_INLINE void hr_stream_half(void *to, hr_halves v)
{
  _mm256_stream_si256(to, (__m256i)v);
}

#elif HR_LANES == 8

HR_INLINE hr_floats hr_larger(hr_floats a, hr_floats b)
{
  return _mm256_max_ps(a, b);
}
HR_INLINE hr_floats hr_smaller(hr_floats a, hr_floats b)
{
  return _mm256_min_ps(a, b);
}
HR_INLINE hr_floats hr_fma(hr_floats a, hr_floats b, hr_floats c)
{
  return _mm256_fmadd_ps(a, b, c);
}
HR_INLINE hr_floats hr_round(hr_floats a)
{
  return _mm256_round_ps(a, 8);
}
HR_INLINE hr_floats hr_unless_below(hr_floats value, hr_floats x, float limit)
{
  return _mm256_and_ps(_mm256_cmp_ps(x, hr_all(limit), _CMP_NLT_UQ), value);
}

HR_INLINE hr_floats hr_widen_fp16(hr_halves from)
{
  return _mm256_cvtph_ps((__m128i)from);
}
HR_INLINE hr_halves hr_narrow_fp16(hr_floats from)
{
  return (hr_halves)_mm256_cvtps_ph(from, 8);
}
HR_INLINE void hr_stream(void *to, hr_floats v)
{
  _mm256_stream_ps(to, v);
}
HR_INLINE void hr_stream_half(void *to, hr_halves v)
{
  _mm_stream_si128(to, (__m128i)v);
}

#else

HR_INLINE hr_floats hr_choose(hr_words mask, hr_floats a, hr_floats b)
{
  return (hr_floats)((mask & (hr_words)a) | (~mask & (hr_words)b));
}

HR_INLINE hr_floats hr_larger(hr_floats a, hr_floats b)
{
  return hr_choose((hr_words)(a > b), a, b);
}
HR_INLINE hr_floats hr_smaller(hr_floats a, hr_floats b)
{
  return hr_choose((hr_words)(a < b), a, b);
}
HR_INLINE hr_floats hr_fma(hr_floats a, hr_floats b, hr_floats c)
{
  return a * b + c;
}

/* Within 2^22: what is added leaves no bits behind the point. */
HR_INLINE hr_floats hr_round(hr_floats a)
{
  const float shift = 12582912.0f; /* 1.5 · 2^23 */
  return (a + shift) - shift;
}

HR_INLINE hr_floats hr_unless_below(hr_floats value, hr_floats x, float limit)
{
  return (hr_floats)(~(hr_words)(x < limit) & (hr_words)value);
}

/* The exponent moves by 127 − 15; what is below the normal numbers becomes so by a multiplication. */
HR_INLINE hr_floats hr_widen_fp16(hr_halves from)
{
  hr_words h = __builtin_convertvector(from, hr_words), magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
  hr_floats value = (hr_floats)magnitude * 0x1p112f;
  hr_words special = (hr_words)(magnitude >= 0x0f800000u); /* infinite or NaN: exponent 31 becomes 255 */
  return (hr_floats)((hr_words)hr_choose(special, (hr_floats)(magnitude | 0x7f800000u), value) | sign);
}

/* Rounds once: a normal number by what it loses of its significand, a smaller one by adding what leaves multiples of
 * 2^-24. */
HR_INLINE hr_halves hr_narrow_fp16(hr_floats from)
{
  hr_words bits = (hr_words)from, sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffffu;
  hr_words normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
  hr_words small = (hr_words)((hr_floats)magnitude + 0.5f) - 0x3f000000u; /* the last place of 0.5 is 2^-24 */
  hr_words is_small = (hr_words)(magnitude < 0x38800000u), is_large = (hr_words)(magnitude >= 0x477ff000u),
           is_nan = (hr_words)(magnitude > 0x7f800000u);
  hr_words h = (is_small & small) | (~is_small & normal);
  h = (is_large & 0x7c00) | (~is_large & h);
  h |= is_nan & 0x0200;
  return __builtin_convertvector(h | sign, hr_halves);
}

HR_INLINE void hr_stream(void *to, hr_floats v)
{
  memcpy(to, &v, sizeof v);
}
HR_INLINE void hr_stream_half(void *to, hr_halves v)
{
  memcpy(to, &v, sizeof v);
}

#endif

#if HR_LANES < 16
/* a 2^power, of a whole power in [-250, 250]; in two steps, as 2^-150 and 2^128 have no float. */
HR_INLINE hr_floats hr_scale(hr_floats a, hr_floats power)
{
  hr_words n = (hr_words)(power + 12582912.0f) - 0x4b400000u + 256, first = n >> 1, second = n - first;
  return a * (hr_floats)((first + (127 - 128)) << 23) * (hr_floats)((second + (127 - 128)) << 23);
}
#endif

#pragma GCC diagnostic pop

/* ---- over the lanes, by halves: of a short row this is much of the work ---- */

typedef float hr_four_floats __attribute__((vector_size(16)));

HR_INLINE float hr_sum_of(hr_floats v)
{
  hr_four_floats fours[HR_LANES / 4], sum;
  memcpy(fours, &v, sizeof v);
  sum = fours[0];
  for (int i = 1; i < HR_LANES / 4; i++)
    sum += fours[i];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

HR_INLINE float hr_largest_of(hr_floats v)
{
#if HR_LANES == 16
  return _mm512_reduce_max_ps(v);
#else
  float most = v[0];
  for (int i = 1; i < HR_LANES; i++)
    most = v[i] > most ? v[i] : most;
  return most;
#endif
}

/* `otherwise` for the elements from `count` on. */
HR_INLINE hr_pair hr_first(hr_dtype dtype, hr_pair v, int64_t count, float otherwise)
{
  hr_pair kept = {hr_all(otherwise), hr_all(otherwise)};
  for (int i = 0; i < HR_LANES; i++) {
    if ((dtype == HR_BF16 ? 2 * i : i) < count)
      kept.a[i] = v.a[i];
    if ((dtype == HR_BF16 ? 2 * i + 1 : i + HR_LANES) < count)
      kept.b[i] = v.b[i];
  }
  return kept;
}

/* ---- elements ---- */

HR_INLINE void hr_put(void *to, hr_floats v, bool stream)
{
  if (stream)
    hr_stream(to, v);
  else
    memcpy(to, &v, sizeof v);
}

HR_INLINE void hr_put_half(void *to, hr_halves v, bool stream)
{
  if (stream)
    hr_stream_half(to, v);
  else
    memcpy(to, &v, sizeof v);
}

/* The bits of a float rounded to its upper half, to nearest, ties to even; the lower half is left over. A NaN must keep
 * a bit among its upper 16, as every NaN does that comes from a bf16 number or from arithmetic. */
HR_INLINE hr_words hr_round_bf16(hr_floats from)
{
  hr_words bits = (hr_words)from;
  return bits + 0x7fff + ((bits >> 16) & 1);
}

HR_INLINE hr_pair hr_load_pair(hr_dtype dtype, const void *from, int64_t at)
{
  if (dtype == HR_FP32) {
    hr_pair v;
    memcpy(&v.a, (const float *)from + at, sizeof v.a);
    memcpy(&v.b, (const float *)from + at + HR_LANES, sizeof v.b);
    return v;
  }
  const uint16_t *elements = (const uint16_t *)from + at;
  if (dtype == HR_BF16) {
    hr_words words; /* little-endian: the even element is the lower half */
    memcpy(&words, elements, sizeof words);
    return (hr_pair){(hr_floats)(words << 16), (hr_floats)(words & 0xffff0000u)};
  }
  hr_halves a, b;
  memcpy(&a, elements, sizeof a);
  memcpy(&b, elements + HR_LANES, sizeof b);
  return (hr_pair){hr_widen_fp16(a), hr_widen_fp16(b)};
}

/* `stream`: past the caches, to an address that is a multiple of sizeof(hr_floats). */
HR_INLINE void hr_store_pair(hr_dtype dtype, void *to, int64_t at, hr_pair v, bool stream)
{
  if (dtype == HR_FP32) {
    hr_put((float *)to + at, v.a, stream);
    hr_put((float *)to + at + HR_LANES, v.b, stream);
    return;
  }
  uint16_t *elements = (uint16_t *)to + at;
  if (dtype == HR_BF16) {
    hr_put(elements, (hr_floats)((hr_round_bf16(v.a) >> 16) | (hr_round_bf16(v.b) & 0xffff0000u)), stream);
    return;
  }
  hr_put_half(elements, hr_narrow_fp16(v.a), stream);
  hr_put_half(elements + HR_LANES, hr_narrow_fp16(v.b), stream);
}

/* The first `count` elements of a pair alone; hr_load_some() has 0 for the others. */
#if HR_LANES == 16

HR_INLINE hr_pair hr_load_some(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  uint32_t mask = (uint32_t)(((uint64_t)1 << count) - 1);
  if (dtype == HR_FP32) {
    const float *x = (const float *)from + at;
    return (hr_pair){_mm512_maskz_loadu_ps((__mmask16)mask, x), _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + 16)};
  }
  __m512i elements = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)from + at);
  return hr_load_pair(dtype, &elements, 0);
}

HR_INLINE void hr_store_some(hr_dtype dtype, void *to, int64_t at, hr_pair v, int64_t count)
{
  uint32_t mask = (uint32_t)(((uint64_t)1 << count) - 1);
  if (dtype == HR_FP32) {
    float *out = (float *)to + at;
    _mm512_mask_storeu_ps(out, (__mmask16)mask, v.a);
    _mm512_mask_storeu_ps(out + 16, (__mmask16)(mask >> 16), v.b);
    return;
  }
  __m512i elements;
  hr_store_pair(dtype, &elements, 0, v, false);
  _mm512_mask_storeu_epi16((uint16_t *)to + at, mask, elements);
}

#else

HR_INLINE hr_pair hr_load_some(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  hr_pair elements = {hr_all(0), hr_all(0)};
  memcpy(&elements, (const char *)from + (size_t)at * element, (size_t)count * element);
  return hr_load_pair(dtype, &elements, 0);
}

HR_INLINE void hr_store_some(hr_dtype dtype, void *to, int64_t at, hr_pair v, int64_t count)
{
  const size_t element = dtype == HR_FP32 ? 4 : 2;
  hr_pair elements;
  hr_store_pair(dtype, &elements, 0, v, false);
  memcpy((char *)to + (size_t)at * element, &elements, (size_t)count * element);
}

#endif

/* `count` elements from 1 to HR_PAIR; whole pairs are what mostly comes. */
HR_INLINE hr_pair hr_load_span(hr_dtype dtype, const void *from, int64_t at, int64_t count)
{
  return __builtin_expect(count == HR_PAIR, 1) ? hr_load_pair(dtype, from, at) : hr_load_some(dtype, from, at, count);
}

HR_INLINE void hr_store_span(hr_dtype dtype, void *to, int64_t at, hr_pair v, int64_t count, bool stream)
{
  if (__builtin_expect(count == HR_PAIR, 1))
    hr_store_pair(dtype, to, at, v, stream);
  else
    hr_store_some(dtype, to, at, v, count);
}

/* What streamed is in memory before anything that comes after. */
HR_INLINE void hr_stream_end(void)
{
#if HR_LANES > 4
  _mm_sfence();
#endif
}

#endif
