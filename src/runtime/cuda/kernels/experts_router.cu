/* SPDX-License-Identifier: Apache-2.0 */
/* The experts of up to 8 tokens from their hidden states, in one kernel of one cluster: a norm (or none), the router's
 * linear layer, each token's choice, and the places of copies.
 *
 *   block: its share of the experts; all of them norm the tokens for themselves (gemv_norm.cuh)
 *     warp: one expert after another; a lane has every 32nd HR_LOAD bytes of its row of W, HR_AHEAD of them at a time
 *   logits → the first block's shared memory; there a warp a token chooses, and a thread a copy finds its place
 *   the normed tokens → memory, for the experts: each block its share
 *
 * Bound: latency, of one kernel where norm, GEMV, choice and places were four. W is on its way to the L2 while the
 * kernel before ends. */
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/experts_choice.cuh"
#include "runtime/cuda/kernels/gemv_layout.h"

#define TOKENS HR_NORM_TOKENS
#define THREADS HR_ROUTER_THREADS
#define CLUSTER HR_ROUTER_CLUSTER
#define PACK (HR_LOAD / (int)sizeof(element)) /* elements that a thread moves at once; rows are whole packs */
#define ROUTER_WARPS (THREADS / WARP)
#define AHEAD 8 /* packs of a lane that are loaded together */

typedef hr_gemv_call gemv_call;
typedef hr_router_call router_call;

__device__ inline void prefetch_to_l2(const element *at)
{
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

#ifdef HR_NORM
#undef PACK
#include "runtime/cuda/kernels/gemv_norm.cuh"
typedef norm_pack router_pack;
#else
struct alignas(HR_LOAD) router_pack {
  element at[PACK];
};
#endif

/* Row `token` as it is multiplied; of one that is not there, the last. */
__device__ inline const element *token_at(const router_call &call, int token)
{
#ifdef HR_NORM
  return (const element *)normed_rows + token * call.linear.k;
#else
  return call.linear.x + (token < call.linear.tokens ? token : call.linear.tokens - 1) * call.linear.x_row;
#endif
}

/* ---- the router ---- */

__device__ inline int expert_of(int turn)
{
  return (turn * ROUTER_WARPS + (int)threadIdx.x / WARP) * CLUSTER + cluster_rank();
}

__device__ inline void prefetch_router(const gemv_call &call)
{
  const int line = 128 / (int)sizeof(element);
  for (int turn = 0; expert_of(turn) < call.n; turn++)
    for (int64 i = (int)threadIdx.x % WARP * line; i < call.k; i += WARP * line)
      prefetch_to_l2(call.w + expert_of(turn) * call.k + i);
}

__device__ inline void multiply_row(const router_call &call, const element *row, float (&sum)[TOKENS])
{
  const int64 k = call.linear.k, step = WARP * PACK;
#pragma unroll
  for (int token = 0; token < TOKENS; token++)
    sum[token] = 0;
#pragma unroll 1
  for (int64 first = (int)threadIdx.x % WARP * PACK; first < k; first += AHEAD * step) {
    router_pack w[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (first + i * step < k)
        w[i] = *(const router_pack *)(row + first + i * step);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
#pragma unroll
      for (int token = 0; token < TOKENS && first + i * step < k; token++) {
        const router_pack x = *(const router_pack *)(token_at(call, token) + first + i * step);
#pragma unroll
        for (int j = 0; j < PACK; j++)
          sum[token] = fmaf(to_float(w[i].at[j]), to_float(x.at[j]), sum[token]);
      }
    }
  }
}

/* The logits of the block's experts, rounded as a linear layer's are, in the first block's shared memory. */
__device__ inline void multiply_router(const router_call &call, float (*logits)[HR_EXPERTS])
{
  const int lane = threadIdx.x % WARP;
  float sum[TOKENS];
  for (int turn = 0; expert_of(turn) < call.linear.n; turn++) {
    const int expert = expert_of(turn);
    const float bias = call.linear.bias ? to_float(call.linear.bias[expert]) : 0.0f;
    multiply_row(call, call.linear.w + expert * call.linear.k, sum);
#pragma unroll
    for (int token = 0; token < TOKENS; token++) {
      const element logit = from_float(sum_of_warp(sum[token]) + bias);
      const float rounded = to_float(logit);
      if (lane != 0 || token >= call.linear.tokens)
        continue;
      store_in_cluster_block(&logits[token][expert], 0, rounded);
      call.linear.y[token * call.linear.n + expert] = logit;
    }
  }
}

#ifdef HR_NORM
__device__ inline void write_normed(const router_call &call)
{
  const int64 count = call.linear.tokens * call.linear.k, all = CLUSTER * THREADS * PACK;
#pragma unroll 1
  for (int64 i = (cluster_rank() * THREADS + (int)threadIdx.x) * PACK; i < count; i += all)
    *(router_pack *)(call.normed + i) = *(const router_pack *)((const element *)normed_rows + i);
}
#endif

/* ---- choices and places ---- */

/* A copy's place is behind those of experts before its own, and of earlier ones of its expert. */
__device__ inline void place_few(const route_call &call, int *chosen)
{
  const int copies = (int)call.tokens * call.active;
#pragma unroll 1
  for (int i = threadIdx.x; i < copies; i += THREADS) {
    call.chosen[i] = chosen[i];
    chosen[i] = order_of(call, chosen[i]);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < copies; i += THREADS) {
    const bool own = chosen[i] < call.held;
    int place = 0;
    for (int j = 0; j < copies; j++)
      place += chosen[j] < chosen[i] || (chosen[j] == chosen[i] && j < i);
    call.places[i] = own ? place : -1;
    call.copied[place] = i / call.active;
    call.experts_of[place] = own ? chosen[i] : -1;
  }
#pragma unroll 1
  for (int expert = threadIdx.x; expert <= call.experts; expert += THREADS) {
    int before = 0;
    for (int j = 0; j < copies; j++)
      before += chosen[j] < expert;
    call.offsets[expert] = before;
  }
}

extern "C" __global__ __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS) void route_tokens(const router_call call)
{
  __shared__ float score[TOKENS][HR_EXPERTS];
  __shared__ float worth[TOKENS][HR_EXPERTS];
  __shared__ float of_groups[TOKENS][HR_EXPERTS];
  __shared__ int chosen[TOKENS * HR_ACTIVE];
  const int warp = threadIdx.x / WARP;
  cluster_arrive();
  prefetch_router(call.linear);
#ifdef HR_NORM
  prefetch_norm(call.linear);
#endif
  follow_kernel_before();
#ifdef HR_NORM
  norm_rows(call.linear, call.linear.x_row);
#endif
  cluster_wait(); /* the first block has started */
  multiply_router(call, score);
  cluster_arrive();
#ifdef HR_NORM
  write_normed(call);
#endif
  cluster_wait();
  if (cluster_rank() != 0)
    return;
  if (warp < call.linear.tokens) {
    const scores s = {score[warp], worth[warp]};
    score_experts(call.route, s);
    if (call.route.groups > 0)
      choose_groups(call.route, s, of_groups[warp]);
    write_choice(call.route, warp, s, chosen + warp * HR_ACTIVE);
  }
  __syncthreads();
  place_few(call.route, chosen);
}
