/* exp(x) for x ≤ 0 as 2^n · 2^f, n the nearest whole number to x · log2(e): f times ln 2 is worked out from x in two
 * parts, so that it loses nothing, and 2^f is a polynomial of degree 6 in it (Taylor's: its remainder on ±ln 2 / 2 is
 * 0.3466^7 / 7! = 1.2e-7; with rounding 2.5e-7 at most: tests/unit/test_scores.c). Below −87, where 2^n would
 * be subnormal, it is 0. NaN stays NaN.
 *
 * The loops are written over 16 values that do not depend on each other, which compilers turn into vectors. */
#include "runtime/cpu/scores.h"

#include <math.h>
#include <string.h>

#define LANES 16
#define LEAST (-87.0F)

static inline __attribute__((always_inline)) float exponential(float x)
{
  const float log2_e = 1.44269504F, high = 0.693359375F, low = -2.12194440e-4F, magic = 12582912.0F; /* 1.5 · 2^23 */
  float held = x < LEAST ? LEAST : x;                                                                /* NaN stays */
  float rounded = held * log2_e + magic, n = rounded - magic;
  float r = (held - n * high) - n * low;
  float p = 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1;
  p = p * r + 1;
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  bits = (bits << 23) + 0x3F800000u; /* the low bits of `rounded` are n */
  float power;
  memcpy(&power, &bits, sizeof power);
  float result = p * power;
  return x < LEAST ? 0 : result;
}

/* row[i] = exp(row[i] − largest); *sum is theirs, added up in 16 parts. */
static inline __attribute__((always_inline)) void exponentials(float *row, int64_t count, float largest, float *sum)
{
  float parts[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      float e = exponential(row[i + lane] - largest);
      row[i + lane] = e;
      parts[lane] += e;
    }
  }
  for (; i < count; i++) {
    row[i] = exponential(row[i] - largest);
    parts[i % LANES] += row[i];
  }
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; lane++)
      parts[lane] += parts[lane + half];
  }
  *sum = parts[0];
}

static void exponentials_any(float *row, int64_t count, float largest, float *sum)
{
  exponentials(row, count, largest, sum);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void exponentials_avx2(float *row, int64_t count, float largest, float *sum)
{
  exponentials(row, count, largest, sum);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) static void exponentials_avx512(
    float *row, int64_t count, float largest, float *sum)
{
  exponentials(row, count, largest, sum);
}
#endif

hr_scores hr_scores_make(const hr_attention *attention, const hr_isa *isa)
{
  hr_scores scores = {.scale = (float)hr_attention_scale(attention),
                      .softcap = attention->softcap,
                      .weights = attention->dtype == HR_BF16 ? HR_BF16 : HR_FP32,
                      .exponentials = exponentials_any};
#if defined(__x86_64__)
  if (hr_isa_has(isa, "avx512"))
    scores.exponentials = exponentials_avx512;
  else if (hr_isa_has(isa, "avx2"))
    scores.exponentials = exponentials_avx2;
#else
  (void)isa;
#endif
  return scores;
}

/* Scale, cap and bias of the keys that are seen. Returns the largest; a NaN is never that. */
static float finish_scores(const hr_scores *s, const hr_score_row *how, float *row)
{
  float largest = -INFINITY;
  for (int64_t j = how->seen.first; j < how->seen.end; j++)
    row[j] *= s->scale;
  for (int64_t j = how->seen.first; s->softcap > 0 && j < how->seen.end; j++)
    row[j] = s->softcap * tanhf(row[j] / s->softcap);
  for (int64_t j = how->seen.first; how->slope != 0 && j < how->seen.end; j++)
    row[j] += how->slope * (float)(j - how->position);
  float parts[LANES];
  for (int lane = 0; lane < LANES; lane++)
    parts[lane] = -INFINITY;
  int64_t j = how->seen.first;
  for (; j + LANES <= how->seen.end; j += LANES) {
    for (int lane = 0; lane < LANES; lane++)
      parts[lane] = row[j + lane] > parts[lane] ? row[j + lane] : parts[lane];
  }
  for (; j < how->seen.end; j++)
    largest = row[j] > largest ? row[j] : largest;
  for (int lane = 0; lane < LANES; lane++)
    largest = parts[lane] > largest ? parts[lane] : largest;
  return largest;
}

/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t bf16_of(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? 0x7FC0u : rounded);
}

/* Each group is read before the half of its place that its result takes is written. */
static void narrow(float *row, int64_t count)
{
  char *bytes = (char *)row;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    float from[LANES];
    uint16_t to[LANES];
    memcpy(from, row + i, sizeof from);
    for (int lane = 0; lane < LANES; lane++)
      to[lane] = bf16_of(from[lane]);
    memcpy(bytes + 2 * i, to, sizeof to);
  }
  for (; i < count; i++) {
    float from;
    memcpy(&from, row + i, sizeof from);
    uint16_t to = bf16_of(from);
    memcpy(bytes + 2 * i, &to, sizeof to);
  }
}

hr_score_sum hr_scores_softmax(const hr_scores *s, const hr_score_row *how, float *row, int64_t columns, bool normalise)
{
  hr_score_sum result = {.sum = 0, .lse = -INFINITY};
  int64_t first = how->seen.first, end = how->seen.end;
  if (first >= end) {
    memset(row, 0, (size_t)columns * sizeof *row);
    return result;
  }
  float largest = finish_scores(s, how, row);
  s->exponentials(row + first, end - first, largest, &result.sum);
  if (largest > -INFINITY)
    result.lse = (float)((double)largest + log((double)result.sum));
  float factor = 1 / result.sum;
  for (int64_t j = first; normalise && j < end; j++)
    row[j] *= factor;
  memset(row, 0, (size_t)first * sizeof *row);
  memset(row + end, 0, (size_t)(columns - end) * sizeof *row);
  if (s->weights == HR_BF16)
    narrow(row, columns);
  return result;
}

void hr_scores_write(const hr_scores *s, const float *from, float factor, int64_t count, void *to)
{
  if (factor == 0) {
    memset(to, 0, (size_t)count * hr_dtype_bytes(s->weights));
  } else if (s->weights == HR_BF16) {
    uint16_t *out = to;
    for (int64_t i = 0; i < count; i++)
      out[i] = bf16_of(from[i] * factor);
  } else {
    float *out = to;
    for (int64_t i = 0; i < count; i++)
      out[i] = from[i] * factor;
  }
}
