/* Sums and maxima over the threads of a row: shuffles, then a word a warp through shared memory, in clusters that of every
 * block. THREADS of a row in a block, BLOCKS of a row, ROWS at a time. */
#include "runtime/cuda/kernels/pack.cuh"

#define THREADS HR_THREADS
#define BLOCKS HR_BLOCKS
#define ROWS HR_ROWS

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
__device__ inline void store_in_block(float *shared, int rank, float value)
{
#if __CUDA_ARCH__ >= 900
  unsigned here = (unsigned)__cvta_generic_to_shared(shared), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
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

/* Of each row, the same value in all threads of a team; all of a block come here. Calls differ in TURN, so that none waits
 * for the readers of the last. A cluster has arrived once before the first and waits then, as its blocks must have begun. */
template <int TURN, class OPERATION> __device__ inline void over_row(float (&value)[ROWS], OPERATION combine)
{
  const int warps = (THREADS + 31) / 32, partials = BLOCKS * warps;
  __shared__ float partial[ROWS][partials];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
    value[j] = over_lanes<(THREADS < 32 ? THREADS : 32)>(value[j], combine);
  if (partials == 1)
    return;
  int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  if (BLOCKS > 1 && TURN == 0)
    cluster_wait();
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    if (BLOCKS > 1 && lane < BLOCKS)
      store_in_block(&partial[j][cluster_rank() * warps + warp], lane, value[j]);
    else if (BLOCKS == 1 && lane == 0)
      partial[j][warp] = value[j];
  }
  if (BLOCKS > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  const int lanes = partials < 32 ? power_of_two(partials) : 32;
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    value[j] = OPERATION::none();
#pragma unroll
    for (int i = 0; i < partials; i += 32) {
      if (i + lane % lanes < partials)
        value[j] = combine(value[j], partial[j][i + lane % lanes]);
    }
    value[j] = over_lanes<lanes>(value[j], combine);
  }
}
