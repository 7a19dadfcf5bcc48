/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of each expert's GEMM by WGMMA: dX = dY W of its copies, dW = dYᵀ X over them.
 *
 *   block: 128 × 256 results, two warpgroups of 64 rows; a third loads HR_GROUPED_WIDE_STAGES stages, 64 deep, by TMA
 *
 *   dX   rows are copies, columns those of W:   dY [128, 64] K-major, W [64, 256] MN-major, both in shared memory
 *   dW   rows are those of W, columns of X:     dY [64, 128] transposed into registers, X [64, 256] MN-major
 *
 * A tile of dX may reach into the copies of the next expert, whose rows are not stored. The last stage of dW may have
 * such copies: zeros replace those of dY in registers and those of X in shared memory, so that a NaN of another expert
 * stays there. An expert without copies has zeros.
 *
 *   shared: 4 × (16 + 32) KiB, panels of 64 columns, rows of 128 bytes, swizzled      registers: 232 × 256 + 40 × 128
 *
 * Bound: matrix units where copies are many, else memory. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"

#include "runtime/cuda/kernels/experts_layout.h"
#include "runtime/cuda/kernels/experts_tile.cuh"

typedef long long int64;
typedef hr_grouped_backward_call grouped_call;

#define ROWS HR_GROUPED_TILE
#define COLUMNS HR_GROUPED_WIDE_TILE
#define DEPTH 64
#define STAGES HR_GROUPED_WIDE_STAGES
#define PANEL_ROW 128             /* bytes: 64 elements */
#define PANEL (DEPTH * PANEL_ROW) /* of a stage's operands whose rows are its depth */
#define RIGHT_AT (ROWS * PANEL_ROW)
#define STAGE_BYTES (RIGHT_AT + COLUMNS / 64 * PANEL)
#define CONSUMERS 256

extern __shared__ __align__(1024) char shared[];

struct pipeline {
  unsigned long long full[STAGES], empty[STAGES];
};

/* Dynamic shared memory begins at a multiple of 16 bytes only. */
__device__ inline unsigned stage_address(int stage)
{
  return ((shared_address(shared) + 1023) & ~1023u) + stage * STAGE_BYTES;
}

__device__ inline void init_pipeline(pipeline &p)
{
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      mbarrier_init(shared_address(&p.full[i]), 1);
      mbarrier_init(shared_address(&p.empty[i]), CONSUMERS / 32);
    }
    fence_mbarrier_init();
  }
}

/* load(to, full, depth): the loads of a stage. */
template <class LOAD> __device__ inline void load_stages(pipeline &p, int steps, LOAD load)
{
  for (int step = 0; step < steps; step++) {
    const int stage = step % STAGES;
    const unsigned full = shared_address(&p.full[stage]);
    mbarrier_wait(shared_address(&p.empty[stage]), (step / STAGES & 1) ^ 1);
    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
    load(stage_address(stage), full, step * DEPTH);
  }
}

__device__ inline void release(pipeline &p, int step)
{
  if (threadIdx.x % 32 == 0) /* each warp: another may be behind */
    mbarrier_arrive(shared_address(&p.empty[step % STAGES]));
}

__device__ inline unsigned wait_for_stage(pipeline &p, int step)
{
  mbarrier_wait(shared_address(&p.full[step % STAGES]), step / STAGES & 1);
  return __shfl_sync(0xFFFFFFFFu, stage_address(step % STAGES), 0);
}

/* Lane 4 r + q has of 8 columns 2 q and 2 q + 1, of rows r and r + 8 of a warp's 16. */
__device__ inline void store(const float (&sums)[COLUMNS / 2], element *to, int64 stride, int64 rows, int64 columns)
{
  const int lane = threadIdx.x % 32, first_row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < COLUMNS / 4; i++) {
    const int row = first_row + i % 2 * 8, column = i / 2 * 8 + lane % 4 * 2;
    if (row < rows && column < columns)
      *(unsigned *)(to + row * stride + column) = pack_pair(sums[2 * i], sums[2 * i + 1]);
  }
}

/* ---- dX ---- */

/* Stages are free again when the products behind them have begun, for these wait for those before. */
__device__ inline void multiply_inputs(pipeline &p, int steps, float (&sums)[COLUMNS / 2])
{
  const int group = threadIdx.x / 128;
  for (int step = 0; step < steps; step++) {
    const unsigned at = wait_for_stage(p, step);
    const unsigned long long left = matrix_descriptor(at + group * 64 * PANEL_ROW, 8 * PANEL_ROW, 0);
    const unsigned long long right = matrix_descriptor(at + RIGHT_AT, 8 * PANEL_ROW, PANEL);
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < DEPTH / 16; part++)
      WGMMA_SS_MN_TO(HR_GROUPED_WIDE_TILE, sums, descriptor_behind(left, part * 32),
                     descriptor_behind(right, part * 16 * PANEL_ROW), step > 0 || part > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (step > 0)
      release(p, step - 1);
  }
  wgmma_wait<0>();
}

/* dX [copies, k] of dY [copies, n] and W [experts, n, k]. Blocks of a band are those of its tiles of copies and all
 * tiles of columns, the former first: they share W in the L2. */
