/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of each expert's GEMM by mma.sync: dX = dY W of its copies, dW = dYᵀ X over them.
 *
 *   block: 128 × 128 results, 8 warps of 64 × 32; 32 deep stages of both operands, 4 of them, loaded by cp.async
 *
 *   dX   rows are copies, columns those of W:   dY [128, 32] as it is, W [32, 128] transposed by ldmatrix
 *   dW   rows are those of W, columns of X:     dY [32, 128] and X [32, 128], both transposed by ldmatrix
 *
 * What is behind the expert's copies, or behind the last row or column, is loaded as zeros, so that a NaN of another
 * expert's copies stays there. An expert without copies has zeros.
 *
 *   shared: 4 × 2 × 8 KiB; 16-byte chunks of a row are permuted by its number, so that ldmatrix meets no bank twice
 *   registers: 64 accumulators of a thread
 *
 * Bound: Tensor Cores where copies are many, else memory. Addresses and rows are multiples of 16 bytes. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/early_launch.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"

#include "runtime/cuda/kernels/experts_layout.h"
#include "runtime/cuda/kernels/experts_tile.cuh"

typedef long long int64;
typedef hr_grouped_backward_call grouped_call;

#define TILE HR_GROUPED_TILE
#define DEPTH HR_GROUPED_DEPTH
#define STAGES HR_GROUPED_STAGES
#define THREADS 256
#define OPERAND_BYTES (TILE * DEPTH * 2)
#define STAGE_BYTES (2 * OPERAND_BYTES)
#define CHUNK 8 /* elements of 16 bytes */
#define WARP_ROWS 64
#define WARP_COLUMNS 32

extern __shared__ __align__(128) char shared[];

/* A part of an operand: `rows` × `columns` are there, the others are zeros. */
struct part {
  const element *from;
  int64 stride, rows, columns;
};

/* Where 16 bytes of a stage are. Rows of DEPTH elements are half of 128 bytes, of TILE elements two of them. */
template <int COLUMNS> __device__ inline unsigned place(int row, int chunk)
{
  const int turned = COLUMNS == DEPTH ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
  return (unsigned)(row * COLUMNS + turned * CHUNK) * 2;
}

/* Loads ROWS × COLUMNS. */
template <int ROWS, int COLUMNS> __device__ inline void load(unsigned to, const part &p)
{
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * COLUMNS / CHUNK; i += THREADS) {
    const int row = i / (COLUMNS / CHUNK), chunk = i % (COLUMNS / CHUNK);
    const bool there = row < p.rows && chunk * CHUNK < p.columns;
    cp_async_16(to + place<COLUMNS>(row, chunk), there ? p.from + row * p.stride + chunk * CHUNK : p.from, there);
  }
}

/* 16 × 16 of the left operand: of rows of DEPTH elements, or of columns. */
template <bool BY_ROWS> __device__ inline void load_left(unsigned (&to)[4], unsigned stage, int row, int depth)
{
  const int lane = threadIdx.x % 32;
  if (BY_ROWS)
    ldmatrix_x4(to, stage + place<DEPTH>(row + lane % 16, depth / CHUNK + lane / 16));
  else
    ldmatrix_x4_trans(to, stage + place<TILE>(depth + lane / 16 * 8 + lane % 8, row / CHUNK + lane / 8 % 2));
}

/* 16 deep, 16 columns. */
__device__ inline void load_right(unsigned (&to)[4], unsigned stage, int column, int depth)
{
  const int lane = threadIdx.x % 32;
  ldmatrix_x4_trans(to, stage + place<TILE>(depth + lane / 8 % 2 * 8 + lane % 8, column / CHUNK + lane / 16));
}

typedef float sums_of_warp[WARP_ROWS / 16][WARP_COLUMNS / 8][4];

