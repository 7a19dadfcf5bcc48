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
 * before ends, and meanwhile W's first step is on its way to the L2. It lets the next one start with its own last step
 * of k: blocks that start earlier crowd on the multiprocessors where this kernel ends first. HR_GROUPED: a batch are up
 * to 8 tokens of one expert, by experts_tile.cuh. HR_NORM: x is normed before (gemv_norm.cuh). HR_GATED: every other of
 * a block's row warps has rows of a second matrix, the gate's, for the same rows of y. HR_ACTIVATION: one of
 * activation.cuh. HR_COMBINED, beside HR_GROUPED: y is the weighted sum of a token's copies; a block has one warp's
 * rows for all experts, each by other HR_K_WARPS of its warps, and adds up in the order of the token's choice. HR_FP8,
 * beside HR_MMA: W and the gate are in fp8 and become 16 bits in registers, for an x that stays as it is.
 *
 * Bound: memory bandwidth; 2 KiB and more are in flight for each warp. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/gemv_layout.h"

typedef long long int64;
typedef hr_gemv_call gemv_call;
#ifdef HR_FP8
#include "runtime/cuda/kernels/fp8.cuh"
typedef unsigned char weight;
#else
typedef element weight;
#endif

#define WARP 32
#define ROWS HR_ROWS
#ifdef HR_COMBINED
#define BLOCK_ROWS ROWS
#else
#define BLOCK_ROWS (HR_ROW_WARPS * ROWS)
#endif
#ifdef HR_GATED
#define MATRICES 2
#else
#define MATRICES 1
#endif
#define OUT_ROWS (BLOCK_ROWS / MATRICES) /* rows of W, and of y */
#define THREADS (WARP * HR_ROW_WARPS * HR_K_WARPS)

/* The operands of a warp: its rows begin at `row`. A row or token that is not there is the last one; its results are
 * not stored. */
struct warp_operands {
  const element *x;
  const weight *w;
  int64 row;
  int k_warp;
  const float *scales; /* with HR_FP8 */
};

__device__ inline int64 row_there(const gemv_call &call, const warp_operands &mine, int row)
{
  return mine.row + row < call.n ? mine.row + row : call.n - 1;
}

__device__ inline const weight *w_at(const gemv_call &call, const warp_operands &mine, int row)
{
  return mine.w + row_there(call, mine, row) * call.w_row;
}

__device__ inline const element *x_at(const gemv_call &call, const warp_operands &mine, int token)
{
  const int64 there = token < call.tokens ? token : call.tokens - 1;
#ifdef HR_GROUPED
  return mine.x + (call.numbers ? call.numbers[there] : there) * call.x_row;
#else
  return mine.x + there * call.x_row;
#endif
}

