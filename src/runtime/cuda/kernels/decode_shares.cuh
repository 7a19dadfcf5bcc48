/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of all sequences as one list, of which the blocks of each head block take equal shares, so that no
 * multiprocessor waits for a last wave. A share may begin within a sequence and end within another.
 *
 *   list:        | sequence 0     | sequence 1            | sequence 2  | …
 *   blockIdx.y:  |     0     |     1     |     2     |     3     | …     for each blockIdx.x, a block of query heads
 *
 * A step is a chunk of each warp. A sequence has as many parts as shares that it spans. A block begins with the last
 * sequence of its share, whose part it leaves to the block that has that sequence's end, and ends with the first one,
 * whose other parts are there by then: a block waits for blocks before it only, and blocks begin in their order. Blocks
 * of one share read all heads of the same tokens at about the same time; with the heads one after another in the list
 * memory was read 3% slower on an H100.
 */

/* Steps of a sequence; one without keys has one, in which its zeros are written. */
__device__ inline int steps_of(int chunks)
{
  return max(1, (chunks + HR_WARPS - 1) / HR_WARPS);
}

__device__ inline int steps_of_sequence(const decode_call &call, int sequence)
{
  return sequence < call.batch ? steps_of(chunks_of(call, length_of(call, sequence))) : 0;
}

/* The sum over this lane and those before it. */
__device__ inline int sum_up_to_lane(int value)
{
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    int before = __shfl_up_sync(0xFFFFFFFFu, value, distance);
    value += (int)threadIdx.x % 32 >= distance ? before : 0;
  }
  return value;
}

__device__ inline int steps_of_all(const decode_call &call)
{
  if (!call.lengths)
    return call.batch * steps_of_sequence(call, 0);
  int sum = 0;
  for (int first = 0; first < call.batch; first += 32)
    sum += __shfl_sync(0xFFFFFFFFu, sum_up_to_lane(steps_of_sequence(call, first + threadIdx.x % 32)), 31);
  return sum;
}

/* The sequence of step `at` of the list; `begin`: where it begins. */
__device__ inline int sequence_of_step(const decode_call &call, int at, int &begin)
{
  begin = 0;
  if (!call.lengths) {
    int each = steps_of_sequence(call, 0);
    begin = at / each * each;
    return at / each;
  }
  for (int first = 0;; first += 32) {
    int own = steps_of_sequence(call, first + threadIdx.x % 32), sum = sum_up_to_lane(own);
    unsigned behind = __ballot_sync(0xFFFFFFFFu, begin + sum > at);
    if (behind != 0) {
      int lane = __ffs(behind) - 1;
      begin += __shfl_sync(0xFFFFFFFFu, sum - own, lane);
      return first + lane;
    }
    begin += __shfl_sync(0xFFFFFFFFu, sum, 31);
  }
}

/* This block's part of a sequence that begins at w.sequence_at. */
__device__ inline void set_part(const decode_call &call, block_work &w, int sequence)
{
  set_sequence(call, w, sequence);
  set_heads(w, blockIdx.x, gridDim.x);
  int first_share = w.sequence_at / w.share, last_step = w.sequence_at + steps_of(w.chunks) - 1;
  w.split = (int)blockIdx.y - first_share;
  w.splits = last_step / w.share - first_share + 1;
  set_chunks(w, max(0, w.begin - w.sequence_at) * HR_WARPS, (w.end - w.sequence_at) * HR_WARPS);
}

__device__ inline block_work find_work(const decode_call &call)
{
  block_work w;
  int steps = steps_of_all(call);
  w.share = max((steps + (int)gridDim.y - 1) / (int)gridDim.y, call.share_min);
  w.begin = (int)blockIdx.y * w.share;
  w.end = min(steps, w.begin + w.share);
  if (w.begin < w.end)
    set_part(call, w, sequence_of_step(call, w.end - 1, w.sequence_at));
  return w;
}

__device__ inline bool is_work(const block_work &w)
{
  return w.begin < w.end;
}

__device__ inline bool is_last_work(const block_work &w)
{
  return w.sequence_at <= w.begin;
}

/* Whether the block has more to do; `w` is then that. */
__device__ inline bool next_work(const decode_call &call, block_work &w)
{
  if (is_last_work(w))
    return false;
  __syncthreads(); /* stages replace O */
  w.end = w.sequence_at;
  w.sequence_at -= steps_of_sequence(call, w.sequence - 1);
  set_part(call, w, w.sequence - 1);
  return true;
}

/* Where a split of the group is in the workspace: each block leaves one at most. */
__device__ inline int64 place_of_split(const block_work &w, int split)
{
  return (int64)(w.sequence_at / w.share + split) * gridDim.x + blockIdx.x;
}
