/* SPDX-License-Identifier: Apache-2.0 */
/* Routed experts: those of each token with their weights, and the copies of tokens sorted by them.
 *
 *   choose_experts  a warp a token: scores of all experts in shared memory, then the largest, one after another
 *   place_copies    a block an expert: it counts the choices of smaller experts, which gives its first place, and gives
 *                   its own the places behind in the order of tokens; no block waits for another
 *
 * Bound: latency; the choices of all tokens are read from the L2 once for each expert. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/experts_layout.h"

#define WARP 32
#define LANES 0xFFFFFFFFu
#define LOG2_E 1.4426950408889634f
#define EXPERTS_MAX 1024 /* a lane has a bit for each of its own */
#define PLACE_WARPS (HR_PLACE_THREADS / WARP)
#define AHEAD 4 /* choices of a lane that are loaded together */

typedef long long int64;
typedef hr_route_call route_call;

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

__device__ inline float largest_of_warp(float value)
{
  for (int step = WARP / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(LANES, value, step));
  return value;
}

__device__ inline float sum_of_warp(float value)
{
  for (int step = WARP / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(LANES, value, step);
  return value;
}

/* ---- the experts of a token ---- */

/* What the choice of a token goes by. */
struct scores {
  float *score; /* of which its weights are made */
  float *worth; /* by which it chooses; minus infinity: not at all */
};

__device__ inline void softmax_scores(const route_call &call, const element *logits, const scores &s)
{
  const int lane = threadIdx.x % WARP;
  float most = minus_infinity(), sum = 0;
  for (int i = lane; i < call.experts; i += WARP)
    most = fmaxf(most, to_float(logits[i]));
  most = largest_of_warp(most);
  for (int i = lane; i < call.experts; i += WARP)
    sum += s.score[i] = exp2f((to_float(logits[i]) - most) * LOG2_E);
  sum = sum_of_warp(sum);
  for (int i = lane; i < call.experts; i += WARP)
    s.score[i] /= sum;
}

__device__ inline void score_experts(const route_call &call, const element *logits, const scores &s)
{
  const int lane = threadIdx.x % WARP;
  if (call.sigmoid)
    for (int i = lane; i < call.experts; i += WARP)
      s.score[i] = 1.0f / (1.0f + exp2f(-to_float(logits[i]) * LOG2_E));
  else
    softmax_scores(call, logits, s);
  for (int i = lane; i < call.experts; i += WARP) {
    float worth = s.score[i] + (call.bias ? call.bias[i] : 0.0f);
    s.worth[i] = worth == worth ? worth : minus_infinity(); /* a NaN is chosen last */
  }
  __syncwarp();
}

/* The index of the largest of a warp's values that are not taken, the first of equal ones; each lane has every 32nd. */
__device__ inline int take_largest(const float *values, int count, unsigned &taken)
{
  const int lane = threadIdx.x % WARP;
  float best = minus_infinity();
  int at = 0x7FFFFFFF;
  for (int i = lane, bit = 0; i < count; i += WARP, bit++) {
    bool better = at == 0x7FFFFFFF || values[i] > best;
    if (!(taken >> bit & 1) && better)
      best = values[i], at = i;
  }
  for (int step = WARP / 2; step > 0; step /= 2) {
    float other = __shfl_xor_sync(LANES, best, step);
    int other_at = __shfl_xor_sync(LANES, at, step);
    if (other > best || (other == best && other_at < at))
      best = other, at = other_at;
  }
  if (at % WARP == lane)
    taken |= 1u << at / WARP;
  return at;
}

__device__ inline float worth_of_group(const route_call &call, const float *worth, int size)
{
  float first = minus_infinity(), second = first;
  for (int i = 0; i < size; i++) {
    second = fmaxf(second, fminf(first, worth[i]));
    first = fmaxf(first, worth[i]);
  }
  return call.group_pairs && size > 1 ? first + second : first;
}

/* Leaves the experts of the best groups. */
__device__ inline void choose_groups(const route_call &call, const scores &s, float *of_groups)
{
  const int lane = threadIdx.x % WARP, size = call.experts / call.groups;
  unsigned kept = 0;
  for (int i = lane; i < call.groups; i += WARP)
    of_groups[i] = worth_of_group(call, s.worth + i * size, size);
  __syncwarp();
  for (int i = 0; i < call.active_groups; i++)
    take_largest(of_groups, call.groups, kept);
  for (int i = lane, bit = 0; i < call.groups; i += WARP, bit++)
    of_groups[i] = (float)(kept >> bit & 1);
  __syncwarp();
  for (int i = lane; i < call.experts; i += WARP)
    s.worth[i] = of_groups[i / size] != 0.0f ? s.worth[i] : minus_infinity();
  __syncwarp();
}

__device__ inline void write_choice(const route_call &call, int64 token, const scores &s)
{
  const int lane = threadIdx.x % WARP;
  int *chosen = call.chosen + token * call.active;
  float *weights = call.weights + token * call.active, sum = 0;
  unsigned taken = 0;
  for (int i = 0; i < call.active; i++) {
    int expert = take_largest(s.worth, call.experts, taken);
    sum += s.score[expert];
    if (lane == 0)
      chosen[i] = expert;
  }
  __syncwarp();
  for (int i = lane; i < call.active; i += WARP)
    weights[i] = s.score[chosen[i]] / (call.normalized ? sum : 1.0f) * call.scale;
}

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
  score_experts(call, call.logits + token * call.experts, s);
  if (call.groups > 0)
    choose_groups(call, s, of_groups[warp]);
  write_choice(call, token, s);
}

/* ---- the places of copies ---- */

/* The choices of a warp: consecutive ones, each lane every 32nd of them. */
struct choices {
  const int *chosen;
  int64 at, end; /* `at`: of the first lane */
};

__device__ inline choices choices_of_warp(const route_call &call)
{
  const int64 all = call.tokens * call.active, each = (all + PLACE_WARPS - 1) / PLACE_WARPS;
  const int64 at = threadIdx.x / WARP * each, end = at + each;
  return {call.chosen, at, end < all ? end : all};
}

/* The next choices of a lane, AHEAD of them; −1 behind the last. */
__device__ inline void load_choices(const choices &c, int64 at, int (&found)[AHEAD])
{
#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    int64 mine = at + i * WARP + threadIdx.x % WARP;
    found[i] = mine < c.end ? c.chosen[mine] : -1;
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
        call.places[choice] = mine;
        call.copied[mine] = (int)(choice / call.active);
        call.experts_of[mine] = expert;
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
