/* Attention forward with an online softmax on the matrix units of compute capability 8.0 and newer; fp16 and bf16.
 *
 *   block: HR_WARPS warps with 16 · HR_ROW_TILES query rows each × the keys in tiles of HR_COLUMNS, right to left
 *   ┌ Q ┐  shared memory, once; where it is small its fragments stay in registers
 *   ├ K ┤  two stages each, filled by cp.async while the stage before is worked on; one barrier a tile
 *   └ V ┘
 *   S = Q Kᵀ → mask → softmax in registers → O = O · correction + P V, with P the sums of S rounded to 16 bits in place
 *
 * A row of a tile in shared memory has an odd number of 16-byte chunks, so that the 8 rows that ldmatrix reads lie in
 * different banks. Head sizes are padded to HR_QK and HR_V, multiples of 16, with zeros, in shared memory only.
 *
 * HR_ALIGNED: addresses and strides are multiples of 16 bytes and head sizes of 8 elements; otherwise tiles are copied
 * element by element. Offsets have 64 bits. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#define THREADS (32 * HR_WARPS)
#define WARP_ROWS (16 * HR_ROW_TILES)
#define ROWS (HR_WARPS * WARP_ROWS)
#define PITCH(dim) (((dim) / 8 | 1) * 8) /* elements between rows of a tile */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Elements of shared memory; Q's part takes O in the end. attention_sm80.c reckons the same. */
#define Q_SIZE (ROWS * LARGER(PITCH(HR_QK), PITCH(HR_V)))
#define K_SIZE (HR_COLUMNS * PITCH(HR_QK))
#define V_SIZE (HR_COLUMNS * PITCH(HR_V))

#define Q_HELD (HR_QK * HR_ROW_TILES <= 128) /* fragments of Q stay in registers: HR_QK / 4 of them a row tile */
#define QK_STEPS (HR_QK / 16)
#define SCORE_TILES (HR_COLUMNS / 8)
#define OUT_TILES (HR_V / 8)

extern __shared__ __align__(16) element shared[];

/* What a warp keeps: Q, sums of S and O, and for each of a thread's rows the largest score and the sum of weights. */
struct warp_state {
  unsigned q[HR_ROW_TILES][Q_HELD ? QK_STEPS : 1][4];
  float scores[HR_ROW_TILES][SCORE_TILES][4];
  float out[HR_ROW_TILES][OUT_TILES][4];
  float largest[HR_ROW_TILES][2], sum[HR_ROW_TILES][2];
};

/* ---- tiles ---- */

/* `rows` × `dim` elements into a tile of TILE_ROWS × WIDTH; the rest of it becomes 0. */
template <int TILE_ROWS, int WIDTH>
__device__ inline void fill_tile(element *tile, const element *from, int64 stride, int rows, int dim)
{
#ifdef HR_ALIGNED
  constexpr int CHUNKS = WIDTH / 8, COPIES = (TILE_ROWS * CHUNKS + THREADS - 1) / THREADS;
  if constexpr (THREADS % CHUNKS == 0) { /* a thread stays in its column: one address that moves, where many would take registers */
    constexpr int STEP = THREADS / CHUNKS;
    int first = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 8;
    const element *at = from + first * stride + column;
    unsigned to = shared_address(tile + first * PITCH(WIDTH) + column);
    int left = column < dim ? rows - first : 0;
#pragma unroll
    for (int i = 0; i < COPIES; i++, at += STEP * stride)
      copy_async(to + i * STEP * PITCH(WIDTH) * (int)sizeof(element), i * STEP < left ? at : from, i * STEP < left);
  } else {
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
      int chunk = threadIdx.x + i * THREADS, row = chunk / CHUNKS, column = chunk % CHUNKS * 8;
      if (TILE_ROWS * CHUNKS % THREADS != 0 && chunk >= TILE_ROWS * CHUNKS)
        break;
      bool there = row < rows && column < dim;
      copy_async(shared_address(tile + row * PITCH(WIDTH) + column), there ? from + row * stride + column : from, there);
    }
  }
#else
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE_ROWS * WIDTH; i += THREADS) {
    int row = i / WIDTH, column = i % WIDTH;
    bool there = row < rows && column < dim;
    tile[row * PITCH(WIDTH) + column] = there ? from[row * stride + column] : (element)0;
  }
#endif
}

/* Fragments of 16 rows × 16 columns of Q. */
__device__ inline void load_q(unsigned (&to)[4], const element *q_tile, int row_tile, int step)
{
  int lane = threadIdx.x % 32, row = threadIdx.x / 32 * WARP_ROWS + row_tile * 16 + lane % 16;
  load_matrices(to, shared_address(q_tile + row * PITCH(HR_QK) + step * 16 + lane / 16 * 8));
}

