/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of new tokens before attention, in one kernel: Q and K normed and rotated, K and V into a KV cache.
 *
 *   warp: a head of Q, K or V of one token; a lane has every 32nd pair of its elements, or of V every 32nd element;
 *     in 16 bits, where halves are rotated and addresses allow, two neighbouring pairs, which are words
 *
 * Bound: the launch; of many tokens the memory. Heads that are not normed are faster there by kv_cache_append.cu and
 * the row-wise kernels, which move 16 bytes at a time. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/kv_cache_place.cuh"

#define WARP 32

typedef hr_kv_heads_call heads_call;

/* A head: what is read, the weight of its norm (NULL: none), and where it is written, once or twice (NULL: once). */
struct head {
  const element *from, *norm;
  element *to, *also;

  __device__ void put(int i, element value) const
  {
    to[i] = value;
    if (also)
      also[i] = value;
  }
};

/* The factor of an RMS norm of the head, from a lane's sum of squares. */
__device__ inline float scale_by(const heads_call &call, float squares, int dim)
{
#pragma unroll
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
  return rsqrtf(squares / (float)dim + call.epsilon);
}

__device__ inline float scale_of(const heads_call &call, const head &h, int dim)
{
  float squares = 0;
  for (int i = (int)threadIdx.x % WARP; i < dim; i += WARP)
    squares += to_float(h.from[i]) * to_float(h.from[i]);
  return scale_by(call, squares, dim);
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
  const float scale = h.norm ? scale_of(call, h, dim) : 1;
  for (int i = (int)threadIdx.x % WARP; i < half; i += WARP) {
    const int first = call.interleaved ? 2 * i : i, second = call.interleaved ? 2 * i + 1 : half + i;
    const float x = normed(h, scale, first), y = normed(h, scale, second);
    const float cosine = to_float(angles[i]), sine = to_float(angles[half + i]);
    h.put(first, from_float(x * cosine - y * sine));
    h.put(second, from_float(y * cosine + x * sine));
  }
  for (int i = call.rotated + (int)threadIdx.x % WARP; i < dim; i += WARP)
    h.put(i, h.norm ? from_float(normed(h, scale, i)) : h.from[i]);
}

#if PER_WORD == 2
/* The words of a head of 16-bit elements. */
struct head_words {
  const unsigned *from, *norm;
  unsigned *to, *also;

  __device__ explicit head_words(const head &h)
      : from((const unsigned *)(const void *)h.from), norm((const unsigned *)(const void *)h.norm),
        to((unsigned *)(void *)h.to), also((unsigned *)(void *)h.also)
  {
  }
  __device__ void put(int i, unsigned word) const
  {
    to[i] = word;
    if (also)
      also[i] = word;
  }
  __device__ float squares(int dim) const
  {
    float sum = 0;
    for (int i = (int)threadIdx.x % WARP; i < dim / 2; i += WARP)
      sum += value_in(from[i], 0) * value_in(from[i], 0) + value_in(from[i], 1) * value_in(from[i], 1);
    return sum;
  }
  __device__ unsigned normed(int i, float scale) const
  {
    if (!norm)
      return from[i];
    const float values[2] = {value_in(from[i], 0) * scale * value_in(norm[i], 0),
                             value_in(from[i], 1) * scale * value_in(norm[i], 1)};
    return word_of(values);
  }
};

__device__ inline bool has_words(const heads_call &call, const head &h, int dim)
{
  const size_t addresses =
      (size_t)h.from | (size_t)h.norm | (size_t)h.to | (size_t)h.also | (call.rotated > 0 ? (size_t)call.angles : 0);
  return addresses % 4 == 0 && call.rotated % 4 == 0 && dim % 2 == 0 && !call.interleaved;
}

__device__ inline void write_words(const heads_call &call, const head &h, int dim, int position)
{
  const int half = call.rotated / 4;
  const head_words w(h);
  const unsigned *angles = (const unsigned *)(const void *)(call.angles + (int64)position * call.rotated);
  const float scale = h.norm ? scale_by(call, w.squares(dim), dim) : 1;
  for (int i = (int)threadIdx.x % WARP; i < half; i += WARP) {
    const unsigned x = w.normed(i, scale), y = w.normed(half + i, scale), cosine = angles[i], sine = angles[half + i];
    float first[2], second[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      first[j] = value_in(x, j) * value_in(cosine, j) - value_in(y, j) * value_in(sine, j);
      second[j] = value_in(y, j) * value_in(cosine, j) + value_in(x, j) * value_in(sine, j);
    }
    w.put(i, word_of(first));
    w.put(half + i, word_of(second));
  }
  for (int i = call.rotated / 2 + (int)threadIdx.x % WARP; i < dim / 2; i += WARP)
    w.put(i, w.normed(i, scale));
}
#endif

__device__ inline void write_any(const heads_call &call, const head &h, int dim, int position)
{
#if PER_WORD == 2
  if (has_words(call, h, dim)) {
    write_words(call, h, dim, position);
    return;
  }
#endif
  write_head(call, h, dim, position);
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
    write_any(call, {call.q + row * call.q_row + mine * a.qk_dim, norm, call.q_to + at, nullptr}, a.qk_dim, position);
  } else if (mine < q_heads + k_heads) {
    const int k = mine - q_heads;
    const element *norm = call.k_norm ? call.k_norm + k * call.norm_stride : nullptr;
    element *to = (element *)a.k_cache + place * a.k_width + k * a.qk_dim;
    element *also = call.k_to ? call.k_to + (int64)row * a.k_width + k * a.qk_dim : nullptr;
    write_any(call, {a.k + row * a.k_row + k * a.qk_dim, norm, to, also}, a.qk_dim, position);
  } else {
    const int v = mine - q_heads - k_heads;
    copy_head(a.v + row * a.v_row + v * a.v_dim, (element *)a.v_cache + place * a.v_width + v * a.v_dim, a.v_dim);
  }
}
