/* Attention as it is defined, one query at a time: the largest score, then weights, sum and result, all in float64. Every
 * score is computed twice, as none is kept. It is there to be compared with, and takes all that hr_attention describes.
 *
 *   block: 32 query rows of a head; warp: 4 of them; lane: a key when scoring, columns v_dim / 32 apart when summing
 *
 * Bound by conversions to float64, 16 a clock of a multiprocessor: a key's elements are converted once for 4 rows. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#ifndef HR_COLUMNS
#define HR_COLUMNS 8 /* of 32 elements of V: v_dim is at most as many */
#endif
#define WARPS 8
#define WARP_ROWS 4
#define ROWS (WARPS * WARP_ROWS)
#define KEYS 32

extern __shared__ __align__(16) unsigned char shared[]; /* Q: ROWS × qk_dim doubles; K: KEYS rows of floats */

/* Rows of K lie an odd number of floats apart, so that lanes read from different banks. */
__device__ inline int k_pitch(const attention_call &call) { return call.qk_dim | 1; }
__device__ inline double *q_tile() { return (double *)shared; }
__device__ inline float *k_tile(const attention_call &call) { return (float *)(q_tile() + ROWS * call.qk_dim); }

struct warp_rows {
  int row[WARP_ROWS];
  key_range keys[WARP_ROWS]; /* empty beyond the last row */
};

__device__ inline void load_q(const attention_call &call, const head_view &view, int first_row)
{
  for (int i = threadIdx.x; i < ROWS * call.qk_dim; i += blockDim.x) {
    int row = first_row + i / call.qk_dim;
    q_tile()[i] = row < view.q_len ? (double)to_float(view.q[row * call.q_at.row + i % call.qk_dim]) : 0;
  }
}

/* Waits for those who still read the last tile, and until this one is there. */
__device__ inline void load_k(const attention_call &call, const head_view &view, int first_key)
{
  __syncthreads();
  for (int i = threadIdx.x; i < KEYS * call.qk_dim; i += blockDim.x) {
    int key = first_key + i / call.qk_dim, d = i % call.qk_dim;
    k_tile(call)[i / call.qk_dim * k_pitch(call) + d] =
        key < view.kv_len ? to_float(view.k[key * call.k_at.row + d]) : 0;
  }
  __syncthreads();
}

/* Of the lane's key, for the warp's rows. */
__device__ inline void score(const attention_call &call, const head_view &view, const warp_rows &mine, int first_key,
                             double scores[WARP_ROWS])
{
  const double *q = q_tile() + threadIdx.x / 32 * WARP_ROWS * call.qk_dim;
  const float *k = k_tile(call) + threadIdx.x % 32 * k_pitch(call);
  int key = first_key + threadIdx.x % 32;
  for (int r = 0; r < WARP_ROWS; r++)
    scores[r] = 0;
  for (int d = 0; d < call.qk_dim; d++) {
    double value = k[d];
    for (int r = 0; r < WARP_ROWS; r++)
      scores[r] = fma(q[r * call.qk_dim + d], value, scores[r]);
  }
  for (int r = 0; r < WARP_ROWS; r++) {
    scores[r] *= call.scale;
    if (call.cap > 0)
      scores[r] = call.cap * tanh(scores[r] / call.cap);
    if (call.slopes)
      scores[r] += (double)view.slope * (key - (mine.row[r] + view.kv_len - view.q_len));
  }
}

__device__ inline bool sees(const key_range &keys, int key) { return key >= keys.first && key < keys.end; }

/* Of all scores that each row sees; a NaN among them shows in the sum. */
__device__ inline void find_largest(const attention_call &call, const head_view &view, const warp_rows &mine,
                                    const key_range &tiles, double largest[WARP_ROWS])
{
  for (int r = 0; r < WARP_ROWS; r++)
    largest[r] = minus_infinity();
  for (int first = tiles.first; first < tiles.end; first += KEYS) {
    double scores[WARP_ROWS];
    load_k(call, view, first);
    score(call, view, mine, first, scores);
    for (int r = 0; r < WARP_ROWS; r++)
      if (sees(mine.keys[r], first + threadIdx.x % 32))
        largest[r] = fmax(largest[r], scores[r]);
  }
  for (int r = 0; r < WARP_ROWS; r++)
    for (int distance = 16; distance > 0; distance /= 2)
      largest[r] = fmax(largest[r], __shfl_xor_sync(0xFFFFFFFFu, largest[r], distance));
}

