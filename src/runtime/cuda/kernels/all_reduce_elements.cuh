/* SPDX-License-Identifier: Apache-2.0 */
/* What all-reduces load, add up and store: packets of 8 bytes and vectors of 16, of HR_RANKS ranks. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/peer_packets.cuh"

#define RANKS HR_RANKS
#define PACKET_ELEMENTS (HR_PACKET_DATA / (int)sizeof(element))

typedef long long int64;

struct floats {
  float value[PACKET_ELEMENTS];

  __device__ void add(const packet &p)
  {
#pragma unroll
    for (int i = 0; i < PACKET_ELEMENTS; i++)
      value[i] += value_in(p.word[i / PER_WORD], i % PER_WORD);
  }

  __device__ packet rounded() const
  {
    return packet{{word_of(value), word_of(value + PER_WORD)}};
  }
};

/* Packet i of a tensor of `count` elements, with zeros behind its end. */
__device__ inline packet load_packet(const all_reduce_call &call, const element *from, int64 i)
{
  const int64 first = i * PACKET_ELEMENTS;
  if (!call.by_element && first + PACKET_ELEMENTS <= call.count) {
    const uint2 both = *(const uint2 *)(from + first);
    return packet{{both.x, both.y}};
  }
  floats some;
#pragma unroll
  for (int k = 0; k < PACKET_ELEMENTS; k++)
    some.value[k] = first + k < call.count ? to_float(from[first + k]) : 0.0f;
  return some.rounded();
}

__device__ inline void store_packet(const all_reduce_call &call, element *to, int64 i, const packet &p)
{
  const int64 first = i * PACKET_ELEMENTS;
  if (!call.by_element && first + PACKET_ELEMENTS <= call.count) {
    *(uint2 *)(to + first) = uint2{p.word[0], p.word[1]};
    return;
  }
#pragma unroll
  for (int k = 0; k < PACKET_ELEMENTS; k++) {
    if (first + k < call.count)
      to[first + k] = from_float(value_in(p.word[k / PER_WORD], k % PER_WORD));
  }
}

struct vector {
  unsigned word[4];
};

/* What others have written is not in the L1. */
__device__ inline vector load_from_peer(const char *from)
{
  vector v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from)
               : "memory");
  return v;
}

/* Vector i of a tensor of `count` elements, with zeros behind its end. */
__device__ inline vector load_vector(const all_reduce_call &call, const element *tensor, int64 i)
{
  if (!call.by_element && (i + 1) * 2 * PACKET_ELEMENTS <= call.count) {
    const uint4 all = ((const uint4 *)tensor)[i];
    return vector{{all.x, all.y, all.z, all.w}};
  }
  const packet low = load_packet(call, tensor, 2 * i), high = load_packet(call, tensor, 2 * i + 1);
  return vector{{low.word[0], low.word[1], high.word[0], high.word[1]}};
}

__device__ inline void send_vector(char *to, const vector &v)
{
  *(uint4 *)to = uint4{v.word[0], v.word[1], v.word[2], v.word[3]};
}

__device__ inline void store_vector(const all_reduce_call &call, element *tensor, int64 i, const vector &v)
{
  if (!call.by_element && (i + 1) * 2 * PACKET_ELEMENTS <= call.count) {
    ((uint4 *)tensor)[i] = uint4{v.word[0], v.word[1], v.word[2], v.word[3]};
    return;
  }
  store_packet(call, tensor, 2 * i, packet{{v.word[0], v.word[1]}});
  store_packet(call, tensor, 2 * i + 1, packet{{v.word[2], v.word[3]}});
}

struct vector_sum {
  floats half[2];

  __device__ void add(const vector &v)
  {
    half[0].add(packet{{v.word[0], v.word[1]}});
    half[1].add(packet{{v.word[2], v.word[3]}});
  }

  __device__ vector rounded() const
  {
    const packet low = half[0].rounded(), high = half[1].rounded();
    return vector{{low.word[0], low.word[1], high.word[0], high.word[1]}};
  }

  __device__ float squares() const
  {
    float all = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
      for (int k = 0; k < PACKET_ELEMENTS; k++)
        all += half[h].value[k] * half[h].value[k];
    }
    return all;
  }

  /* Times a factor and each element of the weights. */
  __device__ vector times(float factor, const vector &weights) const
  {
    vector_sum weight = {{{{0}}, {{0}}}}, scaled;
    weight.add(weights);
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
      for (int k = 0; k < PACKET_ELEMENTS; k++)
        scaled.half[h].value[k] = half[h].value[k] * factor * weight.half[h].value[k];
    }
    return scaled.rounded();
  }
};

/* The sum over a block of THREADS threads, which all get. */
template <int THREADS> __device__ inline float sum_of_block(float value)
{
  __shared__ float parts[THREADS / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; warp++)
    value += parts[warp];
  return value;
}
