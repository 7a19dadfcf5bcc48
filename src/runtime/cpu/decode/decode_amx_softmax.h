/* SPDX-License-Identifier: Apache-2.0 */
/* A part of decode_amx.c: the online softmax, and P as tiles. */
#ifndef HR_RUNTIME_CPU_DECODE_DECODE_AMX_SOFTMAX_H
#define HR_RUNTIME_CPU_DECODE_DECODE_AMX_SOFTMAX_H

#include "runtime/cpu/decode/decode_amx_tiles.h"
#include "runtime/cpu/decode/decode_weight.h"

/* Up to 16 query rows, a row a lane; s: [keys][row]. */
typedef struct row_tile {
  const hr_split_scores *scores;
  float *s;
  int64_t row;
  int rows, keys;
  bool whole; /* all rows see all keys */
  simd_f32 first, end;
  prefetcher *ahead, *later;
} row_tile;

static void find_visible(const hr_split_step *step, row_tile *t)
{
  float first[TILE], end[TILE];
  int64_t query = t->row % step->q_len;
  t->whole = true;
  for (int i = 0; i < TILE; i++) {
    t->whole = t->whole && step->first[query] == 0 && step->end[query] == step->keys;
    first[i] = (float)step->first[query], end[i] = (float)step->end[query];
    query = query + 1 < step->q_len ? query + 1 : 0;
  }
  t->first = simd_load(first), t->end = simd_load(end);
}

/* Scores, in place; returns the largest ones. */
HR_INLINE simd_f32 find_scores(const row_tile *t, bool whole)
{
  const simd_f32 least = simd_set1(-__builtin_inff()), scale = simd_set1(t->scores->scale);
  simd_f32 most[4] = {least, least, least, least};
  int key = 0;
  for (; whole && key + 4 <= t->keys; key += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      simd_f32 x = simd_load(t->s + (key + i) * TILE) * scale;
      simd_store(t->s + (key + i) * TILE, x);
      most[i] = simd_max(x, most[i]);
    }
    prefetch(t->ahead, 2);
    prefetch(t->later, 2);
  }
  for (; key < t->keys; key++) {
    simd_f32 x = simd_load(t->s + key * TILE) * scale, place = simd_set1((float)key);
    if (t->scores->softcap > 0)
      x = simd_tanh(x) * simd_set1(t->scores->softcap);
    x = simd_select(simd_less(place, t->first), least, simd_select(simd_less(place, t->end), x, least));
    simd_store(t->s + key * TILE, x);
    most[0] = simd_max(x, most[0]);
  }
  return simd_max(simd_max(most[0], most[1]), simd_max(most[2], most[3]));
}

/* Weights of 16 keys, in words whose other half is 0: as lower halves, and `half` bytes behind as upper ones. */
HR_INLINE simd_f32 make_direct_weights(const row_tile *t, int key, simd_f32 shift, char *p, int64_t pitch, int64_t half)
{
  const simd_exponent exponent = weight_exponent(t->scores->top);
  simd_f32 words[TILE], sums[2] = {simd_set1(0), simd_set1(0)};
  if (key + TILE <= t->keys) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) {
      simd_f32 weight = simd_exp2_weight_for_bf16(&exponent, simd_load(t->s + (key + i) * TILE) + shift);
      sums[i % 2] = sums[i % 2] + weight;
      words[i] = (simd_f32)simd_words_bf16(weight);
      if (i % 4 == 3) {
        prefetch(t->ahead, 2);
        prefetch(t->later, 2);
      }
    }
  } else {
    for (int i = 0; i < TILE; i++) {
      simd_f32 weight = simd_set1(0);
      if (key + i < t->keys)
        weight = simd_exp2_weight_for_bf16(&exponent, simd_load(t->s + (key + i) * TILE) + shift);
      sums[0] = sums[0] + weight;
      words[i] = (simd_f32)simd_words_bf16(weight);
    }
  }
  simd_transpose(words);
  for (int i = 0; i < t->rows; i++) {
    simd_store(p + i * pitch, words[i]);
    simd_store(p + i * pitch + half, (simd_f32)((simd_u32)words[i] << 16));
  }
  return sums[0] + sums[1];
}

