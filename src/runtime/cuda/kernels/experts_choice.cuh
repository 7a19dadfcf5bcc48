/* SPDX-License-Identifier: Apache-2.0 */
/* The experts of a token, chosen by a warp: scores of all experts in shared memory, then the largest, one after
 * another. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/experts_layout.h"

#define WARP 32
#define LANES 0xFFFFFFFFu
#define LOG2_E 1.4426950408889634f

typedef long long int64;
typedef hr_route_call route_call; /* of up to 1024 experts: a lane has a bit for each of its own */

/* The number of an expert in the order of places. */
__device__ inline int order_of(const route_call &call, int chosen)
{
  const int expert = chosen - call.first;
  return expert < 0 ? expert + call.experts : expert;
}

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

/* What the choice of a token goes by. */
struct scores {
  float *score; /* of which its weights are made; the logits at first */
  float *worth; /* by which it chooses; minus infinity: not at all */
};

__device__ inline void softmax_scores(const route_call &call, const scores &s)
{
  const int lane = threadIdx.x % WARP;
  float most = minus_infinity(), sum = 0;
  for (int i = lane; i < call.experts; i += WARP)
    most = fmaxf(most, s.score[i]);
  most = largest_of_warp(most);
  for (int i = lane; i < call.experts; i += WARP)
    sum += s.score[i] = exp2f((s.score[i] - most) * LOG2_E);
  sum = sum_of_warp(sum);
  for (int i = lane; i < call.experts; i += WARP)
    s.score[i] /= sum;
}

/* A lane reads the logits of its own experts, every 32nd. */
__device__ inline void score_experts(const route_call &call, const scores &s)
{
  const int lane = threadIdx.x % WARP;
  if (call.sigmoid)
    for (int i = lane; i < call.experts; i += WARP)
      s.score[i] = 1.0f / (1.0f + exp2f(-s.score[i] * LOG2_E));
  else
    softmax_scores(call, s);
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

__device__ inline void write_choice(const route_call &call, int64 token, const scores &s, int *chosen)
{
  const int lane = threadIdx.x % WARP;
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
