/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/decode_tiles.h"

#include "base/checked.h"
#include "schedule/split_keys.h"

#include <headroom/experimental/decode.h>

#define WARPS_OF_MULTIPROCESSOR 8
#define WARPS_OF_SMALL_STAGES 12
#define WARPS_OF_SMALL_HEADS 16
#define WARPS_OF_PARTS 4  /* at least, where dividing a unit of heads gives room for them */
#define SPLITS_OF_TILES 8 /* of a group of several Q tiles, at most, if blocks are as many as multiprocessors */
#define LONG_KEYS 1024    /* of a multiprocessor */
#define STAGES_MAX 3
#define PIECE_BYTES 256         /* of a token's K or V heads that a group reads, at least, if it is long */
#define PIECE_BYTES_OF_MANY 512 /* the same where multiprocessors have more than two groups each */
#define RESERVED_BYTES 1024     /* of shared memory, that each block takes in addition */
#define TILE_BYTES 600.0
#define HEAD_BYTES 3.0

/* These are the kernel's, for its shared memory (decode_layout.h). */
#define ROWS 16
#define GROUP_ROWS 128
#define WGMMA_ROWS 64
#define WGMMA_TIME 0.4 /* of the products of 64 rows, in that of reading; the more, the shorter the heads */
#define WGMMA_ELEMENTS 64.0
#define WGMMA_OF_TWO 1.7 /* times as long with 128 rows */
/* Measured on an H200 (docs/notes/decode-gpu.md). */
#define L2_TIME 0.8   /* of reading again from the L2 */
#define LEFT_TIME 4.5 /* of adding what splits left */
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

int hr_decode_team(const hr_decode_split *t)
{
  return t->wgmma ? WGMMA_ROWS / ROWS : t->tiles;
}

size_t hr_decode_split_shared_bytes(const hr_decode_split *t)
{
  int64_t padded = (int64_t)t->tiles * ROWS, row_stats = 2 * sizeof(float); /* base and sum */
  int64_t stage = HR_DECODE_WARP_KEYS *
                  (t->k_heads * pitch_of(t->qk, t->element_bytes) + t->v_heads * pitch_of(t->v, t->element_bytes));
  if (t->token_scales)
    stage += hr_round_up((t->k_heads + t->v_heads) * HR_DECODE_WARP_KEYS * (int64_t)sizeof(float), LINE_BYTES);
  int64_t streams = t->warps * t->stages * stage + (t->wgmma ? padded * pitch_of(t->qk, t->element_bytes) : 0);
  int64_t combined = t->warps / hr_decode_team(t) * padded * (row_stats + (t->v + PADDING) * (int64_t)sizeof(float));
  int64_t factors = (HR_SPLITS_MAX * (int64_t)sizeof(float) + 8) * padded + t->warps * WARP_SUMS;
  int64_t bytes = hr_max64(hr_max64(streams, combined), factors);
  if (t->cluster > 1)
    bytes += t->cluster * (hr_ceil_div(t->rows * t->v / 4, t->cluster) * 16 + padded * row_stats) + BARRIER;
  return (size_t)bytes;
}

/* Whether groups of `heads` query heads begin and end at the bounds of K or V heads of `group` query heads, or lie
 * within one. */
