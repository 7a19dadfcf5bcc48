/* SPDX-License-Identifier: Apache-2.0 */
/* y = x Wᵀ of each expert's copies, by WGMMA: a block has 128 rows of one expert's W and up to HR_TILE of its copies.
 *
 *   rows of W are the rows of the products, copies their columns: few copies take a small instruction, not 64 rows
 *   two warpgroups: 64 rows of W each; a warp loads HR_STAGES pieces of 64 elements of k ahead by TMA
 *   a tile may reach into the copies of the next expert, whose columns are not stored
 *   blocks of HR_GROUPED_BAND tiles of copies and the same rows of W run together
 *
 * Bound: matrix units where copies are many, else memory: each row of W is read once for each tile of copies. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"

#include "runtime/cuda/kernels/experts_layout.h"
#include "runtime/cuda/kernels/experts_tile.cuh"

typedef long long int64;
typedef hr_grouped_call grouped_call;

#define ROWS HR_GROUPED_ROWS
#define STAGE_ROW HR_GROUPED_STAGE_ROW
#define STAGE_K 64
#define X_AT (ROWS * STAGE_ROW)
#define STAGE_BYTES (X_AT + HR_TILE * STAGE_ROW)
#define CONSUMERS 256
#define OUT_ROW (2 * ROWS + 16) /* bytes of a copy's results; 16 so that its rows begin in other banks */

extern __shared__ __align__(1024) char shared[];

struct pipeline {
  unsigned long long full[HR_STAGES], empty[HR_STAGES];
};

/* Dynamic shared memory begins at a multiple of 16 bytes only. */
__device__ inline unsigned stage_address(int stage)
{
  return ((shared_address(shared) + 1023) & ~1023u) + stage * STAGE_BYTES;
}

__device__ inline void load_stages(const grouped_call &call, const tensor_map &w, const tensor_map &x, pipeline &p,
                                   const expert_tile &tile, int row)
{
  const int steps = (int)((call.k + STAGE_K - 1) / STAGE_K);
  for (int step = 0; step < steps; step++) {
    const int stage = step % HR_STAGES;
    const unsigned full = shared_address(&p.full[stage]), to = stage_address(stage);
    mbarrier_wait(shared_address(&p.empty[stage]), (step / HR_STAGES & 1) ^ 1);
    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
    tma_load(to, w, full, step * STAGE_K, row, tile.expert, 0);
    tma_load(to + X_AT, x, full, step * STAGE_K, tile.first, 0, 0);
  }
}

/* Stages are free again when the products behind them have begun, for these wait for those before. */
__device__ inline void multiply(const grouped_call &call, pipeline &p, float (&sums)[HR_TILE / 2])
{
  const int steps = (int)((call.k + STAGE_K - 1) / STAGE_K), group = threadIdx.x / 128;
  for (int step = 0; step < steps; step++) {
    const int stage = step % HR_STAGES;
    mbarrier_wait(shared_address(&p.full[stage]), step / HR_STAGES & 1);
    const unsigned at = __shfl_sync(0xFFFFFFFFu, stage_address(stage), 0);
    const unsigned long long w = matrix_descriptor(at + group * 64 * STAGE_ROW, 8 * STAGE_ROW, 0);
    const unsigned long long x = matrix_descriptor(at + X_AT, 8 * STAGE_ROW, 0);
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < 4; part++)
      WGMMA_SS(HR_TILE, sums, descriptor_behind(w, part * 32), descriptor_behind(x, part * 32), step > 0 || part > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (step > 0 && threadIdx.x % 32 == 0) /* each warp: another may be behind */
      mbarrier_arrive(shared_address(&p.empty[(step - 1) % HR_STAGES]));
  }
  wgmma_wait<0>();
}

__device__ inline unsigned word_of_two(float a, float b)
{
  const float both[2] = {a, b};
  return word_of(both);
}

/* Stores a row for each copy in shared memory. Lane 4 r + q has of 8 copies 2 q and 2 q + 1, rows r and r + 8 of W. */
__device__ inline void put_results(const float (&sums)[HR_TILE / 2])
{
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
  const unsigned to = stage_address(0) + (lane / 16 * 8 + lane % 8) * OUT_ROW + 2 * (row + lane / 8 % 2 * 8);
#pragma unroll
  for (int i = 0; i < HR_TILE / 16; i++) {
    const float *s = sums + 8 * i;
    stmatrix_x4_transposed(to + 16 * i * OUT_ROW, word_of_two(s[0], s[1]), word_of_two(s[2], s[3]),
                           word_of_two(s[4], s[5]), word_of_two(s[6], s[7]));
  }
}

__device__ inline uint4 load_results(unsigned from)
{
  float4 v = load_shared(from);
  return make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
}

/* 16 threads a copy, 8 results each. */
__device__ inline void store_results(const grouped_call &call, const expert_tile &tile, int row)
{
  const int column = threadIdx.x % 16 * 8;
  const int64 left = call.n - row - column;
  for (int copy = threadIdx.x / 16; copy < tile.count && left > 0; copy += CONSUMERS / 16) {
    const uint4 some = load_results(stage_address(0) + copy * OUT_ROW + 2 * column);
    element *to = call.y + (tile.first + copy) * call.n + row + column;
    if (call.n % 8 == 0) {
      *(uint4 *)to = some;
      continue;
    }
    const unsigned words[4] = {some.x, some.y, some.z, some.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < left)
        to[i] = (element)(words[i / 2] >> 16 * (i % 2));
  }
}

/* Blocks of a band are those of its tiles of copies and all tiles of rows, the former first. */
extern "C" __global__ __launch_bounds__(HR_GROUPED_THREADS,
                                        HR_RESIDENT) void grouped_gemm(const __grid_constant__ grouped_call call,
                                                                       const __grid_constant__ tensor_map w,
                                                                       const __grid_constant__ tensor_map x)
{
  __shared__ pipeline p;
  const int in_band = HR_GROUPED_BAND * call.row_tiles, band = (int)blockIdx.x / in_band,
            in = (int)blockIdx.x % in_band;
  const int row = in / HR_GROUPED_BAND * ROWS;
  if (threadIdx.x == 0) {
    for (int i = 0; i < HR_STAGES; i++) {
      mbarrier_init(shared_address(&p.full[i]), 1);
      mbarrier_init(shared_address(&p.empty[i]), CONSUMERS / 32);
    }
    fence_mbarrier_init();
  }
  wait_for_kernel_before();
  allow_next_kernel();
  const expert_tile tile =
      tile_of_experts<HR_TILE>(call.offsets, call.experts, band * HR_GROUPED_BAND + in % HR_GROUPED_BAND);
  __syncthreads();
  if (tile.count == 0)
    return;
  if (threadIdx.x >= CONSUMERS) {
    if (threadIdx.x == CONSUMERS)
      load_stages(call, w, x, p, tile, row);
    return;
  }
  float sums[HR_TILE / 2];
  multiply(call, p, sums);
  named_barrier_sync(1, CONSUMERS); /* the stages have been read */
  put_results(sums);
  named_barrier_sync(1, CONSUMERS);
  store_results(call, tile, row);
}
