/* SPDX-License-Identifier: Apache-2.0 */
/* Exact selection in two steps. A sample of the scores gives a bound that somewhat more than k of them reach; these are
 * collected, and the k-th largest among them is found digit by digit. Where the sample misleads, all are collected. */
#include "runtime/cpu/decode/topk_choose.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

#define SAMPLE 1024
#define DEVIATIONS 3 /* of a quantile of the sample */
#define DIGIT_BITS 8

/* An integer in the order of the scores, NaN last. −0 is 0. */
static uint32_t key_of(float score)
{
  uint32_t bits;
  if (isnan(score))
    return UINT32_MAX;
  score += 0.0f;
  memcpy(&bits, &score, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static float score_of(uint32_t key)
{
  float score;
  uint32_t bits = key >> 31 ? key & 0x7FFFFFFFu : ~key;
  memcpy(&score, &bits, sizeof score);
  return score;
}

/* The k-th largest key, and how many that are equal to it belong to the k largest. Reorders the keys. */
static uint32_t kth_largest(uint32_t *keys, int64_t count, int64_t k, int64_t *equal)
{
  for (int shift = 32 - DIGIT_BITS;; shift -= DIGIT_BITS) {
    int32_t histogram[1 << DIGIT_BITS] = {0};
    for (int64_t i = 0; i < count; i++)
      histogram[keys[i] >> shift & ((1 << DIGIT_BITS) - 1)]++;
    uint32_t digit = (1 << DIGIT_BITS) - 1;
    for (; histogram[digit] < k; digit--)
      k -= histogram[digit];
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
      uint32_t key = keys[i];
      keys[kept] = key;
      kept += (key >> shift & ((1 << DIGIT_BITS) - 1)) == digit;
    }
    count = kept;
    if (shift == 0) {
      *equal = k;
      return keys[0];
    }
  }
}

/* A score that at least k of `count` reach, very likely, and not many more. */
static float guess_bound(const float *scores, int64_t count, int64_t k, uint32_t *keys)
{
  int64_t step = count / SAMPLE, equal;
  if (step < 2)
    return -(float)INFINITY;
  double rank = (double)k / (double)count * SAMPLE, deviation = sqrt(rank * (1 - rank / SAMPLE));
  int64_t above = (int64_t)(rank + DEVIATIONS * deviation) + 2;
  if (above > SAMPLE)
    return -(float)INFINITY;
  for (int64_t i = 0; i < SAMPLE; i++)
    keys[i] = key_of(scores[i * step]);
  uint32_t key = kth_largest(keys, SAMPLE, above, &equal);
  return key == UINT32_MAX ? (float)INFINITY : score_of(key);
}

/* Indices of the scores whose bits are set. */
static int64_t collect(const uint64_t *bits, int64_t count, int32_t *places)
{
  int64_t found = 0;
  for (int64_t word = 0; word < hr_ceil_div(count, 64); word++)
    for (uint64_t left = bits[word]; left != 0; left &= left - 1)
      places[found++] = (int32_t)(word * 64 + __builtin_ctzll(left));
  return found;
}

void hr_topk_choose(const hr_split_version *version, const float *scores, int64_t count, int64_t k,
                    const hr_topk_scratch *scratch, int32_t *places)
{
  version->at_least(scores, count, guess_bound(scores, count, k, scratch->keys), scratch->bits);
  int64_t found = collect(scratch->bits, count, places), chosen = 0, equal;
  if (found < k) {
    version->at_least(scores, count, -(float)INFINITY, scratch->bits);
    found = collect(scratch->bits, count, places);
  }
  for (int64_t i = 0; i < found; i++)
    scratch->keys[i] = key_of(scores[places[i]]);
  uint32_t kth = kth_largest(scratch->keys, found, k, &equal);
  for (int64_t i = 0; i < found; i++) {
    uint32_t key = key_of(scores[places[i]]);
    bool same = key == kth && equal > 0;
    equal -= same;
    places[chosen] = places[i];
    chosen += key > kth || same;
  }
}
