/* Rows of scores in the vectors of vector.h; included once for each width, with SCORES_VERSION as the name of the
 * version. */
#include "runtime/cpu/onednn/scores.h"
#include "runtime/cpu/simd/exp.h"

#include <math.h>

/* exp(x) of x ≤ 0; 0 below −87, where it would be a denormal number, which products take a hundred cycles for. */
HR_INLINE hr_floats weight_of(hr_floats x)
{
  return hr_unless_below(hr_exp_negative(x), x, -87.0f);
}

static float exponentials(float *row, int64_t count, float largest)
{
  hr_pair sum = {hr_all(0), hr_all(0)};
  for (int64_t at = 0; at < count; at += HR_PAIR) {
    int64_t span = count - at < HR_PAIR ? count - at : HR_PAIR;
    hr_pair s = hr_load_span(HR_FP32, row, at, span), e = {weight_of(s.a - largest), weight_of(s.b - largest)};
    if (span < HR_PAIR)
      e = hr_first(HR_FP32, e, span, 0);
    hr_store_span(HR_FP32, row, at, e, span, false);
    sum.a += e.a;
    sum.b += e.b;
  }
  return hr_sum_of(sum.a + sum.b);
}

/* row[i] *= factor; returns the largest. A NaN is never that. */
static float scale_row(float *row, int64_t count, float factor)
{
  hr_pair most = {hr_all(-INFINITY), hr_all(-INFINITY)};
  for (int64_t at = 0; at < count; at += HR_PAIR) {
    int64_t span = count - at < HR_PAIR ? count - at : HR_PAIR;
    hr_pair v = hr_load_span(HR_FP32, row, at, span);
    v = (hr_pair){v.a * factor, v.b * factor};
    hr_store_span(HR_FP32, row, at, v, span, false);
    if (span < HR_PAIR)
      v = hr_first(HR_FP32, v, span, -INFINITY);
    most.a = hr_larger(v.a, most.a);
    most.b = hr_larger(v.b, most.b);
  }
  return hr_largest_of(hr_larger(most.a, most.b));
}

/* Scale, cap and bias of the keys that are seen; returns the largest. */
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
  result.sum = exponentials(row + first, end - first, largest);
  if (largest > -INFINITY)
    result.lse = (float)((double)largest + log((double)result.sum));
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
  for (; dtype == HR_FP16 && i + HR_LANES <= count; i += HR_LANES) {
    hr_halves halves;
    memcpy(&halves, in + i, sizeof halves);
    hr_put(to + i, hr_widen_fp16(halves), false);
  }
  if (dtype == HR_FP16 && i < count) {
    hr_halves halves = {0};
    memcpy(&halves, in + i, (size_t)(count - i) * sizeof *in);
    hr_floats floats = hr_widen_fp16(halves);
    memcpy(to + i, &floats, (size_t)(count - i) * sizeof *to);
  }
  for (; dtype == HR_BF16 && i < count; i++) {
    uint32_t bits = (uint32_t)in[i] << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
  if (dtype == HR_FP32)
    memcpy(to, from, (size_t)count * sizeof *to);
}

HR_INLINE hr_halves narrow_vector(hr_dtype dtype, hr_floats v)
{
  if (dtype == HR_FP16)
    return hr_narrow_fp16(v);
  hr_words nan = (hr_words)(((hr_words)v & 0x7fffffffu) > 0x7f800000u);
  hr_words rounded = hr_round_bf16(v) >> 16;
  return __builtin_convertvector((nan & 0x7fc0) | (~nan & rounded), hr_halves);
}

/* Each vector is read before its result, which takes half of its place or less, is written. */
HR_INLINE void narrow_to_halves(hr_dtype dtype, const float *from, float factor, int64_t count, char *to)
{
  int64_t i = 0;
  hr_floats v;
  hr_halves halves;
  for (; i + HR_LANES <= count; i += HR_LANES) {
    memcpy(&v, from + i, sizeof v);
    halves = narrow_vector(dtype, v * factor);
    memcpy(to + 2 * i, &halves, sizeof halves);
  }
  if (i == count)
    return;
  v = hr_all(0);
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
