/* The online softmax between the products of attention_tiles.cuh: which tiles of keys a block of rows sees, masks, weights
 * relative to a base that rises where a row outgrows it, and the end of a row. */

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
  return first_row + threadIdx.x / 32 * WARP_ROWS + row_tile * 16 + threadIdx.x % 32 / 4 + half * 8;
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

/* Moves the base of one row to its largest score so far, and sum and O with it. */
__device__ inline void raise_base(warp_state &w, int i, int half, float largest, float factor)
{
  largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
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

/* Sees to it that no score lies above its row's limit, which seldom takes more than to look: what a thread's own scores
 * show is enough for that. */
__device__ inline void raise_bases(warp_state &w, float factor)
{
  float largest[HR_ROW_TILES][2];
  bool outgrown = false;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      largest[i][half] = largest_of(w, i, half);
      outgrown |= largest[i][half] > w.limit[i][half];
    }
  if (!__any_sync(0xFFFFFFFFu, outgrown))
    return;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      raise_base(w, i, half, largest[i][half], factor);
}

/* Scores of a step's keys become weights 2^(factor · score − base). */
__device__ inline void weigh(warp_state &w, float factor, int step)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = 0;
#pragma unroll
      for (int n = step * STEP / 8; n < (step + 1) * STEP / 8; n++)
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; e++) {
          w.scores[i][n][e] = power_of_two(w.scores[i][n][e] * factor - w.base[i][half]);
          sum += w.scores[i][n][e];
        }
      w.sum[i][half] += sum;
    }
  keep_weights(w, step);
}

/* ---- the end of a row ---- */

/* Divides by the sum of weights. A row without keys is 0, whatever its tiles made of NaN in V; one whose every score is −∞ is
 * NaN. */
__device__ inline void finish_row(const attention_call &call, const head_view &view, warp_state &w, int i, int half,
                                  int row)
{
  float sum = w.sum[i][half];
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  key_range keys = keys_of_row(call, view, row);
  bool nothing = keys.first >= keys.end;
  float inverse = 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
    for (int e = half * 2; e < half * 2 + 2; e++)
      w.out[i][n][e] = nothing ? 0 : w.out[i][n][e] * inverse;
  if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
    view.lse[row * call.lse_at.row] = (w.base[i][half] + log2f(sum)) * LN_2;
}

/* The warp's rows of O, through its own rows of the tile that held Q. */
__device__ inline void store_out(const attention_call &call, const head_view &view, const warp_state &w, int first_row)
{
  int warp_row = threadIdx.x / 32 * WARP_ROWS, lane = threadIdx.x % 32;
  element *tile = shared + warp_row * (Q_SIZE / ROWS);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      stage_out(w, tile + (i * 16 + half * 8 + lane / 4) * PITCH(HR_V), i, half);
  __syncwarp();
  int rows = min(WARP_ROWS, view.q_len - first_row - warp_row);
  element *to = view.o + (int64)(first_row + warp_row) * call.o_at.row;
#ifdef HR_ALIGNED
  constexpr int CHUNKS = HR_V / CHUNK;
#pragma unroll 4
  for (int chunk = lane; chunk < WARP_ROWS * CHUNKS; chunk += 32) {
    int row = chunk / CHUNKS, column = chunk % CHUNKS * CHUNK;
    if (row < rows && column < call.v_dim)
      *(uint4 *)(to + row * call.o_at.row + column) = *(const uint4 *)(tile + row * PITCH(HR_V) + column);
  }
#else
#pragma unroll 1
  for (int row = 0; row < rows; row++)
    for (int column = lane; column < call.v_dim; column += 32)
      to[row * call.o_at.row + column] = tile[row * PITCH(HR_V) + column];
#endif
}

__device__ inline void finish(const attention_call &call, const head_view &view, warp_state &w, int first_row)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      finish_row(call, view, w, i, half, row_of(first_row, i, half));
  store_out(call, view, w, first_row);
}
