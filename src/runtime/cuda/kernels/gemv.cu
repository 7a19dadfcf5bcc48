/* SPDX-License-Identifier: Apache-2.0 */
/* y = x Wᵀ for up to 8 tokens: each row of W is read once, from memory to registers, and nothing else is large.
 *
 *   block: HR_ROW_WARPS × HR_ROWS rows of W; HR_K_WARPS warps share the k of each
 *     warp j of a row's: steps j, j + HR_K_WARPS, … of k, so that the warps of a block read one stream a row
 *   a step: HR_UNROLL chunks a lane and row, all loaded before the first is multiplied
 *   HR_RESIDENT threads of a multiprocessor, which its registers have to hold
 *   partial sums → shared memory → added up in the order of the warps: the result depends on no timing
 *
 * HR_MMA: 16 × k pieces of W times k × 8 of x by mma.sync, for 16-bit elements (gemv_mma.cuh); otherwise fused
 * multiply-adds in fp32, for any format and alignment (gemv_simt.cuh). HR_EARLY: the program starts while the kernel
 * before ends, and meanwhile W's first step is on its way to the L2. HR_GROUPED: a batch are up to 8 tokens of one
 * expert, by experts_tile.cuh.
 *
 * Bound: memory bandwidth; 2 KiB and more are in flight for each warp. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/gemv_layout.h"

typedef long long int64;
typedef hr_gemv_call gemv_call;

#define WARP 32
#define ROWS HR_ROWS
#define BLOCK_ROWS (HR_ROW_WARPS * ROWS)
#define THREADS (WARP * HR_ROW_WARPS * HR_K_WARPS)

/* The operands of a warp: its rows begin at `row`. A row or token that is not there is the last one; its results are
 * not stored. */
struct warp_operands {
  const element *x, *w;
  int64 row;
  int k_warp;
};

__device__ inline const element *w_at(const gemv_call &call, const warp_operands &mine, int row)
{
  int64 there = mine.row + row < call.n ? mine.row + row : call.n - 1;
  return mine.w + there * call.w_row;
}

__device__ inline const element *x_at(const gemv_call &call, const warp_operands &mine, int token)
{
  return mine.x + (token < call.tokens ? token : call.tokens - 1) * call.x_row;
}

/* Asks for memory ahead of its use. The L2 has what other kernels write, so that a later load reads it. */
__device__ inline void prefetch_to_l2(const element *at)
{
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

#ifdef HR_MMA
#include "runtime/cuda/kernels/gemv_mma.cuh"
#else
#include "runtime/cuda/kernels/gemv_simt.cuh"
#endif

#ifdef HR_GROUPED
#include "runtime/cuda/kernels/experts_tile.cuh"

/* The call of the block's tokens; 0 tokens: there are none. */
__device__ inline gemv_call call_of_block(gemv_call call)
{
  const expert_tile tile = tile_of_experts<HR_GEMV_TOKENS_MAX>(call.offsets, call.experts, (int)blockIdx.y);
  call.x += tile.first * call.x_row;
  call.y += tile.first * call.y_row;
  call.w += tile.expert * call.w_batch;
  call.tokens = tile.count;
  return call;
}
#else
__device__ inline gemv_call call_of_block(gemv_call call)
{
  call.x += blockIdx.y * call.x_batch;
  call.y += blockIdx.y * call.y_batch;
  call.w += blockIdx.y * call.w_batch;
  return call;
}
#endif

typedef float partial_rows[HR_K_WARPS][TOKENS][BLOCK_ROWS];

__device__ inline void store_rows(const gemv_call &call, const partial_rows &partial)
{
  const int64 first = (int64)blockIdx.x * BLOCK_ROWS;
  for (int i = threadIdx.x; i < call.tokens * BLOCK_ROWS; i += THREADS) {
    int token = i / BLOCK_ROWS, row = i % BLOCK_ROWS;
    float sum = partial[0][token][row];
    for (int warp = 1; warp < HR_K_WARPS; warp++)
      sum += partial[warp][token][row];
    if (first + row >= call.n)
      continue;
    if (call.bias)
      sum += to_float(call.bias[first + row]);
    call.y[token * call.y_row + first + row] = from_float(sum);
  }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_RESIDENT / THREADS) void gemv(const gemv_call all)
{
  __shared__ partial_rows partial;
  const int warp = threadIdx.x / WARP, row_warp = warp / HR_K_WARPS;
#ifdef HR_GROUPED
  follow_kernel_before();
#endif
  const gemv_call call = call_of_block(all);
  if (call.tokens == 0)
    return;
  warp_operands mine = {call.x, call.w, (int64)blockIdx.x * BLOCK_ROWS + row_warp * ROWS, warp % HR_K_WARPS};
  accumulators sums(call, mine);
#if defined(HR_EARLY) && !defined(HR_GROUPED)
  sums.prefetch(call, mine);
  wait_for_kernel_before();
  allow_next_kernel();
#endif
  sums.multiply(call, mine);
  sums.put(partial[mine.k_warp], row_warp * ROWS);
  __syncthreads();
  store_rows(call, partial);
}
