/* The online softmax between the products of attention_tiles.cuh: which tiles of keys a block of rows sees, masks, weights
 * relative to a base that rises where a row outgrows it, by each warp alone or by the two of a team, and the end of a row. */

/* A score may exceed what weights are relative to by this many powers of two, so that sums are seldom corrected. */
#define HEADROOM 8

/* ---- what a block works on ---- */

/* A block's rows and the tiles of keys that they see. */
struct row_block {
  int first_row;
  int first, end;             /* tiles that some row sees */
  int whole_first, whole_end; /* of which every row sees every key */
};

__device__ inline void find_tiles(const attention_call &call, const head_view &view, row_block &b)
{
  key_range top = keys_of_row(call, view, b.first_row);
  key_range bottom = keys_of_row(call, view, min(b.first_row + ROWS, view.q_len) - 1);
  b.first = top.first / HR_COLUMNS;
  b.end = (bottom.end + HR_COLUMNS - 1) / HR_COLUMNS;
  b.whole_first = (bottom.first + HR_COLUMNS - 1) / HR_COLUMNS;
  b.whole_end = top.end / HR_COLUMNS;
}

/* ---- softmax ---- */

/* Row of the head that a thread's half (0: t / 4, 1: t / 4 + 8) of a row tile is. */
__device__ inline int row_of(int first_row, int row_tile, int half)
{
  return first_row + team() * TEAM_ROWS + row_tile * 16 + threadIdx.x % 32 / 4 + half * 8;
}

__device__ inline void clear_sums(warp_state &w)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    w.limit[i][0] = w.limit[i][1] = minus_infinity();
    w.base[i][0] = w.base[i][1] = w.sum[i][0] = w.sum[i][1] = 0;
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.out[i][n][e] = 0;
  }
}

__device__ inline void modify_scores(const attention_call &call, const head_view &view, warp_state &w, int first_row,
                                     int first_key)
{
#ifdef HR_MODIFIED
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int n = 0; n < SCORE_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.scores[i][n][e] = modify_score(call, view, w.scores[i][n][e], row_of(first_row, i, e / 2),
                                         first_key + n * 8 + threadIdx.x % 4 * 2 + e % 2);
#endif
}

/* −∞ where a row does not see a key. */
__device__ inline void mask_scores(const attention_call &call, const head_view &view, warp_state &w, int first_row,
                                   int first_key)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      key_range keys = keys_of_row(call, view, row_of(first_row, i, half));
      int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
      for (int n = 0; n < SCORE_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (n * 8 + e < first || n * 8 + e >= end)
            w.scores[i][n][half * 2 + e] = minus_infinity();
    }
}

/* Largest score of a thread's part of a row. */
__device__ inline float largest_of(const warp_state &w, int i, int half)
{
  float largest = minus_infinity();
#pragma unroll
  for (int n = 0; n < SCORE_TILES; n++)
    largest = fmaxf(largest, fmaxf(w.scores[i][n][half * 2], w.scores[i][n][half * 2 + 1]));
  return largest;
}

/* Of the four threads that share a row. */
__device__ inline float largest_of_four(float largest)
{
  largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
}

__device__ inline float sum_of_four(float sum)
{
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  return sum + __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
}

/* Moves the base of one row to its largest score so far, and sum and O with it. */
__device__ inline void raise_base(warp_state &w, int i, int half, float largest, float factor)
{
  bool first = w.limit[i][half] == minus_infinity(), outgrown = largest > w.limit[i][half];
  float base = outgrown ? largest * factor : w.base[i][half];
  float correction = first ? 0 : power_of_two(w.base[i][half] - base);
  correction = outgrown ? correction : 1;
  w.base[i][half] = base;
  w.limit[i][half] = outgrown ? largest + HEADROOM / factor : w.limit[i][half];
  w.sum[i][half] *= correction;
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++) {
    w.out[i][n][half * 2] *= correction;
    w.out[i][n][half * 2 + 1] *= correction;
  }
}

/* Of a thread's own scores: the largest of each row, and whether one lies above its row's limit. */
__device__ inline bool look_at_scores(const warp_state &w, float (&largest)[HR_ROW_TILES][2])
{
  bool outgrown = false;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      largest[i][half] = largest_of(w, i, half);
      outgrown |= largest[i][half] > w.limit[i][half];
    }
  return outgrown;
}

/* Sees to it that no score lies above its row's limit, which seldom takes more than to look: what a thread's own scores
 * show is enough for that. */
__device__ inline void raise_bases(warp_state &w, float factor)
{
  float largest[HR_ROW_TILES][2];
  if (!__any_sync(0xFFFFFFFFu, look_at_scores(w, largest)))
    return;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      raise_base(w, i, half, largest_of_four(largest[i][half]), factor);
}

/* Scores of a step's keys become weights 2^(factor · score − base). */
__device__ inline void weigh(warp_state &w, float factor, int step)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    float weights[STEP / 8][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = 0;
#pragma unroll
      for (int n = 0; n < STEP / 8; n++)
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; e++) {
          weights[n][e] = power_of_two(fmaf(w.scores[i][step * STEP / 8 + n][e], factor, -w.base[i][half]));
          sum += weights[n][e];
        }
      w.sum[i][half] += sum;
    }
    keep_weights(w.weights[step][i], weights);
  }
}

/* ---- teams of two warps ---- */

__device__ inline uint4 *weights_of(int warp)
{
  return (uint4 *)(shared + Q_SIZE + HR_STAGES * (K_SIZE + V_SIZE)) + (warp * KEY_STEPS * HR_ROW_TILES * 32 + threadIdx.x % 32);
}

