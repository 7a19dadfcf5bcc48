/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts: those of each token with their weights, and the copies of tokens sorted by them.
 *
 *   choose_experts  a warp a token: scores of all experts in shared memory, then the largest, one after another
 *   place_copies    a block an expert, those of the device first: it counts the choices of experts before it, which
 *                   gives its first place, and gives its own the places behind in the order of tokens; no block waits
 *                   for another
 *
 * Bound: latency; the choices of all tokens are read from the L2 once for each expert. */
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/experts_choice.cuh"

#define EXPERTS_MAX 1024
#define PLACE_WARPS (HR_PLACE_THREADS / WARP)
#define AHEAD 4 /* choices of a lane that are loaded together */

extern "C" __global__ __launch_bounds__(WARP *HR_ROUTE_WARPS) void choose_experts(const route_call call)
{
  __shared__ float score[HR_ROUTE_WARPS][EXPERTS_MAX];
  __shared__ float worth[HR_ROUTE_WARPS][EXPERTS_MAX];
  __shared__ float of_groups[HR_ROUTE_WARPS][EXPERTS_MAX];
  const int warp = threadIdx.x / WARP;
  const int64 token = (int64)blockIdx.x * HR_ROUTE_WARPS + warp;
  follow_kernel_before();
  if (token >= call.tokens)
    return;
  scores s = {score[warp], worth[warp]};
  for (int i = threadIdx.x % WARP; i < call.experts; i += WARP)
    s.score[i] = to_float(call.logits[token * call.experts + i]);
  score_experts(call, s);
  if (call.groups > 0)
    choose_groups(call, s, of_groups[warp]);
  write_choice(call, token, s, call.chosen + token * call.active);
}

/* ---- the places of copies ---- */

/* The choices of a warp: consecutive ones, each lane every 32nd of them. */
struct choices {
  const route_call &call;
  int64 at, end; /* `at`: of the first lane */
};

__device__ inline choices choices_of_warp(const route_call &call)
{
  const int64 all = call.tokens * call.active, each = (all + PLACE_WARPS - 1) / PLACE_WARPS;
  const int64 at = threadIdx.x / WARP * each, end = at + each;
  return {call, at, end < all ? end : all};
}

/* The next choices of a lane, AHEAD of them; −1 behind the last. */
__device__ inline void load_choices(const choices &c, int64 at, int (&found)[AHEAD])
{
#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    int64 mine = at + i * WARP + threadIdx.x % WARP;
    found[i] = mine < c.end ? order_of(c.call, c.call.chosen[mine]) : -1;
  }
}

/* How many choices of the warp are of smaller experts, and how many of this one. */
__device__ inline void count_choices(const choices &c, int expert, int &smaller, int &equal)
{
  smaller = equal = 0;
  for (int64 at = c.at; at < c.end; at += AHEAD * WARP) {
    int found[AHEAD];
    load_choices(c, at, found);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      smaller += found[i] >= 0 && found[i] < expert;
      equal += found[i] == expert;
    }
  }
  for (int step = WARP / 2; step > 0; step /= 2) {
    smaller += __shfl_xor_sync(LANES, smaller, step);
    equal += __shfl_xor_sync(LANES, equal, step);
  }
}

__device__ inline void give_places(const route_call &call, const choices &c, int expert, int place)
{
  const int lane = threadIdx.x % WARP;
  for (int64 at = c.at; at < c.end; at += AHEAD * WARP) {
    int found[AHEAD];
    load_choices(c, at, found);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const unsigned equal = __ballot_sync(LANES, found[i] == expert);
      const int mine = place + __popc(equal & ((1u << lane) - 1u));
      const int64 choice = at + i * WARP + lane;
      if (found[i] == expert) {
        call.places[choice] = expert < call.held ? mine : -1;
        call.copied[mine] = (int)(choice / call.active);
        call.experts_of[mine] = expert < call.held ? expert : -1;
        if (call.weights_of)
          call.weights_of[mine] = call.weights[choice];
      }
      place += __popc(equal);
    }
  }
}

extern "C" __global__ __launch_bounds__(HR_PLACE_THREADS) void place_copies(const route_call call)
{
  __shared__ int smaller[PLACE_WARPS];
  __shared__ int equal[PLACE_WARPS];
  const int expert = (int)blockIdx.x, warp = threadIdx.x / WARP;
  follow_kernel_before();
  const choices mine = choices_of_warp(call);
  int below, own, place = 0;
  count_choices(mine, expert, below, own);
  if (threadIdx.x % WARP == 0)
    smaller[warp] = below, equal[warp] = own;
  __syncthreads();
  for (int i = 0; i < PLACE_WARPS; i++)
    place += smaller[i];
  if (threadIdx.x == 0)
    call.offsets[expert] = place;
  for (int i = 0; i < warp; i++)
    place += equal[i];
  if (threadIdx.x == HR_PLACE_THREADS - 1 && expert == call.experts - 1)
    call.offsets[call.experts] = (int)(call.tokens * call.active);
  give_places(call, mine, expert, place);
}
