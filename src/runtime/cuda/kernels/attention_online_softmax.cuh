/* SPDX-License-Identifier: Apache-2.0 */
/* The online softmax between Q Kᵀ and P V of attention_tiles_sm80.cuh: the K/V tiles that a Q tile sees, masks, P
 * relative to a base that follows the row maximum lazily, for one warp or a pair of warps per row, and the epilogue.
 *
 * A row is rescaled only when a score exceeds its base by RESCALE_THRESHOLD powers of two. The base cancels in the
 * softmax, so that results stay as exact. */

#define RESCALE_THRESHOLD 8

/* How far a base is above its row's maximum, so that P of all keys adds up to 1 at most and O stays within fp32. V of
 * fp16 is too small for an overflow, and P of fp16 has no room below. */
__device__ inline float above_row_max(const attention_call &call)
{
#ifdef HR_DTYPE_fp16
  return 0;
#else
  return RESCALE_THRESHOLD - call.top;
#endif
}

/* ---- the work of a thread block ---- */

/* A Q tile and the K/V tiles that its rows see. */
struct q_tile_work {
  int first_row;
  int first, end;                   /* K/V tiles that some row sees */
  int unmasked_first, unmasked_end; /* tiles of which every row sees every key */
};

__device__ inline void find_kv_tiles(const attention_call &call, const head_view &view, q_tile_work &b)
{
  key_range top = keys_of_row(call, view, b.first_row);
  key_range bottom = keys_of_row(call, view, min(b.first_row + ROWS, view.q_len) - 1);
  b.first = top.first / HR_KV_TILE;
  b.end = (bottom.end + HR_KV_TILE - 1) / HR_KV_TILE;
  b.unmasked_first = (bottom.first + HR_KV_TILE - 1) / HR_KV_TILE;
  b.unmasked_end = top.end / HR_KV_TILE;
}

/* ---- softmax ---- */

/* Row of the head of a thread's half (0: t / 4, 1: t / 4 + 8) of an M tile. */
__device__ inline int row_of(int first_row, int m_tile, int half)
{
  return first_row + row_group() * WARP_ROWS + m_tile * 16 + threadIdx.x % 32 / 4 + half * 8;
}

__device__ inline void clear_accumulators(warp_state &w)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++) {
    w.limit[i][0] = w.limit[i][1] = minus_infinity();
    w.base[i][0] = w.base[i][1] = w.row_sum[i][0] = w.row_sum[i][1] = 0;
#pragma unroll
    for (int n = 0; n < O_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.out[i][n][e] = 0;
  }
}

__device__ inline void modify_scores(const attention_call &call, const head_view &view, warp_state &w, int first_row,
                                     int first_key)
{
#ifdef HR_SCORE_MOD
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int n = 0; n < S_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.scores[i][n][e] = modify_score(call, view, w.scores[i][n][e], row_of(first_row, i, e / 2),
                                         first_key + n * 8 + threadIdx.x % 4 * 2 + e % 2);
#endif
}

/* Scores of keys that a row does not see become −∞. */
__device__ inline void mask_scores(const attention_call &call, const head_view &view, warp_state &w, int first_row,
                                   int first_key)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      key_range keys = keys_of_row(call, view, row_of(first_row, i, half));
      int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < S_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (n * 8 + e < first || n * 8 + e >= end)
            w.scores[i][n][half * 2 + e] = minus_infinity();
    }
}

/* The largest of a thread's scores of a row. */
__device__ inline float thread_max(const warp_state &w, int i, int half)
{
  float row_max = minus_infinity();
#pragma unroll
  for (int n = 0; n < S_TILES; n++)
    row_max = fmaxf(row_max, fmaxf(w.scores[i][n][half * 2], w.scores[i][n][half * 2 + 1]));
  return row_max;
}

/* Over the quad, the four threads that share a row. */
__device__ inline float quad_max(float row_max)
{
  row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 1));
  return fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 2));
}

__device__ inline float quad_sum(float sum)
{
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  return sum + __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
}

