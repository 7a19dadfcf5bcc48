/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles and splits of kernels/decode_split.cu. */
#include "base/checked.h"
#include "runtime/cuda/decode/decode.h"
#include "shape/split_keys.h"

#include <inttypes.h>
#include <stdio.h>

#define WARPS_OF_MULTIPROCESSOR 8
#define WARPS_OF_SMALL_STAGES 12
#define LONG_KEYS 1024 /* of a multiprocessor */
#define STAGES_MOST 3
#define PIECE_BYTES 256         /* of a token's K or V heads that a group reads, at least, if it is long */
#define PIECE_BYTES_OF_MANY 512 /* the same where multiprocessors have more than two groups each */
#define RESERVED_BYTES 1024     /* of shared memory, that each block takes in addition */

_Static_assert(HR_SPLITS_MOST == HR_DECODE_SPLITS_MOST, "the kernel has room for the splits");

static size_t shared_bytes(const hr_decode_split *t)
{
  return (size_t)hr_decode_layout_of(t->qk, t->v, t->rows, t->k_heads, t->v_heads, t->warps, t->stages, t->cluster,
                                     t->element_bytes, t->token_scales)
      .bytes;
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
  for (t->stages = STAGES_MOST; t->stages >= 2; t->stages--) {
    t->shared_bytes = shared_bytes(t);
    if (t->shared_bytes <= room && t->shared_bytes <= gpu->shared_most)
      return true;
  }
  return false;
}

static bool is_long(const hr_decode *d, const hr_decode_gpu *gpu, int64_t groups)
{
  return (double)groups * (double)d->kv_len >= (double)LONG_KEYS * (double)gpu->multiprocessors;
}

/* Of a multiprocessor. With elements of one byte, 12 were 4 to 5% faster on an H200 where a stage has one K and one V
 * head and contexts are long; with five heads 11% slower. Beyond head sizes of 128 they have too few registers. */
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
  if (heads * d->q_len > HR_DECODE_ROWS || !heads_fit(heads, k_group) || !heads_fit(heads, v_group))
    return false;
  t->heads = (int)heads;
  t->rows = (int)(heads * d->q_len);
  t->k_heads = (int)hr_max64(1, heads / k_group);
  t->v_heads = (int)hr_max64(1, heads / v_group);
  return choose_buffers(t, d, gpu, d->batch * d->q_heads / heads);
}

/* The largest cluster whose blocks have room for what the others send. */
static int cluster_most(const hr_decode_split *t, const hr_decode_gpu *gpu)
{
  hr_decode_split clustered = *t;
  for (clustered.cluster = gpu->cluster_most; clustered.cluster > 1; clustered.cluster /= 2) {
    if (shared_bytes(&clustered) <= gpu->shared_most)
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
  hr_key_range range = hr_decode_range(d, d->kv_len);
  const hr_split_choice choice = hr_divide_keys(&(hr_split_problem){
      .groups = d->batch * d->q_heads / t->heads,
      .keys = range.end - range.first,
      .key_bytes = (t->k_heads * d->qk_dim + t->v_heads * d->v_dim) * (int64_t)hr_decode_cache_bytes(d),
      .multiprocessors = gpu->multiprocessors,
      .tile = (int64_t)t->warps * HR_DECODE_KEYS,
      .blocks = t->min_blocks,
      .cluster_most = cluster_most(t, gpu)});
  t->splits = (int)choice.splits;
  t->cluster = choice.cluster;
  t->shared_bytes = shared_bytes(t);
  t->lets_next = gpu->early && next_may_start(t, d, gpu);
}

/* The largest group of one unit that fits. */
static void choose_group(hr_decode_split *t, const hr_decode *d, const hr_decode_gpu *gpu)
{
  int64_t unit = hr_decode_units(d).q_heads, heads = hr_min64(unit, HR_DECODE_ROWS);
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

const char *hr_decode_cache_define(const hr_decode *d)
{
  static const char *const defines[HR_KV_FORMAT_COUNT] = {"", " HR_CACHE_FP8", " HR_CACHE_INT8"};
  return defines[d->cache_format];
}

void hr_decode_split_defines(const hr_decode_split *t, const hr_decode *d, int copy_bytes, char text[HR_DEFINES_SIZE])
{
  const char *aligned = copy_bytes == 16  ? " HR_ALIGNED HR_COPY_BYTES=16"
                        : copy_bytes == 4 ? " HR_ALIGNED HR_COPY_BYTES=4"
                                          : "";
  bool in_page = d->page_size % HR_DECODE_KEYS == 0 || d->table_pitch == 1;
  snprintf(text, HR_DEFINES_SIZE,
           "HR_Q_LEN=%d HR_HEADS=%d HR_QK=%d HR_V=%d HR_K_HEADS=%d HR_V_HEADS=%d HR_K_GROUP=%d HR_V_GROUP=%d "
           "HR_WARPS=%d HR_STAGES=%d HR_MIN_BLOCKS=%d HR_CLUSTER=%d HR_PAGE_SIZE=%" PRId64 "%s%s%s%s%s%s%s%s",
           (int)d->q_len, t->heads, t->qk, t->v, t->k_heads, t->v_heads, (int)(d->q_heads / d->k_heads),
           (int)(d->q_heads / d->v_heads), t->warps, t->stages, t->min_blocks, t->cluster,
           d->table_pitch == 1 ? 0 : hr_min64(d->page_size, INT64_C(1) << 30), t->early ? " HR_EARLY" : "",
           t->lets_next ? " HR_LETS_NEXT" : "", d->softcap > 0 ? " HR_SOFTCAP" : "", aligned,
           in_page ? " HR_CHUNK_IN_PAGE" : "", t->apart ? " HR_APART" : "", hr_decode_cache_define(d),
           t->token_scales ? " HR_TOKEN_SCALES" : "");
}
