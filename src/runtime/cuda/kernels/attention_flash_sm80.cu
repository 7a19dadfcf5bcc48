/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward with an online softmax by mma.sync on Tensor Cores; compute capability 8.0 and newer; fp16, bf16
 * and tf32.
 *
 *   block: HR_WARPS warps with Q tiles of 16 · HR_M_TILES rows each × K/V tiles of HR_KV_TILE keys, from right to left
 *   ┌ Q ┐  shared memory; small fragments of Q stay in registers
 *   ├ K ┤  HR_STAGES 2: the next K and V are copied by cp.async during the current tile, one barrier per tile
 *   └ V ┘  HR_STAGES 1: K is copied during P V and V during Q Kᵀ, two barriers per tile
 *   S = Q Kᵀ → mask → P in registers, O rescaled when a row exceeds its base by 2⁸ → O += P V
 *
 * HR_ROW_WARPS 2: pairs of warps share Q tiles; each has half of a tile's keys in Q Kᵀ and half of O's columns in P V.
 * HR_ALIGNED: addresses, strides and head sizes are multiples of 16 bytes; otherwise tiles are copied by element.
 * Offsets have 64 bits. flash_sm80.c chooses tiles, warps and stages; attention_layout.h has the shared memory.
 *
 * Bound: mma.sync under the power cap, 436 TFLOP/s in bf16 and 246 in tf32 on an H200; at head size 256 shared memory
 * reads. H200, 2026-11-22, bf16, rate over that of FlashAttention-2 (the same instructions): 1.08 to 1.23 at head size
 * 64, 1.02 to 1.17 at 128, 0.99 to 1.28 at 256. Versions, and what was tried and lost: docs/notes/attention-gpu.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm80.cuh"
#include "runtime/cuda/kernels/attention_online_softmax.cuh"

/* ---- the kernel ---- */

struct block_work : q_tile_work {
  tile_loader<HR_QK> k;
  tile_loader<HR_V> v;
  float factor, above; /* of a score; how far a base is above its row maximum */
};

__device__ inline element *k_stage(int tile)
{
  return shared + Q_SIZE + tile % HR_STAGES * (K_SIZE + V_SIZE);
}
__device__ inline element *v_stage(int tile)
{
  return k_stage(tile) + K_SIZE;
}

/* The last K or V tile, which may be partial. */
template <int WIDTH>
__device__ inline void load_last_tile(element *tile, const element *from, int64 stride, int dim, const head_view &view,
                                      const block_work &b)
{
  int64 first_key = (int64)(b.end - 1) * HR_KV_TILE;
  load_tile<HR_KV_TILE, WIDTH>(tile, from + first_key * stride, stride, view.kv_len - (int)first_key, dim);
}

/* Starts the copies of Q and of the last K/V tile, and prepares those of the tiles before it. */
__device__ inline void start_loads(const attention_call &call, const head_view &view, block_work &b)
{
  int64 next_key = (int64)(b.end - 2) * HR_KV_TILE;
  load_tile<ROWS, HR_QK>(shared, view.q + b.first_row * call.q_at.row, call.q_at.row, view.q_len - b.first_row,
                         call.qk_dim);
  load_last_tile<HR_QK>(k_stage(b.end - 1), view.k, call.k_at.row, call.qk_dim, view, b);
  cp_async_commit();
  load_last_tile<HR_V>(v_stage(b.end - 1), view.v, call.v_at.row, call.v_dim, view, b);
  cp_async_commit();
  b.k.start_at(view.k, call.k_at.row, next_key, call.qk_dim);
  b.v.start_at(view.v, call.v_at.row, next_key, call.v_dim);
}

__device__ inline void start_tile(warp_state &w)
{
  clear_accumulators(w);
#pragma unroll
  for (int i = 0; Q_IN_REGISTERS && i < HR_M_TILES; i++)
#pragma unroll
    for (int step = 0; step < (Q_IN_REGISTERS ? QK_STEPS : 1); step++)
      ldmatrix_q(w.q[i][step], shared, i, step);
}

/* Waits for K of a tile, and until no thread reads the stage that is filled next. V of the first tile has its own
 * cp.async group, which may stay in flight with one stage. */
__device__ inline void wait_for_k(const block_work &b, int tile)
{
  if (HR_STAGES == 1 && tile == b.end - 1)
    cp_async_wait<1>();
  else
    cp_async_wait<0>();
  __syncthreads();
}

/* S of a tile, beside copies: with one stage, of V of the same tile (unless it was copied with its K, as that of the
 * last tile); with two stages, of the next tile. */
