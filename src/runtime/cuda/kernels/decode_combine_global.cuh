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

#define OF_LANE ((HR_DECODE_SPLITS_MAX + 31) / 32) /* splits of a lane, where a row has a warp */

/* Totals and factors of a row over the splits, by its `lanes` lanes. */
__device__ inline void total_row(const decode_call &call, const block_work &w, int row, int lanes)
{
  row_total t = {minus_infinity(), 0};
  float2 own[OF_LANE];
#pragma unroll
  for (int i = 0; i < OF_LANE; i++) {
    int split = threadIdx.x % lanes + lanes * i;
    const float2 *stats = call.partial_stats + place_of_split(w, split) * GROUP_ROWS + row;
    own[i] = split < w.splits && row < USED_ROWS ? __ldcg(stats) : make_float2(minus_infinity(), 0);
  }
#pragma unroll
  for (int i = 0; i < OF_LANE; i++)
    t.base = fmaxf(t.base, own[i].x);
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    t.base = fmaxf(t.base, __shfl_xor_sync(0xFFFFFFFFu, t.base, distance));
#pragma unroll
  for (int i = 0; i < OF_LANE; i++) {
    int split = threadIdx.x % lanes + lanes * i;
    float factor = factor_of(own[i].x, t.base);
    if (split < w.splits && row < USED_ROWS)
      factors()[split * GROUP_ROWS + row] = factor;
    t.sum += own[i].y * factor;
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    t.sum += __shfl_xor_sync(0xFFFFFFFFu, t.sum, distance);
  if (threadIdx.x % lanes == 0 && row < USED_ROWS)
    totals()[row] = t;
}

/* Totals and factors of all rows: four lanes per row, so that many rows wait for their loads together, if these have
 * all splits; otherwise a warp. */
__device__ inline void total_splits(const decode_call &call, const block_work &w)
{
  const int lanes = w.splits <= 4 * OF_LANE ? 4 : 32;
  for (int first = 0; first < USED_ROWS; first += THREADS / lanes)
    total_row(call, w, first + threadIdx.x / lanes, lanes);
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

#define COLUMNS_AT_ONCE (WGMMA && COLUMNS >= 2 * THREADS ? 4 : 1) /* of a thread, whose loads are under way together */
#define AHEAD (COLUMNS_AT_ONCE > 1 ? 4 : 8)                       /* splits, the same */
#define COLUMN_STEP (THREADS / SHARERS)

/* What a thread adds at once: columns COLUMN_STEP apart, of which there are those below `end`. */
struct column_sums {
  int first, end, sharer;
  float4 ahead[COLUMNS_AT_ONCE][AHEAD], out[COLUMNS_AT_ONCE];
};

/* Starts the loads of AHEAD splits from `from` on. */
__device__ inline void load_splits(const decode_call &call, const block_work &w, column_sums &s, int from)
{
#pragma unroll
  for (int k = 0; k < COLUMNS_AT_ONCE; k++) {
    int i = s.first + k * COLUMN_STEP, end = i < s.end ? w.splits : 0;
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (from + s.sharer + n * SHARERS < end)
        s.ahead[k][n] = part_of_split(call, w, from + s.sharer + n * SHARERS, i / OF_ROW, i % OF_ROW * 4);
  }
}

__device__ inline void add_loaded(const block_work &w, column_sums &s, int from)
{
#pragma unroll
  for (int k = 0; k < COLUMNS_AT_ONCE; k++) {
    int i = s.first + k * COLUMN_STEP, end = i < s.end ? w.splits : 0;
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      int split = from + s.sharer + n * SHARERS;
      if (split < end)
        add_scaled(s.out[k], s.ahead[k][n], factors()[split * GROUP_ROWS + i / OF_ROW]);
    }
  }
}

__device__ inline void finish_columns(const decode_call &call, const block_work &w, column_sums &s)
{
#pragma unroll
  for (int k = 0; k < COLUMNS_AT_ONCE; k++) {
    int i = s.first + k * COLUMN_STEP;
    float4 out = add_sharers(s.out[k], s.sharer);
    if (i < s.end && s.sharer == 0)
      finish(call, w, i / OF_ROW, i % OF_ROW * 4, out, totals()[i / OF_ROW]);
    s.out[k] = {};
  }
}

/* Adds the splits' rows, which other blocks have written. The first loads do not wait for the factors. */
__device__ inline void add_splits(const decode_call &call, const block_work &w)
{
  const int own = threadIdx.x / SHARERS;
  bool totals_known = false;
  column_sums s = {own, own < COLUMN_STEP ? COLUMNS : 0, (int)threadIdx.x % SHARERS};
#pragma unroll 1
  for (; s.first - own < COLUMNS; s.first += COLUMNS_AT_ONCE * COLUMN_STEP) {
    load_splits(call, w, s, 0);
    if (!totals_known) {
      total_splits(call, w);
      __syncthreads();
      totals_known = true;
    }
    add_loaded(w, s, 0);
#pragma unroll 1
    for (int from = AHEAD * SHARERS; from < w.splits; from += AHEAD * SHARERS) {
      load_splits(call, w, s, from);
      add_loaded(w, s, from);
    }
    finish_columns(call, w, s);
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
