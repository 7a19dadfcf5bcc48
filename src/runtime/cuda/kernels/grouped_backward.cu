/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of each expert's GEMM, of any format, sizes and addresses: dX = dY W of its copies, dW = dYᵀ X over them.
 *
 *   a block has a tile of 64 × 64 results, a thread 4 × 4 of them; both operands are staged in shared memory, 16 deep
 *   weights: rows behind the expert's copies are zeros of both operands, so that a NaN of another expert's stays there
 *
 * Bound: fp32 arithmetic. grouped_backward_sm80.cu takes 16-bit formats whose rows are multiples of 16 bytes. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"

#include "runtime/cuda/kernels/experts_layout.h"
#include "runtime/cuda/kernels/experts_tile.cuh"

typedef long long int64;
typedef hr_grouped_backward_call grouped_call;

#define TILE HR_GROUPED_SMALL_TILE
#define THREADS HR_GROUPED_SMALL_THREADS
#define DEPTH 16
#define EACH 4 /* results of a thread in either direction */

struct stage {
  float left[DEPTH][TILE], right[DEPTH][TILE];
};

/* sums[i][j] += Σ left(row 4 y + i, d) right(d, column 4 x + j) over d < depth. */
template <class LEFT, class RIGHT>
__device__ inline void multiply(stage &s, int64 depth, LEFT left, RIGHT right, float (&sums)[EACH][EACH])
{
  const int x = threadIdx.x % (TILE / EACH), y = threadIdx.x / (TILE / EACH);
  for (int64 from = 0; from < depth; from += DEPTH) {
    for (int i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
      s.left[i / TILE][i % TILE] = left(i % TILE, from + i / TILE);
      s.right[i / TILE][i % TILE] = right(from + i / TILE, i % TILE);
    }
    __syncthreads();
    for (int d = 0; d < DEPTH; d++) {
#pragma unroll
      for (int i = 0; i < EACH * EACH; i++)
        sums[i / EACH][i % EACH] += s.left[d][y * EACH + i / EACH] * s.right[d][x * EACH + i % EACH];
    }
    __syncthreads();
  }
}

/* Stores results of `rows` × `columns` of a tile at `to`, whose rows are `stride` apart. */
__device__ inline void store(const float (&sums)[EACH][EACH], element *to, int64 stride, int64 rows, int64 columns)
{
  const int x = threadIdx.x % (TILE / EACH) * EACH, y = threadIdx.x / (TILE / EACH) * EACH;
#pragma unroll
  for (int i = 0; i < EACH * EACH; i++) {
    const int row = y + i / EACH, column = x + i % EACH;
    if (row < rows && column < columns)
      to[row * stride + column] = from_float(sums[i / EACH][i % EACH]);
  }
}

/* dX [copies, k] of dY [copies, n] and W [experts, n, k]. */
extern "C" __global__ void __launch_bounds__(THREADS) grouped_inputs(const grouped_call call)
{
  __shared__ stage s;
  follow_kernel_before();
  const expert_tile tile = tile_of_experts<TILE>(call.offsets, call.experts, (int)(blockIdx.x / call.column_tiles));
  const int64 column = blockIdx.x % call.column_tiles * TILE;
  const element *dy = call.left + tile.first * call.n, *w = call.right + tile.expert * call.n * call.k + column;
  float sums[EACH][EACH] = {};
  if (tile.count == 0)
    return;
  multiply(
      s, call.n,
      [&](int row, int64 d) { return row < tile.count && d < call.n ? to_float(dy[row * call.n + d]) : 0.0f; },
      [&](int64 d, int at) { return column + at < call.k && d < call.n ? to_float(w[d * call.k + at]) : 0.0f; }, sums);
  store(sums, call.out + tile.first * call.k + column, call.k, tile.count, call.k - column);
}

/* dW [experts, n, k] of dY [copies, n] and X [copies, k]. */
extern "C" __global__ void __launch_bounds__(THREADS) grouped_weights(const grouped_call call)
{
  __shared__ stage s;
  follow_kernel_before();
  const int64 column = blockIdx.x % call.column_tiles * TILE, tile = blockIdx.x / call.column_tiles;
  const int64 row = tile % call.row_tiles * TILE, expert = tile / call.row_tiles;
  const int64 first = call.offsets[expert], depth = call.offsets[expert + 1] - first;
  const element *dy = call.left + first * call.n + row, *x = call.right + first * call.k + column;
  float sums[EACH][EACH] = {};
  multiply(
      s, depth, [&](int at, int64 d) { return row + at < call.n && d < depth ? to_float(dy[d * call.n + at]) : 0.0f; },
      [&](int64 d, int at) { return column + at < call.k && d < depth ? to_float(x[d * call.k + at]) : 0.0f; }, sums);
  store(sums, call.out + (expert * call.n + row) * call.k + column, call.k, call.n - row, call.k - column);
}
