/* SPDX-License-Identifier: Apache-2.0 */
/* Attention backward on Hopper (sm_90a): WGMMA, TMA, warp specialization; fp16, bf16.
 *
 *   one block for each K/V tile of 128 keys and each group of query heads; it goes over the Q tiles of HR_Q_TILE rows
 *   ┌ consumer warpgroups 0, 1: 64 keys each
 *   │   Sᵀ = K Qᵀ, dPᵀ = V dOᵀ → P, dS in registers → dV += Pᵀ dO, dK += dSᵀ Q; dS to shared memory
 *   │ warpgroup 2: dQ = dS K, added to fp32 sums in the workspace
 *   └ warpgroup 3: one warp loads K, V, Q, dO and row terms by TMA
 *
 * No warpgroup waits for another but through the stages of dS, so that one computes exponentials while WGMMAs of the
 * others run. A consumer has Sᵀ of the next tile in flight beside dV and dK of this one.
 *
 * HR_SPLIT_PRODUCTS, for large heads: 64 keys to a block. Warpgroup 0 does Sᵀ, P and dV, and hands P over in shared
 * memory; warpgroup 1 does dPᵀ, dS and dK.
 *
 * attention_backward_rows.cu prepares row terms and zeroes the sums, and converts them to dQ.
 *
 * HR_CAUSAL, HR_WINDOW, HR_FIRST_KEYS: masks that may cut tiles. HR_VARLEN: variable-length sequences, concatenated.
 * HR_SCORE_MOD: soft cap, ALiBi. HR_DETERMINISTIC: blocks add to dQ in the order of their K/V tiles.
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

extern "C" __global__ __launch_bounds__(HR_BACKWARD_THREADS, 1) void backward(
    const __grid_constant__ attention_call call, const __grid_constant__ backward_call backward,
    const __grid_constant__ tensor_maps tensor_maps)
{
  if (threadIdx.x == 0) {
    init_mbarriers();
    fence_mbarrier_init();
  }
  __syncthreads();
  allow_next_kernel();
  wait_for_kernel_before();
  work_item item = find_item(call, backward);
  if (item.first_key >= item.kv_len) /* a sequence shorter than the longest */
    return;
  int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == 2) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x < 2 * 128 + 32)
      produce(call, backward, tensor_maps, item);
  } else {
    warpgroup_reg_alloc<240>();
    consume(call, backward, item, warpgroup);
  }
}
