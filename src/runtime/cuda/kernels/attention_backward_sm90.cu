/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward on Hopper (sm_90a): WGMMA, TMA, warp specialization; fp16, bf16.
 *
 *   persistent blocks; a work item is a K/V tile of a group of query heads, over its Q tiles of HR_Q_TILE rows
 *   ┌ consumer warpgroups 0, 1: 64 keys each of a tile of 128
 *   │   Sᵀ = K Qᵀ, dPᵀ = V dOᵀ → P, dS in registers → dV += Pᵀ dO, dK += dSᵀ Q; dS to shared memory
 *   │   a part of dQ = dS K of the tile before, added to fp32 sums in the workspace
 *   └ producer warpgroup: one warp loads K, V, Q, dO and row terms by TMA
 *
 *   registers (setmaxnreg)   240 + 24 of the producer
 *   shared memory            attention_backward_layout.h; up to 227 KiB
 *
 * A group's query heads share both a K and a V head: dK and dV stay in registers from its first head to its last, and
 * where other groups have the same K or V head, they are added to sums in the workspace. As dQ is a tile late, a
 * warpgroup may be almost a tile ahead of the other, so that one computes exponentials while WGMMAs of the other run.
 *
 * HR_SPLIT_PRODUCTS, for large heads: tiles of 64 keys (attention_backward_products_sm90.cuh).
 *
 * attention_backward_rows.cu prepares row terms and zeroes the sums, and converts them to dQ.
 *
 * HR_VARLEN: variable-length sequences, concatenated. HR_CLEARS: some rows may see no key, or be of another sequence.
 * HR_SCORE_MOD, HR_FIRST_KEYS: attention.cuh. HR_DETERMINISTIC: blocks add to dQ in the order of their K/V tiles.
 *
 * Measured speed, what was tried and lost: docs/notes/attention-backward.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_backward_tiles_sm90.cuh"
#include "runtime/cuda/kernels/attention_backward_producer_sm90.cuh"
#include "runtime/cuda/kernels/attention_backward_scores_sm90.cuh"
#include "runtime/cuda/kernels/attention_backward_dq_sm90.cuh"
#include "runtime/cuda/kernels/attention_backward_dkv_sm90.cuh"
#ifdef HR_SPLIT_PRODUCTS
#include "runtime/cuda/kernels/attention_backward_products_sm90.cuh"
#else
#include "runtime/cuda/kernels/attention_backward_keys_sm90.cuh"
#endif

extern "C" __global__ __launch_bounds__(HR_BACKWARD_THREADS,
                                        1) void backward(const __grid_constant__ attention_call call,
                                                         const __grid_constant__ backward_call backward,
                                                         const __grid_constant__ tensor_maps tensor_maps)
{
  if (threadIdx.x == 0) {
    init_mbarriers();
    fence_mbarrier_init();
  }
  __syncthreads();
  allow_next_kernel();
  wait_for_kernel_before();
  int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == 2) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x < 2 * 128 + 32)
      produce(call, backward, tensor_maps);
  } else {
    warpgroup_reg_alloc<240>();
    consume(call, backward, warpgroup);
  }
}
