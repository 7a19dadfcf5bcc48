/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward with an online softmax in exact fp32, on CUDA cores; compute capability 8.0 and newer.
 *
 *   block: 256 threads as 16 × 16; Q tile of 64 rows × K/V tiles of HR_KV_TILE keys, from right to left
 *   shared memory: Q | K | V | P (attention_layout.h), two blocks per multiprocessor where they fit
 *   S = Q Kᵀ → mask → online softmax over the 16 threads of a row → P through shared memory → O = O · rescale + P V
 *
 * cp.async copies the next K during P V and the next V during Q Kᵀ. attention_tiles_fp32.cuh has the tiles of a thread.
 *
 * Bound: fp32 FMA, 63.7 TFLOP/s on an H200. H200, 2026-11-22, 4096 tokens, not causal: 30, 30 and 22 TFLOP/s at head
 * size 64, 128 and 256 (docs/notes/attention-gpu.md). */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_fp32.cuh"

__device__ inline void mma_qk(state &s, const float *q_tile, const float *k_tile)
{
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++)
      s.scores[i][j] = 0;
#pragma unroll 4
  for (int d = 0; d < HR_QK; d += 4) {
    float4 q[THREAD_ROWS], k[THREAD_KEYS];
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
      q[i] = *(const float4 *)(q_tile + (y + 16 * i) * PITCH(HR_QK) + d);
#pragma unroll
    for (int j = 0; j < THREAD_KEYS; j++)
      k[j] = *(const float4 *)(k_tile + (x + 16 * j) * PITCH(HR_QK) + d);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
      for (int j = 0; j < THREAD_KEYS; j++) {
        s.scores[i][j] = fmaf(q[i].x, k[j].x, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].y, k[j].y, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].z, k[j].z, s.scores[i][j]);
        s.scores[i][j] = fmaf(q[i].w, k[j].w, s.scores[i][j]);
      }
  }
}

__device__ inline void load_k_tile(const attention_call &call, const head_view &view, float *k_tile, int tile)
{
  int first_key = tile * HR_KV_TILE;
  load_tile<HR_KV_TILE, HR_QK>(k_tile, PITCH(HR_QK), view.k + first_key * call.k_at.row, call.k_at.row,
                               view.kv_len - first_key, call.qk_dim);
}

extern "C" __global__ __launch_bounds__(THREADS, HR_V <= 128 ? 2 : 1) void attention(const attention_call call)
{
  int q_tile = call.q_tiles - 1 - blockIdx.x % call.q_tiles; /* the longest Q tile of a causal call first */
  int head = blockIdx.x / call.q_tiles % call.q_heads, batch = blockIdx.x / call.q_tiles / call.q_heads;
  int first_row = q_tile * ROWS;
  head_view view = view_head(call, batch, head);
  if (first_row >= view.q_len)
    return;
  float *k_tile = shared + Q_SIZE, *v_tile = k_tile + K_SIZE, *p_tile = v_tile + V_SIZE;
  int first = keys_of_row(call, view, first_row).first / HR_KV_TILE;
  int end = (keys_of_row(call, view, min(first_row + ROWS, view.q_len) - 1).end + HR_KV_TILE - 1) / HR_KV_TILE;
  state s;
  clear_accumulators(s);
  if (first < end) {
    load_tile<ROWS, HR_QK>(shared, PITCH(HR_QK), view.q + first_row * call.q_at.row, call.q_at.row,
                           view.q_len - first_row, call.qk_dim);
    load_k_tile(call, view, k_tile, end - 1);
    load_v_tile(call, view, v_tile, end - 1);
  }
#pragma unroll 1
  for (int tile = end - 1; tile >= first; tile--) {
    cp_async_wait<1>(); /* K of this tile; V may still be in flight */
    __syncthreads();
    mma_qk(s, shared, k_tile);
    mask_scores(call, view, s, first_row, tile * HR_KV_TILE);
    online_softmax(call, s, p_tile);
    cp_async_wait<0>();
    __syncthreads();
    if (tile > first)
      load_k_tile(call, view, k_tile, tile - 1);
    mma_pv(s, p_tile, v_tile);
    __syncthreads();
    if (tile > first)
      load_v_tile(call, view, v_tile, tile - 1);
  }
  epilogue(call, view, s, first_row);
}
