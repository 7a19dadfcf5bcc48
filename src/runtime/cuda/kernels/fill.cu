/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform random values in [-bound, bound], bit-identical to those of the host.
 *
 *   thread t: elements 2t and 2t + 1, from the two halves of one SplitMix64 number
 *
 * Bound: memory writes; gigabytes take milliseconds, where the host takes seconds. */
#include "runtime/cuda/kernels/dtype.cuh"

__device__ inline unsigned long long mix(unsigned long long counter)
{
  unsigned long long z = counter * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__device__ inline element uniform(int half, float bound)
{
  return from_float((float)(half >> 7) * 0x1p-24f * bound);
}

extern "C" __global__ void fill_uniform(element *to, unsigned long long count, unsigned long long key, float bound)
{
  unsigned long long pair = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (; 2 * pair < count; pair += stride) {
    unsigned long long bits = mix(key + pair);
    to[2 * pair] = uniform((int)(unsigned)bits, bound);
    if (2 * pair + 1 < count)
      to[2 * pair + 1] = uniform((int)(unsigned)(bits >> 32), bound);
  }
}

/* Element (row, column) of packed rows of `columns` is number first + row · pitch + column. */
extern "C" __global__ void fill_uniform_part(element *to, unsigned long long count, unsigned long long key, float bound,
                                             unsigned long long columns, unsigned long long first,
                                             unsigned long long pitch)
{
  unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
    const unsigned long long number = first + i / columns * pitch + i % columns, bits = mix(key + number / 2);
    to[i] = uniform((int)(unsigned)(number % 2 ? bits >> 32 : bits), bound);
  }
}
