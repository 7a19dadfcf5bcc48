/* SPDX-License-Identifier: Apache-2.0 */
/* Between the WGMMAs of attention_flash_sm90.cu: what a consumer thread keeps, the K/V tiles that its warpgroup sees,
 * masks, and the online softmax.
 *
 * A row is rescaled only when a score exceeds its base by RESCALE_THRESHOLD powers of two, which is seldom after the
 * first tiles. The base cancels in the softmax, so that results stay as exact.
 *
 * fp8: P of the score that set the base is 2^7, a number of the format, as it is most of the row sum where a few keys
 * decide. P ends at 2^8.75 = 431, below 448, and is a normal number down to 2^-13 of that of the base. */

#ifdef HR_DTYPE_fp8
#define RESCALE_THRESHOLD 1.75f
#else
#define RESCALE_THRESHOLD 8
#endif
#define P_WORDS (HR_KV_TILE / 8 * (int)sizeof(element)) /* of a thread */

/* A thread's registers, its share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16, of every 8 columns 2 (t % 4)
 * and the next. */
struct consumer_state {
  float scores[HR_KV_TILE / 2], out[HR_V / 2];
  unsigned p[P_WORDS];     /* P as the A operand of P V */
  float base[2], limit[2]; /* of a row: P = 2^(factor · S − base); the score above which the base moves */
  float row_sum[2], rescale[2];
  bool rescales;   /* a row of the warp has a new base: O of earlier tiles is multiplied by `rescale` */
  int group;       /* consumer warpgroup of the team, from 0 */
  unsigned memory; /* of the team */
};

/* A consumer's part of a work item: its first row, K/V tiles that some row sees, tiles of which every row sees every
 * key. */
struct row_span {
  int first_row, first_tile, end_tile, first_unmasked, end_unmasked;
  float slope;                  /* of ALiBi, with HR_SCORE_MOD */
  float score_scale, out_scale; /* of the head's operands, with HR_HEAD_SCALES: of Q and K, of V */
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
  head_view view = lengths_of(call, item);
  sp.first_tile = tiles.first;
  sp.end_tile = tiles.end;
  sp.first_unmasked = (keys_of_row(call, view, sp.first_row + 63).first + HR_KV_TILE - 1) / HR_KV_TILE;
  sp.end_unmasked = keys_of_row(call, view, sp.first_row).end / HR_KV_TILE;
#ifdef HR_FIRST_KEYS /* from memory; a warpgroup that skips more tiles than are loaded would wait forever */
  sp.first_tile = uniform(LARGER(sp.first_tile, item.first_tile));
  sp.first_unmasked = uniform(sp.first_unmasked);
#endif
#ifdef HR_SCORE_MOD
  sp.slope = call.slopes ? call.slopes[item.head] : 0;
#endif
#ifdef HR_HEAD_SCALES
  sp.score_scale = call.q_scales[item.head] * call.k_scales[item.head / call.k_group];
  sp.out_scale = call.v_scales[item.head / call.v_group];
#else
  sp.score_scale = sp.out_scale = 1;
#endif
  return sp;
}

/* Soft cap and ALiBi, as in modify_score(). */
__device__ inline void modify_scores(const attention_call &call, const work_item &item, const row_span &sp,
                                     consumer_state &c, int tile)
{
#ifdef HR_SCORE_MOD
  int first_key = tile * HR_KV_TILE + threadIdx.x % 4 * 2 - (item.kv_len - item.q_len);
  float softcap = call.softcap, inverse = 1 / softcap;
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 2; i++) {
    float score = c.scores[i] * (call.scale * sp.score_scale);
    if (softcap > 0)
      score = softcap * tanh_approx(score * inverse);
    c.scores[i] = score + sp.slope * (float)(first_key + i / 4 * 8 + i % 2 - row_of(sp, i / 2 % 2));
  }
#endif
}

/* Scores of keys that a row does not see become −∞; skipped if every row of the warpgroup sees every key of the
 * tile. */
__device__ inline void mask_scores(const attention_call &call, const work_item &item, const row_span &sp,
                                   consumer_state &c, int tile)
{
  if (tile >= sp.first_unmasked && tile < sp.end_unmasked)
    return;
  int first_key = tile * HR_KV_TILE;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_row(call, lengths_of(call, item), row_of(sp, half));
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

/* How far a base is above its row's maximum. bf16: so far that P of all keys adds up to 1 at most and O stays within
 * fp32. */
__device__ inline float above_row_max(const attention_call &call)
{
#if defined(HR_DTYPE_fp8)
  return -7;
#elif defined(HR_DTYPE_bf16)
  return RESCALE_THRESHOLD - call.top;
#else
  return 0;
#endif
}

/* Moves a row's base to its maximum if a score exceeds the limit. */
__device__ inline void move_base(consumer_state &c, int half, float row_max, float factor, float above)
{
  row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 1));
  row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 2));
  bool first = c.limit[half] == minus_infinity(), exceeded = row_max > c.limit[half];
  float before = c.base[half];
  c.base[half] = exceeded ? base_of_row(row_max, factor, above) : before;
  c.limit[half] = exceeded ? limit_of_row(row_max, c.base[half], factor, RESCALE_THRESHOLD) : c.limit[half];
  c.rescale[half] = first ? 0 : exp2_approx(before - c.base[half]);
  c.row_sum[half] *= c.rescale[half];
}

/* P, row sums, and the factor of earlier tiles' O if a base moves. */
__device__ inline void online_softmax(consumer_state &c, float factor, float above)
{
  float row_max[2];
  c.rescales = __any_sync(0xFFFFFFFFu, find_row_max(c, row_max));
  if (c.rescales) {
    move_base(c, 0, row_max[0], factor, above);
    move_base(c, 1, row_max[1], factor, above);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float of_row = factor_of_row(c.base[half], factor);
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float weight = exp2_approx(fmaf(c.scores[n * 4 + half * 2 + e], of_row, -c.base[half]));
        c.scores[n * 4 + half * 2 + e] = weight;
        c.row_sum[half] += weight;
      }
  }
}

/* P as the A operand of P V. fp8: word i of four has columns 4 (t % 4) … + 3, of 16 from 16 (i / 2) on, of row half i %
 * 2; these columns stand for the keys of scores that the thread has (attention_layout.h). */
__device__ inline void convert_p(consumer_state &c)
{
#ifdef HR_DTYPE_fp8
#pragma unroll
  for (int i = 0; i < P_WORDS; i++) {
    const float *from = c.scores + i / 2 * 8 + i % 2 * 2;
    const float four[4] = {from[0], from[1], from[4], from[5]};
    c.p[i] = word_of(four);
  }
#else
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 4; i++)
    c.p[i] = pack_pair(c.scores[2 * i], c.scores[2 * i + 1]);
#endif
}

__device__ inline void rescale_out(consumer_state &c)
{
  if (!c.rescales)
    return;
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] *= c.rescale[i / 2 % 2];
}
