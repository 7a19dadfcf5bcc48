/* Attention forward with an online softmax on the matrix units of compute capability 8.0 and newer; fp16, bf16 and tf32.
 *
 *   block: HR_WARPS warps with 16 · HR_ROW_TILES query rows each × the keys in tiles of HR_COLUMNS, right to left; or teams of
 *   HR_TEAM 2 warps with as many, each with half of a tile's keys in Q Kᵀ and half of O's columns in P V
 *   ┌ Q ┐  shared memory, once; where it is small its fragments stay in registers
 *   ├ K ┤  two stages each, filled by cp.async while the stage before is worked on; one barrier a tile. Or one stage, K
 *   └ V ┘  filled while V is worked on and V while K is; two barriers
 *   S = Q Kᵀ → mask → weights in registers, O corrected where a row outgrew its base → O += P V
 *
 * HR_ALIGNED: addresses, strides and head sizes are multiples of 16 bytes; otherwise tiles are copied element by element.
 * Offsets have 64 bits.
 *
 * H200, 2026-11-22, bf16, rate over that of FlashAttention-2: 1.08 to 1.23 at head size 64, 1.02 to 1.17 at 128, 0.99 to 1.28
 * at 256. docs/attention-gpu.md has its versions, and what was tried and lost. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles.cuh"
#include "runtime/cuda/kernels/attention_online.cuh"

/* ---- the kernel ---- */

struct block_work : row_block {
  tile_source<HR_QK> k;
  tile_source<HR_V> v;
  float factor;
};

__device__ inline element *k_stage(int tile) { return shared + Q_SIZE + tile % HR_STAGES * (K_SIZE + V_SIZE); }
__device__ inline element *v_stage(int tile) { return k_stage(tile) + K_SIZE; }

/* The last tile of K or V, which may end early. */
template <int WIDTH>
__device__ inline void fill_last(element *tile, const element *from, int64 stride, int dim, const head_view &view,
                                 const block_work &b)
{
  int64 first_key = (int64)(b.end - 1) * HR_COLUMNS;
  fill_tile<HR_COLUMNS, WIDTH>(tile, from + first_key * stride, stride, view.kv_len - (int)first_key, dim);
}

/* Starts the copies of Q and of the last tile, and sets out for those before it. */
__device__ inline void start_copies(const attention_call &call, const head_view &view, block_work &b)
{
  int64 next_key = (int64)(b.end - 2) * HR_COLUMNS;
  fill_tile<ROWS, HR_QK>(shared, view.q + b.first_row * call.q_at.row, call.q_at.row, view.q_len - b.first_row,
                         call.qk_dim);
  fill_last<HR_QK>(k_stage(b.end - 1), view.k, call.k_at.row, call.qk_dim, view, b);
  copies_commit();
  fill_last<HR_V>(v_stage(b.end - 1), view.v, call.v_at.row, call.v_dim, view, b);
  copies_commit();
  b.k.open(view.k, call.k_at.row, next_key, call.qk_dim);
  b.v.open(view.v, call.v_at.row, next_key, call.v_dim);
}

__device__ inline void begin(warp_state &w)
{
  clear_sums(w);
#pragma unroll
  for (int i = 0; Q_HELD && i < HR_ROW_TILES; i++)
#pragma unroll
    for (int step = 0; step < (Q_HELD ? QK_STEPS : 1); step++)
      load_q(w.q[i][step], shared, i, step);
}

/* Waits for the keys of a tile, and until nobody reads what is filled next. V of the first tile has a group of its own, which
 * may be on its way where it is waited for apart. */
__device__ inline void wait_for_keys(const block_work &b, int tile)
{
  if (HR_STAGES == 1 && tile == b.end - 1)
    copies_wait<1>();
  else
    copies_wait<0>();
  __syncthreads();
}

/* Scores of a tile, and copies beside: with one stage of V of the same tile, unless it came with its K as the last one's did;
 * with two of the next tile. */
