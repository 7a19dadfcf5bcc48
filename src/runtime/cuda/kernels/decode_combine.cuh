/* SPDX-License-Identifier: Apache-2.0 */
/* Combining the parts of decode_split.cu, which includes this file behind its warp_state: the O of a block's warps in shared
 * memory, and the O of a group's splits by the block that finishes last. */

/* The base of a row's exponentials over all of its parts, and their sum. */
struct row_total {
  float base, sum;
};

/* The factor of a part with base `part_base` in a total with base `base`. */
__device__ inline float factor_of(float part_base, float base) { return exp2_approx(part_base - safe(base)); }

/* Shared memory; in the last block of a group the factors and totals are those of its splits. */
__device__ inline float2 *warp_stats() { return (float2 *)((char *)shared + STATS_AT); }
__device__ inline float *warp_o() { return (float *)((char *)shared + O_AT); }
__device__ inline row_total *totals() { return (row_total *)shared; }
__device__ inline float *factors() { return (float *)(totals() + ROWS); } /* [part][row] */

/* Every warp's O, bases and sums to shared memory. */
__device__ inline void store_warp(const warp_state &s)
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = warp * ROWS + lane / 4 + 8 * half;
    float sum = s.sum[half] + __shfl_xor_sync(0xFFFFFFFFu, s.sum[half], 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    if (lane % 4 == 0)
      warp_stats()[row] = make_float2(s.base[half], sum);
#pragma unroll
    for (int n = 0; n < O_TILES; n++)
      *(float2 *)(warp_o() + row * O_PITCH + n * 8 + lane % 4 * 2) = make_float2(s.out[n][2 * half], s.out[n][2 * half + 1]);
  }
}

/* From another block's store, which the L1 may not know, or from shared memory. */
template <bool GLOBAL> __device__ inline float2 read_stats(const float2 *stats) { return GLOBAL ? __ldcg(stats) : *stats; }

/* Totals and factors of the rows over up to MOST parts, a warp per row. */
template <int MOST, bool GLOBAL> __device__ inline void total_parts(const float2 *stats, int parts)
{
  constexpr int OF_LANE = (MOST + 31) / 32;
  for (int row = threadIdx.x / 32; row < USED_ROWS; row += HR_WARPS) {
    row_total t = {minus_infinity(), 0};
    float2 own[OF_LANE];
#pragma unroll
    for (int i = 0; i < OF_LANE; i++) {
      int part = threadIdx.x % 32 + 32 * i;
      own[i] = part < parts ? read_stats<GLOBAL>(&stats[part * ROWS + row]) : make_float2(minus_infinity(), 0);
    }
#pragma unroll
    for (int i = 0; i < OF_LANE; i++)
      t.base = fmaxf(t.base, own[i].x);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      t.base = fmaxf(t.base, __shfl_xor_sync(0xFFFFFFFFu, t.base, distance));
#pragma unroll
    for (int i = 0; i < OF_LANE; i++) {
      int part = threadIdx.x % 32 + 32 * i;
      float factor = factor_of(own[i].x, t.base);
      if (part < parts)
        factors()[part * ROWS + row] = factor;
      t.sum += own[i].y * factor;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      t.sum += __shfl_xor_sync(0xFFFFFFFFu, t.sum, distance);
    if (threadIdx.x % 32 == 0)
      totals()[row] = t;
  }
}

__device__ inline void add_scaled(float4 &sum, float4 part, float factor)
{
  sum.x += part.x * factor;
  sum.y += part.y * factor;
  sum.z += part.z * factor;
  sum.w += part.w * factor;
}

/* Writes four columns of O, and with the first ones the log-sum-exp. */
__device__ inline void finish(const decode_call &call, const block_work &w, int row, int column, float4 out, row_total t)
{
  int head = row_head(w, row), query = row % HR_Q_LEN;
  key_range keys = keys_of_row(call, w, row);
  float inverse = 1;
  if (call.sinks) {
    float sink = call.sinks[head] * LOG2_E, base = fmaxf(t.base, sink);
    inverse = factor_of(t.base, base);
    t.sum = t.sum * inverse + exp2_approx(sink - base);
    t.base = base;
  }
  inverse /= t.sum;
  int64 at = w.sequence * call.o_at.batch + query * call.o_at.row + head * call.o_at.head;
  const float all[4] = {out.x, out.y, out.z, out.w};
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < call.v_dim)
      call.o[at + column + i] = from_float(keys.first >= keys.end ? 0.0f : all[i] * inverse);
  if (call.lse && column == 0)
    call.lse[((int64)w.sequence * HR_Q_LEN + query) * call.q_heads + head] = (t.base + log2f(t.sum)) * LN_2;
}

