/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of few new tokens before attention, in one kernel: Q and K normed and rotated, K and V into a KV cache.
 *
 *   warp: a head of Q, K or V of one token; a lane has every 32nd pair of its elements, or of V every 32nd element
 *
 * Bound: the launch. Of many tokens kv_cache_append.cu and the row-wise kernels move 16 bytes at a time. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/kv_cache_place.cuh"

#define WARP 32

typedef hr_kv_heads_call heads_call;

/* A head: what is read, what is written, and the weight of its norm (NULL: none). */
struct head {
  const element *from, *norm;
  element *to;
};

/* The factor of an RMS norm of the head; 1 without one. */
__device__ inline float scale_of(const heads_call &call, const head &h, int dim)
{
  if (!h.norm)
    return 1;
  float squares = 0;
  for (int i = (int)threadIdx.x % WARP; i < dim; i += WARP)
    squares += to_float(h.from[i]) * to_float(h.from[i]);
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
  return rsqrtf(squares / (float)dim + call.epsilon);
}

__device__ inline float normed(const head &h, float scale, int i)
{
  const float value = to_float(h.from[i]);
  return h.norm ? to_float(from_float(value * scale * to_float(h.norm[i]))) : value;
}

/* Pairs are i and half + i, or neighbours. The table's row has cosines first. */
__device__ inline void write_head(const heads_call &call, const head &h, int dim, int position)
{
  const int half = call.rotated / 2;
  const element *angles = call.angles + (int64)position * call.rotated;
  const float scale = scale_of(call, h, dim);
  for (int i = (int)threadIdx.x % WARP; i < half; i += WARP) {
    const int first = call.interleaved ? 2 * i : i, second = call.interleaved ? 2 * i + 1 : half + i;
    const float x = normed(h, scale, first), y = normed(h, scale, second);
    const float cosine = to_float(angles[i]), sine = to_float(angles[half + i]);
    h.to[first] = from_float(x * cosine - y * sine);
    h.to[second] = from_float(y * cosine + x * sine);
  }
  for (int i = call.rotated + (int)threadIdx.x % WARP; i < dim; i += WARP)
    h.to[i] = h.norm ? from_float(normed(h, scale, i)) : h.from[i];
}

__device__ inline void copy_head(const element *from, element *to, int dim)
{
  for (int i = (int)threadIdx.x % WARP; i < dim; i += WARP)
    to[i] = from[i];
}

extern "C" __global__ void __launch_bounds__(128) write_heads(const heads_call call)
{
  const hr_kv_append_call &a = call.append;
  const int q_heads = call.q_heads, k_heads = a.k_width / a.qk_dim, v_heads = a.v_width / a.v_dim;
  const int all = q_heads + k_heads + v_heads, item = (int)(blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  const int row = item / all, mine = item % all;
  follow_kernel_before();
  if (row >= a.tokens)
    return;
  int position;
  const int64 place = place_of(a, row, &position);
  if (mine < q_heads) {
    const element *norm = call.q_norm ? call.q_norm + mine * call.norm_stride : nullptr;
    const int64 at = ((int64)row * q_heads + mine) * a.qk_dim;
    write_head(call, {call.q + row * call.q_row + mine * a.qk_dim, norm, call.q_to + at}, a.qk_dim, position);
  } else if (mine < q_heads + k_heads) {
    const int k = mine - q_heads;
    const element *norm = call.k_norm ? call.k_norm + k * call.norm_stride : nullptr;
    element *to = (element *)a.k_cache + place * a.k_width + k * a.qk_dim;
    write_head(call, {a.k + row * a.k_row + k * a.qk_dim, norm, to}, a.qk_dim, position);
  } else {
    const int v = mine - q_heads - k_heads;
    copy_head(a.v + row * a.v_row + v * a.v_dim, (element *)a.v_cache + place * a.v_width + v * a.v_dim, a.v_dim);
  }
}
