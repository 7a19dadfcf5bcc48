/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/flash/blocks.h"

#include "base/checked.h"

#include <math.h>

/* Packed Q and o of an item take at most half of a core's L2, so that they, a chunk of K and V and the scores of a tile
 * stay there while the item iterates over the keys. */
#define ITEM_BYTES_MIN ((int64_t)256 << 10)
#define ITEM_BYTES_MAX ((int64_t)1 << 20)
#define ITEM_ROWS 1024 /* packing costs a few percent from here on */

/* The greatest common divisor of K and V heads. */
int64_t hr_flash_groups(const hr_attention *attention)
{
  int64_t a = attention->k_heads, b = attention->v_heads;
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void count_items(const hr_attention *t, hr_flash_blocks *b)
{
  b->head_parts = hr_ceil_div(b->group_heads, b->item_heads);
  b->query_blocks = hr_ceil_div(hr_max64(t->q_len, 1), b->item_queries);
  b->items = t->batch * b->groups * b->head_parts * b->query_blocks;
}

/* Time, in rows: the items of the busiest thread, each with the packing of its K and V heads. Causal items differ in
 * length, longest first, so that the last round loses half an item. */
static double expected_rows(const hr_attention *t, const hr_flash_blocks *b, int pack_rows, int threads)
{
  int64_t packed =
      hr_ceil_div(b->item_heads * t->k_heads, t->q_heads) + hr_ceil_div(b->item_heads * t->v_heads, t->q_heads);
  double rows = (double)(b->item_heads * b->item_queries) + 0.5 * pack_rows * (double)packed;
  double rounds = t->mask == HR_MASK_NONE ? (double)hr_ceil_div(b->items, threads)
                                          : (double)hr_max64(b->items, threads) / threads + 0.5 * (threads > 1);
  return rounds * rows;
}

/* Fewer heads: those that share a K head, or a V head, then those that share both, then half of them. */
static int64_t fewer_heads(const hr_attention *t, int64_t heads)
{
  int64_t k_share = t->q_heads / t->k_heads, v_share = t->q_heads / t->v_heads;
  if (heads > hr_max64(k_share, v_share))
    return hr_max64(k_share, v_share);
  return heads > hr_min64(k_share, v_share) ? hr_min64(k_share, v_share) : heads / 2;
}

/* Large items pack K and V less often, small items balance the threads better; many heads share packed K and V, or few
 * heads have more queries each. Tries all of these, from the size that the cache holds downwards, and takes the one
 * with the least expected time. */
static void choose_item(const hr_attention *t, const hr_flash_version *version, int threads, int64_t cache_bytes,
                        hr_flash_blocks *b)
{
  int64_t bytes = hr_min64(hr_max64(cache_bytes / 2, ITEM_BYTES_MIN), ITEM_BYTES_MAX);
  int64_t rows = hr_max64(hr_min64(ITEM_ROWS, bytes / (4 * (b->depth + b->values))), version->tile_rows);
  hr_flash_blocks tried = *b;
  double best = INFINITY;
  for (int64_t heads = b->group_heads; heads > 0; heads = fewer_heads(t, heads)) {
    if (heads > rows)
      continue;
    int64_t queries = hr_max64(hr_min64(rows / heads, t->q_len), 1);
    for (int64_t halves = 0; halves == 0 || queries >> halves > 0; halves++) {
      tried.item_heads = heads;
      tried.item_queries = hr_ceil_div(queries, (int64_t)1 << halves);
      count_items(t, &tried);
      double expected = expected_rows(t, &tried, version->pack_rows, threads);
      if (expected < best) {
        best = expected;
        *b = tried;
      }
    }
  }
}

static size_t place(size_t *end, int64_t bytes)
{
  size_t at = *end;
  *end += (size_t)hr_round_up(bytes, 64);
  return at;
}

static void lay_out(const hr_flash_version *version, hr_flash_blocks *b)
{
  int64_t rows = b->item_heads * b->item_queries;
  size_t end = 0;
  b->q = place(&end, 4 * rows * b->depth);
  b->o = place(&end, 4 * rows * b->values);
  b->total = place(&end, 4 * rows * HR_FLASH_LANES_MAX);
  b->row = place(&end, 4 * rows * 5);
  b->k = place(&end, 4 * hr_round_up(version->chunk, version->lanes) * b->depth);
  b->v = place(&end, 4 * hr_round_up(b->values, version->lanes) * version->chunk / version->pair);
  b->s = place(&end, 4 * (int64_t)version->score_floats);
  b->p = place(&end, 2 * (int64_t)version->weights);
  b->slot_bytes = end + 64; /* so that two threads' slots share no cache line, whatever the workspace's alignment */
}

hr_flash_blocks hr_flash_cut(const hr_attention *attention, const hr_flash_version *version, int threads,
                             int64_t cache_bytes)
{
  const hr_attention *t = attention;
  hr_flash_blocks b = {.groups = hr_flash_groups(t)};
  b.group_heads = t->q_heads / b.groups;
  b.depth = hr_round_up(hr_ceil_div(t->qk_dim, version->pair), version->depth_group);
  b.values = hr_round_up(t->v_dim, version->value_group);
  choose_item(t, version, threads, cache_bytes, &b);
  lay_out(version, &b);
  return b;
}
