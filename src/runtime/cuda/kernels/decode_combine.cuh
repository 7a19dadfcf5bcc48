/* SPDX-License-Identifier: Apache-2.0 */
/* Combining the parts of decode_split.cu, which includes this file behind its warp_state: the O of a block's warps in
 * shared memory, and the O of a group's splits: by the cluster's blocks, each some columns, which they send one
 * another; or through global memory by the block that finishes last. */

/* The base of a row's exponentials over all of its parts, and their sum. */
struct row_total {
  float base, sum;
};

/* The factor of a part with base `part_base` in a total with base `base`. */
__device__ inline float factor_of(float part_base, float base)
{
  return weight_of(part_base, base, 0);
}

__device__ inline float2 *warp_stats()
{
  return (float2 *)shared;
}
__device__ inline float *warp_o()
{
  return (float *)((char *)shared + O_AT);
}

/* A thread's columns of a row of O. */
__device__ inline void store_row(const warp_state &s, int half, float *to)
{
  int lane = threadIdx.x % 32;
#ifdef HR_QUANTIZED
#pragma unroll
  for (int n = 0; n < O_TILES; n += 2) /* the even and the odd dims of 16 */
    *(float4 *)(to + n * 8 + lane % 4 * 4) =
        make_float4(s.out[n][2 * half], s.out[n + 1][2 * half], s.out[n][2 * half + 1], s.out[n + 1][2 * half + 1]);
#else
#pragma unroll
  for (int n = 0; n < O_TILES; n++)
    *(float2 *)(to + n * 8 + lane % 4 * 2) = make_float2(s.out[n][2 * half], s.out[n][2 * half + 1]);
#endif
}

