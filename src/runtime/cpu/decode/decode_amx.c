/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention, bf16 by AMX; softmax in fp32 by AVX-512.
 *
 *   S^T = K Q^T   A: 16 keys × 32 elements of K, loaded from the cache as they are     B: 16 query rows of Q^T, packed
 *                 once a split                                                         C: 16 keys × 16 query rows
 *   softmax       a lane is a query row; weights are transposed to rows of P in bf16
 *   O += P V      directly, with up to 16 query rows a V head:
 *                   B: 16 keys × 32 columns of V as they are. A product takes columns 2n and 2n + 1 of a key together,
 *                   so A is P in words whose other half is 0: in the lower halves for even columns, in the upper ones
 *                   for odd columns. Up to 8 query rows: both in one tile
 *                 packed, with more, and where O is not finite, as 0 · ∞ of a word's other half is NaN:
 *                   A: 16 query rows × 32 keys of P     B: 32 keys × 16 columns of V, pairs of keys interleaved
 *
 * Even columns of O precede the odd ones in each 32, as with simd_load_pair().
 *
 * A block has 128 keys, or fewer where two blocks of K and V would not stay in L2: a change from tiles to vectors and
 * back takes some 600 cycles, and O is loaded and stored once a block. Rows that are no tile in memory (other strides
 * within 16 keys, head sizes that are no multiples of 32, the end of a sequence) are copied. What comes next is
 * prefetched during all phases. */
#include "runtime/cpu/decode/decode_prefetch.h"

#if defined(__x86_64__)

#include "runtime/cpu/simd/amx_tiles.h"
#include "runtime/cpu/simd/avx512_bf16.h"
#include "runtime/cpu/simd/exp.h"

#include <string.h>

#define TILE HR_SPLIT_TILE
#define TILE_FLOATS (TILE * TILE)
#define TILE_BYTES 1024
#define GROUP 32     /* elements of a product of K and Q, keys of a product of P and V */
#define ROW_BYTES 64 /* of a tile */

/* Configures tiles: 0 to 5 have `rows` rows, the others 16. */
static void configure(int rows)
{
  tile_palette palette = {.palette = 1};
  for (int tile = 0; tile < 8; tile++) {
    palette.row_bytes[tile] = ROW_BYTES;
    palette.rows[tile] = (uint8_t)(tile <= 5 ? rows : TILE);
  }
  tile_configure(&palette);
}

static void enter(void)
{
  configure(TILE);
}

static void leave(void)
{
  tile_release();
}

/* Q of a K head: [tile of rows][pair of elements][row], the rows behind the last 0. */
static void load(hr_dtype dtype, bool in_order, const void *from, int64_t dim, int64_t row, float *to)
{
  (void)dtype, (void)in_order;
  int64_t pairs = hr_round_up(dim, HR_SPLIT_PAD) / 2;
  char *tile = (char *)to + row / TILE * pairs * ROW_BYTES;
  if (row % TILE == 0)
    memset(tile, 0, (size_t)(pairs * ROW_BYTES));
  for (int64_t i = 0; i < dim; i += 2)
    memcpy(tile + i / 2 * ROW_BYTES + row % TILE * 4, (const char *)from + 2 * i, dim - i == 1 ? 2 : 4);
}

/* ---- S^T = K Q^T ---- */

typedef struct key_tiles {
  const char *at[HR_SPLIT_BLOCK_MOST / TILE];
  int64_t pitch[HR_SPLIT_BLOCK_MOST / TILE];
  int count;
} key_tiles;

/* A copy of 16 rows, zeros behind their elements and behind the last row. */
static void copy_keys(const hr_split_step *step, int first, int64_t pitch, char *to)
{
  size_t bytes = (size_t)step->from.bytes;
  memset(to, 0, (size_t)(TILE * pitch));
  for (int key = first; key < step->from.keys && key < first + TILE; key++, to += pitch)
    memcpy(to, step->from.at[key] + step->from.offset, bytes);
}

