/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a router's logits through the weights of the experts that it chose: a warp a token. With the share w
 * of a chosen expert before it is scaled and its gradient g, d = w (g − Σ g w), for a sigmoid times 1 − sigmoid; a
 * sigmoid whose weights are not divided by their sum has no Σ. Experts that were not chosen have 0, but in a softmax
 * whose weights are not divided: − w Σ g w. Bound: latency. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/experts_layout.h"

#define WARP 32
#define LANES 0xFFFFFFFFu
#define LOG2_E 1.4426950408889634f

typedef long long int64;
typedef hr_route_backward_call route_call;

__device__ inline float sum_of_warp(float value)
{
  for (int step = WARP / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(LANES, value, step);
  return value;
}

__device__ inline float largest_of_warp(float value)
{
  for (int step = WARP / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(LANES, value, step));
  return value;
}

/* What the logits of experts that were not chosen get. */
__device__ inline void write_others(const route_call &call, const element *logits, element *to, float common)
{
  const int lane = threadIdx.x % WARP;
  const bool shares = !call.sigmoid && !call.normalized;
  float most = __uint_as_float(0xFF800000u), sum = 0;
  for (int i = lane; shares && i < call.experts; i += WARP)
    most = fmaxf(most, to_float(logits[i]));
  most = largest_of_warp(most);
  for (int i = lane; shares && i < call.experts; i += WARP)
    sum += exp2f((to_float(logits[i]) - most) * LOG2_E);
  sum = sum_of_warp(sum);
  for (int i = lane; i < call.experts; i += WARP)
    to[i] = from_float(shares ? -exp2f((to_float(logits[i]) - most) * LOG2_E) / sum * common : 0.0f);
}

/* The gradient of a choice's weight. */
__device__ inline float d_weight_of(const route_call &call, int64 choice)
{
  const int place = call.places[choice];
  return place < 0 ? 0.0f : call.d_weights[place];
}

extern "C" __global__ __launch_bounds__(WARP *HR_ROUTE_WARPS) void route_backward(const route_call call)
{
  const int lane = threadIdx.x % WARP;
  const int64 token = (int64)blockIdx.x * HR_ROUTE_WARPS + threadIdx.x / WARP, first = token * call.active;
  follow_kernel_before();
  if (token >= call.tokens)
    return;
  const element *logits = call.logits + token * call.experts;
  element *to = call.d_logits + token * call.experts;
  float common = 0;
  for (int i = lane; i < call.active; i += WARP)
    common += d_weight_of(call, first + i) * call.weights[first + i];
  common = sum_of_warp(common);
  if (call.sigmoid && !call.normalized)
    common = 0;
  write_others(call, logits, to, common);
  __syncwarp();
  for (int i = lane; i < call.active; i += WARP) {
    const int expert = call.chosen[first + i];
    const float share = call.weights[first + i] / call.scale;
    const float gradient = d_weight_of(call, first + i) * call.scale;
    const float rest = call.sigmoid ? 1.0f / (1.0f + exp2f(to_float(logits[expert]) * LOG2_E)) : 1.0f;
    to[expert] = from_float(share * (gradient - common) * rest);
  }
}