template <bool UNMASKED> __device__ inline void compute_scores(block_work &b, warp_state &w, int tile)
{
  bool wanted = UNMASKED || tile < b.end - 1;
  if constexpr (HR_ROW_WARPS > 1) {
    constexpr int PARTS = QK_STEPS % 4 == 0 ? 4 : 1;
    mma_qk(w, shared, k_stage(tile), [&](int s) {
      if (s % (QK_STEPS / PARTS) == 0)
        b.v.load_part<PARTS>(v_stage(tile), s / (QK_STEPS / PARTS), wanted);
    });
    if (wanted)
      b.v.advance();
    cp_async_commit();
    return;
  }
  if (HR_STAGES == 1) {
    if (wanted)
      b.v.load(v_stage(tile));
    cp_async_commit();
  } else if (tile > b.first) {
    b.k.load(k_stage(tile - 1));
    b.v.load(v_stage(tile - 1));
    cp_async_commit();
  }
  mma_qk(w, shared, k_stage(tile), [](int) {});
}

/* Waits for V. With one stage it also waits until no thread reads K, because the next K replaces it. */
__device__ inline void wait_for_v(block_work &b, int tile)
{
  if (HR_STAGES == 2)
    return;
  cp_async_wait<0>();
  __syncthreads();
  if (tile > b.first) {
    b.k.load(k_stage(tile));
    cp_async_commit();
  }
}

/* Online softmax of a tile's scores, and O += P V. */
__device__ inline void attend_tile(block_work &b, warp_state &w, unsigned v_first)
{
  rescale_rows(w, b.factor, b.above);
#pragma unroll
  for (int s = 0; s < PV_STEPS; s++) {
    exponentiate(w, b.factor, s);
    mma_pv(w, w.p[s], v_first, s);
  }
}

/* The same by a pair of warps: first P V with the warp's own keys, then with the other's, beside the copies of the next
 * K. */
__device__ inline void attend_tile_of_pair(block_work &b, warp_state &w, unsigned v_first, int tile)
{
  constexpr int PARTS = 2 * PV_STEPS, BYTES = PV_STEPS * MMA_K * PITCH(HR_V) * (int)sizeof(element);
  softmax_of_pair(w, b.factor, b.above, tile == b.end - 1);
#pragma unroll
  for (int s = 0; s < PV_STEPS; s++) {
    b.k.load_part<PARTS>(k_stage(tile), s, tile > b.first);
    mma_pv(w, w.p[s], v_first + warp_in_group() * BYTES, s);
  }
#pragma unroll
  for (int s = 0; s < PV_STEPS; s++) {
    unsigned p[HR_M_TILES][4];
    load_partner_p(p, s);
    b.k.load_part<PARTS>(k_stage(tile), PV_STEPS + s, tile > b.first);
    mma_pv(w, p, v_first + (1 - warp_in_group()) * BYTES, s);
  }
  b.k.advance();
  cp_async_commit();
}

/* One K/V tile; UNMASKED: every row sees every key. */
template <bool UNMASKED>
__device__ inline void step(const attention_call &call, const head_view &view, block_work &b, warp_state &w, int tile)
{
  int first_key = tile * HR_KV_TILE + warp_in_group() * S_TILES * 8;
  unsigned v_first = v_address(v_stage(tile));
  wait_for_k(b, tile);
  compute_scores<UNMASKED>(b, w, tile);
  if (HR_ROW_WARPS == 1)
    wait_for_v(b, tile);
  modify_scores(call, view, w, b.first_row, first_key);
  if (!UNMASKED)
    mask_scores(call, view, w, b.first_row, first_key);
  if constexpr (HR_ROW_WARPS == 1)
    attend_tile(b, w, v_first);
  else
    attend_tile_of_pair(b, w, v_first, tile);
}

extern "C" __global__ __launch_bounds__(THREADS, HR_MIN_BLOCKS) void attention(const attention_call call)
{
  int band = call.band_heads * call.q_tiles, first_head = blockIdx.x / band * call.band_heads;
  int heads = min(call.band_heads, call.heads - first_head), index = blockIdx.x % band;
  int head = first_head + index % heads; /* in a band all last Q tiles come first, the longest of a causal call */
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  warp_state w;
  block_work b;
  b.first_row = (call.q_tiles - 1 - index / heads) * ROWS;
  if (b.first_row >= view.q_len)
    return;
  b.factor = softmax_factor(call);
  b.above = above_row_max(call);
  find_kv_tiles(call, view, b);
  if (b.first < b.end) {
    start_loads(call, view, b);
    cp_async_wait<1>();
    __syncthreads();
  }
  start_tile(w);
#pragma unroll 1
  for (int tile = b.end - 1; tile >= b.first; tile--) {
    if (tile >= b.unmasked_first && tile < b.unmasked_end && (HR_STAGES == 2 || tile < b.end - 1))
      step<true>(call, view, b, w, tile);
    else
      step<false>(call, view, b, w, tile);
  }
  __syncthreads(); /* O replaces Q */
  epilogue(call, view, w, b.first_row);
}
