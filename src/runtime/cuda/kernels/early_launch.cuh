/* SPDX-License-Identifier: Apache-2.0 */
/* Programmatic dependent launch: the next kernel's blocks may start when all of this one's have allowed it or ended;
 * before they touch global memory they wait until this kernel has ended. Nothing where the GPU has none. */
#if __CUDA_ARCH__ >= 900
__device__ inline void wait_for_kernel_before()
{
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ inline void allow_next_kernel()
{
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
__device__ inline void wait_for_kernel_before()
{
}
__device__ inline void allow_next_kernel()
{
}
#endif

/* At the beginning of a kernel that is short: nothing is done ahead. */
__device__ inline void follow_kernel_before()
{
  wait_for_kernel_before();
  allow_next_kernel();
}
