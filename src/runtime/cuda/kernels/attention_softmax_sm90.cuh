/* SPDX-License-Identifier: Apache-2.0 */
/* Between the WGMMAs of attention_flash_sm90.cu: what a consumer thread keeps, the K/V tiles that its warpgroup sees, masks, and the
 * online softmax.
 *
 * A row is rescaled only when a score exceeds its base by RESCALE_THRESHOLD powers of two, which is seldom after the first tiles. The
 * base cancels in the softmax, so that results stay as exact. */

#define RESCALE_THRESHOLD 8

/* A thread's registers, its share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16, of every 8 columns 2 (t % 4) and the next. */
struct consumer_state {
  float scores[HR_KV_TILE / 2], out[HR_V / 2];
  unsigned p[HR_KV_TILE / 4]; /* P in pairs of 16 bits */
  float base[2], limit[2]; /* of a row: P = 2^(factor · S − base); the score above which the base moves */
  float row_sum[2], rescale[2];
  bool rescales;   /* a row of the warp has a new base: O of earlier tiles is multiplied by `rescale` */
  int group;       /* consumer warpgroup of the team, from 0 */
  unsigned memory; /* of the team */
};

/* A consumer's part of a work item: its first row, K/V tiles that some row sees, tiles of which every row sees every key. */
struct row_span {
  int first_row, first_tile, end_tile, first_unmasked, end_unmasked;
  float slope; /* of ALiBi, with HR_SCORE_MOD */
};

/* ---- rows, masks ---- */

__device__ inline int row_of(const row_span &sp, int half)
{
  return sp.first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* A consumer's part of a work item. */
__device__ inline row_span span_of(const attention_call &call, const consumer_state &c, const work_item &item)
{
  row_span sp;
  sp.first_row = item.first_row + block_row() + c.group * 64;
  tile_range tiles = kv_tiles_of_rows(call, item, sp.first_row, 64);
  head_view view = lengths_of(item);
  sp.first_tile = tiles.first;
  sp.end_tile = tiles.end;
  sp.first_unmasked = (keys_of_row(call, view, sp.first_row + 63).first + HR_KV_TILE - 1) / HR_KV_TILE;
  sp.end_unmasked = keys_of_row(call, view, sp.first_row).end / HR_KV_TILE;
#ifdef HR_SCORE_MOD
  sp.slope = call.slopes ? call.slopes[item.head] : 0;
#endif
  return sp;
}

/* Soft cap and ALiBi, as in modify_score(). */
__device__ inline void modify_scores(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                                     int tile)
{
#ifdef HR_SCORE_MOD
  int first_key = tile * HR_KV_TILE + threadIdx.x % 4 * 2 - (item.kv_len - item.q_len);
  float softcap = call.softcap, inverse = 1 / softcap;
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 2; i++) {
    float compute_scores = c.scores[i] * call.scale;
    if (softcap > 0)
      compute_scores = softcap * tanh_approx(compute_scores * inverse);
    c.scores[i] = compute_scores + sp.slope * (float)(first_key + i / 4 * 8 + i % 2 - row_of(sp, i / 2 % 2));
  }
#endif
}

/* Scores of keys that a row does not see become −∞; skipped if every row of the warpgroup sees every key of the tile. */
__device__ inline void mask_scores(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                                   int tile)
{
  if (tile >= sp.first_unmasked && tile < sp.end_unmasked)
    return;
  int first_key = tile * HR_KV_TILE;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_row(call, lengths_of(item), row_of(sp, half));
    int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (n * 8 + e < first || n * 8 + e >= end)
          c.scores[n * 4 + half * 2 + e] = minus_infinity();
  }
}

/* ---- online softmax ---- */

__device__ inline void clear_accumulators(consumer_state &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] = 0;
  c.limit[0] = c.limit[1] = minus_infinity();
  c.base[0] = c.base[1] = 0;
  c.row_sum[0] = c.row_sum[1] = 0;
}

/* The largest of a thread's own scores of each row; true if one exceeds its row's limit. */
__device__ inline bool find_row_max(const consumer_state &c, float (&row_max)[2])
{
  bool exceeded = false;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    row_max[half] = fmaxf(c.scores[half * 2], c.scores[half * 2 + 1]);
#pragma unroll
    for (int n = 1; n < HR_KV_TILE / 8; n++)
      row_max[half] = fmaxf(row_max[half], fmaxf(c.scores[n * 4 + half * 2], c.scores[n * 4 + half * 2 + 1]));
    exceeded |= row_max[half] > c.limit[half];
  }
  return exceeded;
}

/* Moves a row's base to its maximum if a score exceeds the limit. */
__device__ inline void move_base(consumer_state &c, int half, float row_max, float factor)
{
  row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 1));
  row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 2));
  bool first = c.limit[half] == minus_infinity(), exceeded = row_max > c.limit[half];
  float before = c.base[half];
  c.base[half] = exceeded ? row_max * factor : before;
  c.limit[half] = exceeded ? row_max + RESCALE_THRESHOLD / factor : c.limit[half];
  c.rescale[half] = first ? 0 : exp2_approx(before - c.base[half]);
  c.row_sum[half] *= c.rescale[half];
}

/* P, row sums, and the factor of earlier tiles' O if a base moves. */
__device__ inline void online_softmax(consumer_state &c, float factor)
{
  float row_max[2];
  c.rescales = __any_sync(0xFFFFFFFFu, find_row_max(c, row_max));
  if (c.rescales) {
    move_base(c, 0, row_max[0], factor);
    move_base(c, 1, row_max[1], factor);
  }
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float weight = exp2_approx(c.scores[n * 4 + half * 2 + e] * factor - c.base[half]);
        c.scores[n * 4 + half * 2 + e] = weight;
        c.row_sum[half] += weight;
      }
}

/* P as the A operand of P V. */
__device__ inline void convert_p(consumer_state &c)
{
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 4; i++)
    c.p[i] = pack_pair(c.scores[2 * i], c.scores[2 * i + 1]);
}

__device__ inline void rescale_out(consumer_state &c)
{
  if (!c.rescales)
    return;
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] *= c.rescale[i / 2 % 2];
}
