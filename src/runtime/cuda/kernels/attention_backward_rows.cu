/* SPDX-License-Identifier: Apache-2.0 */
/* What attention_backward_sm90.cu needs before and after it: a block has one Q tile of one head.
 *
 *   prepare     row terms: lse · log2 e, and delta = rowsum(dO ∘ O); zeroes sums; its rows' part of d_sinks
 *   finish      dQ = scale · sums, rounded
 *   finish_k    the same of dK, a block each for a K/V tile of one head, where work items add to it; finish_v: of dV
 *   add_sinks   d_sinks of a head, a block each, in one order
 *
 * Bound: memory. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_backward_layout.h"

typedef hr_backward_call backward_call;

#define THREADS HR_BACKWARD_ROWS_THREADS
#define ROW_LANES (HR_V > 128 ? 32 : HR_V > 64 ? 16 : 8) /* 8 columns each */
#define STEP_ROWS (THREADS / ROW_LANES)

/* A tile of a head: of queries, or of keys. */
struct head_tile {
  int batch, head, first_row, rows, first; /* rows: that the sequence has; first: its own first row */
  int64 index;                             /* among all */
};

/* The block has one tile of `heads` heads with `tiles` tiles of `size` rows each; a head has `places` among all. */
__device__ inline head_tile find_tile(const int *offsets, int length, int heads, int tiles, int places, int size)
{
  int index = blockIdx.x, of_head = index / tiles, tile = index - of_head * tiles;
  head_tile t;
  t.batch = of_head / heads;
  t.head = of_head - t.batch * heads;
  t.first_row = tile * size;
  t.first = 0;
#ifdef HR_VARLEN
  t.first = offsets[t.batch];
  length = offsets[t.batch + 1] - t.first;
  t.index = (int64)t.head * places + hr_backward_first_tile(t.first, t.batch, size) + tile;
#else
  t.index = ((int64)t.batch * heads + t.head) * places + tile;
#endif
  t.rows = min(size, length - t.first_row);
  return t;
}

__device__ inline head_tile find_q_tile(const attention_call &call, const backward_call &backward)
{
  return find_tile(call.q_offsets, call.q_len, call.q_heads, call.q_tiles, backward.q_tiles, HR_Q_TILE);
}

__device__ inline head_tile find_k_tile(const attention_call &call, const backward_call &backward, int group)
{
  return find_tile(call.kv_offsets, call.kv_len, call.q_heads / group, backward.kv_tiles, backward.k_tiles, HR_KEYS);
}

/* The offset of the first row of the tile in a tensor. */
__device__ inline int64 row_offset(const strides &at, const head_tile &t)
{
#ifdef HR_VARLEN
  int64 entry = 0;
#else
  int64 entry = t.batch;
#endif
  return entry * at.batch + ((int64)t.first + t.first_row) * at.row + t.head * at.head;
}

__device__ inline float dot_of_words(uint4 a, uint4 b)
{
  const unsigned x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    sum = fmaf(value_in(x[i], 0), value_in(y[i], 0), fmaf(value_in(x[i], 1), value_in(y[i], 1), sum));
  return sum;
}

/* A row's delta, in each of its lanes. */
__device__ inline float delta_of(const attention_call &call, const backward_call &backward, const head_tile &t, int row,
                                 int lane)
{
  float sum = 0;
  if (row < t.rows && lane * 8 < call.v_dim) {
    const element *o = call.o + row_offset(call.o_at, t) + row * call.o_at.row;
    const element *d_o = backward.d_o + row_offset(backward.do_at, t) + row * backward.do_at.row;
    sum = dot_of_words(((const uint4 *)o)[lane], ((const uint4 *)d_o)[lane]);
  }
#pragma unroll
  for (int step = ROW_LANES / 2; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  return sum;
}

/* Adds a value of each thread, in one order; of use in thread 0. */
__device__ inline float sum_of_block(float value)
{
  __shared__ float sums[THREADS / 32];
  __syncthreads(); /* of the sum before */
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = value;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < THREADS / 32; i++)
    all += sums[i];
  return all;
}

/* Rows without keys or behind the last have an infinite lse, so that P is 0; those are counted. */
__device__ inline float write_terms(const attention_call &call, const backward_call &backward, const head_tile &t,
                                    int row, float delta, float &empty_rows)
{
  float lse = minus_infinity();
  if (row < t.rows)
    lse = call.lse[row_offset(call.lse_at, t) + row * call.lse_at.row];
  bool empty = lse == minus_infinity();
  float *to = backward.row_terms + t.index * (2 * HR_Q_TILE) + row / 2 * 4 + row % 2;
  to[0] = empty ? -minus_infinity() : lse * LOG2_E;
  to[2] = empty ? 0 : delta;
  empty_rows += empty;
  if (!backward.sinks || empty)
    return 0;
  return -exp2f((backward.sinks[t.head] - lse) * LOG2_E) * delta;
}

__device__ inline void clear_sums(const backward_call &backward, const head_tile &t)
{
  float4 *sums = (float4 *)(backward.dq_sums + t.index * (HR_Q_TILE * HR_QK));
  for (int i = threadIdx.x; i < HR_Q_TILE * HR_QK / 4; i += THREADS)
    sums[i] = make_float4(0, 0, 0, 0);
  if (backward.turns && threadIdx.x < 2)
    backward.turns[2 * t.index + threadIdx.x] = 0;
}

/* All blocks together. */
__device__ inline void clear_kv_sums(const backward_call &backward)
{
  float4 *sums = (float4 *)(backward.dk_sums ? backward.dk_sums : backward.dv_sums);
  for (int64 i = (int64)blockIdx.x * THREADS + threadIdx.x; i < backward.cleared / 4; i += (int64)gridDim.x * THREADS)
    sums[i] = make_float4(0, 0, 0, 0);
}

