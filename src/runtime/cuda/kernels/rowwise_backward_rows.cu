/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of softmax and of norms, and sums over rows.
 *
 *   softmax      dx = y (dy − Σ y dy)
 *   layer norm   g = dy weight, h = (x − mean) s:   dx = s (g − mean of g − h mean of g h)
 *   RMS norm     g = dy weight, h = x s:            dx = s (g − h mean of g h)
 *   dweight = Σ dy h, dbias = Σ dy                  over the rows
 *
 *   THREADS of a block have a row, GROUPS of them a block. A thread has the packs t, t + THREADS, … of its rows: the
 *   first PACKS of both tensors in registers between the reductions and the result, the others are read again, from the
 *   L2. A block takes every gridDim.x-th group of rows, so that a thread adds its columns of dweight and dbias up in
 *   registers, and those of the other packs in the workspace, where only this thread touches them. Then the groups of a
 *   block are added, and add_blocks() adds those of the blocks, each in one order.
 *
 *   Bound: memory. dy and x, or y, are read and dx is written once: 3 moves of each element. The sums of the blocks are
 *   8 bytes for each of them and column.
 *
 * A program is compiled for HR_OPERATION (rowwise_backward_layout.h), HR_THREADS, HR_GROUPS and HR_PACKS. */
#include "runtime/cuda/kernels/rowwise_pack.cuh"

#include "runtime/cuda/kernels/rowwise_backward_layout.h"
#include "runtime/cuda/kernels/rowwise_store.cuh"

#define THREADS HR_THREADS
#define GROUPS HR_GROUPS
#define PACKS HR_PACKS
#define WARPS (THREADS / 32)
#define OPERATION HR_OPERATION
#define REDUCED (OPERATION == HR_ROWS_LAYER_NORM ? 3 : OPERATION == HR_ROWS_RMS_NORM ? 2 : 1)
#define VECTORS (OPERATION == HR_ROWS_LAYER_NORM ? 2 : OPERATION == HR_ROWS_SOFTMAX ? 0 : 1)

typedef hr_backward_rows_call backward_call;

/* Adds up over the threads of a row, in one order; every thread gets the sums. The slots alternate, as a thread may be
 * one reduction ahead of another one. */
template <int N> __device__ inline void reduce(float (&value)[N], int &turn)
{
  __shared__ float parts[2][GROUPS][WARPS][REDUCED];
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      value[n] += __shfl_xor_sync(0xFFFFFFFFu, value[n], distance);
  }
  if (WARPS == 1)
    return;
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int n = 0; n < N; n++)
      parts[turn][threadIdx.y][threadIdx.x / 32][n] = value[n];
  }
  asm volatile("bar.sync %0, %1;" ::"r"(1 + (int)threadIdx.y), "r"(THREADS) : "memory");
#pragma unroll
  for (int n = 0; n < N; n++) {
    value[n] = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++)
      value[n] += parts[turn][threadIdx.y][warp][n];
  }
  turn ^= 1;
}

/* The two tensors of a row: dy, and x or y. */
struct row_pair {
  const element *dy, *x;
  int64 visible;
  pack a[PACKS], b[PACKS];

  __device__ static int64 column(int i)
  {
    return ((int64)i * THREADS + threadIdx.x) * PACK_ELEMENTS;
  }

  __device__ row_pair(const backward_call &t, int64 row)
  {
    dy = (const element *)t.inputs[0] + row * t.columns;
    x = (const element *)t.inputs[1] + row * t.columns;
    int64 masked = OPERATION == HR_ROWS_SOFTMAX && t.period > 0 ? t.period - 1 - row % t.period : 0;
    visible = t.columns - masked;
#pragma unroll
    for (int i = 0; i < PACKS; i++)
      load(i, a[i], b[i]);
  }

  __device__ void load(int i, pack &one, pack &other) const
  {
    one = load_unaligned(dy, column(i), visible);
    if (OPERATION != HR_ROWS_BIAS)
      other = load_unaligned(x, column(i), visible);
  }

