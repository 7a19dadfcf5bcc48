/* SPDX-License-Identifier: Apache-2.0 */
/* gemv.cu's products by mma.sync: a tile of 16 rows of W and 16 of k times 8 tokens.
 *
 * A lane loads 16 bytes of each of its rows, 8 elements, which are its shares of two products: the order of k within
 * 32 elements differs from the instruction's, but in W and in x alike. Lane 4 r + q has elements 8 q … 8 q + 7 of rows
 * r and r + 8 of W, and of token r.
 *
 * With HR_FP8 these are 16 elements of four products, and of a token two loads, which are made one by one: they come
 * from the L1, and would take the registers of loads of W. With HR_GEMV_SCALED_BLOCKS the four products are added up
 * apart and multiplied by the scale of their block, which a tile and a slab have one of. */

#define TOKENS 8
#define TILES (ROWS / HR_GEMV_MMA_ROWS)
#define CHUNK (HR_GEMV_LOAD_MAX / (int)sizeof(weight)) /* elements of k of a lane */
#define SLAB (4 * CHUNK)                               /* of two or four products */

__device__ inline uint4 load_chunk(const element *row, int64 at, int64 k)
{
  return at < k ? *(const uint4 *)(row + at) : make_uint4(0, 0, 0, 0);
}

/* W is read once: it takes no room of the L1, which keeps x. */
__device__ inline uint4 load_chunk_once(const weight *row, int64 at, int64 k)
{
  uint4 v = make_uint4(0, 0, 0, 0);
  if (at < k)
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(row + at)
                 : "memory");
  return v;
}

struct accumulators {
  const weight *w[TILES][2];
  const element *x;
  float sum[TILES][4];
#if defined(HR_FP8) && HR_FP8 == HR_GEMV_SCALED_BLOCKS
  const float *scales[TILES];
#endif

  __device__ accumulators(const gemv_call &call, const warp_operands &mine)
  {
    const int lane = threadIdx.x % WARP;
    x = x_at(call, mine, lane / 4) + lane % 4 * CHUNK;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
      for (int half = 0; half < 2; half++)
        w[tile][half] = w_at(call, mine, HR_GEMV_MMA_ROWS * tile + 8 * half + lane / 4) + lane % 4 * CHUNK;
#pragma unroll
      for (int i = 0; i < 4; i++)
        sum[tile][i] = 0;
#if defined(HR_FP8) && HR_FP8 == HR_GEMV_SCALED_BLOCKS
      const int64 row = row_there(call, mine, HR_GEMV_MMA_ROWS * tile);
      scales[tile] = mine.scales + (row >> call.scale_rows_log2) * call.scale_row;
#endif
    }
  }

  __device__ void prefetch(const gemv_call &call, const warp_operands &mine) const
  {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < HR_UNROLL; i++) {
          int64 at = (int64)(mine.k_warp * HR_UNROLL + i) * SLAB;
          if (at + threadIdx.x % 4 * CHUNK < call.k)
            prefetch_to_l2(w[tile][half] + at);
        }
  }

#ifdef HR_FP8
  __device__ float scale_of(int tile, int64 at, int64 k) const
  {
#if HR_FP8 == HR_GEMV_SCALED_BLOCKS
    return at < k ? scales[tile][at >> HR_GEMV_SCALED_LOG2] : 0.0f;
#else
    return 1;
#endif
  }

  __device__ void multiply_slab(int tile, const uint4 (&rows)[2], const uint4 (&tokens)[2], float scale)
  {
    const unsigned low[4] = {rows[0].x, rows[0].y, rows[0].z, rows[0].w},
                   high[4] = {rows[1].x, rows[1].y, rows[1].z, rows[1].w};
    const unsigned x[8] = {tokens[0].x, tokens[0].y, tokens[0].z, tokens[0].w,
                           tokens[1].x, tokens[1].y, tokens[1].z, tokens[1].w};
#if HR_FP8 == HR_GEMV_SCALED_BLOCKS
    float part[4] = {0, 0, 0, 0};
#else
    float(&part)[4] = sum[tile];
#endif
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const unsigned four[4] = {pair_of(low[i]), pair_of(high[i]), pair_of(low[i] >> 16), pair_of(high[i] >> 16)};
      mma_sync(part, four, x[2 * i], x[2 * i + 1]);
    }
#if HR_FP8 == HR_GEMV_SCALED_BLOCKS
#pragma unroll
    for (int i = 0; i < 4; i++)
      sum[tile][i] = fmaf(scale, part[i], sum[tile][i]);
#endif
  }

  __device__ void multiply(const gemv_call &call, const warp_operands &mine)
  {
    const int64 left = call.k - threadIdx.x % 4 * CHUNK; /* elements from the lane's first on */
#pragma unroll 1                                         /* more steps at once take the registers of other warps */
    for (int64 first = (int64)mine.k_warp * HR_UNROLL * SLAB; first < call.k; first += HR_K_WARPS * HR_UNROLL * SLAB) {
      if (first + HR_K_WARPS * HR_UNROLL * SLAB >= call.k)
        allow_next_kernel();
      uint4 rows[TILES][HR_UNROLL][2];
      float factors[TILES][HR_UNROLL];
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
          for (int half = 0; half < 2; half++)
            rows[tile][i][half] = load_chunk_once(w[tile][half], first + i * SLAB, left);
          factors[tile][i] = scale_of(tile, first + i * SLAB, call.k);
        }
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++) {
        const int64 at = first + i * SLAB;
        const uint4 tokens[2] = {load_chunk(x, at, left), load_chunk(x + CHUNK / 2, at, left)};
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
          multiply_slab(tile, rows[tile][i], tokens, factors[tile][i]);
      }
    }
  }
#else
  __device__ void multiply_slab(int tile, const uint4 (&rows)[2], uint4 tokens)
  {
    const unsigned first[4] = {rows[0].x, rows[1].x, rows[0].y, rows[1].y};
    const unsigned second[4] = {rows[0].z, rows[1].z, rows[0].w, rows[1].w};
    mma_sync(sum[tile], first, tokens.x, tokens.y);
    mma_sync(sum[tile], second, tokens.z, tokens.w);
  }

  __device__ void multiply(const gemv_call &call, const warp_operands &mine)
  {
    const int64 left = call.k - threadIdx.x % 4 * CHUNK; /* elements from the lane's first on */
#pragma unroll 1 /* more steps at once take the registers of other warps */
    for (int64 first = (int64)mine.k_warp * HR_UNROLL * SLAB; first < call.k; first += HR_K_WARPS * HR_UNROLL * SLAB) {
      if (first + HR_K_WARPS * HR_UNROLL * SLAB >= call.k)
        allow_next_kernel();
      uint4 rows[TILES][HR_UNROLL][2], tokens[HR_UNROLL];
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
          for (int half = 0; half < 2; half++)
            rows[tile][i][half] = load_chunk_once(w[tile][half], first + i * SLAB, left);
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++)
        tokens[i] = load_chunk(x, first + i * SLAB, left);
#pragma unroll
      for (int i = 0; i < HR_UNROLL; i++)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
          multiply_slab(tile, rows[tile][i], tokens[i]);
    }
  }
#endif

  __device__ void put(float (&partial)[TOKENS][BLOCK_ROWS], int row) const
  {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        partial[lane % 4 * 2 + i % 2][row + HR_GEMV_MMA_ROWS * tile + lane / 4 + i / 2 * 8] = sum[tile][i];
  }
};
