/* SPDX-License-Identifier: Apache-2.0 */
/* gemv.cu's products by fused multiply-adds in fp32. A lane loads HR_LOAD bytes of each of its warp's rows, as many as
 * all rows are aligned to; the lanes of a warp have consecutive chunks. A program is for HR_TOKENS tokens, a power of
 * two. */

#define TOKENS HR_TOKENS
#define CHUNK (HR_LOAD / (int)sizeof(element)) /* elements of a lane */
#define SLAB (WARP * CHUNK)                    /* of a warp */
#define WORDS ((HR_LOAD + 3) / 4)
#define SUMS (ROWS * TOKENS)

struct chunk {
  unsigned word[WORDS];

  __device__ float at(int i) const
  {
    return value_in(word[i / PER_WORD], i % PER_WORD);
  }
};

__device__ inline chunk load_chunk(const element *row, int64 at, int64 k)
{
  chunk c = {{0}};
  if (at >= k)
    return c;
#if HR_LOAD == 16
  const uint4 v = *(const uint4 *)(row + at);
  c.word[0] = v.x, c.word[1] = v.y, c.word[2] = v.z, c.word[3] = v.w;
#elif HR_LOAD == 8
  const uint2 v = *(const uint2 *)(row + at);
  c.word[0] = v.x, c.word[1] = v.y;
#elif HR_LOAD == 4
  c.word[0] = *(const unsigned *)(row + at);
#elif HR_LOAD == 2
  c.word[0] = *(const unsigned short *)(row + at);
#else
  c.word[0] = *(const unsigned char *)(row + at);
#endif
  return c;
}

/* Adds up each of COUNT values over the lanes, a power of two up to 32: afterwards values[0] of the lanes from
 * i · 32 / COUNT on is the sum of value i. Each exchange halves the values of a lane. */
template <int COUNT, int DISTANCE = WARP / 2> __device__ inline void sum_over_lanes(float *values)
{
  if constexpr (DISTANCE > 0) {
    constexpr int HALF = COUNT / 2;
    const bool upper = threadIdx.x & DISTANCE;
    if constexpr (HALF == 0)
      values[0] += __shfl_xor_sync(0xFFFFFFFFu, values[0], DISTANCE);
#pragma unroll
    for (int i = 0; i < HALF; i++) {
      float kept = upper ? values[i + HALF] : values[i], sent = upper ? values[i] : values[i + HALF];
      values[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, sent, DISTANCE);
    }
    sum_over_lanes<HALF == 0 ? 1 : HALF, DISTANCE / 2>(values);
  }
}

struct accumulators {
  const element *w[ROWS], *x[TOKENS];
  float sum[SUMS]; /* [row][token] */

  __device__ accumulators(const gemv_call &call, const warp_operands &mine)
  {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int row = 0; row < ROWS; row++)
      w[row] = w_at(call, mine, row) + lane * CHUNK;
#pragma unroll
    for (int token = 0; token < TOKENS; token++)
      x[token] = x_at(call, mine, token) + lane * CHUNK;
#pragma unroll
    for (int i = 0; i < SUMS; i++)
      sum[i] = 0;
  }

  __device__ void prefetch(const gemv_call &call, const warp_operands &mine) const
  {
#pragma unroll
    for (int row = 0; row < ROWS; row++)
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++) {
        int64 at = (int64)(mine.k_warp * HR_UNROLL + i) * SLAB;
        if (at + threadIdx.x % WARP * CHUNK < call.k)
          prefetch_to_l2(w[row] + at);
      }
  }

  __device__ void multiply_chunk(const chunk (&rows)[ROWS], const chunk (&tokens)[TOKENS])
  {
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
#pragma unroll
      for (int row = 0; row < ROWS; row++)
#pragma unroll
        for (int token = 0; token < TOKENS; token++)
          sum[row * TOKENS + token] = fmaf(rows[row].at(j), tokens[token].at(j), sum[row * TOKENS + token]);
  }

  __device__ void multiply(const gemv_call &call, const warp_operands &mine)
  {
    const int64 left = call.k - threadIdx.x % WARP * CHUNK; /* elements from the lane's first on */
#pragma unroll 1                                            /* more steps at once take the registers of other warps */
    for (int64 first = (int64)mine.k_warp * HR_UNROLL * SLAB; first < call.k; first += HR_K_WARPS * HR_UNROLL * SLAB) {
      if (first + HR_K_WARPS * HR_UNROLL * SLAB >= call.k)
        allow_next_kernel();
      chunk rows[HR_UNROLL][ROWS];
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++)
#pragma unroll
        for (int row = 0; row < ROWS; row++)
          rows[i][row] = load_chunk(w[row], first + i * SLAB, left);
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++) {
        chunk tokens[TOKENS];
#pragma unroll
        for (int token = 0; token < TOKENS; token++)
          tokens[token] = load_chunk(x[token], first + i * SLAB, left);
        multiply_chunk(rows[i], tokens);
      }
    }
  }

  __device__ void put(float (&partial)[TOKENS][BLOCK_ROWS], int row)
  {
    sum_over_lanes<SUMS>(sum);
    const int lane = threadIdx.x % WARP, lanes = WARP / SUMS, i = lane / lanes;
    if (lane % lanes == 0)
      partial[i % TOKENS][row + i / TOKENS] = sum[0];
  }
};