/* Rescales the row sum and O to a new base, the row maximum, if the row exceeds its limit. */
__device__ inline void rescale_row(warp_state &w, int i, int half, float row_max, float factor, float above)
{
  bool first = w.limit[i][half] == minus_infinity(), exceeded = row_max > w.limit[i][half];
  float base = exceeded ? base_of_row(row_max, factor, above) : w.base[i][half];
  float rescale = first ? 0 : exp2_approx(w.base[i][half] - base);
  rescale = exceeded ? rescale : 1;
  w.base[i][half] = base;
  w.limit[i][half] = exceeded ? limit_of_row(row_max, base, factor, RESCALE_THRESHOLD) : w.limit[i][half];
  w.row_sum[i][half] *= rescale;
#pragma unroll
  for (int n = 0; n < O_TILES; n++) {
    w.out[i][n][half * 2] *= rescale;
    w.out[i][n][half * 2 + 1] *= rescale;
  }
}

/* The largest of a thread's own scores of each row; true if one exceeds its row's limit. */
__device__ inline bool find_row_max(const warp_state &w, float (&row_max)[HR_M_TILES][2])
{
  bool exceeded = false;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      row_max[i][half] = thread_max(w, i, half);
      exceeded |= row_max[i][half] > w.limit[i][half];
    }
  return exceeded;
}

/* Rescales rows with scores above their limit. Each thread compares its own scores; rows are reduced over the quad only
 * if a thread of the warp found one. */
__device__ inline void rescale_rows(warp_state &w, float factor, float above)
{
  float row_max[HR_M_TILES][2];
  if (!__any_sync(0xFFFFFFFFu, find_row_max(w, row_max)))
    return;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      rescale_row(w, i, half, quad_max(row_max[i][half]), factor, above);
}

/* P = 2^(factor · score − base) for the keys of a step. */
__device__ inline void exponentiate(warp_state &w, float factor, int step)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++) {
    float p[MMA_K / 8][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = 0, of_row = factor_of_row(w.base[i][half], factor);
#pragma unroll
      for (int n = 0; n < MMA_K / 8; n++)
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; e++) {
          p[n][e] = exp2_approx(fmaf(w.scores[i][step * MMA_K / 8 + n][e], of_row, -w.base[i][half]));
          sum += p[n][e];
        }
      w.row_sum[i][half] += sum;
    }
    convert_p(w.p[step][i], p);
  }
}

/* ---- pairs of warps that share rows (HR_ROW_WARPS 2) ---- */

__device__ inline uint4 *shared_p_of(int warp)
{
  return (uint4 *)(shared + EXCHANGE_AT) + (warp * PV_STEPS * HR_M_TILES * 32 + threadIdx.x % 32);
}

/* One float per row, for each warp. */
__device__ inline float *shared_rows_of(int warp)
{
  return (float *)(shared_p_of(HR_WARPS) - threadIdx.x % 32) + warp * WARP_ROWS;
}

/* Exchanges a value per row (row maximum or row sum) with the other warp of the pair. Every warp of the block calls it,
 * and there has to be another barrier before the next call. */
__device__ inline void exchange_rows(const float (&own)[HR_M_TILES][2], float (&other)[HR_M_TILES][2])
{
  int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (threadIdx.x % 4 == 0)
        shared_rows_of(warp)[i * 16 + half * 8 + row] = own[i][half];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      other[i][half] = shared_rows_of(warp ^ 1)[i * 16 + half * 8 + row];
}

__device__ inline void rescale_rows_of_pair(warp_state &w, float factor, float above)
{
  float own[HR_M_TILES][2], other[HR_M_TILES][2];
  find_row_max(w, own);
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      own[i][half] = quad_max(own[i][half]);
  exchange_rows(own, other);
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      rescale_row(w, i, half, fmaxf(own[i][half], other[i][half]), factor, above);
}

/* P of this warp's keys, in registers and in shared memory for the other warp. */
__device__ inline void exponentiate_and_share(warp_state &w, float factor)
{
  uint4 *to = shared_p_of(threadIdx.x / 32);
#pragma unroll
  for (int s = 0; s < PV_STEPS; s++) {
    exponentiate(w, factor, s);
#pragma unroll
    for (int i = 0; i < HR_M_TILES; i++) {
      const unsigned(&x)[4] = w.p[s][i];
      to[(s * HR_M_TILES + i) * 32] = make_uint4(x[0], x[1], x[2], x[3]);
    }
  }
}

__device__ inline void load_partner_p(unsigned (&to)[HR_M_TILES][4], int step)
{
  const uint4 *from = shared_p_of(threadIdx.x / 32 ^ 1);
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++) {
    uint4 x = from[(step * HR_M_TILES + i) * 32];
    to[i][0] = x.x, to[i][1] = x.y, to[i][2] = x.z, to[i][3] = x.w;
  }
}

