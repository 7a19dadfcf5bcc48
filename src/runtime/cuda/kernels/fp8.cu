/* SPDX-License-Identifier: Apache-2.0 */
/* fp8 (E4M3) and elements of the program's dtype: weights times their scales, and activations over scales of their own.
 *
 *   widen_fp8, a thread: 16 elements of a row, one load
 *   narrow_fp8, a block: a row of x, a thread 16 elements at a time, 8 threads 128. A scale is the largest of a row, or
 *     of 128 columns, over 448: of a row it is found first, and x comes from the L1 or L2 then.
 *
 * Bound: memory, 1 byte read and 2 written of each element, and the other way round. */
#include "runtime/cuda/kernels/dtype.cuh"
#ifndef HR_DTYPE_fp8
#include "runtime/cuda/kernels/fp8.cuh"
#endif
#include "runtime/cuda/kernels/early_launch.cuh"

typedef long long int64;

#define PACK 16
#define BLOCK_LOG2 7 /* columns of a block */

struct alignas(16) pack {
  element at[PACK];
};

/* Scales: of rows with `blocks` 0; else of 2^rows_log2 rows and 128 columns. */
extern "C" __global__ void widen_fp8(const unsigned char *w, const float *scales, element *y, int64 count,
                                     int64 columns, int64 scale_row, int rows_log2, int blocks)
{
  follow_kernel_before();
  for (int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * PACK; i < count;
       i += (int64)gridDim.x * blockDim.x * PACK) {
    const int64 row = i / columns, column = i - row * columns;
    const float scale = scales[(row >> rows_log2) * scale_row + (blocks ? column >> BLOCK_LOG2 : 0)];
    const uint4 words = *(const uint4 *)(w + i);
    const unsigned word[4] = {words.x, words.y, words.z, words.w};
    pack wide;
#pragma unroll
    for (int j = 0; j < PACK; j++)
      wide.at[j] = from_float(fp8_to_float((unsigned char)(word[j / 4] >> j % 4 * 8)) * scale);
    *(pack *)(y + i) = wide;
  }
}

/* ---- activations ---- */

#define LARGEST 448.0f
#define LEAST_SCALE 0x1p-120f /* whose reciprocal is finite */
#define COLUMNS (1 << BLOCK_LOG2)
#define THREADS 256
#define WARP 32

__device__ inline float largest_of(const pack &x)
{
  float most = 0;
#pragma unroll
  for (int i = 0; i < PACK; i++)
    most = fmaxf(most, fabsf(to_float(x.at[i])));
  return most;
}

__device__ inline float largest_of_lanes(float most, int lanes)
{
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, distance));
  return most;
}

__device__ inline float largest_of_block(float most)
{
  __shared__ float of_warps[THREADS / WARP];
  most = largest_of_lanes(most, WARP);
  if (threadIdx.x % WARP == 0)
    of_warps[threadIdx.x / WARP] = most;
  __syncthreads();
  most = of_warps[0];
  for (int i = 1; i < THREADS / WARP; i++)
    most = fmaxf(most, of_warps[i]);
  return most;
}

__device__ inline float scale_of(float most)
{
  return fmaxf(most / LARGEST, LEAST_SCALE);
}

__device__ inline pack pack_at(const element *row, int64 at, int64 columns)
{
  pack x;
#pragma unroll
  for (int i = 0; i < PACK; i++)
    x.at[i] = from_float(0);
  return at < columns ? *(const pack *)(row + at) : x;
}

__device__ inline void put(unsigned char *to, const pack &x, float scale)
{
  const float inverse = 1 / scale;
  unsigned word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < PACK; i++)
    word[i / 4] |= (unsigned)fp8_from_float(to_float(x.at[i]) * inverse) << i % 4 * 8;
  *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
}

/* Scales: [padded], with `blocks` [blocks of columns, padded]. Rows from `tokens` on are zeros. */
extern "C" __global__ __launch_bounds__(THREADS) void narrow_fp8(const element *x, int64 x_row, unsigned char *narrow,
                                                                 float *scales, int64 columns, int tokens, int padded,
                                                                 int blocks)
{
  follow_kernel_before();
  const int token = blockIdx.x;
  const element *row = x + (int64)token * x_row;
  const int64 there = token < tokens ? columns : 0;
  float most = 0;
  for (int64 at = (int64)threadIdx.x * PACK; !blocks && at < there; at += THREADS * PACK)
    most = fmaxf(most, largest_of(pack_at(row, at, there)));
  if (!blocks)
    most = largest_of_block(most);
  if (!blocks && threadIdx.x == 0)
    scales[token] = scale_of(most);
  for (int64 first = 0; first < columns; first += THREADS * PACK) { /* in all threads, of which 8 meet */
    const int64 at = first + threadIdx.x * PACK;
    const pack part = pack_at(row, at, there);
    const float scale = scale_of(blocks ? largest_of_lanes(largest_of(part), COLUMNS / PACK) : most);
    if (at >= columns)
      continue;
    if (blocks && threadIdx.x % (COLUMNS / PACK) == 0)
      scales[(at >> BLOCK_LOG2) * padded + token] = scale;
    put(narrow + (int64)token * columns + at, part, scale);
  }
}