  /* Calls use(kept, i, dy, x) for the packs of the thread that begin before column `end`; kept: in registers, and i
   * is known at compile time. */
  template <class USE> __device__ void for_each(int64 end, USE use)
  {
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
      a[i].pin();
      if (OPERATION != HR_ROWS_BIAS)
        b[i].pin();
      if (column(i) < end)
        use(true, i, a[i], b[i]);
    }
    for (int i = PACKS; column(i) < end; i++) {
      pack one, other;
      load(i, one, other);
      use(false, i, one, other);
    }
  }
};

/* The sums of a thread's columns over its rows. */
struct column_sums {
  float in_registers[VECTORS > 0 ? VECTORS : 1][PACKS][PACK_ELEMENTS];
  float *others; /* [VECTORS][columns] */
  int64 columns;
  bool first;

  __device__ column_sums(const backward_call &t)
  {
    others = (float *)t.sums + (int64)blockIdx.x * VECTORS * t.columns;
    columns = t.columns;
    first = true;
#pragma unroll
    for (int at = 0; at < VECTORS * PACKS * PACK_ELEMENTS; at++)
      in_registers[at / (PACKS * PACK_ELEMENTS)][at / PACK_ELEMENTS % PACKS][at % PACK_ELEMENTS] = 0;
  }

  __device__ void add(bool kept, int vector, int i, int k, float value)
  {
    int64 column = row_pair::column(i) + k;
    if (kept)
      in_registers[vector][i][k] += value;
    else if (column < columns)
      others[vector * columns + column] = first ? value : others[vector * columns + column] + value;
  }

  /* Writes the sums of pack i of a vector over the groups of the block. */
  __device__ void write(int vector, int i)
  {
    __shared__ float groups[GROUPS][PACK_ELEMENTS][THREADS];
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS && GROUPS > 1; k++)
      groups[threadIdx.y][k][threadIdx.x] = in_registers[vector][i][k];
    if (GROUPS > 1)
      __syncthreads();
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++) {
      float sum = in_registers[vector][i][k];
      for (int group = 1; group < GROUPS && threadIdx.y == 0; group++)
        sum += groups[group][k][threadIdx.x];
      int64 column = row_pair::column(i) + k;
      if (threadIdx.y == 0 && column < columns)
        others[vector * columns + column] = sum;
    }
    if (GROUPS > 1)
      __syncthreads();
  }

  __device__ void write_all()
  {
#pragma unroll
    for (int vector = 0; vector < VECTORS; vector++) {
#pragma unroll
      for (int i = 0; i < PACKS; i++)
        write(vector, i);
    }
  }
};

__device__ inline void softmax_row(const backward_call &t, row_pair &row, element *dx, int &turn)
{
  float sum[1] = {0};
  row.for_each(row.visible, [&](bool, int, const pack &dy, const pack &y) {
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++)
      sum[0] += y.at(k) * dy.at(k);
  });
  reduce(sum, turn);
  row.for_each(t.columns, [&](bool, int i, const pack &dy, const pack &y) {
    float values[PACK_ELEMENTS];
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++) /* 0 where it is masked even if the sum is NaN */
      values[k] = row_pair::column(i) + k < row.visible ? y.at(k) * (dy.at(k) - sum[0]) : 0.0f;
    store_unaligned(dx, row_pair::column(i), t.columns, values);
  });
}

/* Sums of a row of a norm: of x, and of the squares of x − mean, g (x − mean) and, of a layer norm, g. */
struct norm_sums {
  float mean, squares, along, g;
};

__device__ inline norm_sums add_up_norm(const backward_call &t, row_pair &row, int &turn)
{
  const element *weight = (const element *)t.inputs[2];
  float mean[1] = {0}, sums[REDUCED] = {};
  if (OPERATION == HR_ROWS_LAYER_NORM) {
    row.for_each(t.columns, [&](bool, int, const pack &, const pack &x) {
#pragma unroll
      for (int k = 0; k < PACK_ELEMENTS; k++)
        mean[0] += x.at(k);
    });
    reduce(mean, turn);
    mean[0] /= (float)t.columns;
  }
  row.for_each(t.columns, [&](bool, int i, const pack &dy, const pack &x) {
    pack w = load_unaligned(weight, row_pair::column(i), t.columns);
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++) {
      float from = row_pair::column(i) + k < t.columns ? x.at(k) - mean[0] : 0.0f, g = dy.at(k) * w.at(k);
      sums[0] += from * from;
      sums[1 % REDUCED] += g * from;
      if (OPERATION == HR_ROWS_LAYER_NORM)
        sums[2 % REDUCED] += g;
    }
  });
  reduce(sums, turn);
  return {mean[0], sums[0], sums[1 % REDUCED], OPERATION == HR_ROWS_LAYER_NORM ? sums[2 % REDUCED] : 0.0f};
}