/* Of K or V. */
static key_tiles find_tiles(const hr_split_step *step)
{
  const hr_split_rows *from = &step->from;
  key_tiles tiles = {.count = (int)hr_ceil_div(from->keys, TILE)};
  int64_t padded = 2 * hr_round_up(step->dim, GROUP);
  char *copy = (char *)step->scratch;
  for (int i = 0; i < tiles.count; i++) {
    tiles.at[i] = from->at[i * TILE] + from->offset, tiles.pitch[i] = from->pitch[i];
    if (from->pitch[i] != 0 && from->bytes == padded)
      continue;
    copy_keys(step, i * TILE, padded, copy);
    tiles.at[i] = copy, tiles.pitch[i] = padded;
    copy += TILE * padded;
  }
  return tiles;
}

typedef struct score_call {
  const key_tiles *k;
  int first; /* tile of keys */
  const char *q;
  int64_t q_tile; /* bytes */
  int groups;
  float *s;
  int64_t s_tile; /* floats of a tile of rows */
  prefetcher *ahead, *later;
} score_call;

HR_INLINE void prefetch_both(const score_call *c)
{
  prefetch(c->ahead, 1);
  prefetch(c->later, 1);
}

/* 16 query rows by `tiles` tiles of keys. */
HR_INLINE void multiply_one(int tiles, const score_call *c)
{
  const char *const *k = c->k->at + c->first;
  const int64_t *pitch = c->k->pitch + c->first;
  float *s = c->s + c->first * TILE_FLOATS;
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
#pragma GCC unroll 1
  for (int64_t at = 0; at < (int64_t)c->groups * ROW_BYTES; at += ROW_BYTES) {
    tile_load(4, c->q + at * TILE, ROW_BYTES);
    tile_load_once(5, k[0] + at, pitch[0]);
    tile_dpbf16ps(0, 5, 4);
    prefetch_both(c);
    if (tiles > 1) {
      tile_load_once(6, k[1] + at, pitch[1]);
      tile_dpbf16ps(1, 6, 4);
      prefetch_both(c);
    }
    if (tiles > 2) {
      tile_load_once(7, k[2] + at, pitch[2]);
      tile_dpbf16ps(2, 7, 4);
      prefetch_both(c);
    }
    if (tiles > 3) {
      tile_load_once(5, k[3] + at, pitch[3]);
      tile_dpbf16ps(3, 5, 4);
      prefetch_both(c);
    }
  }
  tile_store(0, s, ROW_BYTES);
  if (tiles > 1)
    tile_store(1, s + TILE_FLOATS, ROW_BYTES);
  if (tiles > 2)
    tile_store(2, s + 2 * TILE_FLOATS, ROW_BYTES);
  if (tiles > 3)
    tile_store(3, s + 3 * TILE_FLOATS, ROW_BYTES);
}

/* 32 query rows by one or two tiles of keys. */
HR_INLINE void multiply_two(int tiles, const score_call *c)
{
  const char *const *k = c->k->at + c->first;
  const int64_t *pitch = c->k->pitch + c->first;
  float *s = c->s + c->first * TILE_FLOATS;
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
#pragma GCC unroll 1
  for (int64_t at = 0; at < (int64_t)c->groups * ROW_BYTES; at += ROW_BYTES) {
    tile_load(4, c->q + at * TILE, ROW_BYTES);
    tile_load(6, k[0] + at, pitch[0]);
    tile_dpbf16ps(0, 6, 4);
    tile_load(5, c->q + c->q_tile + at * TILE, ROW_BYTES);
    tile_dpbf16ps(1, 6, 5);
    prefetch_both(c);
    if (tiles > 1) {
      tile_load(7, k[1] + at, pitch[1]);
      tile_dpbf16ps(2, 7, 4);
      tile_dpbf16ps(3, 7, 5);
      prefetch_both(c);
    }
  }
  tile_store(0, s, ROW_BYTES);
  tile_store(1, s + c->s_tile, ROW_BYTES);
  if (tiles > 1) {
    tile_store(2, s + TILE_FLOATS, ROW_BYTES);
    tile_store(3, s + c->s_tile + TILE_FLOATS, ROW_BYTES);
  }
}

/* Tiles of keys outside, so that they stay in L1 for the tiles of rows. */
static void multiply_row_pairs(score_call c, int64_t row_tiles)
{
  const char *q = c.q;
  float *s = c.s;
  for (c.first = 0; c.first < c.k->count; c.first += 2)
    for (int64_t i = 0; i + 2 <= row_tiles; i += 2) {
      c.q = q + i * c.q_tile, c.s = s + i * c.s_tile;
      if (c.first + 2 <= c.k->count)
        multiply_two(2, &c);
      else
        multiply_two(1, &c);
    }
}

