/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by their definition, in float64; any strides and addresses. It is the reference to compare
 * with on a GPU, and takes what other kernels do not.
 *
 *   block: 16 rows of one gradient; warp: 4 of them; lane: one of 32 others in the products of rows, every 32nd column
 *   in the sums
 *
 * Bound: conversions to float64. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_backward.cuh"
#include "runtime/cuda/kernels/attention_backward_tiles.h"

#ifndef HR_PER_LANE
#define HR_PER_LANE 8 /* columns per lane: head sizes are at most 32 times as many */
#endif
#define WARPS HR_BACKWARD_NAIVE_WARPS
#define WARP_ROWS HR_BACKWARD_NAIVE_WARP_ROWS
#define ROWS HR_BACKWARD_NAIVE_ROWS
#define OTHERS HR_BACKWARD_NAIVE_OTHERS

extern __shared__ __align__(16) unsigned char shared[];

/* Where tiles begin in shared memory. */
struct tiles {
  float *own_qk, *own_v, *qk, *v;
  int qk_pitch, v_pitch;
};

__device__ inline tiles tiles_of(const attention_call &call)
{
  tiles t;
  t.qk_pitch = hr_naive_k_pitch(call.qk_dim);
  t.v_pitch = hr_naive_k_pitch(call.v_dim);
  t.own_qk = (float *)shared;
  t.own_v = t.own_qk + ROWS * call.qk_dim;
  t.qk = t.own_v + ROWS * call.v_dim;
  t.v = t.qk + OTHERS * t.qk_pitch;
  return t;
}

/* Rows `first` … of a tile; zeros behind the last. */
__device__ inline void load_rows(float *to, int pitch, int tile_rows, const element *from, int64 stride, int dim,
                                 int first, int rows)
{
  for (int i = threadIdx.x; i < tile_rows * dim; i += blockDim.x) {
    int row = i / dim, column = i % dim;
    to[row * pitch + column] = first + row < rows ? to_float(from[(first + row) * stride + column]) : 0;
  }
}

/* Waits until no thread reads those of the head before, and loads this head's. */
__device__ inline void load_own(const attention_call &call, const tiles &at, const operand_rows &x, int first)
{
  __syncthreads();
  load_rows(at.own_qk, call.qk_dim, ROWS, x.qk, x.qk_row, call.qk_dim, first, x.rows);
  load_rows(at.own_v, call.v_dim, ROWS, x.v, x.v_row, call.v_dim, first, x.rows);
}

/* Waits until no thread reads the last tile, and loads this one. */
__device__ inline void load_others(const attention_call &call, const tiles &at, const operand_rows &x, int first)
{
  __syncthreads();
  load_rows(at.qk, at.qk_pitch, OTHERS, x.qk, x.qk_row, call.qk_dim, first, x.rows);
  load_rows(at.v, at.v_pitch, OTHERS, x.v, x.v_row, call.v_dim, first, x.rows);
  __syncthreads();
}

__device__ inline double dot(const float *a, const float *b, int dim)
{
  double sum = 0;
  for (int d = 0; d < dim; d++)
    sum = fma((double)a[d], (double)b[d], sum);
  return sum;
}

/* P, or dS without the scale, from the two products of a query's and a key's rows. */
template <gradient WHICH>
__device__ inline double weight_of(const attention_call &call, const backward_call &backward, const head_view &view,
                                   int query, int key, double score, double dp)
{
  double slope = 1;
  score *= call.scale;
  if (call.softcap > 0) {
    double capped = tanh(score / call.softcap);
    score = call.softcap * capped;
    slope = 1 - capped * capped;
  }
  if (call.slopes)
    score += (double)view.slope * (key - (query + view.kv_len - view.q_len));
  double p = exp(score - view.lse[query]);
  return WHICH == DV ? p : p * (dp - row_terms_of(call, backward, view)[query].y) * slope;
}

/* The weight of a row and the lane's other; false if the query does not see the key. */
template <gradient WHICH>
__device__ inline bool weigh(const attention_call &call, const backward_call &backward, const head_view &view,
                             const tiles &at, int own, int row, int other, double &weight)
{
  int query = WHICH == DQ ? row : other, key = WHICH == DQ ? other : row, lane = threadIdx.x % 32;
  weight = 0;
  if (key >= view.kv_len || !contains(keys_of_query(call, view, query), key) ||
      !has_keys(row_terms_of(call, backward, view)[query]))
    return false;
  double score = dot(at.own_qk + own * call.qk_dim, at.qk + lane * at.qk_pitch, call.qk_dim), dp = 0;
  if (WHICH != DV)
    dp = dot(at.own_v + own * call.v_dim, at.v + lane * at.v_pitch, call.v_dim);
  weight = weight_of<WHICH>(call, backward, view, query, key, score, dp);
  return true;
}

