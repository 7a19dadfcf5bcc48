/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of blocks: their barrier, at which every thread arrives and waits, and stores to another block's shared
 * memory. Nothing where the GPU has none. */
__device__ inline int cluster_rank()
{
  unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int)rank;
}

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

/* *shared = value in block `rank` of the cluster (distributed shared memory). */
template <class PART> __device__ inline void store_in_cluster_block(PART *shared, int rank, const PART &value)
{
#if __CUDA_ARCH__ >= 900
  unsigned here = (unsigned)__cvta_generic_to_shared(shared), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
#pragma unroll
  for (unsigned i = 0; i < sizeof value / 4; i++)
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4 * i), "f"(((const float *)&value)[i]) : "memory");
#endif
}