__device__ inline void norm_row(const backward_call &t, row_pair &row, element *dx, column_sums &columns, int &turn)
{
  const element *weight = (const element *)t.inputs[2];
  const float share = 1.0f / (float)t.columns;
  norm_sums s = add_up_norm(t, row, turn);
  float scale = rsqrtf(s.squares * share + t.epsilon), along = s.along * scale * share, level = s.g * share;
  row.for_each(t.columns, [&](bool kept, int i, const pack &dy, const pack &x) {
    pack w = load_unaligned(weight, row_pair::column(i), t.columns);
    float values[PACK_ELEMENTS];
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++) {
      float h = (x.at(k) - s.mean) * scale;
      values[k] = scale * (dy.at(k) * w.at(k) - level - h * along);
      columns.add(kept, 0, i, k, dy.at(k) * h);
      if (OPERATION == HR_ROWS_LAYER_NORM)
        columns.add(kept, VECTORS - 1, i, k, dy.at(k));
    }
    store_unaligned(dx, row_pair::column(i), t.columns, values);
  });
}

__device__ inline void sum_row(const backward_call &t, row_pair &row, column_sums &columns)
{
  row.for_each(t.columns, [&](bool kept, int i, const pack &dy, const pack &) {
#pragma unroll
    for (int k = 0; k < PACK_ELEMENTS; k++)
      columns.add(kept, 0, i, k, dy.at(k));
  });
}

extern "C" __global__ void __launch_bounds__(THREADS *GROUPS) backward_rows(const backward_call t)
{
  column_sums columns(t);
  int turn = 0;
  for (int64 row = (int64)blockIdx.x * GROUPS + threadIdx.y; row < t.rows; row += (int64)gridDim.x * GROUPS) {
    row_pair pair(t, row);
    element *dx = (element *)t.outputs[0] + row * t.columns;
    if (OPERATION == HR_ROWS_SOFTMAX)
      softmax_row(t, pair, dx, turn);
    else if (OPERATION == HR_ROWS_BIAS)
      sum_row(t, pair, columns);
    else
      norm_row(t, pair, dx, columns, turn);
    columns.first = false;
  }
  columns.write_all();
}

/* Adds up the sums of the blocks: a warp's lanes are columns, each of HR_SUMMED_SHARES warps takes a share of the
 * blocks. */
extern "C" __global__ void __launch_bounds__(HR_SUMMED_COLUMNS *HR_SUMMED_SHARES) add_blocks(const backward_call t)
{
  __shared__ float shares[HR_SUMMED_SHARES][HR_SUMMED_COLUMNS];
  int64 of_vector = (t.columns + HR_SUMMED_COLUMNS - 1) / HR_SUMMED_COLUMNS;
  int vector = (int)(blockIdx.x / of_vector);
  int64 column = blockIdx.x % of_vector * HR_SUMMED_COLUMNS + threadIdx.x;
  const float *from = (const float *)t.sums + vector * t.columns + column;
  float sum = 0;
#pragma unroll 4
  for (int64 block = threadIdx.y; block < t.blocks && column < t.columns; block += HR_SUMMED_SHARES)
    sum += from[block * VECTORS * t.columns];
  shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= t.columns)
    return;
#pragma unroll
  for (int i = 1; i < HR_SUMMED_SHARES; i++)
    sum += shares[i][threadIdx.x];
  ((element *)t.outputs[OPERATION == HR_ROWS_BIAS ? 0 : 1 + vector])[column] = from_float(sum);
}