template <bool BY_ROWS> __device__ inline void multiply_stage(unsigned stage, sums_of_warp &sums)
{
  const int warp = threadIdx.x / 32, row = warp / 4 * WARP_ROWS, column = warp % 4 * WARP_COLUMNS;
#pragma unroll
  for (int depth = 0; depth < DEPTH; depth += 16) {
    unsigned right[WARP_COLUMNS / 16][4];
#pragma unroll
    for (int j = 0; j < WARP_COLUMNS / 16; j++)
      load_right(right[j], stage + OPERAND_BYTES, column + 16 * j, depth);
#pragma unroll
    for (int i = 0; i < WARP_ROWS / 16; i++) {
      unsigned left[4];
      load_left<BY_ROWS>(left, stage, row + 16 * i, depth);
#pragma unroll
      for (int j = 0; j < WARP_COLUMNS / 8; j++)
        mma_sync(sums[i][j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
  }
}

/* left(d) and right(d): the parts of both operands from depth d on. */
template <bool BY_ROWS, class LEFT, class RIGHT>
__device__ inline void multiply(int64 depth, LEFT left, RIGHT right, sums_of_warp &sums)
{
  const int steps = (int)((depth + DEPTH - 1) / DEPTH);
  const unsigned base = shared_address(shared);
  auto load_step = [&](int step) {
    if (step < steps) {
      const unsigned to = base + step % STAGES * STAGE_BYTES;
      load<BY_ROWS ? TILE : DEPTH, BY_ROWS ? DEPTH : TILE>(to, left((int64)step * DEPTH));
      load<DEPTH, TILE>(to + OPERAND_BYTES, right((int64)step * DEPTH));
    }
    cp_async_commit();
  };
  for (int step = 0; step < STAGES - 1; step++)
    load_step(step);
  for (int step = 0; step < steps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    load_step(step + STAGES - 1);
    multiply_stage<BY_ROWS>(base + step % STAGES * STAGE_BYTES, sums);
  }
  cp_async_wait<0>();
}

/* Stores results of `rows` × `columns` of a tile at `to`, two at a time, whose rows are `stride` apart. */
__device__ inline void store(const sums_of_warp &sums, element *to, int64 stride, int64 rows, int64 columns)
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp / 4 * WARP_ROWS + lane / 4, first_column = warp % 4 * WARP_COLUMNS + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < WARP_ROWS / 8; i++) {
    const int row = first_row + 8 * i;
#pragma unroll
    for (int j = 0; j < WARP_COLUMNS / 8; j++) {
      const int column = first_column + 8 * j;
      const float *pair = &sums[i / 2][j][i % 2 * 2];
      if (row < rows && column < columns)
        *(unsigned *)(to + row * stride + column) = pack_pair(pair[0], pair[1]);
    }
  }
}

/* dX [copies, k] of dY [copies, n] and W [experts, n, k]. Blocks of a band are those of its tiles of copies and all
 * tiles of columns, the former first: they share W in the L2. */
extern "C" __global__ void __launch_bounds__(THREADS, 2) grouped_inputs(const grouped_call call)
{
  const int in_band = HR_GROUPED_BAND * call.column_tiles, band = (int)blockIdx.x / in_band,
            in = (int)blockIdx.x % in_band;
  follow_kernel_before();
  const expert_tile tile =
      tile_of_experts<TILE>(call.offsets, call.experts, band * HR_GROUPED_BAND + in % HR_GROUPED_BAND);
  const int64 column = (int64)(in / HR_GROUPED_BAND) * TILE;
  const element *dy = call.left + tile.first * call.n, *w = call.right + tile.expert * call.n * call.k + column;
  sums_of_warp sums = {};
  if (tile.count == 0)
    return;
  multiply<true>(
      call.n,
      [&](int64 d) {
        return part{dy + d, call.n, tile.count, call.n - d};
      },
      [&](int64 d) {
        return part{w + d * call.k, call.k, call.n - d, call.k - column};
      },
      sums);
  store(sums, call.out + tile.first * call.k + column, call.k, tile.count, call.k - column);
}

/* dW [experts, n, k] of dY [copies, n] and X [copies, k]. */
extern "C" __global__ void __launch_bounds__(THREADS, 2) grouped_weights(const grouped_call call)
{
  follow_kernel_before();
  const int64 column = (int64)(blockIdx.x % call.column_tiles) * TILE, tile = blockIdx.x / call.column_tiles;
  const int64 row = tile % call.row_tiles * TILE, expert = tile / call.row_tiles;
  const int64 first = call.offsets[expert], depth = call.offsets[expert + 1] - first;
  const element *dy = call.left + first * call.n + row, *x = call.right + first * call.k + column;
  sums_of_warp sums = {};
  multiply<false>(
      depth,
      [&](int64 d) {
        return part{dy + d * call.n, call.n, depth - d, call.n - row};
      },
      [&](int64 d) {
        return part{x + d * call.k, call.k, depth - d, call.k - column};
      },
      sums);
  store(sums, call.out + (expert * call.n + row) * call.k + column, call.k, call.n - row, call.k - column);
}