/* Weights of 32 keys, rows of them to p; returns their sum. */
HR_INLINE simd_f32 make_weights(const row_tile *t, int key, simd_f32 shift, char *p, int64_t pitch)
{
  const simd_exponent exponent = weight_exponent(t->scores->top);
  simd_f32 words[TILE], sums[2] = {simd_set1(0), simd_set1(0)};
  if (key + GROUP <= t->keys) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) {
      simd_f32 even = simd_exp2_weight_for_bf16(&exponent, simd_load(t->s + (key + 2 * i) * TILE) + shift);
      simd_f32 odd = simd_exp2_weight_for_bf16(&exponent, simd_load(t->s + (key + 2 * i + 1) * TILE) + shift);
      sums[0] = sums[0] + even;
      sums[1] = sums[1] + odd;
      words[i] = simd_pairs_bf16(even, odd);
      if (i % 4 == 3) {
        prefetch(t->ahead, 4);
        prefetch(t->later, 4);
      }
    }
  } else {
    for (int i = 0; i < TILE; i++) {
      simd_f32 weights[2] = {simd_set1(0), simd_set1(0)};
      for (int n = 0; n < 2 && key + 2 * i + n < t->keys; n++)
        weights[n] = simd_exp2_weight_for_bf16(&exponent, simd_load(t->s + (key + 2 * i + n) * TILE) + shift);
      sums[0] = sums[0] + (weights[0] + weights[1]);
      words[i] = simd_pairs_bf16(weights[0], weights[1]);
    }
  }
  simd_transpose(words);
  for (int i = 0; i < t->rows; i++)
    simd_store(p + i * pitch, words[i]);
  return sums[0] + sums[1];
}

static void store_rows(float *to, simd_f32 x, int rows)
{
  float lanes[TILE];
  simd_store(lanes, x);
  memcpy(to, lanes, (size_t)rows * sizeof *to);
}

static simd_f32 load_rows(const float *from, int rows)
{
  float lanes[TILE] = {0};
  memcpy(lanes, from, (size_t)rows * sizeof *from);
  return simd_load(lanes);
}

/* The base is 0 for weights while all scores are −inf. */
static void softmax_tile(const hr_split_step *step, row_tile *t)
{
  const simd_f32 least = simd_set1(-__builtin_inff());
  const simd_exponent ratio = weight_exponent(0);
  find_visible(step, t);
  simd_f32 most = t->whole && !(t->scores->softcap > 0) ? find_scores(t, true) : find_scores(t, false);
  simd_f32 before = load_rows(step->base + t->row, t->rows);
  simd_mask rises = simd_less(before, most);
  simd_f32 base = simd_select(rises, most, before);
  simd_f32 factor = simd_select(rises, weight_of(&ratio, before - base), simd_set1(1));
  simd_f32 shift = simd_select(simd_less(least, base), simd_set1(0) - base, simd_set1(0));
  simd_f32 total = load_rows(step->total + t->row, t->rows) * factor;
  char *p = (char *)step->p + t->row * step->p_pitch;
  for (int key = 0; key < t->keys; key += GROUP) {
    if (step->direct)
      for (int at = key; at < key + GROUP && at < t->keys; at += TILE)
        total = total + make_direct_weights(t, at, shift, p + 4 * at, step->p_pitch, step->p_pitch / 2);
    else
      total = total + make_weights(t, key, shift, p + 2 * key, step->p_pitch);
  }
  store_rows(step->base + t->row, base, t->rows);
  store_rows(step->factor + t->row, factor, t->rows);
  store_rows(step->total + t->row, total, t->rows);
}

static void online_softmax(const hr_split_step *step, const hr_split_scores *scores)
{
  int64_t padded = hr_round_up(step->k_rows, TILE), ticks = step->rows / step->k_rows * padded / TILE * step->keys;
  prefetcher ahead = prefetch_during(&step->ahead, ticks), later = prefetch_during(&step->later, ticks);
  for (int64_t head = 0; head < step->rows / step->k_rows; head++)
    for (int64_t row = 0; row < step->k_rows; row += TILE) {
      row_tile t = {.scores = scores,
                    .s = step->s + (head * padded + row) * step->block,
                    .row = head * step->k_rows + row,
                    .rows = (int)hr_min64(TILE, step->k_rows - row),
                    .keys = step->keys,
                    .ahead = &ahead,
                    .later = &later};
      softmax_tile(step, &t);
    }
}

#endif