static void multiply_row_tile(score_call c)
{
  for (c.first = 0; c.first < c.k->count; c.first += 4)
    switch (c.k->count - c.first) {
    case 1: multiply_one(1, &c); break;
    case 2: multiply_one(2, &c); break;
    case 3: multiply_one(3, &c); break;
    default: multiply_one(4, &c); break;
    }
}

static void multiply(const hr_split_step *step)
{
  key_tiles tiles = find_tiles(step);
  int64_t groups = hr_ceil_div(step->dim, GROUP), row_tiles = hr_ceil_div(step->rows, TILE);
  int64_t ticks = (row_tiles / 2 + row_tiles % 2) * tiles.count * groups;
  prefetcher ahead = prefetch_during(&step->ahead, ticks), later = prefetch_during(&step->later, ticks);
  score_call c = {.k = &tiles,
                  .q = (const char *)step->q,
                  .q_tile = groups * TILE_BYTES,
                  .groups = (int)groups,
                  .s = step->s,
                  .s_tile = (int64_t)step->block * TILE,
                  .ahead = &ahead,
                  .later = &later};
  multiply_row_pairs(c, row_tiles);
  if (row_tiles % 2 == 1) {
    c.q += (row_tiles - 1) * c.q_tile, c.s += (row_tiles - 1) * c.s_tile;
    multiply_row_tile(c);
  }
}

/* ---- softmax ---- */

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