static bool heads_fit(int64_t heads, int64_t group, int64_t unit)
{
  return heads % group == 0 || group % heads == 0 || group == unit;
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

/* Chooses the warps of a multiprocessor with one Q tile. With elements of one byte, 12 were 4 to 5% faster on an H200
 * where a stage has one K and one V head and contexts are long; with five heads 11% slower. Beyond head sizes of 128
 * they have too few registers. Where more than two groups read the same K and V in stages as small, 16 were 6 to 10%
 * faster on an H100. */
static int choose_warps(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  bool two_heads = t->k_heads + t->v_heads == 2, small = t->element_bytes == 1 && t->qk <= 128 && t->v <= 128;
  if (two_heads && t->parts > 2 && t->qk <= 64 && t->v <= 64)
    return WARPS_OF_SMALL_HEADS;
  return two_heads && small && is_long(d, gpu, groups) ? WARPS_OF_SMALL_STAGES : WARPS_OF_MULTIPROCESSOR;
}

/* Warps of one Q tile each that fit. */
static bool choose_single_warps(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  for (t->warps = choose_warps(t, d, gpu, groups) / t->min_blocks; t->warps >= 1; t->warps /= 2)
    if (choose_stages(t, gpu, t->min_blocks))
      return true;
  return false;
}

/* Warps of a multiprocessor that have registers enough for a Q tile each. */
static int most_warps(const hr_decode_split *t)
{
  int dim = t->qk > t->v ? t->qk : t->v;
  if (t->wgmma)
    return dim <= 64 && t->tiles == WGMMA_ROWS / ROWS ? WARPS_OF_SMALL_STAGES : WARPS_OF_MULTIPROCESSOR;
  return dim <= 64 ? WARPS_OF_SMALL_HEADS : dim <= 128 ? WARPS_OF_SMALL_STAGES : WARPS_OF_MULTIPROCESSOR;
}

/* Teams of a warp per Q tile with the most chunks under way. */
static bool choose_teams(hr_decode_split *t, const hr_decode_gpu *gpu)
{
  hr_decode_split best = *t;
  int most = 0, team = hr_decode_team(t);
  for (t->warps = most_warps(t) / t->min_blocks / team * team; t->warps >= 1; t->warps -= team)
    if (choose_stages(t, gpu, t->min_blocks) && t->warps * (t->stages - 1) > most) {
      best = *t;
      most = t->warps * (t->stages - 1);
    }
  *t = best;
  return most > 0;
}

/* On an H200 one block of 8 warps per multiprocessor was faster than two of 4, which have twice the splits to combine;
 * two were faster where each multiprocessor gets several blocks in turn, since one streams while the other combines. */
static bool choose_buffers(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t groups = hr_decode_split_groups(t, d);
  int blocks = groups > 2 * gpu->multiprocessors ? 2 : 1;
  for (t->min_blocks = blocks; t->min_blocks >= 1; t->min_blocks--)
    if (t->tiles == 1 ? choose_single_warps(t, d, gpu, groups) : choose_teams(t, gpu))
      return true;
  return false;
}

static bool has_wgmma(const hr_decode_split *t, const hr_decode_gpu *gpu)
{
  return gpu->wgmma && t->element_bytes == 2;
}

/* Time of groups of up to `rows` rows, of which each reads the keys, all but one from the L2, in bytes that a
 * multiprocessor reads. One block adds what a group's splits left, which are as many as multiprocessors. */
static double time_of_groups(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t unit,
                             int64_t rows)
{
  int64_t passes = hr_ceil_div(unit * d->q_len, rows), units = d->batch * (d->q_heads / unit);
  int64_t splits = gpu->multiprocessors / (units * passes), key_bytes = (d->qk_dim + d->v_dim) * t->element_bytes;
  double keys = (double)(units * hr_decode_keys_read(d) * key_bytes) / (double)gpu->multiprocessors;
  double left = splits > 1 ? (double)(splits * hr_ceil_div(unit * d->q_len, passes) * t->v) * sizeof(float) : 0;
  return keys * (1 + L2_TIME * (double)(passes - 1)) + LEFT_TIME * left;
}

/* Rows of a group with WGMMA; ROWS: without. */
static int64_t wgmma_rows(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t unit)
{
  int64_t best = ROWS;
  for (int64_t rows = t->qk > 128 || t->v > 128 ? WGMMA_ROWS : GROUP_ROWS; rows >= WGMMA_ROWS; rows /= 2)
    if (time_of_groups(t, d, gpu, unit, rows) <= time_of_groups(t, d, gpu, unit, best))
      best = rows;
  return best;
}

/* Rows of a group. Without WGMMA several Q tiles read K and V once, but their products take longer than reading, and
 * combining their splits takes longer where sequences have many: on an H100 two tiles, or tiles with several K or V
 * heads, were slower than groups of one tile that read them from the L2, and so were those of few sequences. */
static int64_t rows_max(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t unit)
{
  bool one_head = unit == d->q_heads / d->k_heads && unit == d->q_heads / d->v_heads;
  bool many = d->batch * (d->q_heads / unit) * SPLITS_OF_TILES >= gpu->multiprocessors;
  if (one_head && has_wgmma(t, gpu) && unit * d->q_len > ROWS)
    return wgmma_rows(t, d, gpu, unit);
  return one_head && many && unit * d->q_len > 2 * ROWS ? GROUP_ROWS : ROWS;
}

/* Groups of `heads` of each `unit` query heads. */
static bool choose_heads(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int64_t unit, int64_t heads)
{
  int64_t k_group = d->q_heads / d->k_heads, v_group = d->q_heads / d->v_heads, rows = heads * d->q_len;
  if (rows > rows_max(t, d, gpu, unit) || !heads_fit(heads, k_group, unit) || !heads_fit(heads, v_group, unit))
    return false;
  t->unit_heads = (int)unit;
  t->parts = (int)hr_ceil_div(unit, heads);
  t->heads = (int)heads;
  t->rows = (int)rows;
  t->wgmma = rows > ROWS && has_wgmma(t, gpu);
  t->tiles = (int)(t->wgmma ? hr_ceil_div(rows, WGMMA_ROWS) * WGMMA_ROWS / ROWS : hr_ceil_div(rows, ROWS));
  t->k_heads = (int)hr_max64(1, heads / k_group);
  t->v_heads = (int)hr_max64(1, heads / v_group);
  return choose_buffers(t, d, gpu);
}

int64_t hr_decode_split_groups(const hr_decode_split *t, const hr_decode *d)
{
  /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): one head fits, so that a unit is chosen */
  return d->batch * (d->q_heads / t->unit_heads) * t->parts;
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
  int64_t blocks = hr_decode_split_blocks(t, d);
  return fit <= t->min_blocks || 2 * blocks <= gpu->multiprocessors;
}