/* Every warp's O, bases and sums to shared memory. */
__device__ inline void store_warp(const decode_call &call, const warp_state &s, int tile)
{
  int lane = threadIdx.x % 32, team = threadIdx.x / 32 / TEAM;
#pragma unroll
  for (int half = 0; half < HALVES; half++) {
    int row = lane / 4 + 8 * half, at = (team * TILES + tile) * ROWS + row;
    float sum = s.sum[half] + __shfl_xor_sync(0xFFFFFFFFu, s.sum[half], 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    if (tile * ROWS + row >= USED_ROWS)
      continue;
    if (lane % 4 == 0)
      warp_stats()[at] = make_float2(__fmul_rn(s.base[half], score_unit(call)), sum);
    store_row(s, half, warp_o() + at * O_PITCH);
  }
}

__device__ inline void add_scaled(float4 &sum, float4 part, float factor)
{
  sum.x += part.x * factor;
  sum.y += part.y * factor;
  sum.z += part.z * factor;
  sum.w += part.w * factor;
}

/* Writes four columns, or those of them that there are. */
__device__ inline void store_columns(const decode_call &call, element *to, int column, const float (&values)[4])
{
  if (column + 4 <= call.v_dim && (size_t)to % 8 == 0) {
    *(uint2 *)to = make_uint2(word_of(values), word_of(values + 2));
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < call.v_dim)
      to[i] = from_float(values[i]);
}

/* What O of a head is multiplied by at the end: the scale of its V. */
__device__ inline float out_factor(const decode_call &call, int head)
{
#ifdef HR_QUANTIZED
  return TOKEN_SCALES ? 1 / P_FACTOR : call.v_scales[head / HR_V_GROUP];
#else
  return 1;
#endif
}

/* Writes four columns of O, and with the first ones the log-sum-exp; nothing of a row that pads the group. */
__device__ inline void finish(const decode_call &call, const block_work &w, int row, int column, float4 out,
                              row_total t)
{
  if (HR_PARTS * HR_HEADS != HR_UNIT_HEADS && row >= w.rows)
    return;
  int head = row_head(w, row), query = row % HR_Q_LEN;
  key_range keys = keys_of_row(call, w, row);
  float inverse = 1;
  if (call.sinks) {
    float sink = call.sinks[head], base = fmaxf(t.base, sink);
    inverse = factor_of(t.base, base);
    t.sum = t.sum * inverse + weight_of(sink, base, call.top);
    t.base = base;
  }
  inverse = __fdividef(inverse, t.sum);
  int64 at = w.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head;
  float all[4] = {out.x, out.y, out.z, out.w}, factor = out_factor(call, head);
#pragma unroll
  for (int i = 0; i < 4; i++)
    all[i] = keys.first >= keys.end ? 0.0f : all[i] * inverse * factor;
  store_columns(call, call.o + at + column, column, all);
  if (call.lse && column == 0)
    call.lse[((int64)w.sequence * HR_Q_LEN + query) * call.q_heads + head] = t.base + (log2f(t.sum) - call.top) * LN_2;
}

/* Four columns of a row's O over PARTS parts: part p has stats[p * GROUP_ROWS] and o[p * pitch]. */
template <int PARTS> __device__ inline float4 add_parts(const float2 *stats, const float *o, int pitch, row_total &t)
{
  float4 out = {};
  t = {minus_infinity(), 0};
#pragma unroll
  for (int part = 0; part < PARTS; part++)
    t.base = fmaxf(t.base, stats[part * GROUP_ROWS].x);
#pragma unroll
  for (int part = 0; part < PARTS; part++) {
    float2 own = stats[part * GROUP_ROWS];
    float factor = factor_of(own.x, t.base);
    t.sum += own.y * factor;
    add_scaled(out, *(const float4 *)(o + part * pitch), factor);
  }
  return out;
}

#define OF_ROW (HR_V / 4) /* groups of four columns */
#define COLUMNS (USED_ROWS * OF_ROW)

#if HR_CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(HR_CLUSTER, 1, 1)
#define OWN_COLUMNS hr_decode_own_columns(USED_ROWS, HR_V, HR_CLUSTER)

/* What the cluster's blocks send to this one: of each split the columns that this block adds, and the stats of all
 * rows. */
__device__ inline float4 *received_o(int split)
{
  return (float4 *)((char *)shared + RECEIVED_AT) + split * OWN_COLUMNS;
}
__device__ inline float2 *received_stats(int split)
{
  return (float2 *)((char *)shared + RECEIVED_STATS_AT) + split * GROUP_ROWS;
}
__device__ inline unsigned received_barrier()
{
  return shared_address((char *)shared + BARRIER_AT);
}

__device__ inline int columns_of_block(int block)
{
  return max(0, min(OWN_COLUMNS, COLUMNS - block * OWN_COLUMNS));
}

__device__ inline void begin_combine(const block_work &w)
{
  if (threadIdx.x == 0) {
    mbarrier_init(received_barrier(), 1), fence_mbarrier_init();
    mbarrier_arrive_expect_tx(received_barrier(), HR_CLUSTER * (columns_of_block(w.split) * 16 + USED_ROWS * 8));
  }
  __syncwarp();
  cluster_arrive_relaxed();
}

/* Sends four columns to the block that adds them, and the row's stats to all blocks, each thread to another. */
__device__ inline void finish_part(const decode_call &, const block_work &w, int i, float4 out, row_total t)
{
  unsigned columns = shared_address(received_o(w.split) + i % OWN_COLUMNS);
  unsigned stats = shared_address(received_stats(w.split) + i / OF_ROW);
  send_to_block(i / OWN_COLUMNS, columns, out, received_barrier());
  for (int block = i % OF_ROW; block < HR_CLUSTER; block += OF_ROW)
    send_to_block(block, stats, make_float2(t.base, t.sum), received_barrier());
}

__device__ inline void wait_for_parts(const decode_call &, const block_work &)
{
}

__device__ inline void combine_splits(const decode_call &call, const block_work &w)
{
  mbarrier_wait(received_barrier(), 0);
  for (int own = threadIdx.x; own < columns_of_block(w.split); own += THREADS) {
    int i = w.split * OWN_COLUMNS + own, row = i / OF_ROW;
    row_total t;
    const float *columns = (const float *)(received_o(0) + own);
    float4 out = add_parts<HR_CLUSTER>(received_stats(0) + row, columns, OWN_COLUMNS * 4, t);
    finish(call, w, row, i % OF_ROW * 4, out, t);
  }
}

#else
#define IN_CLUSTERS

__device__ inline void begin_combine(const block_work &)
{
}

/* Writes four columns of this split's part, and with a row's first ones its stats. */
__device__ inline void put_part(const decode_call &call, const block_work &w, int i, float4 out, row_total t)
{
  int64 part = place_of_split(w, w.split) * GROUP_ROWS + i / OF_ROW;
  *(float4 *)(call.partial_o + part * HR_V + i % OF_ROW * 4) = out;
  if (i % OF_ROW == 0)
    call.partial_stats[part] = make_float2(t.base, t.sum);
}

#ifdef HR_SHARES
#include "runtime/cuda/kernels/decode_combine_shares.cuh"
#else
#include "runtime/cuda/kernels/decode_combine_global.cuh"
#endif
#endif

/* Adds the teams' rows; the result is O, or with several splits a part of it. */
__device__ inline void combine_warps(const decode_call &call, const block_work &w)
{
#if HR_CLUSTER > 1
  cluster_wait(); /* all blocks have begun */
#endif
  for (int i = threadIdx.x; i < COLUMNS; i += THREADS) {
    int row = i / OF_ROW, column = i % OF_ROW * 4;
    row_total t;
    float4 out = add_parts<TEAMS>(warp_stats() + row, warp_o() + row * O_PITCH + column, GROUP_ROWS * O_PITCH, t);
    finish_part(call, w, i, out, t);
  }
}