extern "C" __global__ void __launch_bounds__(HR_GROUPED_WIDE_THREADS, 1)
    grouped_inputs(const __grid_constant__ grouped_call call, const __grid_constant__ tensor_map dy,
                   const __grid_constant__ tensor_map w)
{
  __shared__ pipeline p;
  const int in_band = HR_GROUPED_BAND * call.column_tiles, band = (int)blockIdx.x / in_band,
            in = (int)blockIdx.x % in_band;
  const int column = in / HR_GROUPED_BAND * COLUMNS, steps = (int)((call.n + DEPTH - 1) / DEPTH);
  init_pipeline(p);
  follow_kernel_before();
  const expert_tile tile =
      tile_of_experts<ROWS>(call.offsets, call.experts, band * HR_GROUPED_BAND + in % HR_GROUPED_BAND);
  __syncthreads();
  if (tile.count == 0)
    return;
  if (threadIdx.x >= CONSUMERS) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == CONSUMERS)
      load_stages(p, steps, [&](unsigned to, unsigned full, int depth) {
        tma_load(to, dy, full, depth, tile.first, 0, 0);
        for (int panel = 0; panel < COLUMNS / 64; panel++)
          tma_load(to + RIGHT_AT + panel * PANEL, w, full, column + panel * 64, depth, tile.expert, 0);
      });
    return;
  }
  warpgroup_reg_alloc<232>();
  float sums[COLUMNS / 2];
  multiply_inputs(p, steps, sums);
  store(sums, call.out + tile.first * call.k + column, call.k, tile.count, call.k - column);
}

/* ---- dW ---- */

/* 64 rows of dYᵀ, 16 deep: a warp's 16 rows are two chunks of 16 bytes of a panel's row. Copies from `left` on, two of
 * a word, become zeros. */
__device__ inline void load_transposed(unsigned (&to)[4], unsigned panel, int depth, int left)
{
  const int lane = threadIdx.x % 32, row = depth + lane / 16 * 8 + lane % 8;
  const int chunk = threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;
  ldmatrix_x4_trans(to, panel + row * PANEL_ROW + (chunk ^ (row & 7)) * 16);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int copy = depth + i / 2 * 8 + lane % 4 * 2;
    to[i] &= copy + 1 < left ? 0xFFFFFFFFu : copy < left ? 0xFFFFu : 0u;
  }
}

/* Zeros in the rows of X from `left` on. */
__device__ inline void clear_rows(unsigned at, int left)
{
  const int pieces = PANEL_ROW / 16, rows = DEPTH - left;
  for (int i = threadIdx.x; i < COLUMNS / 64 * rows * pieces; i += CONSUMERS)
    store_shared(at + i / (rows * pieces) * PANEL + (left * pieces + i % (rows * pieces)) * 16,
                 make_float4(0, 0, 0, 0));
  fence_proxy_async();
  named_barrier_sync(1, CONSUMERS);
}

__device__ inline void multiply_weights(pipeline &p, int64 copies, float (&sums)[COLUMNS / 2])
{
  const int steps = (int)((copies + DEPTH - 1) / DEPTH), group = threadIdx.x / 128;
  for (int step = 0; step < steps; step++) {
    const unsigned at = wait_for_stage(p, step);
    const int left = copies - (int64)step * DEPTH < DEPTH ? (int)(copies - (int64)step * DEPTH) : DEPTH;
    const unsigned long long right = matrix_descriptor(at + RIGHT_AT, 8 * PANEL_ROW, PANEL);
    unsigned dy[DEPTH / 16][4];
    if (left < DEPTH)
      clear_rows(at + RIGHT_AT, left);
#pragma unroll
    for (int part = 0; part < DEPTH / 16; part++)
      load_transposed(dy[part], at + group * PANEL, part * 16, left);
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < DEPTH / 16; part++)
      WGMMA_RS(HR_GROUPED_WIDE_TILE, sums, dy[part], descriptor_behind(right, part * 16 * PANEL_ROW));
    wgmma_commit();
    wgmma_wait<0>();
    __syncwarp(); /* all lanes have read their part of dY */
    release(p, step);
  }
}

/* dW [experts, n, k] of dY [copies, n] and X [copies, k]. */
extern "C" __global__ void __launch_bounds__(HR_GROUPED_WIDE_THREADS, 1)
    grouped_weights(const __grid_constant__ grouped_call call, const __grid_constant__ tensor_map dy,
                    const __grid_constant__ tensor_map x)
{
  __shared__ pipeline p;
  const int column = (int)(blockIdx.x % call.column_tiles) * COLUMNS, tile = (int)(blockIdx.x / call.column_tiles);
  const int row = tile % call.row_tiles * ROWS, expert = tile / call.row_tiles;
  init_pipeline(p);
  follow_kernel_before();
  const int first = call.offsets[expert], copies = call.offsets[expert + 1] - first;
  __syncthreads();
  if (threadIdx.x >= CONSUMERS) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == CONSUMERS)
      load_stages(p, (copies + DEPTH - 1) / DEPTH, [&](unsigned to, unsigned full, int depth) {
        for (int panel = 0; panel < ROWS / 64; panel++)
          tma_load(to + panel * PANEL, dy, full, row + panel * 64, first + depth, 0, 0);
        for (int panel = 0; panel < COLUMNS / 64; panel++)
          tma_load(to + RIGHT_AT + panel * PANEL, x, full, column + panel * 64, first + depth, 0, 0);
      });
    return;
  }
  warpgroup_reg_alloc<232>();
  float sums[COLUMNS / 2] = {};
  multiply_weights(p, copies, sums);
  store(sums, call.out + ((int64)expert * call.n + row) * call.k + column, call.k, call.n - row, call.k - column);
}
