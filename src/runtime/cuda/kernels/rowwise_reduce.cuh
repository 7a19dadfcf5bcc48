/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over the threads of a row: shuffles, then the results of the warps through shared memory, in a cluster
 * through distributed shared memory. THREADS of a row in a block, CLUSTER blocks of a row, ROWS at a time. */
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#define THREADS HR_THREADS
#define CLUSTER HR_CLUSTER
#define ROWS HR_ROWS
#define WARPS ((THREADS + 31) / 32)
#define WARP_COUNT (CLUSTER * WARPS)

struct sum_op {
  static __device__ float identity()
  {
    return 0;
  }
  __device__ float operator()(float x, float y) const
  {
    return x + y;
  }
};

struct max_op {
  static __device__ float identity()
  {
    return minus_infinity();
  }
  __device__ float operator()(float x, float y) const
  {
    return fmaxf(x, y);
  }
};

constexpr __device__ int power_of_two(int wanted)
{
  int power = 1;
  while (power < wanted)
    power *= 2;
  return power;
}

/* Reduces over LANES neighbouring lanes, a power of two; every lane gets the result. */
template <int LANES, class OPERATION> __device__ inline float lane_reduce(float value, OPERATION combine)
{
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

template <class OPERATION> __device__ inline float warp_reduce(float value, OPERATION combine)
{
  return lane_reduce<(THREADS < 32 ? THREADS : 32)>(value, combine);
}

/* The results of a row group's warps, a PART of floats per row. */
template <class PART> struct warp_stats {
  const PART (&own)[ROWS];
  const PART (*part)[WARP_COUNT];

  /* Reduces value(part) of row j over all warps; every thread gets the result. */
  template <class OPERATION, class VALUE> __device__ float reduce(int j, OPERATION combine, VALUE value) const
  {
    if (WARP_COUNT == 1)
      return value(own[j]);
    constexpr int lanes = WARP_COUNT < 32 ? power_of_two(WARP_COUNT) : 32;
    float all = OPERATION::identity();
#pragma unroll
    for (int i = 0; i < WARP_COUNT; i += 32) {
      int at = i + (int)threadIdx.x % lanes;
      if (at < WARP_COUNT)
        all = combine(all, value(part[j][at]));
    }
    return lane_reduce<lanes>(all, combine);
  }
};

/* Called once by all threads of a block or cluster. The blocks of a cluster have arrived at its barrier before and wait
 * first, as all of them must have started. */
template <class PART> __device__ inline warp_stats<PART> exchange(const PART (&own)[ROWS])
{
  __shared__ PART parts[ROWS][WARP_COUNT];
  int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  if (CLUSTER > 1)
    cluster_wait();
#pragma unroll
  for (int j = 0; j < ROWS && WARP_COUNT > 1; j++) {
    if (CLUSTER > 1 && lane < CLUSTER)
      store_in_cluster_block(&parts[j][cluster_rank() * WARPS + warp], lane, own[j]);
    else if (CLUSTER == 1 && lane == 0)
      parts[j][warp] = own[j];
  }
  if (CLUSTER > 1) {
    cluster_arrive();
    cluster_wait();
  } else if (WARP_COUNT > 1) {
    __syncthreads();
  }
  return {own, parts};
}
