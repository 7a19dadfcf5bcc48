/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by its definition, in float64: row maximum, then P, row sum and O. It computes every score twice, as it
 * keeps none. It is the reference to compare with on a GPU, and takes everything that hr_attention describes.
 *
 *   block: 32 query rows of a head; warp: 4 of them; lane: one key in Q Kᵀ, every 32nd column in P V
 *
 * Bound: conversions to float64, 16 per clock and multiprocessor; a key's elements are converted once for 4 rows. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#ifndef HR_V_PER_LANE
#define HR_V_PER_LANE 8 /* columns of V per lane: v_dim is at most 32 times as many */
#endif
#define WARPS HR_NAIVE_WARPS
#define WARP_ROWS HR_NAIVE_WARP_ROWS
#define ROWS HR_NAIVE_ROWS
#define KEYS HR_NAIVE_KEYS

extern __shared__ __align__(16) unsigned char shared[]; /* Q: ROWS × qk_dim doubles; K: KEYS rows of floats */

__device__ inline int k_pitch(const attention_call &call)
{
  return hr_naive_k_pitch(call.qk_dim);
}
__device__ inline double *q_tile()
{
  return (double *)shared;
}
__device__ inline float *k_tile(const attention_call &call)
{
  return (float *)(q_tile() + ROWS * call.qk_dim);
}

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

/* Waits until no thread reads the last tile, and loads this one. */
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

/* Scores of the lane's key, for the warp's rows. */
__device__ inline void compute_scores(const attention_call &call, const head_view &view, const warp_rows &mine,
                                      int first_key, double scores[WARP_ROWS])
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
#ifdef HR_HEAD_SCALES
    scores[r] *= view.score_scale;
#endif
    if (call.softcap > 0)
      scores[r] = call.softcap * tanh(scores[r] / call.softcap);
    if (call.slopes)
      scores[r] += (double)view.slope * (key - (mine.row[r] + view.kv_len - view.q_len));
  }
}

__device__ inline bool is_visible(const key_range &keys, int key)
{
  return key >= keys.first && key < keys.end;
}

/* The row maxima over visible scores; a NaN among them shows in the row sum. */
__device__ inline void find_row_max(const attention_call &call, const head_view &view, const warp_rows &mine,
                                    const key_range &tiles, double row_max[WARP_ROWS])
{
  for (int r = 0; r < WARP_ROWS; r++)
    row_max[r] = minus_infinity();
  for (int first = tiles.first; first < tiles.end; first += KEYS) {
    double scores[WARP_ROWS];
    load_k(call, view, first);
    compute_scores(call, view, mine, first, scores);
    for (int r = 0; r < WARP_ROWS; r++)
      if (is_visible(mine.keys[r], first + threadIdx.x % 32))
        row_max[r] = fmax(row_max[r], scores[r]);
  }
  for (int r = 0; r < WARP_ROWS; r++)
    for (int distance = 16; distance > 0; distance /= 2)
      row_max[r] = fmax(row_max[r], __shfl_xor_sync(0xFFFFFFFFu, row_max[r], distance));
}

/* O += P V for a tile's keys, without keys that a row does not see. */
__device__ inline void accumulate_pv(const attention_call &call, const head_view &view, const warp_rows &mine,
                                     int first, const double p[WARP_ROWS], double out[WARP_ROWS][HR_V_PER_LANE])
{
  int lane = threadIdx.x % 32;
  for (int j = 0; j < KEYS && first + j < view.kv_len; j++) {
    double values[HR_V_PER_LANE];
    for (int c = 0; c < HR_V_PER_LANE; c++)
      values[c] =
          c * 32 + lane < call.v_dim ? (double)to_float(view.v[(first + j) * call.v_at.row + c * 32 + lane]) : 0;
    for (int r = 0; r < WARP_ROWS; r++) {
      double p_of_key = __shfl_sync(0xFFFFFFFFu, p[r], j);
      if (!is_visible(mine.keys[r], first + j))
        continue;
      for (int c = 0; c < HR_V_PER_LANE; c++)
        out[r][c] = fma(p_of_key, values[c], out[r][c]);
    }
  }
}

__device__ inline void store(const attention_call &call, const head_view &view, int row, const key_range &keys,
                             double row_max, double sum, const double out[HR_V_PER_LANE])
{
  int lane = threadIdx.x % 32;
  bool nothing = keys.first >= keys.end;
#ifdef HR_HEAD_SCALES
  double scale = view.out_scale / sum;
#else
  double scale = 1 / sum;
#endif
  for (int c = 0; c < HR_V_PER_LANE; c++)
    if (c * 32 + lane < call.v_dim)
      view.o[row * call.o_at.row + c * 32 + lane] = out_from_float(nothing ? 0 : (float)(out[c] * scale));
  if (view.lse && lane == 0)
    view.lse[row] = nothing || row_max == minus_infinity() ? minus_infinity() : (float)(row_max + log(sum));
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

/* The keys that any row of the block sees: from the first row's first to the last row's last. */
__device__ inline key_range keys_of_block(const attention_call &call, const head_view &view, int first_row)
{
  int last_row = min(first_row + ROWS, view.q_len) - 1;
  return {keys_of_row(call, view, first_row).first, keys_of_row(call, view, last_row).end};
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void attention(const attention_call call)
{
  int head = blockIdx.x / call.q_tiles, first_row = blockIdx.x % call.q_tiles * ROWS;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  if (first_row >= view.q_len)
    return; /* a sequence shorter than the longest */
  warp_rows mine = rows_of_warp(call, view, first_row);
  key_range tiles = keys_of_block(call, view, first_row);
  double row_max[WARP_ROWS], sum[WARP_ROWS] = {}, out[WARP_ROWS][HR_V_PER_LANE] = {};
  load_q(call, view, first_row);
  find_row_max(call, view, mine, tiles, row_max);
  for (int first = tiles.first; first < tiles.end; first += KEYS) {
    double p[WARP_ROWS];
    load_k(call, view, first);
    compute_scores(call, view, mine, first, p);
    for (int r = 0; r < WARP_ROWS; r++) {
      p[r] = is_visible(mine.keys[r], first + threadIdx.x % 32) ? exp(p[r] - row_max[r]) : 0;
      sum[r] += p[r];
    }
    accumulate_pv(call, view, mine, first, p, out);
  }
  for (int r = 0; r < WARP_ROWS; r++) {
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xFFFFFFFFu, sum[r], distance);
    if (mine.row[r] < view.q_len)
      store(call, view, mine.row[r], mine.keys[r], row_max[r], sum[r], out[r]);
  }
}