/* A number a row of each warp. */
__device__ inline float *rows_of(int warp) { return (float *)(weights_of(HR_WARPS) - threadIdx.x % 32) + warp * TEAM_ROWS; }

/* From all of a team, what the threads of a row have in common: its largest score or its sum. Every warp of the block must
 * come along, and meet again before the next time. */
__device__ inline void exchange_rows(const float (&own)[HR_ROW_TILES][2], float (&other)[HR_ROW_TILES][2])
{
  int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (threadIdx.x % 4 == 0)
        rows_of(warp)[i * 16 + half * 8 + row] = own[i][half];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      other[i][half] = rows_of(warp ^ 1)[i * 16 + half * 8 + row];
}

__device__ inline void raise_bases_together(warp_state &w, float factor)
{
  float own[HR_ROW_TILES][2], other[HR_ROW_TILES][2];
  look_at_scores(w, own);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      own[i][half] = largest_of_four(own[i][half]);
  exchange_rows(own, other);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      raise_base(w, i, half, fmaxf(own[i][half], other[i][half]), factor);
}

/* Weights of all keys of this warp, also for the other one. */
__device__ inline void weigh_and_give(warp_state &w, float factor)
{
  uint4 *to = weights_of(threadIdx.x / 32);
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    weigh(w, factor, s);
#pragma unroll
    for (int i = 0; i < HR_ROW_TILES; i++) {
      const unsigned (&x)[4] = w.weights[s][i];
      to[(s * HR_ROW_TILES + i) * 32] = make_uint4(x[0], x[1], x[2], x[3]);
    }
  }
}

__device__ inline void take_weights(unsigned (&to)[HR_ROW_TILES][4], int step)
{
  const uint4 *from = weights_of(threadIdx.x / 32 ^ 1);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    uint4 x = from[(step * HR_ROW_TILES + i) * 32];
    to[i][0] = x.x, to[i][1] = x.y, to[i][2] = x.z, to[i][3] = x.w;
  }
}

/* Weights of the tile, which both warps of a team then have, and V is there then. Rows outgrow their bases so seldom that
 * weights are made first, and again where one did. */
__device__ inline void weigh_together(warp_state &w, float factor, bool first)
{
  float largest[HR_ROW_TILES][2], before[HR_ROW_TILES][2];
  if (first)
    raise_bases_together(w, factor);
  bool outgrown = look_at_scores(w, largest);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
    before[i][0] = w.sum[i][0], before[i][1] = w.sum[i][1];
  weigh_and_give(w, factor);
  copies_wait<0>();
  if (!__syncthreads_or(outgrown))
    return;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
    w.sum[i][0] = before[i][0], w.sum[i][1] = before[i][1];
  raise_bases_together(w, factor);
  weigh_and_give(w, factor);
  __syncthreads();
}

/* ---- the end of a row ---- */

/* Divides by the sum of weights. A row without keys is 0, whatever its tiles made of NaN in V; one whose every score is −∞ is
 * NaN. */
__device__ inline void finish_row(const attention_call &call, const head_view &view, warp_state &w, int i, int half,
                                  int row)
{
  float sum = w.sum[i][half];
  key_range keys = keys_of_row(call, view, row);
  bool nothing = keys.first >= keys.end;
  float inverse = 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
    for (int e = half * 2; e < half * 2 + 2; e++)
      w.out[i][n][e] = nothing ? 0 : w.out[i][n][e] * inverse;
  if (view.lse && row < view.q_len && threadIdx.x % 4 == 0 && member() == 0)
    view.lse[row * call.lse_at.row] = (w.base[i][half] + log2f(sum)) * LN_2;
}

/* What a warp has of O, through its part of the tile that held Q. */
__device__ inline void store_out(const attention_call &call, const head_view &view, const warp_state &w, int first_row)
{
  constexpr int WIDTH = HR_V / HR_TEAM;
  int team_row = team() * TEAM_ROWS, left = member() * WIDTH, lane = threadIdx.x % 32;
  element *tile = shared + team_row * (Q_SIZE / ROWS) + left;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      stage_out(w, tile + (i * 16 + half * 8 + lane / 4) * PITCH(HR_V), i, half);
  __syncwarp();
  int rows = min(TEAM_ROWS, view.q_len - first_row - team_row), columns = min(WIDTH, call.v_dim - left);
  element *to = view.o + (int64)(first_row + team_row) * call.o_at.row + left;
#ifdef HR_ALIGNED
  constexpr int LANES = WIDTH % (16 * CHUNK) == 0 ? 16 : sharing(WIDTH / CHUNK), AT_ONCE = 32 / LANES;
  int first = lane / LANES, column = lane % LANES * CHUNK;
  tile += first * PITCH(HR_V) + column;
  to += first * call.o_at.row + column;
#pragma unroll
  for (int i = 0; i < TEAM_ROWS; i += AT_ONCE, to += AT_ONCE * call.o_at.row)
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

__device__ inline void finish(const attention_call &call, const head_view &view, warp_state &w, int first_row)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      w.sum[i][half] = sum_of_four(w.sum[i][half]);
  if constexpr (HR_TEAM > 1) {
    float other[HR_ROW_TILES][2];
    exchange_rows(w.sum, other);
#pragma unroll
    for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        w.sum[i][half] += other[i][half];
  }
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      finish_row(call, view, w, i, half, row_of(first_row, i, half));
  store_out(call, view, w, first_row);
}