/* Exponents of 2, in place; returns the largest ones. */
HR_INLINE simd_f32 find_exponents(const row_tile *t, bool whole)
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
  simd_f32 words[TILE], sums[2] = {simd_set1(0), simd_set1(0)};
  if (key + TILE <= t->keys) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) {
      simd_f32 weight = simd_exp2_for_bf16(simd_load(t->s + (key + i) * TILE) + shift);
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
        weight = simd_exp2_for_bf16(simd_load(t->s + (key + i) * TILE) + shift);
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
  simd_f32 words[TILE], sums[2] = {simd_set1(0), simd_set1(0)};
  if (key + GROUP <= t->keys) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) {
      simd_f32 even = simd_exp2_for_bf16(simd_load(t->s + (key + 2 * i) * TILE) + shift);
      simd_f32 odd = simd_exp2_for_bf16(simd_load(t->s + (key + 2 * i + 1) * TILE) + shift);
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
        weights[n] = simd_exp2_for_bf16(simd_load(t->s + (key + 2 * i + n) * TILE) + shift);
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
  find_visible(step, t);
  simd_f32 most = t->whole && !(t->scores->softcap > 0) ? find_exponents(t, true) : find_exponents(t, false);
  simd_f32 before = load_rows(step->base + t->row, t->rows);
  simd_mask rises = simd_less(before, most);
  simd_f32 base = simd_select(rises, most, before);
  simd_f32 factor = simd_select(rises, simd_exp2(before - base), simd_set1(1));
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

/* ---- O += P V, packed ---- */

static bool is_finite(const void *row, int64_t dim)
{
  const uint16_t *elements = row;
  unsigned bad = 0;
  for (int64_t i = 0; i < dim; i++)
    bad |= (elements[i] & 0x7f80) == 0x7f80;
  return !bad;
}

/* Keys that not all query rows see, and whose V is not finite: a weight of 0 would make NaN of it. Their V is added row
 * by row, and 0 in the tiles. */
typedef struct apart_keys {
  int count, keys[HR_SPLIT_BLOCK_MOST];
} apart_keys;

static apart_keys find_apart(const hr_split_step *step, const char **rows)
{
  int first = 0, end = step->keys;
  apart_keys apart = {.count = 0};
  for (int64_t query = 0; query < step->q_len; query++) {
    first = step->first[query] > first ? step->first[query] : first;
    end = step->end[query] < end ? step->end[query] : end;
  }
  for (int key = 0; key < step->keys && end - first < step->keys; key++)
    if ((key < first || key >= end) && !is_finite(rows[key], step->dim)) {
      apart.keys[apart.count++] = key;
      rows[key] = NULL;
    }
  return apart;
}

static float value_of(uint16_t element)
{
  uint32_t bits = (uint32_t)element << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Of a column of V in O. */
static int64_t place_of(int64_t d)
{
  return d / GROUP * GROUP + d % 2 * TILE + d % GROUP / 2;
}

static void add_apart(const hr_split_step *step, const apart_keys *apart)
{
  int64_t pitch = hr_round_up(step->dim, HR_SPLIT_PAD);
  for (int i = 0; i < apart->count; i++)
    for (int64_t row = 0; row < step->rows; row++) {
      int key = apart->keys[i];
      if (key < step->first[row % step->q_len] || key >= step->end[row % step->q_len])
        continue;
      const uint16_t *v = (const void *)(step->from.at[key] + step->from.offset);
      const uint16_t *p = (const void *)((const char *)step->p + row * step->p_pitch);
      for (int64_t d = 0; d < step->dim; d++)
        step->o[row * pitch + place_of(d)] += value_of(p[key]) * value_of(v[d]);
    }
}

/* `pitch` and `group_pitch`: floats of O from row to row, and from 32 columns to the next. */
static void rescale(const hr_split_step *step, int64_t pitch, int64_t group_pitch)
{
  for (int64_t row = 0; row < step->rows; row++)
    for (int64_t group = 0; group < hr_ceil_div(step->dim, GROUP) && step->factor[row] != 1; group++) {
      float *o = step->o + row * pitch + group * group_pitch;
      simd_store(o, simd_load(o) * simd_set1(step->factor[row]));
      simd_store(o + TILE, simd_load(o + TILE) * simd_set1(step->factor[row]));
    }
}

/* Bytes from 16 columns of packed V to the next: [pair of keys][column], and a line more, as a power of 2 is slower
 * (cache sets). */
static int64_t panel_bytes(const hr_split_step *step)
{
  return (int64_t)(step->block / 2 + 1) * ROW_BYTES;
}

/* 32 elements of a row, zeros behind the last; zeros where there is no row. */
HR_INLINE simd_f32 load_values(const char *row, int64_t d, int64_t dim)
{
  if (!row)
    return simd_set1(0);
  if (d + GROUP <= dim)
    return simd_load(row + 2 * d);
  char elements[2 * GROUP] = {0};
  memcpy(elements, row + 2 * d, (size_t)(2 * (dim - d)));
  return simd_load(elements);
}

/* Rows of two keys, elements interleaved: of 32 columns first the even ones, then the odd ones, as simd_load_pair() has
 * them. Keys without V, and those behind the last up to whole groups, are 0. */
static void pack_values(const hr_split_step *step, const char *const *rows, prefetcher *ahead, prefetcher *later)
{
  int64_t panel = panel_bytes(step);
  char *to = (char *)step->scratch;
  for (int key = 0; key < (int)hr_round_up(step->keys, GROUP); key += 2, to += ROW_BYTES) {
    const char *even = key < step->keys ? rows[key] : NULL;
    const char *odd = key + 1 < step->keys ? rows[key + 1] : NULL;
    prefetch(ahead, 2);
    prefetch(later, 2);
    for (int64_t d = 0; d < step->dim; d += GROUP) {
      simd_f32 a = load_values(even, d, step->dim), b = load_values(odd, d, step->dim);
      simd_store(to + d / TILE * panel, simd_even_pairs_u16(a, b));
      simd_store(to + (d / TILE + 1) * panel, simd_odd_pairs_u16(a, b));
    }
  }
}

typedef struct value_call {
  const char *p, *v;
  int64_t p_pitch, panel; /* bytes */
  float *o;
  int64_t o_pitch; /* bytes */
  int groups;
  prefetcher *ahead, *later;
} value_call;

HR_INLINE void prefetch_values(const value_call *c)
{
  prefetch(c->ahead, 1);
  prefetch(c->later, 1);
}

/* Up to 16 query rows by two or four tiles of columns. */
HR_INLINE void add_one(int columns, const value_call *c)
{
  const char *v = c->v;
  tile_load(0, c->o, c->o_pitch);
  tile_load(1, c->o + TILE, c->o_pitch);
  if (columns > 2) {
    tile_load(2, c->o + 2 * TILE, c->o_pitch);
    tile_load(3, c->o + 3 * TILE, c->o_pitch);
  }
#pragma GCC unroll 1
  for (int i = 0; i < c->groups; i++, v += TILE_BYTES) {
    tile_load(4, c->p + (int64_t)i * ROW_BYTES, c->p_pitch);
    tile_load(6, v, ROW_BYTES);
    tile_dpbf16ps(0, 4, 6);
    prefetch_values(c);
    tile_load(7, v + c->panel, ROW_BYTES);
    tile_dpbf16ps(1, 4, 7);
    prefetch_values(c);
    if (columns > 2) {
      tile_load(6, v + 2 * c->panel, ROW_BYTES);
      tile_dpbf16ps(2, 4, 6);
      prefetch_values(c);
      tile_load(7, v + 3 * c->panel, ROW_BYTES);
      tile_dpbf16ps(3, 4, 7);
      prefetch_values(c);
    }
  }
  tile_store(0, c->o, c->o_pitch);
  tile_store(1, c->o + TILE, c->o_pitch);
  if (columns > 2) {
    tile_store(2, c->o + 2 * TILE, c->o_pitch);
    tile_store(3, c->o + 3 * TILE, c->o_pitch);
  }
}

/* 32 query rows by two tiles of columns. */
static void add_two(const value_call *c)
{
  const char *v = c->v;
  float *below = (float *)(void *)((char *)c->o + TILE * c->o_pitch);
  tile_load(0, c->o, c->o_pitch);
  tile_load(1, below, c->o_pitch);
  tile_load(2, c->o + TILE, c->o_pitch);
  tile_load(3, below + TILE, c->o_pitch);
#pragma GCC unroll 1
  for (int i = 0; i < c->groups; i++, v += TILE_BYTES) {
    const char *p = c->p + (int64_t)i * ROW_BYTES;
    tile_load(4, p, c->p_pitch);
    tile_load(6, v, ROW_BYTES);
    tile_dpbf16ps(0, 4, 6);
    tile_load(5, p + TILE * c->p_pitch, c->p_pitch);
    tile_dpbf16ps(1, 5, 6);
    prefetch_values(c);
    tile_load(7, v + c->panel, ROW_BYTES);
    tile_dpbf16ps(2, 4, 7);
    tile_dpbf16ps(3, 5, 7);
    prefetch_values(c);
  }
  tile_store(0, c->o, c->o_pitch);
  tile_store(1, below, c->o_pitch);
  tile_store(2, c->o + TILE, c->o_pitch);
  tile_store(3, below + TILE, c->o_pitch);
}

static void add_row_tile(value_call c, int64_t columns)
{
  for (; columns > 0; columns -= 4, c.o += 4 * TILE, c.v += 4 * c.panel)
    if (columns > 2)
      add_one(4, &c);
    else
      add_one(2, &c);
}

/* Columns outside, so that V stays in L1 for the tiles of rows. */
static void add_row_pairs(value_call c, int64_t pairs, int64_t columns)
{
  for (; columns > 0; columns -= 2, c.o += 2 * TILE, c.v += 2 * c.panel) {
    value_call rows = c;
    for (int64_t i = 0; i < pairs; i++) {
      add_two(&rows);
      rows.p += 2 * TILE * c.p_pitch;
      rows.o = (float *)(void *)((char *)rows.o + 2 * TILE * c.o_pitch);
    }
  }
}

static void add_tiles(const hr_split_step *step, prefetcher *ahead, prefetcher *later)
{
  int64_t columns = 2 * hr_ceil_div(step->dim, GROUP), pairs = step->rows / (2 * TILE),
          pitch = hr_round_up(step->dim, GROUP);
  value_call c = {.p = step->p,
                  .v = (const char *)step->scratch,
                  .p_pitch = step->p_pitch,
                  .panel = panel_bytes(step),
                  .o = step->o,
                  .o_pitch = pitch * (int64_t)sizeof(float),
                  .groups = (int)hr_ceil_div(step->keys, GROUP),
                  .ahead = ahead,
                  .later = later};
  add_row_pairs(c, pairs, columns);
  for (int64_t row = pairs * 2 * TILE; row < step->rows; row += TILE) {
    int rows = (int)hr_min64(TILE, step->rows - row);
    value_call some = c;
    some.p += row * c.p_pitch, some.o += row * pitch;
    if (rows < TILE)
      configure(rows);
    add_row_tile(some, columns);
    if (rows < TILE)
      configure(TILE);
  }
}

/* ---- O += P V directly ---- */

typedef struct direct_call {
  const key_tiles *v;
  const char *p;
  int64_t p_pitch; /* bytes, from row to row; half of it to the weights in upper halves */
  float *o;
  int64_t o_pitch; /* bytes */
  prefetcher *ahead, *later;
} direct_call;

/* `groups` times 32 columns. */
HR_INLINE void add_direct_columns(int groups, const direct_call *c, int64_t at)
{
  float *o = c->o + at;
  tile_load(0, o, c->o_pitch);
  tile_load(1, o + TILE, c->o_pitch);
  if (groups > 1) {
    tile_load(2, o + 2 * TILE, c->o_pitch);
    tile_load(3, o + 3 * TILE, c->o_pitch);
  }
#pragma GCC unroll 1
  for (int i = 0; i < c->v->count; i++) {
    const char *p = c->p + (int64_t)i * ROW_BYTES, *v = c->v->at[i] + 2 * at;
    tile_load(4, p, c->p_pitch);
    tile_load_once(6, v, c->v->pitch[i]);
    tile_dpbf16ps(0, 4, 6);
    tile_load(5, p + c->p_pitch / 2, c->p_pitch);
    tile_dpbf16ps(1, 5, 6);
    prefetch(c->ahead, 1);
    prefetch(c->later, 1);
    if (groups > 1) {
      tile_load_once(7, v + ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(2, 4, 7);
      tile_dpbf16ps(3, 5, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
  }
  tile_store(0, o, c->o_pitch);
  tile_store(1, o + TILE, c->o_pitch);
  if (groups > 1) {
    tile_store(2, o + 2 * TILE, c->o_pitch);
    tile_store(3, o + 3 * TILE, c->o_pitch);
  }
}

/* Of up to 8 query rows both kinds of weights are rows of one tile, and so are even and odd columns: while steps are
 * direct, O is [32 columns][row][even, odd columns]. `groups` times 32 columns. */
HR_INLINE void add_paired_columns(int groups, const direct_call *c, int64_t at)
{
  const int64_t tile = c->o_pitch / (int64_t)sizeof(float);
  float *o = c->o + at / GROUP * tile;
  tile_load(0, o, ROW_BYTES);
  if (groups > 1)
    tile_load(1, o + tile, ROW_BYTES);
  if (groups > 2)
    tile_load(2, o + 2 * tile, ROW_BYTES);
  if (groups > 3)
    tile_load(3, o + 3 * tile, ROW_BYTES);
#pragma GCC unroll 1
  for (int i = 0; i < c->v->count; i++) {
    const char *v = c->v->at[i] + 2 * at;
    tile_load(4, c->p + (int64_t)i * ROW_BYTES, c->p_pitch / 2);
    tile_load_once(6, v, c->v->pitch[i]);
    tile_dpbf16ps(0, 4, 6);
    prefetch(c->ahead, 1);
    prefetch(c->later, 1);
    if (groups > 1) {
      tile_load_once(7, v + ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(1, 4, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
    if (groups > 2) {
      tile_load_once(6, v + 2 * ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(2, 4, 6);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
    if (groups > 3) {
      tile_load_once(7, v + 3 * ROW_BYTES, c->v->pitch[i]);
      tile_dpbf16ps(3, 4, 7);
      prefetch(c->ahead, 1);
      prefetch(c->later, 1);
    }
  }
  tile_store(0, o, ROW_BYTES);
  if (groups > 1)
    tile_store(1, o + tile, ROW_BYTES);
  if (groups > 2)
    tile_store(2, o + 2 * tile, ROW_BYTES);
  if (groups > 3)
    tile_store(3, o + 3 * tile, ROW_BYTES);
}

static bool is_paired(const hr_split_step *step)
{
  return step->rows <= TILE / 2;
}

static void add_paired(const hr_split_step *step, direct_call c)
{
  int64_t padded = hr_round_up(step->dim, GROUP), tile = step->rows * GROUP;
  c.o_pitch = tile * (int64_t)sizeof(float);
  rescale(step, GROUP, tile);
  if (step->rows < TILE / 2)
    configure(2 * (int)step->rows);
  for (int64_t at = 0; at < padded; at += 4 * (int64_t)GROUP)
    switch ((padded - at) / GROUP) {
    case 1: add_paired_columns(1, &c, at); break;
    case 2: add_paired_columns(2, &c, at); break;
    case 3: add_paired_columns(3, &c, at); break;
    default: add_paired_columns(4, &c, at); break;
    }
  if (step->rows < TILE / 2)
    configure(TILE);
}

/* To rows, by way of scratch memory. */
static void end_direct(const hr_split_step *step)
{
  int64_t pitch = hr_round_up(step->dim, HR_SPLIT_PAD);
  if (!is_paired(step))
    return;
  memcpy(step->scratch, step->o, (size_t)(step->rows * pitch) * sizeof(float));
  for (int64_t row = 0; row < step->rows; row++)
    for (int64_t group = 0; group < pitch / GROUP; group++)
      memcpy(step->o + row * pitch + group * GROUP, step->scratch + (group * step->rows + row) * GROUP,
             GROUP * sizeof(float));
}

static void add_direct(const hr_split_step *step)
{
  key_tiles tiles = find_tiles(step);
  int64_t padded = hr_round_up(step->dim, GROUP), ticks = tiles.count * (padded / GROUP), at = 0;
  prefetcher ahead = prefetch_during(&step->ahead, ticks), later = prefetch_during(&step->later, ticks);
  direct_call c = {.v = &tiles,
                   .p = step->p,
                   .p_pitch = step->p_pitch,
                   .o = step->o,
                   .o_pitch = padded * (int64_t)sizeof(float),
                   .ahead = &ahead,
                   .later = &later};
  if (is_paired(step)) {
    add_paired(step, c);
    return;
  }
  rescale(step, padded, GROUP);
  if (step->rows < TILE)
    configure((int)step->rows);
  for (; at + 2 * GROUP <= padded; at += 2 * (int64_t)GROUP)
    add_direct_columns(2, &c, at);
  if (at < padded)
    add_direct_columns(1, &c, at);
  if (step->rows < TILE)
    configure(TILE);
}

static void add_values(const hr_split_step *step)
{
  if (step->direct) {
    add_direct(step);
    return;
  }
  const char *rows[HR_SPLIT_BLOCK_MOST];
  for (int key = 0; key < step->keys; key++)
    rows[key] = step->from.at[key] + step->from.offset;
  apart_keys apart = find_apart(step, rows);
  rescale(step, hr_round_up(step->dim, HR_SPLIT_PAD), GROUP);
  prefetcher ahead = prefetch_during(&step->ahead, 2 * step->keys);
  prefetcher later = prefetch_during(&step->later, 2 * step->keys);
  pack_values(step, rows, &ahead, &later);
  int64_t row_tiles = hr_ceil_div(step->rows, TILE), columns = 2 * hr_ceil_div(step->dim, GROUP);
  int64_t ticks = (row_tiles / 2 + row_tiles % 2) * columns * hr_ceil_div(step->keys, GROUP);
  prefetch_rest(&ahead, ticks);
  prefetch_rest(&later, ticks);
  add_tiles(step, &ahead, &later);
  if (apart.count > 0)
    add_apart(step, &apart);
}

/* ---- sums and results, in fp32 ---- */

static bool sums_are_finite(const hr_split_sums *sums)
{
  simd_f32 bad = simd_set1(0);
  for (int64_t at = 0; at < sums->rows * sums->pitch; at += SIMD_LANES) {
    simd_f32 o = simd_load(sums->o + at);
    bad = bad + (o - o); /* 0 of finite numbers, NaN of others */
  }
  return simd_bits(simd_is_nan(bad)) == 0;
}

static void merge(const hr_split_sums *sums, const hr_split_sums *more)
{
  hr_split_avx512.merge(sums, more);
}

static void store(hr_dtype dtype, bool in_order, float *o, float share, int64_t dim, void *to)
{
  hr_split_avx512.store(dtype, in_order, o, share, dim, to);
}

const hr_split_version hr_split_amx = {.tiles = true,
                                       .enter = enter,
                                       .leave = leave,
                                       .load = load,
                                       .multiply = multiply,
                                       .online_softmax = online_softmax,
                                       .add_values = add_values,
                                       .is_finite = sums_are_finite,
                                       .end_direct = end_direct,
                                       .merge = merge,
                                       .store = store};

#endif