template <bool WHOLE> __device__ inline void score(block_work &b, warp_state &w, int tile)
{
  bool wanted = WHOLE || tile < b.end - 1;
  if constexpr (HR_TEAM > 1) {
    constexpr int PARTS = QK_STEPS % 4 == 0 ? 4 : 1;
    multiply_scores(w, shared, k_stage(tile), [&](int s) {
      if (s % (QK_STEPS / PARTS) == 0)
        b.v.copy_part<PARTS>(v_stage(tile), s / (QK_STEPS / PARTS), wanted);
    });
    if (wanted)
      b.v.go_on();
    copies_commit();
    return;
  }
  if (HR_STAGES == 1) {
    if (wanted)
      b.v.copy(v_stage(tile));
    copies_commit();
  } else if (tile > b.first) {
    b.k.copy(k_stage(tile - 1));
    b.v.copy(v_stage(tile - 1));
    copies_commit();
  }
  multiply_scores(w, shared, k_stage(tile), [](int) {});
}

/* With one stage: waits for V, and until nobody reads K, which the next tile's then replaces. */
__device__ inline void wait_for_values(block_work &b, int tile)
{
  if (HR_STAGES == 2)
    return;
  copies_wait<0>();
  __syncthreads();
  if (tile > b.first) {
    b.k.copy(k_stage(tile));
    copies_commit();
  }
}

/* Softmax of a tile's scores, and O += P V. */
__device__ inline void take_tile(block_work &b, warp_state &w, unsigned v_first)
{
  raise_bases(w, b.factor);
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    weigh(w, b.factor, s);
    multiply_values(w, w.weights[s], v_first, s);
  }
}

/* The same by the warps of a team, first with a warp's own keys, then with the other's, and copies of the next tile's K
 * beside. */
__device__ inline void take_tile_together(block_work &b, warp_state &w, unsigned v_first, int tile)
{
  constexpr int PARTS = 2 * KEY_STEPS, BYTES = KEY_STEPS * STEP * PITCH(HR_V) * (int)sizeof(element);
  weigh_together(w, b.factor, tile == b.end - 1);
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    b.k.copy_part<PARTS>(k_stage(tile), s, tile > b.first);
    multiply_values(w, w.weights[s], v_first + member() * BYTES, s);
  }
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    unsigned weights[HR_ROW_TILES][4];
    take_weights(weights, s);
    b.k.copy_part<PARTS>(k_stage(tile), KEY_STEPS + s, tile > b.first);
    multiply_values(w, weights, v_first + (1 - member()) * BYTES, s);
  }
  b.k.go_on();
  copies_commit();
}

/* One tile of keys; WHOLE: all of them are seen by all rows. */
template <bool WHOLE>
__device__ inline void step(const attention_call &call, const head_view &view, block_work &b, warp_state &w, int tile)
{
  int first_key = tile * HR_COLUMNS + member() * SCORE_TILES * 8;
  unsigned v_first = v_address(v_stage(tile));
  wait_for_keys(b, tile);
  score<WHOLE>(b, w, tile);
  if (HR_TEAM == 1)
    wait_for_values(b, tile);
  modify_scores(call, view, w, b.first_row, first_key);
  if (!WHOLE)
    mask_scores(call, view, w, b.first_row, first_key);
  if constexpr (HR_TEAM == 1)
    take_tile(b, w, v_first);
  else
    take_tile_together(b, w, v_first, tile);
}

extern "C" __global__ __launch_bounds__(THREADS, HR_BLOCKS) void attention(const attention_call call)
{
  int band = call.band_heads * call.row_tiles, first_head = blockIdx.x / band * call.band_heads;
  int heads = min(call.band_heads, call.heads - first_head), index = blockIdx.x % band;
  int head = first_head + index % heads; /* of a band, all last row tiles first: the longest of a causal call */
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  warp_state w;
  block_work b;
  b.first_row = (call.row_tiles - 1 - index / heads) * ROWS;
  if (b.first_row >= view.q_len)
    return;
  b.factor = softmax_factor(call);
  find_tiles(call, view, b);
  if (b.first < b.end) {
    start_copies(call, view, b);
    copies_wait<1>();
    __syncthreads();
  }
  begin(w);
#pragma unroll 1
  for (int tile = b.end - 1; tile >= b.first; tile--) {
    if (tile >= b.whole_first && tile < b.whole_end && (HR_STAGES == 2 || tile < b.end - 1))
      step<true>(call, view, b, w, tile);
    else
      step<false>(call, view, b, w, tile);
  }
  __syncthreads(); /* Q's tile takes O */
  finish(call, view, w, b.first_row);
}
