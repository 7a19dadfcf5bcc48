/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/decode_tiles.h"

#include "base/checked.h"
#include "schedule/split_keys.h"

#define WARPS_OF_MULTIPROCESSOR 8
#define WARPS_OF_SMALL_STAGES 12
#define LONG_KEYS 1024 /* of a multiprocessor */
#define STAGES_MAX 3
#define PIECE_BYTES 256         /* of a token's K or V heads that a group reads, at least, if it is long */
#define PIECE_BYTES_OF_MANY 512 /* the same where multiprocessors have more than two groups each */
#define RESERVED_BYTES 1024     /* of shared memory, that each block takes in addition */

/* These are the kernel's, for its shared memory (decode_layout.h). */
#define ROWS 16
#define LINE_BYTES 128
#define PADDING 8     /* floats of a row of O */
#define WARP_SUMS 512 /* bytes */
#define BARRIER 8     /* bytes */

hr_decode_unit hr_decode_units(const hr_decode *decode)
{
  int64_t k_group = decode->q_heads / decode->k_heads, v_group = decode->q_heads / decode->v_heads;
  int64_t a = k_group, b = v_group;
  while (b > 0) { /* Euclid's algorithm */
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  int64_t heads = k_group / a * v_group; /* the least common multiple */
  return (hr_decode_unit){decode->q_heads / heads, heads, heads / k_group, heads / v_group};
}

int64_t hr_decode_keys_read(const hr_decode *d)
{
  return d->window > 0 ? hr_min64(d->kv_len, hr_min64(d->window, d->kv_len) + d->q_len - 1) : d->kv_len;
}

/* Returns the bytes between rows of K or V in shared memory. */
static int64_t pitch_of(int64_t dim, int64_t element_bytes)
{
  return hr_round_up(dim * element_bytes, LINE_BYTES);
}

size_t hr_decode_split_shared_bytes(const hr_decode_split *t)
{
  int64_t rows_stats = ROWS * (int64_t)(2 * sizeof(float)); /* base and sum */
  int64_t stage = HR_DECODE_WARP_KEYS *
                  (t->k_heads * pitch_of(t->qk, t->element_bytes) + t->v_heads * pitch_of(t->v, t->element_bytes));
  if (t->token_scales)
    stage += hr_round_up((t->k_heads + t->v_heads) * HR_DECODE_WARP_KEYS * (int64_t)sizeof(float), LINE_BYTES);
  int64_t streams = t->warps * t->stages * stage;
  int64_t combined = t->warps * (rows_stats + ROWS * (t->v + PADDING) * (int64_t)sizeof(float));
  int64_t factors = (HR_SPLITS_MAX * (int64_t)sizeof(float) + 8) * ROWS + t->warps * WARP_SUMS;
  int64_t bytes = hr_max64(hr_max64(streams, combined), factors);
  if (t->cluster > 1)
    bytes += t->cluster * (hr_ceil_div(t->rows * t->v / 4, t->cluster) * 16 + rows_stats) + BARRIER;
  return (size_t)bytes;
}

/* Whether groups of `heads` query heads begin and end at the bounds of K or V heads, or lie within one. */
static bool heads_fit(int64_t heads, int64_t group)
{
  return heads % group == 0 || group % heads == 0;
}

/* Most stages that leave room for `blocks` blocks of a multiprocessor; false if there is none for two stages. */
static bool choose_stages(hr_decode_split *t, const hr_decode_gpu *gpu, int blocks)
{
  size_t room = gpu->shared_of_multiprocessor / (size_t)blocks - RESERVED_BYTES;
  for (t->stages = STAGES_MAX; t->stages >= 2; t->stages--) {
    t->shared_bytes = hr_decode_split_shared_bytes(t);
    if (t->shared_bytes <= room && t->shared_bytes <= gpu->shared_max)
      return true;
  }
  return false;
}

static bool is_long(const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  return (double)groups * (double)d->kv_len >= (double)LONG_KEYS * (double)gpu->multiprocessors;
}

/* Chooses the warps of a multiprocessor. With elements of one byte, 12 were 4 to 5% faster on an H200 where a stage has
 * one K and one V head and contexts are long; with five heads 11% slower. Beyond head sizes of 128 they have too few
 * registers. */
static int choose_warps(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  bool small = t->element_bytes == 1 && t->k_heads + t->v_heads == 2 && t->qk <= 128 && t->v <= 128;
  return small && is_long(d, gpu, groups) ? WARPS_OF_SMALL_STAGES : WARPS_OF_MULTIPROCESSOR;
}

/* On an H200 one block of 8 warps per multiprocessor was faster than two of 4, which have twice the splits to combine;
 * two were faster where each multiprocessor gets several blocks in turn, since one streams while the other combines. */
static bool choose_buffers(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  int blocks = groups > 2 * gpu->multiprocessors ? 2 : 1;
  for (t->min_blocks = blocks; t->min_blocks >= 1; t->min_blocks--)
    for (t->warps = choose_warps(t, d, gpu, groups) / t->min_blocks; t->warps >= 1; t->warps /= 2)
      if (choose_stages(t, gpu, t->min_blocks))
        return true;
  return false;
}

static bool choose_heads(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t heads)
{
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads;
  if (heads * d->q_len > ROWS || !heads_fit(heads, k_group) || !heads_fit(heads, v_group))
    return false;
  t->heads = (int)heads;
  t->rows = (int)(heads * d->q_len);
  t->k_heads = (int)hr_max64(1, heads / k_group);
  t->v_heads = (int)hr_max64(1, heads / v_group);
  return choose_buffers(t, d, gpu, d->batch * d->q_heads / heads);
}

/* The largest cluster whose blocks have room for what the others send. */
static int cluster_max(const hr_decode_split *t, const hr_decode_gpu *gpu)
{
  hr_decode_split clustered = *t;
  for (clustered.cluster = gpu->cluster_max; clustered.cluster > 1; clustered.cluster /= 2) {
    if (hr_decode_split_shared_bytes(&clustered) <= gpu->shared_max)
      break;
  }
  return clustered.cluster;
}

/* Whether blocks of the next kernel may start while this one's combine: if it is another decode call, only where two of
 * its blocks do not share a multiprocessor while others have none. */
static bool next_may_start(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t fit = (int64_t)(gpu->shared_of_multiprocessor / (t->shared_bytes + RESERVED_BYTES));
  int64_t blocks = d->batch * d->q_heads / t->heads * t->splits;
  return fit <= t->min_blocks || 2 * blocks <= gpu->multiprocessors;
}

static void choose_splits(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  const hr_split_choice choice = hr_divide_keys(&(hr_split_problem){
      .groups = d->batch * d->q_heads / t->heads,
      .keys = hr_decode_keys_read(d),
      .key_bytes = (t->k_heads * d->qk_dim + t->v_heads * d->v_dim) * (int64_t)hr_decode_cache_bytes(d),
      .multiprocessors = gpu->multiprocessors,
      .tile = (int64_t)t->warps * HR_DECODE_WARP_KEYS,
      .blocks = t->min_blocks,
      .cluster_max = cluster_max(t, gpu)});
  t->splits = (int)choice.splits;
  t->cluster = choice.cluster;
  t->shared_bytes = hr_decode_split_shared_bytes(t);
  t->lets_next = gpu->early && next_may_start(t, d, gpu);
}

/* The largest group of one unit that fits. */
static void choose_group(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t unit = hr_decode_units(d).q_heads, heads = hr_min64(unit, ROWS);
  while (unit % heads != 0 || !choose_heads(t, d, gpu, heads)) /* one head fits */
    heads--;
}

/* On an H100 pieces of 128 bytes were read 2 to 6% slower than those of two heads, and of 256 bytes up to 1%; in short
 * calls two units leave too few groups. */
static bool has_short_pieces(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode_unit unit = hr_decode_units(d);
  int64_t groups = d->batch * unit.count;
  int64_t piece = hr_max64(unit.k_heads * d->qk_dim, unit.v_heads * d->v_dim) * t->element_bytes;
  return unit.count % 2 == 0 && piece < (groups > 2 * gpu->multiprocessors ? PIECE_BYTES_OF_MANY : PIECE_BYTES) &&
         is_long(d, gpu, groups);
}

/* Two units in a group, unless they do not fit or their splits are no longer a cluster. */
static void try_two_units(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode_split two = *t;
  two.cluster = 1;
  if (!choose_heads(&two, d, gpu, 2 * hr_decode_units(d).q_heads))
    return;
  choose_splits(&two, d, gpu);
  if (t->cluster == 1 || two.cluster > 1)
    *t = two;
}

hr_decode_split hr_decode_split_choose(const hr_decode *d, const hr_decode_gpu *gpu)
{
  hr_decode alone = *d;
  if (d->batch_invariant) /* the order of all sums follows from the tiles and splits */
    alone.batch = 1, d = &alone;
  hr_decode_split t = {
      .qk = (int)hr_round_up(d->qk_dim, 16), .v = (int)hr_round_up(d->v_dim, 16), .cluster = 1, .early = gpu->early};
  t.element_bytes = (int)hr_decode_cache_bytes(d);
  t.token_scales = d->cache_format != HR_KV_UNQUANTIZED && d->cache_scales == HR_KV_SCALE_TOKEN;
  choose_group(&t, d, gpu);
  choose_splits(&t, d, gpu);
  if (has_short_pieces(&t, d, gpu))
    try_two_units(&t, d, gpu);
  return t;
}
