/* SPDX-License-Identifier: Apache-2.0 */
/* Combining the parts of a group of decode_split.cu whose blocks have equal shares (decode_shares.cuh): by the block
 * that has the end of the sequence, which adds the others' parts to its own. */

__device__ inline bool has_end(const block_work &w)
{
  return w.split == w.splits - 1;
}

/* Waits for the parts of the other blocks, which come before this one; the counter is 0 again. A barrier has to
 * follow. */
__device__ inline void wait_for_parts(const decode_call &call, const block_work &w)
{
  if (threadIdx.x != 0 || w.splits == 1 || !has_end(w))
    return;
  while (atomicAdd(call.counters + w.group, 0) != w.splits - 1)
    __nanosleep(20);
  call.counters[w.group] = 0;
  __threadfence();
}

/* Adds four columns of the other blocks' parts. */
__device__ inline void add_other_parts(const decode_call &call, const block_work &w, int row, int column, float4 &out,
                                       row_total &t)
{
#pragma unroll 2
  for (int split = 0; split < w.splits - 1; split++) {
    int64 at = place_of_split(w, split) * GROUP_ROWS + row;
    float2 other = __ldcg(call.partial_stats + at);
    float4 part = __ldcg((const float4 *)(call.partial_o + at * HR_V + column)), sum = {};
    float base = fmaxf(t.base, other.x), own_factor = factor_of(t.base, base), factor = factor_of(other.x, base);
    add_scaled(sum, out, own_factor);
    add_scaled(sum, part, factor);
    out = sum;
    t = {base, t.sum * own_factor + other.y * factor};
  }
}

/* Writes four columns of O, or leaves them to the block with the sequence's end. */
__device__ inline void finish_part(const decode_call &call, const block_work &w, int i, float4 out, row_total t)
{
  int row = i / OF_ROW, column = i % OF_ROW * 4;
  if (!has_end(w)) {
    put_part(call, w, i, out, t);
    return;
  }
  add_other_parts(call, w, row, column, out, t);
  finish(call, w, row, column, out, t);
}

/* Says that this block's part is there. */
__device__ inline void combine_splits(const decode_call &call, const block_work &w)
{
  if (has_end(w))
    return;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(call.counters + w.group, 1);
  }
}