/* Adds the tile's others to a row. */
template <gradient WHICH>
__device__ inline void add_others(const attention_call &call, const tiles &at, double weight, unsigned seen,
                                  double (&sums)[HR_PER_LANE])
{
  const float *others = WHICH == DV ? at.v : at.qk;
  int pitch = WHICH == DV ? at.v_pitch : at.qk_pitch, dim = WHICH == DV ? call.v_dim : call.qk_dim;
  for (int j = 0; j < OTHERS; j++) {
    double factor = __shfl_sync(0xFFFFFFFFu, weight, j);
    if (!(seen >> j & 1))
      continue;
#pragma unroll
    for (int c = 0; c < HR_PER_LANE; c++) {
      int column = c * 32 + threadIdx.x % 32;
      if (column < dim)
        sums[c] = fma(factor, (double)others[j * pitch + column], sums[c]);
    }
  }
}

/* What one query head adds to the rows of the tile. */
template <gradient WHICH>
__device__ inline void add_head(const attention_call &call, const backward_call &backward, const own_tile &t,
                                const tiles &at, int head, double (&sums)[WARP_ROWS][HR_PER_LANE])
{
  head_view view = view_head(call, t.batch, head);
  operand_rows queries = queries_of(call, backward, view, t.batch, head), keys = keys_of(call, view);
  const operand_rows &own = WHICH == DQ ? queries : keys, &x = WHICH == DQ ? keys : queries;
  load_own(call, at, own, t.first_row);
  key_range others = others_of_tile<WHICH>(call, view, t.first_row, ROWS);
  for (int first = others.first; first < others.end; first += OTHERS) {
    load_others(call, at, x, first);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; r++) {
      int own = threadIdx.x / 32 * WARP_ROWS + r;
      double weight;
      bool sees = weigh<WHICH>(call, backward, view, at, own, t.first_row + own, first + threadIdx.x % 32, weight);
      add_others<WHICH>(call, at, weight, __ballot_sync(0xFFFFFFFFu, sees), sums[r]);
    }
  }
}

template <gradient WHICH>
__device__ inline void store(const attention_call &call, const backward_call &backward, const own_tile &t, int rows,
                             const double (&sums)[WARP_ROWS][HR_PER_LANE])
{
  element *to = gradient_of<WHICH>(call, backward, t);
  double scale = WHICH == DV ? 1 : call.scale;
#pragma unroll
  for (int r = 0; r < WARP_ROWS; r++) {
    int own = threadIdx.x / 32 * WARP_ROWS + r;
#pragma unroll
    for (int c = 0; c < HR_PER_LANE; c++) {
      int column = c * 32 + threadIdx.x % 32;
      if (t.first_row + own < rows && column < (WHICH == DV ? call.v_dim : call.qk_dim))
        to[own * gradient_row<WHICH>(backward) + column] = from_float((float)(sums[r][c] * scale));
    }
  }
}

template <gradient WHICH>
__device__ inline void differentiate(const attention_call &call, const backward_call &backward)
{
  own_tile t = find_tile<WHICH>(call, ROWS);
  tiles at = tiles_of(call);
  head_view view = view_head(call, t.batch, t.q_head);
  int rows = WHICH == DQ ? view.q_len : view.kv_len;
  if (t.first_row >= rows)
    return; /* a sequence shorter than the longest */
  double sums[WARP_ROWS][HR_PER_LANE] = {};
  for (int head = t.q_head; head < t.q_head + t.q_heads; head++)
    add_head<WHICH>(call, backward, t, at, head, sums);
  store<WHICH>(call, backward, t, rows, sums);
}

#define GRADIENT(name, which)                                                                 \
  extern "C" __global__ __launch_bounds__(32 * WARPS) void name(const attention_call call,    \
                                                                const backward_call backward) \
  {                                                                                           \
    differentiate<which>(call, backward);                                                     \
  }
GRADIENT(dq, DQ)
GRADIENT(dk, DK)
GRADIENT(dv, DV)