extern "C" __global__ __launch_bounds__(THREADS) void prepare(const __grid_constant__ attention_call call,
                                                              const __grid_constant__ backward_call backward)
{
  allow_next_kernel();
  wait_for_kernel_before();
  head_tile t = find_q_tile(call, backward);
  clear_kv_sums(backward);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *backward.taken = 0;
  if (t.rows <= 0)
    return;
  clear_sums(backward, t);
  int lane = threadIdx.x % ROW_LANES;
  float sink = 0, empty_rows = 0;
#pragma unroll
  for (int row = threadIdx.x / ROW_LANES; row < HR_Q_TILE; row += STEP_ROWS) {
    float delta = delta_of(call, backward, t, row, lane);
    if (lane == 0)
      sink += write_terms(call, backward, t, row, delta, empty_rows);
  }
#ifdef HR_CLEARS
  empty_rows = sum_of_block(empty_rows);
  if (threadIdx.x == 0)
    backward.clears[t.index] = empty_rows > 0;
#endif
  if (!backward.sinks)
    return;
  sink = sum_of_block(sink);
  if (threadIdx.x == 0)
    backward.sink_terms[t.index] = sink;
}

/* Four of 16 columns: neighbouring lanes exchange words, so that a row's four lanes write 32 bytes at once. */
__device__ inline void store_half(element *to, float2 left, float2 right, float factor, bool there)
{
  bool odd = threadIdx.x % 2 == 1;
  unsigned a = pack_pair(left.x * factor, left.y * factor), b = pack_pair(right.x * factor, right.y * factor);
  unsigned got = __shfl_xor_sync(0xFFFFFFFFu, odd ? a : b, 1);
  if (there)
    *(uint2 *)to = odd ? make_uint2(got, b) : make_uint2(a, got);
}

/* Rounds a tile of sums, SIZE rows of COLUMNS columns, of which `columns` are stored. */
template <int SIZE, int COLUMNS>
__device__ inline void convert(const float *tile, element *to, const head_tile &t, int64 pitch, int columns,
                               float factor)
{
  const float4 *sums = (const float4 *)tile;
  int lane = threadIdx.x % 32;
#pragma unroll 4
  for (int i = threadIdx.x / 32; i < SIZE / 16 * (COLUMNS / 16); i += THREADS / 32) {
    int row = i / (COLUMNS / 16) * 16 + lane / 4, column = i % (COLUMNS / 16) * 16 + lane % 2 * 8;
    float4 left = sums[i * 64 + lane], right = sums[i * 64 + 32 + lane];
    element *at = to + row * pitch + column + lane % 4 / 2 * 4;
    bool there = column < columns;
    store_half(at, make_float2(left.x, left.y), make_float2(right.x, right.y), factor, there && row < t.rows);
    store_half(at + 8 * pitch, make_float2(left.z, left.w), make_float2(right.z, right.w), factor,
               there && row + 8 < t.rows);
  }
}

extern "C" __global__ __launch_bounds__(THREADS) void finish(const __grid_constant__ attention_call call,
                                                             const __grid_constant__ backward_call backward)
{
  allow_next_kernel();
  wait_for_kernel_before();
  head_tile t = find_q_tile(call, backward);
  if (t.rows > 0)
    convert<HR_Q_TILE, HR_QK>(backward.dq_sums + t.index * (HR_Q_TILE * HR_QK),
                              backward.dq + row_offset(backward.dq_at, t), t, backward.dq_at.row, call.qk_dim,
                              call.scale);
}

extern "C" __global__ __launch_bounds__(THREADS) void finish_k(const __grid_constant__ attention_call call,
                                                               const __grid_constant__ backward_call backward)
{
  allow_next_kernel();
  wait_for_kernel_before();
  head_tile t = find_k_tile(call, backward, call.k_group);
  if (t.rows > 0)
    convert<HR_KEYS, HR_QK>(backward.dk_sums + t.index * (HR_KEYS * HR_QK), backward.dk + row_offset(backward.dk_at, t),
                            t, backward.dk_at.row, call.qk_dim, call.scale);
}

extern "C" __global__ __launch_bounds__(THREADS) void finish_v(const __grid_constant__ attention_call call,
                                                               const __grid_constant__ backward_call backward)
{
  allow_next_kernel();
  wait_for_kernel_before();
  head_tile t = find_k_tile(call, backward, call.v_group);
  if (t.rows > 0)
    convert<HR_KEYS, HR_V>(backward.dv_sums + t.index * (HR_KEYS * HR_V), backward.dv + row_offset(backward.dv_at, t),
                           t, backward.dv_at.row, call.v_dim, 1);
}

extern "C" __global__ __launch_bounds__(THREADS) void add_sinks(const __grid_constant__ attention_call call,
                                                                const __grid_constant__ backward_call backward)
{
  wait_for_kernel_before();
  int head = blockIdx.x, batches = call.heads / call.q_heads;
  float sum = 0;
  for (int batch = 0; batch < batches; batch++) {
    int64 first = ((int64)batch * call.q_heads + head) * backward.q_tiles;
    int tiles = backward.q_tiles;
#ifdef HR_VARLEN
    int row = call.q_offsets[batch], end = call.q_offsets[batch + 1];
    first = (int64)head * backward.q_tiles + hr_backward_first_tile(row, batch, HR_Q_TILE);
    tiles = (end - row + HR_Q_TILE - 1) / HR_Q_TILE;
#endif
    for (int i = threadIdx.x; i < tiles; i += THREADS)
      sum += backward.sink_terms[first + i];
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0)
    backward.d_sinks[head] = sum;
}