/* Asks for memory ahead of its use. The L2 has what other kernels write, so that a later load reads it. */
__device__ inline void prefetch_to_l2(const void *at)
{
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

#ifdef HR_MMA
#include "runtime/cuda/kernels/gemv_mma.cuh"
#else
#include "runtime/cuda/kernels/gemv_simt.cuh"
#endif

#ifdef HR_NORM
#include "runtime/cuda/kernels/gemv_norm.cuh"
#endif

#ifdef HR_ACTIVATION
#define LOG2_E 1.4426950408889634f
#include "runtime/cuda/kernels/activation.cuh"

template <class ACTIVATION> __device__ inline ACTIVATION activation_of(float)
{
  return ACTIVATION();
}
template <> __device__ inline swiglu_clamped_by activation_of(float limit)
{
  return {limit};
}
#endif

#ifdef HR_GROUPED
#include "runtime/cuda/kernels/experts_tile.cuh"

/* The call of an expert's tokens; 0 tokens: there are none. */
__device__ inline gemv_call call_of_tile(gemv_call call, int index)
{
  const expert_tile tile = call.experts_of ? tile_of_copies<HR_GEMV_TOKENS_MAX>(call.experts_of, call.copies, index)
                                           : tile_of_experts<HR_GEMV_TOKENS_MAX>(call.offsets, call.experts, index);
  if (call.numbers)
    call.numbers += tile.first;
  else
    call.x += tile.first * call.x_row;
  call.y += tile.first * call.y_row;
  call.w += tile.expert * call.w_batch;
  call.gate += tile.expert * call.w_batch;
  call.tokens = tile.count;
  return call;
}

__device__ inline gemv_call call_of_block(const gemv_call &call)
{
  return call_of_tile(call, (int)blockIdx.y);
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

__device__ inline float sum_of_warps(const partial_rows &partial, int token, int row, const float *scales,
                                     const element *bias, int64 at)
{
  float sum = partial[0][token][row];
  for (int warp = 1; warp < HR_K_WARPS; warp++)
    sum += partial[warp][token][row];
#if defined(HR_FP8) && HR_FP8 == HR_GEMV_SCALED_ROWS
  sum *= scales[at];
#endif
  return bias ? sum + to_float(bias[at]) : sum;
}

/* Row `row` of the block's is in a row warp of W; the next row warp has the gate's. */
__device__ inline float activated(const gemv_call &call, const partial_rows &partial, int token, int row, int64 at)
{
  const int in = row / ROWS * MATRICES * ROWS + row % ROWS;
  const float value = sum_of_warps(partial, token, in, call.scales, call.bias, at);
#if defined(HR_GATED)
  const float gate = sum_of_warps(partial, token, in + ROWS, call.gate_scales, call.gate_bias, at);
  return activation_of<HR_ACTIVATION>(call.limit)(gate, value);
#elif defined(HR_ACTIVATION)
  return activation_of<HR_ACTIVATION>(call.limit)(value, 0);
#else
  return value;
#endif
}

__device__ inline void store_rows(const gemv_call &call, const partial_rows &partial)
{
  const int64 first = (int64)blockIdx.x * OUT_ROWS;
  for (int i = threadIdx.x; i < call.tokens * OUT_ROWS; i += THREADS) {
    const int token = i / OUT_ROWS, row = i % OUT_ROWS;
    if (first + row >= call.n)
      continue;
    float value = activated(call, partial, token, row, first + row);
    if (call.residual)
      value = to_float(call.residual[token * call.residual_row + first + row]) + call.factor * value;
    call.y[token * call.y_row + first + row] = from_float(value);
  }
}

/* What the warp multiplies. */
__device__ inline warp_operands operands_of(const gemv_call &call)
{
  const int warp = threadIdx.x / WARP, row_warp = warp / HR_K_WARPS;
  const int64 row = (int64)blockIdx.x * OUT_ROWS + row_warp / MATRICES * ROWS;
  const bool gate = row_warp % MATRICES == 1;
  return {call.x, (const weight *)(gate ? call.gate : call.w), row, warp % HR_K_WARPS,
          gate ? call.gate_scales : call.scales};
}

#ifdef HR_COMBINED
#define SHARES HR_K_WARPS /* of a copy's result */

extern __shared__ float terms[]; /* [copies][SHARES][ROWS] */

/* The products of the warp's part of an expert's copies. */
__device__ inline void multiply_tile(const gemv_call &all, const gemv_call &call, int k_warp)
{
  __shared__ float partial[HR_ROW_WARPS * HR_K_WARPS][TOKENS][ROWS];
  const int warp = threadIdx.x / WARP, first = (int)((call.y - all.y) / call.y_row);
  const warp_operands mine = {call.x, call.w, (int64)blockIdx.x * ROWS, k_warp, nullptr};
  accumulators sums(call, mine);
  sums.multiply(call, mine);
  sums.put(partial[warp], 0);
  __syncwarp();
  for (int i = threadIdx.x % WARP; i < call.tokens * ROWS; i += WARP)
    terms[((first + i / ROWS) * SHARES + k_warp) * ROWS + i % ROWS] = partial[warp][i / ROWS][i % ROWS];
  __syncwarp();
}

__device__ inline float sum_of_copies(const gemv_call &call, int token, int row)
{
  float sum = 0;
  for (int i = 0; i < call.active; i++) {
    const int place = call.places[token * call.active + i];
    if (place < 0)
      continue;
    const float *term = terms + place * SHARES * ROWS + row;
    float product = term[0];
    for (int share = 1; share < SHARES; share++)
      product += term[share * ROWS];
    sum += call.weights[token * call.active + i] * product;
  }
  return sum;
}

extern "C" __global__ __launch_bounds__(THREADS, HR_RESIDENT / THREADS) void gemv_combined(const gemv_call all)
{
  const int64 first = (int64)blockIdx.x * ROWS;
  const int warp = threadIdx.x / WARP, tokens = all.copies / all.active;
  wait_for_kernel_before();
  for (int tile = warp / HR_K_WARPS;; tile += HR_ROW_WARPS) {
    const gemv_call call = call_of_tile(all, tile);
    if (call.tokens == 0)
      break;
    multiply_tile(all, call, warp % HR_K_WARPS);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < tokens * ROWS; i += THREADS) {
    const int token = i / ROWS, row = i % ROWS;
    if (first + row >= all.n)
      continue;
    float value = sum_of_copies(all, token, row);
    if (all.residual)
      value = to_float(all.residual[token * all.residual_row + first + row]) + all.factor * value;
    all.y[token * all.y_row + first + row] = from_float(value);
  }
}
#else
extern "C" __global__ __launch_bounds__(THREADS, HR_RESIDENT / THREADS) void gemv(const gemv_call all)
{
  __shared__ partial_rows partial;
#ifdef HR_GROUPED
  wait_for_kernel_before();
#endif
  gemv_call call = call_of_block(all);
  if (call.tokens == 0)
    return;
#ifdef HR_NORM
  call.x = (const element *)normed_rows, call.x_row = call.k;
#endif
  const warp_operands mine = operands_of(call);
  accumulators sums(call, mine);
#ifdef HR_EARLY
  sums.prefetch(call, mine);
#ifdef HR_NORM
  prefetch_norm(call);
#endif
  wait_for_kernel_before();
#endif
#ifdef HR_NORM
  norm_rows(all, all.x_row);
#endif
  sums.multiply(call, mine);
  sums.put(partial[mine.k_warp], threadIdx.x / WARP / HR_K_WARPS * ROWS);
  __syncthreads();
  store_rows(call, partial);
}
#endif