/* P of the tile for both warps of the pair; V has arrived, too. Rows exceed their limits so seldom that P is computed
 * first, and again if one did. */
__device__ inline void softmax_of_pair(warp_state &w, float factor, float above, bool first)
{
  float row_max[HR_M_TILES][2], before[HR_M_TILES][2];
  if (first)
    rescale_rows_of_pair(w, factor, above);
  bool exceeded = find_row_max(w, row_max);
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
    before[i][0] = w.row_sum[i][0], before[i][1] = w.row_sum[i][1];
  exponentiate_and_share(w, factor);
  cp_async_wait<0>();
  if (!__syncthreads_or(exceeded))
    return;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
    w.row_sum[i][0] = before[i][0], w.row_sum[i][1] = before[i][1];
  rescale_rows_of_pair(w, factor, above);
  exponentiate_and_share(w, factor);
  __syncthreads();
}

/* ---- epilogue ---- */

/* Divides O by the row sum. A row without keys is 0, even if V has NaN; a row whose every score is −∞ is NaN. */
__device__ inline void normalize_row(const attention_call &call, const head_view &view, warp_state &w, int i, int half,
                                     int row)
{
  float sum = w.row_sum[i][half];
  key_range keys = keys_of_row(call, view, row);
  bool nothing = keys.first >= keys.end;
  float inverse = 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int n = 0; n < O_TILES; n++)
#pragma unroll
    for (int e = half * 2; e < half * 2 + 2; e++)
      w.out[i][n][e] = nothing ? 0 : w.out[i][n][e] * inverse;
  if (view.lse && row < view.q_len && threadIdx.x % 4 == 0 && warp_in_group() == 0)
    view.lse[row * call.lse_at.row] = (exponent_of_base(w.base[i][half], softmax_factor(call)) + log2f(sum)) * LN_2;
}

/* Stores a warp's part of O through its part of the tile that held Q. */
__device__ inline void store_o(const attention_call &call, const head_view &view, const warp_state &w, int first_row)
{
  constexpr int WIDTH = HR_V / HR_ROW_WARPS;
  int team_row = row_group() * WARP_ROWS, left = warp_in_group() * WIDTH, lane = threadIdx.x % 32;
  element *tile = shared + team_row * (Q_SIZE / ROWS) + left;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      stage_o(w, tile + (i * 16 + half * 8 + lane / 4) * PITCH(HR_V), i, half);
  __syncwarp();
  int rows = min(WARP_ROWS, view.q_len - first_row - team_row), columns = min(WIDTH, call.v_dim - left);
  element *to = view.o + (int64)(first_row + team_row) * call.o_at.row + left;
#ifdef HR_ALIGNED
  constexpr int LANES = WIDTH % (16 * CHUNK) == 0 ? 16 : lanes_per_row(WIDTH / CHUNK), AT_ONCE = 32 / LANES;
  int first = lane / LANES, column = lane % LANES * CHUNK;
  tile += first * PITCH(HR_V) + column;
  to += first * call.o_at.row + column;
#pragma unroll
  for (int i = 0; i < WARP_ROWS; i += AT_ONCE, to += AT_ONCE * call.o_at.row)
#pragma unroll
    for (int c = 0; c < WIDTH; c += LANES * CHUNK)
      if (first + i < rows && column + c < columns)
        *(uint4 *)(to + c) = *(const uint4 *)(tile + i * PITCH(HR_V) + c);
#else
#pragma unroll 1
  for (int row = 0; row < rows; row++)
    for (int column = lane; column < columns; column += 32)
      to[row * call.o_at.row + column] = tile[row * PITCH(HR_V) + column];
#endif
}

__device__ inline void epilogue(const attention_call &call, const head_view &view, warp_state &w, int first_row)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      w.row_sum[i][half] = quad_sum(w.row_sum[i][half]);
  if constexpr (HR_ROW_WARPS > 1) {
    float other[HR_M_TILES][2];
    exchange_rows(w.row_sum, other);
#pragma unroll
    for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        w.row_sum[i][half] += other[i][half];
  }
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      normalize_row(call, view, w, i, half, row_of(first_row, i, half));
  store_o(call, view, w, first_row);
}