/* Adds the warps' rows; the result is O, or with several splits a part of it. */
__device__ inline void combine_warps(const decode_call &call, const block_work &w)
{
  int64 part = ((int64)w.group * call.splits + w.split) * ROWS;
  total_parts<HR_WARPS, false>(warp_stats(), HR_WARPS);
  __syncthreads();
  for (int i = threadIdx.x; i < USED_ROWS * HR_V / 4; i += THREADS) {
    int row = i / (HR_V / 4), column = i % (HR_V / 4) * 4;
    float4 out = {};
#pragma unroll
    for (int warp = 0; warp < HR_WARPS; warp++)
      add_scaled(out, *(const float4 *)(warp_o() + (warp * ROWS + row) * O_PITCH + column), factors()[warp * ROWS + row]);
    if (call.splits == 1) {
      finish(call, w, row, column, out, totals()[row]);
      continue;
    }
    *(float4 *)(call.partial_o + (part + row) * HR_V + column) = out;
    if (column == 0)
      call.partial_stats[part + row] = make_float2(totals()[row].base, totals()[row].sum);
  }
}

#define COLUMNS (USED_ROWS * HR_V / 4) /* groups of four columns, of all rows */
#define SHARERS (THREADS / COLUMNS > 1 ? THREADS / COLUMNS : 1) /* threads that share a group's splits */

/* Sum over the sharers, in shared memory behind the factors. */
__device__ inline float4 add_sharers(float4 out, int sharer)
{
  if (SHARERS == 1)
    return out;
  float4 *parts = (float4 *)(factors() + HR_DECODE_SPLITS_MOST * ROWS);
  __syncthreads();
  parts[threadIdx.x] = out;
  __syncthreads();
  for (int i = 1; sharer == 0 && i < SHARERS; i++)
    add_scaled(out, parts[threadIdx.x + i], 1);
  return out;
}

/* Adds the splits' rows, which other blocks have written. The first loads do not wait for the factors. */
__device__ inline void combine_splits(const decode_call &call, const block_work &w)
{
  constexpr int AHEAD = 8;
  int64 part = (int64)w.group * call.splits * ROWS;
  bool totals_known = false;
#pragma unroll 1
  for (int first = 0; first < COLUMNS; first += THREADS / SHARERS) {
    int sharer = threadIdx.x % SHARERS, i = first + threadIdx.x / SHARERS;
    int row = i / (HR_V / 4), column = i % (HR_V / 4) * 4;
    bool there = i < COLUMNS && threadIdx.x / SHARERS < THREADS / SHARERS;
    int end = there ? call.splits : 0;
    const float *from = call.partial_o + (part + row) * HR_V + column;
    float4 ahead[AHEAD], out = {};
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (sharer + n * SHARERS < end)
        ahead[n] = __ldcg((const float4 *)(from + (int64)(sharer + n * SHARERS) * ROWS * HR_V));
    if (!totals_known) {
      total_parts<HR_DECODE_SPLITS_MOST, true>(call.partial_stats + part, call.splits);
      __syncthreads();
      totals_known = true;
    }
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (sharer + n * SHARERS < end)
        add_scaled(out, ahead[n], factors()[(sharer + n * SHARERS) * ROWS + row]);
#pragma unroll 8
    for (int split = sharer + AHEAD * SHARERS; split < end; split += SHARERS)
      add_scaled(out, __ldcg((const float4 *)(from + (int64)split * ROWS * HR_V)), factors()[split * ROWS + row]);
    out = add_sharers(out, sharer);
    if (there && sharer == 0)
      finish(call, w, row, column, out, totals()[row]);
  }
}

/* Whether this block is the last of its group to get here; the counter is 0 again after the last. The barriers carry the fences of
 * one thread over to the others. */
__device__ inline bool is_last(const decode_call &call, const block_work &w)
{
  __shared__ int finished;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    finished = atomicAdd(call.counters + w.group, 1);
    if (finished == call.splits - 1)
      call.counters[w.group] = 0;
    __threadfence();
  }
  __syncthreads();
  return finished == call.splits - 1;
}