/* scores = Q Kᵀ */
__device__ inline void multiply_scores(warp_state &w, const element *q_tile, const element *k_tile)
{
  int lane = threadIdx.x % 32;
  unsigned k_row = shared_address(k_tile + (lane / 16 * 8 + lane % 8) * PITCH(HR_QK) + lane / 8 % 2 * 8);
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int n = 0; n < SCORE_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.scores[i][n][e] = 0;
#pragma unroll
  for (int step = 0; step < QK_STEPS; step++) {
    unsigned q[HR_ROW_TILES][4];
#pragma unroll
    for (int i = 0; i < HR_ROW_TILES; i++) {
      if (!Q_HELD)
        load_q(q[i], q_tile, i, step);
#pragma unroll
      for (int e = 0; Q_HELD && e < 4; e++)
        q[i][e] = w.q[i][Q_HELD ? step : 0][e];
    }
#pragma unroll
    for (int n = 0; n < SCORE_TILES; n += 2) {
      unsigned k[4];
      load_matrices(k, k_row + (n * 8 * PITCH(HR_QK) + step * 16) * (int)sizeof(element));
#pragma unroll
      for (int i = 0; i < HR_ROW_TILES; i++) {
        multiply_add(w.scores[i][n], q[i], k[0], k[1]);
        multiply_add(w.scores[i][n + 1], q[i], k[2], k[3]);
      }
    }
  }
}

/* out += P V, the weights P being the scores by now. */
__device__ inline void multiply_values(warp_state &w, const element *v_tile)
{
  int lane = threadIdx.x % 32;
  unsigned v_row = shared_address(v_tile + lane % 16 * PITCH(HR_V) + lane / 16 * 8);
#pragma unroll
  for (int step = 0; step < HR_COLUMNS / 16; step++) {
    unsigned p[HR_ROW_TILES][4];
#pragma unroll
    for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const float *pair = &w.scores[i][2 * step + e / 2][e % 2 * 2];
        p[i][e] = pack_two(pair[0], pair[1]);
      }
#pragma unroll
    for (int n = 0; n < OUT_TILES; n += 2) {
      unsigned v[4];
      load_transposed(v, v_row + (step * 16 * PITCH(HR_V) + n * 8) * (int)sizeof(element));
#pragma unroll
      for (int i = 0; i < HR_ROW_TILES; i++) {
        multiply_add(w.out[i][n], p[i], v[0], v[1]);
        multiply_add(w.out[i][n + 1], p[i], v[2], v[3]);
      }
    }
  }
}

/* ---- softmax ---- */

