/* SPDX-License-Identifier: Apache-2.0 */
/* A residual and the norm of its sum: sum = x + z, y = norm(sum).
 *
 *   A block has a row, of which thread t has the packs t, t + THREADS, … as floats in registers, up to
 *   HR_RESIDUAL_NORM_FLOATS. The norm is that of the sum before it is rounded.
 *
 *   Bound: memory. x and z are read and the sum and y are written once: 4 moves of each element, 5 apart.
 *
 * A program is compiled for HR_THREADS, HR_PACKS of a thread, and HR_CENTRED: layer norm, otherwise RMS norm. */
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#include "runtime/cuda/kernels/residual_norm_layout.h"
#include "runtime/cuda/kernels/rowwise_store.cuh"

#define THREADS HR_THREADS
#define PACKS HR_PACKS
#define WARPS (THREADS / 32)

/* The sum over the threads of the block, in one order; `parts` is used once. */
__device__ inline float reduce(float value, float (&parts)[WARPS])
{
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  if (WARPS == 1)
    return value;
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++)
    value += parts[warp];
  return value;
}

struct sum_row {
  float value[PACKS][PACK_ELEMENTS]; /* 0 beyond the row */
  int64 columns;

  __device__ static int64 column(int i)
  {
    return ((int64)i * THREADS + threadIdx.x) * PACK_ELEMENTS;
  }

  __device__ bool has(int i, int k) const
  {
    return column(i) + k < columns;
  }

  __device__ sum_row(const element *x, const element *z, int64 of_columns) : columns(of_columns)
  {
    pack a[PACKS], b[PACKS];
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      a[i] = load_unaligned(x, column(i), columns);
      b[i] = load_unaligned(z, column(i), columns);
    }
#pragma unroll
    for (int i = 0; i < PACKS; i++)
#pragma unroll
      for (int k = 0; k < PACK_ELEMENTS; k++)
        value[i][k] = a[i].at(k) + b[i].at(k);
  }

  __device__ float total() const
  {
    float all = 0;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
#pragma unroll
      for (int k = 0; k < PACK_ELEMENTS; k++)
        all += value[i][k];
    return all;
  }

  __device__ float squares_around(float mean) const
  {
    float all = 0;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
#pragma unroll
      for (int k = 0; k < PACK_ELEMENTS; k++) {
        float off = has(i, k) ? value[i][k] - mean : 0.0f;
        all += off * off;
      }
    return all;
  }

  __device__ void store(element *to) const
  {
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      if (column(i) < columns)
        store_unaligned(to, column(i), columns, value[i]);
  }
};

__device__ inline void store_norm(const hr_residual_norm_call &t, const sum_row &row, float mean, float scale,
                                  element *to)
{
#pragma unroll
  for (int i = 0; i < PACKS; i++) {
    const int64 at = row.column(i);
    if (at >= row.columns)
      continue;
    const pack weight = load_unaligned((const element *)t.weight, at, row.columns);
    const pack bias = HR_CENTRED ? load_unaligned((const element *)t.bias, at, row.columns) : pack(0, 0, 0, 0);
    float y[PACK_ELEMENTS];
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++) {
      y[k] = (row.value[i][k] - mean) * scale * weight.at(k);
      if (HR_CENTRED)
        y[k] += bias.at(k);
    }
    store_unaligned(to, at, row.columns, y);
  }
}

extern "C" __global__ __launch_bounds__(THREADS) void residual_norm(const hr_residual_norm_call t)
{
  __shared__ float parts[2][WARPS];
  const int64 first = (int64)blockIdx.x * t.columns;
  follow_kernel_before();
  const sum_row row((const element *)t.x + first, (const element *)t.z + first, t.columns);
  row.store((element *)t.sum + first);
  float mean = 0;
  if (HR_CENTRED)
    mean = reduce(row.total(), parts[0]) / (float)t.columns;
  const float squares = reduce(row.squares_around(mean), parts[1]);
  store_norm(t, row, mean, rsqrtf(squares / (float)t.columns + t.epsilon), (element *)t.y + first);
}
