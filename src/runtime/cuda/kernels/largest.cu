/* SPDX-License-Identifier: Apache-2.0 */
/* The index of each row's largest element, the first of equal ones. NaN is no largest, but with index 0 it is the
 * result, as where a host looks for what is larger. The first column of a rank has the index `first`.
 *
 *   block: a row; a thread has every 1024th 16 bytes of it, or element where rows are not aligned
 *
 * Bound: the loads of one multiprocessor, a few microseconds for the logits of a token. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"

#define WARP 32
#define THREADS 1024
#define WARPS (THREADS / WARP)
#define PACK (16 / (int)sizeof(element))
#define AHEAD 4 /* loads of a thread that are in flight together */
#define NONE 0x7FFFFFFF

typedef long long int64;

struct largest {
  float value;
  int at; /* NONE: none is larger than minus infinity */

  __device__ void take(float other, int other_at)
  {
    if (other > value || (other == value && other_at < at))
      value = other, at = other_at;
  }
};

__device__ inline largest of_packs(const element *row, int columns)
{
  largest best = {__uint_as_float(0xFF800000u), NONE};
  for (int first = (int)threadIdx.x * PACK; first < columns; first += AHEAD * THREADS * PACK) {
    uint4 packs[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (first + i * THREADS * PACK < columns)
        packs[i] = *(const uint4 *)(row + first + i * THREADS * PACK);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const int at = first + i * THREADS * PACK;
      const unsigned words[4] = {packs[i].x, packs[i].y, packs[i].z, packs[i].w};
#pragma unroll
      for (int j = 0; j < PACK && at < columns; j++)
        best.take(value_in(words[j / PER_WORD], j % PER_WORD), at + j);
    }
  }
  return best;
}

__device__ inline largest of_elements(const element *row, int columns)
{
  largest best = {__uint_as_float(0xFF800000u), NONE};
  for (int i = threadIdx.x; i < columns; i += THREADS)
    best.take(to_float(row[i]), i);
  return best;
}

__device__ inline largest of_warp(largest best)
{
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    best.take(__shfl_xor_sync(0xFFFFFFFFu, best.value, distance), __shfl_xor_sync(0xFFFFFFFFu, best.at, distance));
  return best;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    find_largest(const element *x, int columns, int64 stride, int first, int *to, float *largest_values)
{
  __shared__ float values[WARPS];
  __shared__ int places[WARPS];
  const element *row = x + (int64)blockIdx.x * stride;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  follow_kernel_before();
  const bool aligned = (size_t)row % 16 == 0 && columns % PACK == 0;
  const largest mine = of_warp(aligned ? of_packs(row, columns) : of_elements(row, columns));
  if (lane == 0)
    values[warp] = mine.value, places[warp] = mine.at;
  __syncthreads();
  if (warp > 0)
    return;
  const largest best = of_warp({values[lane], places[lane]});
  const float begin = to_float(row[0]);
  const bool begins = first == 0 && begin != begin;
  if (lane > 0)
    return;
  to[blockIdx.x] = first + (best.at == NONE || begins ? 0 : best.at);
  if (largest_values)
    largest_values[blockIdx.x] = begins ? begin : best.value;
}