/* Row of the head that a thread's half (0: t / 4, 1: t / 4 + 8) of a row tile is. */
__device__ inline int row_of(int first_row, int row_tile, int half)
{
  return first_row + threadIdx.x / 32 * WARP_ROWS + row_tile * 16 + threadIdx.x % 32 / 4 + half * 8;
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

/* Turns scores into weights 2^(factor · (score − largest)), and brings sum and out to the same largest score. */
__device__ inline void soften(warp_state &w, float factor)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float before = w.largest[i][half], largest = before, sum = 0;
#pragma unroll
      for (int n = 0; n < SCORE_TILES; n++)
        largest = fmaxf(largest, fmaxf(w.scores[i][n][half * 2], w.scores[i][n][half * 2 + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      float base = largest == minus_infinity() ? 0 : largest * factor;
      float correction = power_of_two(before * factor - base);
#pragma unroll
      for (int n = 0; n < SCORE_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float weight = power_of_two(w.scores[i][n][half * 2 + e] * factor - base);
          w.scores[i][n][half * 2 + e] = weight;
          sum += weight;
        }
      w.largest[i][half] = largest;
      w.sum[i][half] = w.sum[i][half] * correction + sum;
#pragma unroll
      for (int n = 0; n < OUT_TILES; n++) {
        w.out[i][n][half * 2] *= correction;
        w.out[i][n][half * 2 + 1] *= correction;
      }
    }
}

/* ---- the end of a row ---- */

/* Divides by the sum of weights. A row without keys is 0; one whose every score is −∞ is NaN. */
__device__ inline void finish_row(const attention_call &call, const head_view &view, warp_state &w, int i, int half,
                                  int row, float factor)
{
  float sum = w.sum[i][half];
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  key_range keys = keys_of_row(call, view, row);
  float inverse = keys.first >= keys.end ? 0.0f : 1.0f / sum; /* 0 · 1 / 0 is NaN */
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++) {
    w.out[i][n][half * 2] *= inverse;
    w.out[i][n][half * 2 + 1] *= inverse;
  }
  if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
    view.lse[row * call.lse_at.row] = (w.largest[i][half] * factor + log2f(sum)) * LN_2;
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
#pragma unroll
      for (int n = 0; n < OUT_TILES; n++) {
        unsigned both = pack_two(w.out[i][n][half * 2], w.out[i][n][half * 2 + 1]);
        *(unsigned *)(tile + (i * 16 + half * 8 + lane / 4) * PITCH(HR_V) + n * 8 + lane % 4 * 2) = both;
      }
  __syncwarp();
  int rows = min(WARP_ROWS, view.q_len - first_row - warp_row);
  element *to = view.o + (int64)(first_row + warp_row) * call.o_at.row;
#ifdef HR_ALIGNED
  constexpr int CHUNKS = HR_V / 8;
#pragma unroll 4
  for (int chunk = lane; chunk < WARP_ROWS * CHUNKS; chunk += 32) {
    int row = chunk / CHUNKS, column = chunk % CHUNKS * 8;
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
      finish_row(call, view, w, i, half, row_of(first_row, i, half), softmax_factor(call));
  store_out(call, view, w, first_row);
}

/* ---- the kernel ---- */

struct tile_range {
  int first, end; /* tiles of keys that some row of the block sees */
};

__device__ inline tile_range tiles_of_block(const attention_call &call, const head_view &view, int first_row)
{
  int last_row = min(first_row + ROWS, view.q_len) - 1;
  int first = keys_of_row(call, view, first_row).first, end = keys_of_row(call, view, last_row).end;
  return {first / HR_COLUMNS, (end + HR_COLUMNS - 1) / HR_COLUMNS};
}

/* Whether every row of the block sees every key of the tile. */
__device__ inline bool seen_by_all(const attention_call &call, const head_view &view, int first_row, int tile)
{
  int last_row = min(first_row + ROWS, view.q_len) - 1;
  return tile * HR_COLUMNS >= keys_of_row(call, view, last_row).first &&
         (tile + 1) * HR_COLUMNS <= keys_of_row(call, view, first_row).end;
}

__device__ inline element *stage_of(int tile) { return shared + Q_SIZE + tile % 2 * (K_SIZE + V_SIZE); }

__device__ inline void fill_stage(const attention_call &call, const head_view &view, element *stage, int tile)
{
  int first_key = tile * HR_COLUMNS, rows = view.kv_len - first_key;
  fill_tile<HR_COLUMNS, HR_QK>(stage, view.k + first_key * call.k_at.row, call.k_at.row, rows, call.qk_dim);
  fill_tile<HR_COLUMNS, HR_V>(stage + K_SIZE, view.v + first_key * call.v_at.row, call.v_at.row, rows, call.v_dim);
  copies_commit();
}

__device__ inline void begin(warp_state &w)
{
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++) {
    w.largest[i][0] = w.largest[i][1] = minus_infinity();
    w.sum[i][0] = w.sum[i][1] = 0;
#pragma unroll
    for (int n = 0; n < OUT_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        w.out[i][n][e] = 0;
  }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_BLOCKS) void attention(const attention_call call)
{
  int row_tile = call.row_tiles - 1 - blockIdx.x % call.row_tiles; /* the longest of a causal call first */
  int head = blockIdx.x / call.row_tiles % call.q_heads, batch = blockIdx.x / call.row_tiles / call.q_heads;
  int first_row = row_tile * ROWS;
  head_view view = view_head(call, batch, head);
  if (first_row >= view.q_len)
    return;
  tile_range tiles = tiles_of_block(call, view, first_row);
  float factor = softmax_factor(call);
  warp_state w;
  begin(w);
  fill_tile<ROWS, HR_QK>(shared, view.q + first_row * call.q_at.row, call.q_at.row, view.q_len - first_row, call.qk_dim);
  if (tiles.first < tiles.end)
    fill_stage(call, view, stage_of(tiles.end - 1), tiles.end - 1);
#pragma unroll 1
  for (int tile = tiles.end - 1; tile >= tiles.first; tile--) {
    const element *stage = stage_of(tile);
    copies_wait<0>();
    __syncthreads(); /* this stage is there, and nobody reads the other one any more */
    if (Q_HELD && tile == tiles.end - 1) {
#pragma unroll
      for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
        for (int step = 0; step < (Q_HELD ? QK_STEPS : 1); step++)
          load_q(w.q[i][step], shared, i, step);
    }
    if (tile > tiles.first)
      fill_stage(call, view, stage_of(tile - 1), tile - 1);
    multiply_scores(w, shared, stage);
    modify_scores(call, view, w, first_row, tile * HR_COLUMNS);
    if (!seen_by_all(call, view, first_row, tile))
      mask_scores(call, view, w, first_row, tile * HR_COLUMNS);
    soften(w, factor);
    multiply_values(w, stage + K_SIZE);
  }
  copies_wait<0>(); /* Q, of a block without keys */
  __syncthreads();
  finish(call, view, w, first_row);
}