int64_t hr_decode_split_steps(const hr_decode_split *t, const hr_decode *d)
{
  int64_t chunks = hr_ceil_div(hr_decode_keys_read(d), HR_DECODE_WARP_KEYS) + (d->window > 0);
  return hr_max64(1, hr_ceil_div(chunks, t->warps));
}

int64_t hr_decode_split_blocks(const hr_decode_split *t, const hr_decode *d)
{
  int64_t groups = hr_decode_split_groups(t, d);
  return t->shares > 0 ? groups / d->batch * t->shares : groups * t->splits;
}

/* Equal shares depend on the batch, and the kernel counts steps in 32 bits. With several Q tiles their combining costs
 * more than waves. */
static bool may_share(const hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  return gpu->shares && !d->batch_invariant && (t->tiles == 1 || t->wgmma) &&
         d->batch <= INT32_MAX / 2 / hr_decode_split_steps(t, d);
}

/* The products of 16 rows and 16 keys, with their softmax, take as long as reading TILE_BYTES and HEAD_BYTES for each
 * element of the keys' K and V. Groups that read the same K and V leave the L2 no time to spare. */
static double pace_of(const hr_decode_split *t)
{
  double bytes = (double)HR_DECODE_WARP_KEYS * (t->k_heads * t->qk + t->v_heads * t->v) * t->element_bytes;
  double products = t->tiles * (TILE_BYTES + (t->qk + t->v) * HEAD_BYTES);
  if (t->wgmma)
    return (WGMMA_TIME + WGMMA_ELEMENTS / (t->qk + t->v)) * (t->rows > WGMMA_ROWS ? WGMMA_OF_TWO : 1);
  if (t->tiles > 1)
    return products / bytes;
  return t->parts > 1 ? 1 : 0;
}

static void choose_splits(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  const hr_split_choice choice = hr_divide_keys(&(hr_split_problem){
      .groups = hr_decode_split_groups(t, d),
      .keys = hr_decode_keys_read(d),
      .key_bytes = (t->k_heads * d->qk_dim + t->v_heads * d->v_dim) * (int64_t)hr_decode_cache_bytes(d),
      .multiprocessors = gpu->multiprocessors,
      .tile = (int64_t)t->warps * HR_DECODE_WARP_KEYS,
      .blocks = t->min_blocks,
      .cluster_max = cluster_max(t, gpu),
      .rows = t->wgmma ? t->rows : 0,
      .heads = may_share(t, d, gpu) ? hr_decode_split_groups(t, d) / d->batch : 0,
      .pace = pace_of(t)});
  t->splits = (int)choice.splits;
  t->cluster = choice.cluster;
  t->shares = (int)choice.shares;
  t->shared_bytes = hr_decode_split_shared_bytes(t);
  t->lets_next = gpu->early && next_may_start(t, d, gpu);
}

/* The fewest parts of a unit that fit with this many warps. */
static bool choose_parts(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu, int warps)
{
  int64_t unit = hr_decode_units(d).q_heads;
  for (int64_t parts = 1; parts <= unit; parts++)
    if (choose_heads(t, d, gpu, unit, hr_ceil_div(unit, parts)) && t->warps * t->min_blocks >= warps)
      return true;
  return false;
}

/* A group of one unit's heads. One head fits. */
static void choose_group(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  bool one_tile = hr_decode_units(d).q_heads * d->q_len <= ROWS;
  if (one_tile || !choose_parts(t, d, gpu, WARPS_OF_PARTS))
    choose_parts(t, d, gpu, 1);
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
  int64_t heads = 2 * hr_decode_units(d).q_heads;
  if (heads * d->q_len > ROWS || !choose_heads(&two, d, gpu, heads, heads))
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