/* Adds the values of a tile's keys, each with its weight; no key that a row does not see. */
__device__ inline void add_values(const attention_call &call, const head_view &view, const warp_rows &mine, int first,
                                  const double weights[WARP_ROWS], double out[WARP_ROWS][HR_COLUMNS])
{
  int lane = threadIdx.x % 32;
  for (int j = 0; j < KEYS && first + j < view.kv_len; j++) {
    double values[HR_COLUMNS];
    for (int c = 0; c < HR_COLUMNS; c++)
      values[c] = c * 32 + lane < call.v_dim ? (double)to_float(view.v[(first + j) * call.v_at.row + c * 32 + lane]) : 0;
    for (int r = 0; r < WARP_ROWS; r++) {
      double weight = __shfl_sync(0xFFFFFFFFu, weights[r], j);
      if (!sees(mine.keys[r], first + j))
        continue;
      for (int c = 0; c < HR_COLUMNS; c++)
        out[r][c] = fma(weight, values[c], out[r][c]);
    }
  }
}

__device__ inline void store(const attention_call &call, const head_view &view, int row, const key_range &keys,
                             double largest, double sum, const double out[HR_COLUMNS])
{
  int lane = threadIdx.x % 32;
  bool nothing = keys.first >= keys.end;
  for (int c = 0; c < HR_COLUMNS; c++)
    if (c * 32 + lane < call.v_dim)
      view.o[row * call.o_at.row + c * 32 + lane] = from_float(nothing ? 0 : (float)(out[c] / sum));
  if (view.lse && lane == 0)
    view.lse[row] = nothing || largest == minus_infinity() ? minus_infinity() : (float)(largest + log(sum));
}

__device__ inline warp_rows rows_of_warp(const attention_call &call, const head_view &view, int first_row)
{
  warp_rows mine;
  for (int r = 0; r < WARP_ROWS; r++) {
    mine.row[r] = first_row + threadIdx.x / 32 * WARP_ROWS + r;
    mine.keys[r] = mine.row[r] < view.q_len ? keys_of_row(call, view, mine.row[r]) : key_range{0, 0};
  }
  return mine;
}

/* The keys that any row of the block sees: the first row's first to the last row's last. */
__device__ inline key_range keys_of_block(const attention_call &call, const head_view &view, int first_row)
{
  int last_row = min(first_row + ROWS, view.q_len) - 1;
  return {keys_of_row(call, view, first_row).first, keys_of_row(call, view, last_row).end};
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void attention(const attention_call call)
{
  int head = blockIdx.x / call.row_tiles, first_row = blockIdx.x % call.row_tiles * ROWS;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  if (first_row >= view.q_len)
    return; /* of a sequence that is shorter than the longest */
  warp_rows mine = rows_of_warp(call, view, first_row);
  key_range tiles = keys_of_block(call, view, first_row);
  double largest[WARP_ROWS], sum[WARP_ROWS] = {}, out[WARP_ROWS][HR_COLUMNS] = {};
  load_q(call, view, first_row);
  find_largest(call, view, mine, tiles, largest);
  for (int first = tiles.first; first < tiles.end; first += KEYS) {
    double weights[WARP_ROWS];
    load_k(call, view, first);
    score(call, view, mine, first, weights);
    for (int r = 0; r < WARP_ROWS; r++) {
      weights[r] = sees(mine.keys[r], first + threadIdx.x % 32) ? exp(weights[r] - largest[r]) : 0;
      sum[r] += weights[r];
    }
    add_values(call, view, mine, first, weights, out);
  }
  for (int r = 0; r < WARP_ROWS; r++) {
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], distance);
    if (mine.row[r] < view.q_len)
      store(call, view, mine.row[r], mine.keys[r], largest[r], sum[r], out[r]);
  }
}
