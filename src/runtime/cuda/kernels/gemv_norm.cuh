/* SPDX-License-Identifier: Apache-2.0 */
/* gemv.cu's norm of x before the products, by every block for itself: the normed rows are few and go to shared memory,
 * a kernel of its own would begin and end. HR_NORM: RMS_OF_ROWS or LAYER_OF_ROWS, of up to HR_NORM_TOKENS rows. */

#define RMS_OF_ROWS 1
#define LAYER_OF_ROWS 2
#define NORMED HR_NORM_TOKENS
#define PACK (HR_LOAD / (int)sizeof(element)) /* elements that a thread moves at once; rows are whole packs */
#define WARPS (THREADS / WARP)

extern __shared__ uint4 normed_rows[]; /* elements: [NORMED][k], then the norm's weight and bias [k] */

struct alignas(HR_LOAD) norm_pack {
  element at[PACK];
};

__device__ inline norm_pack *pack_of_row(const gemv_call &call, int row, int64 i)
{
  return (norm_pack *)((element *)normed_rows + row * call.k + i);
}

/* Calls `what` with each of the thread's packs of a row; what it writes to shared memory there, it alone reads until
 * the block has met. */
template <class WHAT> __device__ inline void each_pack(int64 k, WHAT what)
{
#pragma unroll 1
  for (int64 i = (int64)threadIdx.x * PACK; i < k; i += THREADS * PACK)
    what(i);
}

/* The norm's weight and bias are asked for while the kernel before ends. */
__device__ inline void prefetch_norm(const gemv_call &call)
{
  each_pack(call.k, [&](int64 i) {
    prefetch_to_l2(call.norm_weight + i);
    if (HR_NORM == LAYER_OF_ROWS)
      prefetch_to_l2(call.norm_bias + i);
  });
}

/* The sums over the block's threads, in every thread. The order depends on no timing. */
__device__ inline void sum_over_block(float (&values)[NORMED])
{
  __shared__ float of_warps[NORMED][WARPS];
  __syncthreads(); /* sums from before have been read */
#pragma unroll
  for (int row = 0; row < NORMED; row++) {
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
      values[row] += __shfl_xor_sync(0xFFFFFFFFu, values[row], distance);
    if (threadIdx.x % WARP == 0)
      of_warps[row][threadIdx.x / WARP] = values[row];
  }
  __syncthreads();
#pragma unroll
  for (int row = 0; row < NORMED; row++) {
    values[row] = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
      values[row] += of_warps[row][warp];
  }
}

__device__ inline const element *row_of_x(const gemv_call &call, int64 stride, int row)
{
  return call.x + (row < call.tokens ? row : call.tokens - 1) * stride;
}

/* Copies the rows to shared memory as they are, with the norm's weight and bias, all of a thread's loads at once; adds
 * their elements up, or the squares. Rows that are not there are the last one. */
__device__ inline void fetch_rows(const gemv_call &call, int64 stride, float (&sums)[NORMED])
{
#pragma unroll
  for (int row = 0; row < NORMED; row++)
    sums[row] = 0;
  each_pack(call.k, [&](int64 i) {
    norm_pack packs[NORMED + 2];
#pragma unroll
    for (int row = 0; row < NORMED; row++)
      packs[row] = *(const norm_pack *)(row_of_x(call, stride, row) + i);
    packs[NORMED] = *(const norm_pack *)(call.norm_weight + i);
    if (HR_NORM == LAYER_OF_ROWS)
      packs[NORMED + 1] = *(const norm_pack *)(call.norm_bias + i);
#pragma unroll
    for (int row = 0; row < NORMED + HR_NORM; row++) /* a layer norm has two rows beside x's */
      *pack_of_row(call, row, i) = packs[row];
#pragma unroll
    for (int row = 0; row < NORMED; row++) {
#pragma unroll
      for (int j = 0; j < PACK; j++) {
        const float x = to_float(packs[row].at[j]);
        sums[row] += HR_NORM == LAYER_OF_ROWS ? x : x * x;
      }
    }
  });
  sum_over_block(sums);
}

__device__ inline void sum_squares(const gemv_call &call, const float (&means)[NORMED], float (&sums)[NORMED])
{
#pragma unroll
  for (int row = 0; row < NORMED; row++) {
    sums[row] = 0;
    each_pack(call.k, [&](int64 i) {
      const norm_pack pack = *pack_of_row(call, row, i);
#pragma unroll
      for (int j = 0; j < PACK; j++) {
        const float from_mean = to_float(pack.at[j]) - means[row];
        sums[row] += from_mean * from_mean;
      }
    });
  }
  sum_over_block(sums);
}

/* Writes the norm of each row over it. */
__device__ inline void scale_rows(const gemv_call &call, const float (&means)[NORMED], const float (&scales)[NORMED])
{
  each_pack(call.k, [&](int64 i) {
    const norm_pack weight = *pack_of_row(call, NORMED, i);
    norm_pack bias = weight;
    if (HR_NORM == LAYER_OF_ROWS)
      bias = *pack_of_row(call, NORMED + 1, i);
#pragma unroll
    for (int row = 0; row < NORMED; row++) {
      norm_pack pack = *pack_of_row(call, row, i);
#pragma unroll
      for (int j = 0; j < PACK; j++) {
        const float value = (to_float(pack.at[j]) - means[row]) * scales[row] * to_float(weight.at[j]);
        pack.at[j] = from_float(HR_NORM == LAYER_OF_ROWS ? value + to_float(bias.at[j]) : value);
      }
      *pack_of_row(call, row, i) = pack;
    }
  });
}

/* Puts the norms of the call's rows, `stride` elements apart, into shared memory. */
__device__ inline void norm_rows(const gemv_call &call, int64 stride)
{
  const float share = 1.0f / (float)call.k;
  float means[NORMED] = {0}, scales[NORMED];
  if (HR_NORM == LAYER_OF_ROWS) {
    fetch_rows(call, stride, means);
#pragma unroll
    for (int row = 0; row < NORMED; row++)
      means[row] *= share;
    sum_squares(call, means, scales);
  } else {
    fetch_rows(call, stride, scales);
  }
#pragma unroll
  for (int row = 0; row < NORMED; row++)
    scales[row] = rsqrtf(scales[row] * share + call.epsilon);
  scale_rows(call, means, scales);
  __syncthreads();
}
