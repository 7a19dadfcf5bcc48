/* SPDX-License-Identifier: Apache-2.0 */
/* Template: softmax over rows of scores on the vectors of simd.h. Included once for each instruction set, with
 * SCORES_VERSION as the name of the version. */
#include "runtime/cpu/onednn/scores.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/exp.h"

#include <math.h>

/* `largest` · exp(x) of x ≤ 0; 0 below `least`. */
HR_INLINE simd_f32 softmax_weight(simd_f32 x, simd_f32 largest, simd_f32 least)
{
  return simd_zero_where(simd_less(x, least), simd_exp_negative(x) * largest);
}

/* 0 where a weight would be denormal: a GEMM spends some hundred cycles on a denormal. */
static float exponentials(float *row, int64_t count, float largest, int top)
{
  const simd_f32 most = simd_set1(ldexpf(1, top)), least = simd_set1(-87.0f - (float)top * 0.6931472f);
  simd_pair sum = {simd_set1(0), simd_set1(0)};
  for (int64_t at = 0; at < count; at += SIMD_PAIR) {
    int64_t span = count - at < SIMD_PAIR ? count - at : SIMD_PAIR;
    simd_pair s = simd_load_span(HR_FP32, row, at, span),
              e = {softmax_weight(s.a - largest, most, least), softmax_weight(s.b - largest, most, least)};
    if (span < SIMD_PAIR)
      e = simd_fill_from(HR_FP32, e, span, 0);
    simd_store_span(HR_FP32, row, at, e, span, false);
    sum.a += e.a;
    sum.b += e.b;
  }
  return simd_reduce_add(sum.a + sum.b);
}

/* row[i] *= factor; returns the maximum, ignoring NaN. */
static float scale_row(float *row, int64_t count, float factor)
{
  simd_pair most = {simd_set1(-INFINITY), simd_set1(-INFINITY)};
  for (int64_t at = 0; at < count; at += SIMD_PAIR) {
    int64_t span = count - at < SIMD_PAIR ? count - at : SIMD_PAIR;
    simd_pair v = simd_load_span(HR_FP32, row, at, span);
    v = (simd_pair){v.a * factor, v.b * factor};
    simd_store_span(HR_FP32, row, at, v, span, false);
    if (span < SIMD_PAIR)
      v = simd_fill_from(HR_FP32, v, span, -INFINITY);
    most.a = simd_max(v.a, most.a);
    most.b = simd_max(v.b, most.b);
  }
  return simd_reduce_max(simd_max(most.a, most.b));
}

/* Scale, soft cap and ALiBi of visible keys; returns the maximum. */
static float finish_scores(const hr_score_row *how, float *row)
{
  int64_t first = how->seen.first, end = how->seen.end;
  if (how->softcap <= 0 && how->slope == 0)
    return scale_row(row + first, end - first, how->scale);
  for (int64_t j = first; j < end; j++) {
    float s = row[j] * how->scale;
    if (how->softcap > 0)
      s = how->softcap * tanhf(s / how->softcap);
    row[j] = s + how->slope * (float)(j - how->position);
  }
  return scale_row(row + first, end - first, 1);
}

static hr_score_sum softmax(const hr_score_row *how, float *row, int64_t columns, bool normalise)
{
  hr_score_sum result = {.sum = 0, .lse = -INFINITY};
  int64_t first = how->seen.first, end = how->seen.end;
  if (first >= end) {
    memset(row, 0, (size_t)columns * sizeof *row);
    return result;
  }
  float largest = finish_scores(how, row);
  result.sum = exponentials(row + first, end - first, largest, how->top);
  if (largest > -INFINITY)
    result.lse = (float)((double)largest + log(ldexp((double)result.sum, -how->top)));
  if (normalise)
    scale_row(row + first, end - first, 1 / result.sum);
  memset(row, 0, (size_t)first * sizeof *row);
  memset(row + end, 0, (size_t)(columns - end) * sizeof *row);
  return result;
}

static void widen(hr_dtype dtype, const void *from, int64_t count, float *to)
{
  const uint16_t *in = from;
  int64_t i = 0;
  for (; dtype == HR_FP16 && i + SIMD_LANES <= count; i += SIMD_LANES) {
    simd_u16 halves;
    memcpy(&halves, in + i, sizeof halves);
    simd_put(to + i, simd_f32_from_fp16(halves), false);
  }
  if (dtype == HR_FP16 && i < count) {
    simd_u16 halves = {0};
    memcpy(&halves, in + i, (size_t)(count - i) * sizeof *in);
    simd_f32 floats = simd_f32_from_fp16(halves);
    memcpy(to + i, &floats, (size_t)(count - i) * sizeof *to);
  }
  for (; dtype == HR_BF16 && i < count; i++) {
    uint32_t bits = (uint32_t)in[i] << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
  if (dtype == HR_FP32)
    memcpy(to, from, (size_t)count * sizeof *to);
}

HR_INLINE simd_u16 narrow_vector(hr_dtype dtype, simd_f32 v)
{
  return dtype == HR_FP16 ? simd_fp16_from_f32(v) : simd_bf16_from_f32(v);
}

/* Works in place: each vector is read before its result, which is half as long, is written. */
HR_INLINE void narrow_to_halves(hr_dtype dtype, const float *from, float factor, int64_t count, char *to)
{
  int64_t i = 0;
  simd_f32 v;
  simd_u16 halves;
  for (; i + SIMD_LANES <= count; i += SIMD_LANES) {
    memcpy(&v, from + i, sizeof v);
    halves = narrow_vector(dtype, v * factor);
    memcpy(to + 2 * i, &halves, sizeof halves);
  }
  if (i == count)
    return;
  v = simd_set1(0);
  memcpy(&v, from + i, (size_t)(count - i) * sizeof *from);
  halves = narrow_vector(dtype, v * factor);
  memcpy(to + 2 * i, &halves, (size_t)(count - i) * 2);
}

static void narrow(hr_dtype dtype, const float *from, float factor, int64_t count, void *to)
{
  if (dtype == HR_BF16)
    narrow_to_halves(HR_BF16, from, factor, count, to);
  else if (dtype == HR_FP16)
    narrow_to_halves(HR_FP16, from, factor, count, to);
  for (int64_t i = 0; dtype == HR_FP32 && i < count; i++)
    ((float *)to)[i] = from[i] * factor;
}

const hr_scores_version SCORES_VERSION = {
    .softmax = softmax, .exponentials = exponentials, .widen = widen, .narrow = narrow};
