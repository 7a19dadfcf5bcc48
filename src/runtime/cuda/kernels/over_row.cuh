/* Sums and maxima over the threads of a row: shuffles, then what each warp found through shared memory, in clusters that of
 * every block. THREADS of a row in a block, BLOCKS of a row, ROWS at a time. */
#include "runtime/cuda/kernels/pack.cuh"

#define THREADS HR_THREADS
#define BLOCKS HR_BLOCKS
#define ROWS HR_ROWS
#define WARPS ((THREADS + 31) / 32)
#define PARTS (BLOCKS * WARPS)

__device__ inline int cluster_rank()
{
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int)rank;
}

struct add {
  static __device__ float none() { return 0; }
  __device__ float operator()(float x, float y) const { return x + y; }
};

struct larger {
  static __device__ float none() { return minus_infinity(); }
  __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};

__device__ inline void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ inline void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* *shared = value in block `rank` of the cluster. */
template <class PART> __device__ inline void store_in_block(PART *shared, int rank, const PART &value)
{
#if __CUDA_ARCH__ >= 900
  unsigned here = (unsigned)__cvta_generic_to_shared(shared), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
#pragma unroll
  for (unsigned i = 0; i < sizeof value / 4; i++)
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4 * i), "f"(((const float *)&value)[i]) : "memory");
#endif
}

constexpr __device__ int power_of_two(int wanted)
{
  int power = 1;
  while (power < wanted)
    power *= 2;
  return power;
}

/* value becomes the same in `lanes` neighbours, a power of two. */
template <int LANES, class OPERATION> __device__ inline float over_lanes(float value, OPERATION combine)
{
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

template <class OPERATION> __device__ inline float over_warp(float value, OPERATION combine)
{
  return over_lanes<(THREADS < 32 ? THREADS : 32)>(value, combine);
}

/* What the warps of a team found of each row, a PART of floats each. */
template <class PART> struct found_by_warps {
  const PART (&own)[ROWS];
  const PART (*part)[PARTS];

  /* value(part) of all warps for row j, the same in all threads. */
  template <class OPERATION, class VALUE> __device__ float over(int j, OPERATION combine, VALUE value) const
  {
    if (PARTS == 1)
      return value(own[j]);
    constexpr int lanes = PARTS < 32 ? power_of_two(PARTS) : 32;
    float all = OPERATION::none();
#pragma unroll
    for (int i = 0; i < PARTS; i += 32) {
      int at = i + (int)threadIdx.x % lanes;
      if (at < PARTS)
        all = combine(all, value(part[j][at]));
    }
    return over_lanes<lanes>(all, combine);
  }
};

/* Once in a program; all threads of a block, or cluster, come here. A cluster has arrived before and waits first, as its
 * blocks must have begun. */
template <class PART> __device__ inline found_by_warps<PART> gather(const PART (&own)[ROWS])
{
  __shared__ PART parts[ROWS][PARTS];
  int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  if (BLOCKS > 1)
    cluster_wait();
#pragma unroll
  for (int j = 0; j < ROWS && PARTS > 1; j++) {
    if (BLOCKS > 1 && lane < BLOCKS)
      store_in_block(&parts[j][cluster_rank() * WARPS + warp], lane, own[j]);
    else if (BLOCKS == 1 && lane == 0)
      parts[j][warp] = own[j];
  }
  if (BLOCKS > 1) {
    cluster_arrive();
    cluster_wait();
  } else if (PARTS > 1) {
    __syncthreads();
  }
  return {own, parts};
}
