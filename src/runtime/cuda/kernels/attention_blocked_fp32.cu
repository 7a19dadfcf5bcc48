/* SPDX-License-Identifier: Apache-2.0 */
/* attention_blocked.cu in exact fp32, on CUDA cores: P replaces the scores in the tile that they were copied to. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_fp32.cuh"
#include "runtime/cuda/kernels/attention_split_kv.cuh"

static_assert(HR_BLOCKED_STAGES == 2, "stages of scores and V");
__device__ inline float *p_stage(int tile)
{
  return shared + tile % 2 * (P_SIZE + V_SIZE);
}
__device__ inline float *v_stage(int tile)
{
  return p_stage(tile) + P_SIZE;
}

__device__ inline void load_tiles(const attention_call &call, const head_view &view, const score_block &block,
                                  const split_work &work, int tile)
{
  load_score_tile<PITCH(HR_KV_TILE)>(p_stage(tile), work, block.pitch, tile * HR_KV_TILE);
  load_v_tile(call, view, v_stage(tile), tile);
}

__device__ inline void load_scores(state &s, const float *p_tile)
{
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++)
      s.scores[i][j] = p_tile[(threadIdx.x / 16 + 16 * i) * PITCH(HR_KV_TILE) + threadIdx.x % 16 + 16 * j];
}

/* Split-KV: writes this split's O, row maximum and row sum. */
__device__ inline void store_partial(const score_block &block, const split_work &work, const state &s, bool keys)
{
  int x = threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++) {
    int64 place = partial_row(block, work.split, work.head, work.q_tile, threadIdx.x / 16 + 16 * i);
    float sum = row_reduce(s.row_sum[i], [](float a, float b) { return a + b; });
    if (x == 0)
      block.partial_stats[place] = make_float2(s.row_max[i], sum);
#pragma unroll
    for (int n = 0; n < THREAD_COLUMNS && keys; n++)
      block.partial_o[place * HR_V + x * ADJACENT + n / ADJACENT * 16 * ADJACENT + n % ADJACENT] = s.out[i][n];
  }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_V <= 128 ? 2 : 1) void attention(const attention_call call,
                                                                                     const score_block block)
{
  split_work work = find_split_work(block);
  int head = block.first_head + work.head, last_row = min(work.first_row + ROWS, call.q_len) - 1;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  int first = max(keys_of_row(call, view, work.first_row).first / HR_KV_TILE, work.split * block.split_tiles);
  int end =
      min((keys_of_row(call, view, last_row).end + HR_KV_TILE - 1) / HR_KV_TILE, (work.split + 1) * block.split_tiles);
  state s;
  clear_accumulators(s);
  if (first < end)
    load_tiles(call, view, block, work, end - 1);
#pragma unroll 1
  for (int tile = end - 1; tile >= first; tile--) {
    cp_async_wait<0>();
    __syncthreads(); /* this stage has arrived, and no thread reads the other one any more */
    if (tile > first)
      load_tiles(call, view, block, work, tile - 1);
    load_scores(s, p_stage(tile));
    mask_scores(call, view, s, work.first_row, tile * HR_KV_TILE);
    online_softmax(call, s, p_stage(tile));
    __syncthreads();
    mma_pv(s, p_stage(tile), v_stage(tile));
  }
  if (block.splits > 1)
    store_partial(block, work, s, first < end);
  else
    epilogue(call, view, s, work.first_row);
}

/* Split-KV combine: a row of O per warp. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const attention_call call, const score_block block)
{
  combine_row(call, block, softmax_factor(call), call.top);
}
