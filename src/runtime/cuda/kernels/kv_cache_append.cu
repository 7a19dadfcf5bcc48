/* SPDX-License-Identifier: Apache-2.0 */
/* New tokens into a KV cache, K with rotary embedding.
 *
 *   block: K or V of one token at a time, all heads; a thread moves 16 bytes at a time where sizes and addresses allow
 *
 * Bound: memory, each new element is read and written once; below some hundred tokens the launch. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/kv_cache_place.cuh"

template <int COUNT, int BYTES> struct alignas(BYTES) part {
  element at[COUNT];
};

#define WIDE (16 / (int)sizeof(element)) /* elements of 16 bytes */

/* ---- rows ---- */

/* Copies heads of `dim` elements without their elements first … first + left_out − 1; all three are multiples of
 * COUNT. */
template <int COUNT, int BYTES>
__device__ inline void copy_but(const element *from, element *to, int width, int dim, int first, int left_out)
{
  typedef part<COUNT, BYTES> some;
  for (int i = (int)threadIdx.x * COUNT; i < width; i += (int)blockDim.x * COUNT) {
    int at = left_out > 0 ? i % dim - first : -1;
    if (at < 0 || at >= left_out)
      *(some *)(to + i) = *(const some *)(from + i);
  }
}

/* x and y become x cos − y sin and y cos + x sin. */
__device__ inline void rotate(element &x, element &y, float cosine, float sine)
{
  float u = to_float(x), v = to_float(y);
  x = from_float(u * cosine - v * sine);
  y = from_float(v * cosine + u * sine);
}

/* Pairs i and half + i of each head. */
template <int COUNT, int BYTES>
__device__ inline void rotate_half_split(const hr_kv_append_call &call, const element *from, element *to,
                                         const float *cosines, const float *sines)
{
  typedef part<COUNT, BYTES> some;
  int half = call.rotary_half, pairs = call.k_width / call.qk_dim * half;
  for (int i = (int)threadIdx.x * COUNT; i < pairs; i += (int)blockDim.x * COUNT) {
    int pair = i % half, at = i / half * call.qk_dim + call.rotary_first + pair;
    some x = *(const some *)(from + at), y = *(const some *)(from + at + half);
#pragma unroll
    for (int j = 0; j < COUNT; j++)
      rotate(x.at[j], y.at[j], cosines[pair + j], sines[pair + j]);
    *(some *)(to + at) = x;
    *(some *)(to + at + half) = y;
  }
}

/* Pairs 2i and 2i + 1 of each head. */
template <int COUNT, int BYTES>
__device__ inline void rotate_interleaved(const hr_kv_append_call &call, const element *from, element *to,
                                          const float *cosines, const float *sines)
{
  typedef part<COUNT, BYTES> some;
  int size = 2 * call.rotary_half, elements = call.k_width / call.qk_dim * size;
  for (int i = (int)threadIdx.x * COUNT; i < elements; i += (int)blockDim.x * COUNT) {
    int first = i % size, at = i / size * call.qk_dim + call.rotary_first + first;
    some xy = *(const some *)(from + at);
#pragma unroll
    for (int j = 0; j < COUNT; j += 2)
      rotate(xy.at[j], xy.at[j + 1], cosines[(first + j) / 2], sines[(first + j) / 2]);
    *(some *)(to + at) = xy;
  }
}

__device__ inline void copy_row(const element *from, element *to, int width)
{
  if (((size_t)from | (size_t)to | (size_t)width * sizeof(element)) % 16 == 0)
    copy_but<WIDE, 16>(from, to, width, width, 0, 0);
  else
    copy_but<1, sizeof(element)>(from, to, width, width, 0, 0);
}

__device__ inline void rotate_row(const hr_kv_append_call &call, const element *from, element *to, int position)
{
  int half = call.rotary_half, first = call.rotary_first;
  const float *cosines = call.cos + (int64)position * half, *sines = call.sin + (int64)position * half;
  int unit = call.interleaved ? 2 * half : half;
  bool wide = ((size_t)from | (size_t)to | (size_t)(call.qk_dim | first | unit) * sizeof(element)) % 16 == 0;
  if (wide)
    copy_but<WIDE, 16>(from, to, call.k_width, call.qk_dim, first, 2 * half);
  else
    copy_but<1, sizeof(element)>(from, to, call.k_width, call.qk_dim, first, 2 * half);
  if (call.interleaved && wide)
    rotate_interleaved<WIDE, 16>(call, from, to, cosines, sines);
  else if (call.interleaved)
    rotate_interleaved<2, sizeof(element)>(call, from, to, cosines, sines);
  else if (wide)
    rotate_half_split<WIDE, 16>(call, from, to, cosines, sines);
  else
    rotate_half_split<1, sizeof(element)>(call, from, to, cosines, sines);
}

extern "C" __global__ void __launch_bounds__(128) append_tokens(hr_kv_append_call call)
{
  int tensors = call.v ? 2 : 1;
  follow_kernel_before();
  for (int64 item = blockIdx.x; item < (int64)call.tokens * tensors; item += gridDim.x) {
    int row = (int)(item / tensors), position;
    int64 place = place_of(call, row, &position);
    if (item % tensors == 1)
      copy_row(call.v + row * call.v_row, (element *)call.v_cache + place * call.v_width, call.v_width);
    else if (call.rotary_half > 0)
      rotate_row(call, call.k + row * call.k_row, (element *)call.k_cache + place * call.k_width, position);
    else
      copy_row(call.k + row * call.k_row, (element *)call.k_cache + place * call.k_width, call.k_width);
  }
}
