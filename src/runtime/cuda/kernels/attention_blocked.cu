/* SPDX-License-Identifier: Apache-2.0 */
/* Attention whose scores a library GEMM has written to memory, unscaled, in fp32: mask, softmax and P V in one pass, so
 * that P is never in memory and scores are read once.
 *
 *   block: HR_WARPS warps with 16 · HR_M_TILES query rows each × a split of the keys in K/V tiles of HR_KV_TILE, from
 *   right to left
 *   ┌ S ┐  two stages each, filled by cp.async during the tile before; one barrier per tile
 *   └ V ┘
 *   S → mask → P in registers, O rescaled when a row exceeds its base → O += P V
 *
 * Bound: reading scores, 4 bytes each, as long as there are enough blocks. Where there are too few rows for that,
 * split-KV divides the keys among several blocks, which write partial results, and `combine` makes rows of O of these.
 * H200, 2026-11-22, 268 MB of scores: 54 µs at head size 64, 87 at 128, 142 at 256 (docs/notes/attention-gpu.md). */
#define HR_QK 16 /* no tiles of Q and K here */
#define HR_STAGES HR_BLOCKED_STAGES
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm80.cuh"
#include "runtime/cuda/kernels/attention_online_softmax.cuh"
#include "runtime/cuda/kernels/attention_split_kv.cuh"

#define S_PITCH hr_blocked_score_pitch(HR_KV_TILE)
#define S_SIZE (ROWS * S_PITCH * (int)(sizeof(float) / sizeof(element))) /* elements */

/* The K/V tiles of a thread block, and the loader of V. */
struct blocked_work : q_tile_work {
  tile_loader<HR_V> v;
};

__device__ inline element *s_stage(int tile)
{
  return shared + tile % HR_STAGES * (S_SIZE + V_SIZE);
}
__device__ inline element *v_stage(int tile)
{
  return s_stage(tile) + S_SIZE;
}

/* Starts the copies of the last tile, which may be partial, and prepares those of the tiles before it. */
__device__ inline void start_loads(const attention_call &call, const head_view &view, const score_block &block,
                                   const split_work &work, blocked_work &keys)
{
  int last_key = (keys.end - 1) * HR_KV_TILE;
  load_score_tile<S_PITCH>(s_stage(keys.end - 1), work, block.pitch, last_key);
  load_tile<HR_KV_TILE, HR_V>(v_stage(keys.end - 1), view.v + last_key * call.v_at.row, call.v_at.row,
                              view.kv_len - last_key, call.v_dim);
  cp_async_commit();
  keys.v.start_at(view.v, call.v_at.row, last_key - HR_KV_TILE, call.v_dim);
}

/* A thread's scores, in the layout of mma accumulators. */
__device__ inline void load_scores(warp_state &w, const element *s_tile)
{
  int lane = threadIdx.x % 32;
  const float *row = (const float *)s_tile + (threadIdx.x / 32 * WARP_ROWS + lane / 4) * S_PITCH + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int n = 0; n < S_TILES; n++) {
        float2 pair = *(const float2 *)(row + (i * 16 + half * 8) * S_PITCH + n * 8);
        w.scores[i][n][half * 2] = pair.x;
        w.scores[i][n][half * 2 + 1] = pair.y;
      }
}

/* One K/V tile; UNMASKED: every row sees every key. */
template <bool UNMASKED>
__device__ inline void step(const attention_call &call, const head_view &view, const score_block &block,
                            const split_work &work, blocked_work &keys, warp_state &w, int tile)
{
  float factor = softmax_factor(call);
  cp_async_wait<0>();
  __syncthreads(); /* this stage has arrived, and no thread reads the other one any more */
  if (tile > keys.first) {
    load_score_tile<S_PITCH>(s_stage(tile - 1), work, block.pitch, (tile - 1) * HR_KV_TILE);
    keys.v.load(v_stage(tile - 1));
    cp_async_commit();
  }
  load_scores(w, s_stage(tile));
  modify_scores(call, view, w, keys.first_row, tile * HR_KV_TILE);
  if (!UNMASKED)
    mask_scores(call, view, w, keys.first_row, tile * HR_KV_TILE);
  rescale_rows(w, factor, above_row_max(call));
  unsigned v_first = v_address(v_stage(tile));
#pragma unroll
  for (int s = 0; s < PV_STEPS; s++) {
    exponentiate(w, factor, s);
    mma_pv(w, w.p[s], v_first, s);
  }
}

#ifdef HR_DTYPE_tf32
/* A thread's part of a row of accumulators, in the order of the columns. */
__device__ inline void store_partial_o(const warp_state &w, float *row, int i, int half)
{
  stage_o(w, row, i, half);
}
#else
__device__ inline void store_partial_o(const warp_state &w, float *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n++)
    *(float2 *)(row + n * 8 + threadIdx.x % 4 * 2) = make_float2(w.out[i][n][half * 2], w.out[i][n][half * 2 + 1]);
}
#endif

/* Split-KV: writes this split's O, base and row sum. */
__device__ inline void store_partial(const attention_call &call, const score_block &block, const split_work &work,
                                     const warp_state &w, bool keys)
{
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64 place = partial_row(block, work.split, work.head, work.q_tile,
                                threadIdx.x / 32 * WARP_ROWS + i * 16 + half * 8 + lane / 4);
      float sum = w.row_sum[i][half];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      if (lane % 4 == 0)
        block.partial_stats[place] = make_float2(exponent_of_base(w.base[i][half], softmax_factor(call)), sum);
      if (keys)
        store_partial_o(w, block.partial_o + place * HR_V, i, half);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_MIN_BLOCKS) void attention(const attention_call call,
                                                                               const score_block block)
{
  split_work work = find_split_work(block);
  int head = block.first_head + work.head;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  blocked_work keys;
  warp_state w;
  keys.first_row = work.first_row;
  find_kv_tiles(call, view, keys);
  keys.first = max(keys.first, work.split * block.split_tiles);
  keys.end = min(keys.end, (work.split + 1) * block.split_tiles);
  if (keys.first < keys.end)
    start_loads(call, view, block, work, keys);
  clear_accumulators(w);
#pragma unroll 1
  for (int tile = keys.end - 1; tile >= keys.first; tile--) {
    if (tile >= keys.unmasked_first && tile < keys.unmasked_end)
      step<true>(call, view, block, work, keys, w, tile);
    else
      step<false>(call, view, block, work, keys, w, tile);
  }
  if (block.splits > 1) {
    store_partial(call, block, work, w, keys.first < keys.end);
    return;
  }
  __syncthreads(); /* O replaces the stages */
  epilogue(call, view, w, work.first_row);
}

/* Split-KV combine: a row of O per warp. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const attention_call call, const score_block block)
{
  combine_row(call, block, 1, 0);
}
