/* As attention_blocked.cu in exact fp32, without matrix units: scores become weights in the tile that they were copied to. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_fp32.cuh"
#include "runtime/cuda/kernels/attention_parts.cuh"

/* Two stages; blocked.c reckons the same. */
__device__ inline float *p_stage(int tile) { return shared + tile % 2 * (P_SIZE + V_SIZE); }
__device__ inline float *v_stage(int tile) { return p_stage(tile) + P_SIZE; }

__device__ inline void copy_tile(const attention_call &call, const head_view &view, const score_block &block,
                                 const score_work &work, int tile)
{
  copy_scores<PITCH(HR_COLUMNS)>(p_stage(tile), work, block.pitch, tile * HR_COLUMNS);
  fill_v(call, view, v_stage(tile), tile);
}

__device__ inline void take_scores(state &s, const float *p_tile)
{
#pragma unroll
  for (int i = 0; i < OWN; i++)
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      s.scores[i][j] = p_tile[(threadIdx.x / 16 + 16 * i) * PITCH(HR_COLUMNS) + threadIdx.x % 16 + 16 * j];
}

/* Leaves sums and what they are relative to. */
__device__ inline void store_part(const score_block &block, const score_work &work, const state &s, bool keys)
{
  int x = threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    int64 place = place_of(block, work.part, work.head, work.row_tile, threadIdx.x / 16 + 16 * i);
    float sum = over_row(s.sum[i], [](float a, float b) { return a + b; });
    if (x == 0)
      block.states[place] = make_float2(s.largest[i], sum);
#pragma unroll
    for (int n = 0; n < OUT && keys; n++)
      block.sums[place * HR_V + x * WIDE + n / WIDE * 16 * WIDE + n % WIDE] = s.out[i][n];
  }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_V <= 128 ? 2 : 1) void attention(const attention_call call,
                                                                                     const score_block block)
{
  score_work work = find_work(block);
  int head = block.first_head + work.head, last_row = min(work.first_row + ROWS, call.q_len) - 1;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  int first = max(keys_of_row(call, view, work.first_row).first / HR_COLUMNS, work.part * block.part_tiles);
  int end = min((keys_of_row(call, view, last_row).end + HR_COLUMNS - 1) / HR_COLUMNS, (work.part + 1) * block.part_tiles);
  state s;
  begin(s);
  if (first < end)
    copy_tile(call, view, block, work, end - 1);
#pragma unroll 1
  for (int tile = end - 1; tile >= first; tile--) {
    copies_wait<0>();
    __syncthreads(); /* this stage is there, and nobody reads the other one any more */
    if (tile > first)
      copy_tile(call, view, block, work, tile - 1);
    take_scores(s, p_stage(tile));
    mask_scores(call, view, s, work.first_row, tile * HR_COLUMNS);
    soften(call, s, p_stage(tile));
    __syncthreads();
    multiply_values(s, p_stage(tile), v_stage(tile));
  }
  if (block.parts > 1)
    store_part(block, work, s, first < end);
  else
    finish(call, view, s, work.first_row);
}

/* A row of O for each warp. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const attention_call call, const score_block block)
{
  combine_row(call, block, softmax_factor(call));
}
