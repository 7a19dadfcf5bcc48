/* SPDX-License-Identifier: Apache-2.0 */
/* Combining the splits of decode_split.cu through global memory, by the block of a group that finishes last. */

/* Shared memory of that block. */
__device__ inline row_total *totals()
{
  return (row_total *)shared;
}
__device__ inline float *factors()
{
  return (float *)(totals() + GROUP_ROWS);
} /* [split][row] */

/* Totals and factors of the rows over the splits, a warp per row. */
__device__ inline void total_splits(const decode_call &call, const block_work &w)
{
  constexpr int OF_LANE = (HR_DECODE_SPLITS_MAX + 31) / 32;
  for (int row = threadIdx.x / 32; row < USED_ROWS; row += HR_WARPS) {
    row_total t = {minus_infinity(), 0};
    float2 own[OF_LANE];
#pragma unroll
    for (int i = 0; i < OF_LANE; i++) {
      int split = threadIdx.x % 32 + 32 * i;
      const float2 *stats = call.partial_stats + place_of_split(w, split) * GROUP_ROWS + row;
      own[i] = split < w.splits ? __ldcg(stats) : make_float2(minus_infinity(), 0);
    }
#pragma unroll
    for (int i = 0; i < OF_LANE; i++)
      t.base = fmaxf(t.base, own[i].x);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      t.base = fmaxf(t.base, __shfl_xor_sync(0xFFFFFFFFu, t.base, distance));
#pragma unroll
    for (int i = 0; i < OF_LANE; i++) {
      int split = threadIdx.x % 32 + 32 * i;
      float factor = factor_of(own[i].x, t.base);
      if (split < w.splits)
        factors()[split * GROUP_ROWS + row] = factor;
      t.sum += own[i].y * factor;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      t.sum += __shfl_xor_sync(0xFFFFFFFFu, t.sum, distance);
    if (threadIdx.x % 32 == 0)
      totals()[row] = t;
  }
}

#define SHARERS (THREADS / COLUMNS > 1 ? THREADS / COLUMNS : 1) /* threads that share a group's splits */

/* Sum over the sharers, in shared memory behind the factors. */
__device__ inline float4 add_sharers(float4 out, int sharer)
{
  if (SHARERS == 1)
    return out;
  float4 *parts = (float4 *)(factors() + HR_DECODE_SPLITS_MAX * GROUP_ROWS);
  __syncthreads();
  parts[threadIdx.x] = out;
  __syncthreads();
  for (int i = 1; sharer == 0 && i < SHARERS; i++)
    add_scaled(out, parts[threadIdx.x + i], 1);
  return out;
}

/* Four columns of a split's part. */
__device__ inline float4 part_of_split(const decode_call &call, const block_work &w, int split, int row, int column)
{
  return __ldcg((const float4 *)(call.partial_o + (place_of_split(w, split) * GROUP_ROWS + row) * HR_V + column));
}

/* Adds the splits' rows, which other blocks have written. The first loads do not wait for the factors. */
__device__ inline void add_splits(const decode_call &call, const block_work &w)
{
  constexpr int AHEAD = 8;
  bool totals_known = false;
#pragma unroll 1
  for (int first = 0; first < COLUMNS; first += THREADS / SHARERS) {
    int sharer = threadIdx.x % SHARERS, i = first + threadIdx.x / SHARERS;
    int row = i / OF_ROW, column = i % OF_ROW * 4;
    bool there = i < COLUMNS && threadIdx.x / SHARERS < THREADS / SHARERS;
    int end = there ? w.splits : 0;
    float4 ahead[AHEAD], out = {};
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (sharer + n * SHARERS < end)
        ahead[n] = part_of_split(call, w, sharer + n * SHARERS, row, column);
    if (!totals_known) {
      total_splits(call, w);
      __syncthreads();
      totals_known = true;
    }
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (sharer + n * SHARERS < end)
        add_scaled(out, ahead[n], factors()[(sharer + n * SHARERS) * GROUP_ROWS + row]);
#pragma unroll 8
    for (int split = sharer + AHEAD * SHARERS; split < end; split += SHARERS)
      add_scaled(out, part_of_split(call, w, split, row, column), factors()[split * GROUP_ROWS + row]);
    out = add_sharers(out, sharer);
    if (there && sharer == 0)
      finish(call, w, row, column, out, totals()[row]);
  }
}

/* Whether this block is the last of its group to get here; the counter is 0 again after the last. The barriers carry
 * the fences of one thread over to the others. */
__device__ inline bool is_last(const decode_call &call, const block_work &w)
{
  __shared__ int finished;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    finished = atomicAdd(call.counters + w.group, 1);
    if (finished == w.splits - 1)
      call.counters[w.group] = 0;
    __threadfence();
  }
  __syncthreads();
  return finished == w.splits - 1;
}

/* Writes four columns of O, or with several splits of this split's part. */
__device__ inline void finish_part(const decode_call &call, const block_work &w, int i, float4 out, row_total t)
{
  if (w.splits == 1)
    finish(call, w, i / OF_ROW, i % OF_ROW * 4, out, t);
  else
    put_part(call, w, i, out, t);
}

__device__ inline void wait_for_parts(const decode_call &, const block_work &)
{
}

__device__ inline void combine_splits(const decode_call &call, const block_work &w)
{
#ifndef HR_APART
  if (w.splits > 1 && is_last(call, w))
    add_splits(call, w);
#endif
}
