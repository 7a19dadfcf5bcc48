/* SPDX-License-Identifier: Apache-2.0 */
/* New tokens into a quantized KV cache, K with rotary embedding: kv_cache_append.cu for elements of one byte.
 *
 *   block: K or V of one token at a time; a warp has one head, whose values it computes twice: for the scale, which is
 *   the caller's
 *          or that of the largest value, and for the elements, 4 of a thread at a time
 *
 * Bound: as kv_cache_append.cu. hr_kv_row_scale() and hr_kv_quantize() are the same in C. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#ifndef HR_DTYPE_fp8
#include "runtime/cuda/kernels/fp8.cuh"
#endif
#include "runtime/cuda/kernels/kv_cache_place.cuh"

#define FULL_WARP 0xFFFFFFFFu
#define NOT_A_NUMBER __uint_as_float(0x7FC00000u)
#define INFINITE __uint_as_float(0x7F800000u)

/* One head of a new token; of V, half is 0. */
struct head_row {
  const element *from;
  const float *cosines, *sines; /* of the token's position */
  int first, half;              /* of the rotary embedding */
  int interleaved;
};

/* Element i, rotated. */
__device__ inline float value_of(const head_row &row, int i)
{
  float own = to_float(row.from[i]);
  int at = i - row.first;
  if (at < 0 || at >= 2 * row.half)
    return own;
  bool second = row.interleaved ? at % 2 == 1 : at >= row.half;
  int pair = row.interleaved ? at / 2 : second ? at - row.half : at, apart = row.interleaved ? 1 : row.half;
  float other = to_float(row.from[second ? i - apart : i + apart]);
  float cosine = row.cosines[pair], sine = row.sines[pair];
  return second ? own * cosine + other * sine : own * cosine - other * sine;
}

__device__ inline float scale_of(const head_row &row, int dim, float largest)
{
  float most = 0, special = 0; /* 0, or NaN because of a NaN or an infinity */
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    float size = fabsf(value_of(row, i));
    most = fmaxf(most, size);
    special += size * 0.0f;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(FULL_WARP, most, distance));
    special += __shfl_xor_sync(FULL_WARP, special, distance);
  }
  float scale = most / largest;
  return special != 0.0f ? NOT_A_NUMBER : scale < 0x1p-126f ? 1.0f : scale;
}

__device__ inline unsigned quantize(float value, bool int8)
{
  if (!int8)
    return fabsf(value) == INFINITE ? 0x7Fu : fp8_from_float(value);
  float cut = fminf(fmaxf(value, -127.0f), 127.0f);
  return value != value ? 0u : (unsigned)(int)rintf(cut) & 0xFFu;
}

__device__ inline void write_head(const head_row &row, unsigned char *to, int dim, float scale, bool int8)
{
  bool whole = ((size_t)to | (size_t)dim) % 4 == 0;
  for (int i = threadIdx.x % 32 * 4; i < dim; i += 128) {
    unsigned word = 0;
    int count = min(4, dim - i);
    for (int j = 0; j < count; j++)
      word |= quantize(value_of(row, i + j) / scale, int8) << 8 * j;
    if (whole)
      *(unsigned *)(to + i) = word;
    for (int j = 0; j < count && !whole; j++)
      to[i + j] = (unsigned char)(word >> 8 * j);
  }
}

/* All heads of K or V of a token; `scales`: of all heads, or of the token's. */
__device__ inline void write_heads(const hr_kv_append_call &call, head_row row, unsigned char *to, float *scales,
                                   int width, int dim)
{
  int heads = width / dim;
  const element *from = row.from;
  for (int head = threadIdx.x / 32; head < heads; head += blockDim.x / 32) {
    row.from = from + head * dim;
    float scale = call.token_scales ? scale_of(row, dim, call.int8 ? 127.0f : 448.0f) : scales[head];
    if (call.token_scales && threadIdx.x % 32 == 0)
      scales[head] = scale;
    write_head(row, to + head * dim, dim, scale, call.int8);
  }
}

extern "C" __global__ void __launch_bounds__(128) append_tokens(hr_kv_append_call call)
{
  int tensors = call.v ? 2 : 1, k_heads = call.k_width / call.qk_dim, v_heads = call.v_width / call.v_dim;
  follow_kernel_before();
  for (int64 item = blockIdx.x; item < (int64)call.tokens * tensors; item += gridDim.x) {
    int row = (int)(item / tensors), position;
    int64 place = place_of(call, row, &position), scales = call.token_scales ? place : 0;
    if (item % tensors == 1) {
      head_row v = {call.v + row * call.v_row};
      write_heads(call, v, (unsigned char *)call.v_cache + place * call.v_width, call.v_scales + scales * v_heads,
                  call.v_width, call.v_dim);
    } else {
      int64 angles = (int64)position * call.rotary_half;
      head_row k = {call.k + row * call.k_row, call.cos + angles, call.sin + angles,
                    call.rotary_first,         call.rotary_half,  call.interleaved};
      write_heads(call, k, (unsigned char *)call.k_cache + place * call.k_width, call.k_scales + scales * k_heads,
                  call.k_width, call.qk_dim);
    }
  }
}
