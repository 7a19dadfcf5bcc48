/* Attention forward with an online softmax on the matrix units of compute capability 8.0 and newer; fp16, bf16 and tf32.
 *
 *   block: HR_WARPS warps with 16 · HR_ROW_TILES query rows each × the keys in tiles of HR_COLUMNS, right to left
 *   ┌ Q ┐  shared memory, once; where it is small its fragments stay in registers
 *   ├ K ┤  two stages each, filled by cp.async while the stage before is worked on; one barrier a tile. Or one stage, K
 *   └ V ┘  filled while V is worked on and V while K is; two barriers
 *   S = Q Kᵀ → mask → weights in registers, O corrected where a row outgrew its base → O += P V
 *
 * HR_ALIGNED: addresses, strides and head sizes are multiples of 16 bytes; otherwise tiles are copied element by element.
 * Offsets have 64 bits.
 *
 * H200, 2026-11-22, bf16, rate over that of FlashAttention-2: 1.06 to 1.21 at head size 64, 1.03 to 1.12 at 128, 0.90 to 1.19
 * at 256. docs/attention-hopper.md has its versions, and what was tried and lost. */
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

/* One tile of keys; WHOLE: all of them are seen by all rows. */
template <bool WHOLE>
__device__ inline void step(const attention_call &call, const head_view &view, block_work &b, warp_state &w, int tile)
{
  copies_wait<0>();
  __syncthreads(); /* this stage is there, and nobody reads the other one any more */
  if constexpr (HR_SPREAD) {
    constexpr int PARTS = QK_STEPS % 4 == 0 ? 4 : 1;
    bool wanted = WHOLE || tile < b.end - 1; /* V of the last tile came with its K */
    multiply_scores(w, shared, k_stage(tile), [&](int s) {
      if (s % (QK_STEPS / PARTS) == 0)
        b.v.copy_part<PARTS>(v_stage(tile), s / (QK_STEPS / PARTS), wanted);
    });
    if (wanted)
      b.v.go_on();
    copies_commit();
  } else {
    if (HR_STAGES == 1) {
      if (WHOLE || tile < b.end - 1)
        b.v.copy(v_stage(tile));
      copies_commit();
    } else if (tile > b.first) {
      b.k.copy(k_stage(tile - 1));
      b.v.copy(v_stage(tile - 1));
      copies_commit();
    }
    multiply_scores(w, shared, k_stage(tile), [](int) {});
  }
  if (HR_STAGES == 1) {
    copies_wait<0>();
    __syncthreads(); /* V is there, and nobody reads K any more */
    if (!HR_SPREAD && tile > b.first) {
      b.k.copy(k_stage(tile));
      copies_commit();
    }
  }
  modify_scores(call, view, w, b.first_row, tile * HR_COLUMNS);
  if (!WHOLE)
    mask_scores(call, view, w, b.first_row, tile * HR_COLUMNS);
  raise_bases(w, b.factor);
  unsigned v_first = v_address(v_stage(tile));
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    weigh(w, b.factor, s);
    multiply_values(w, v_first, s);
    if (HR_SPREAD)
      b.k.copy_part<KEY_STEPS>(k_stage(tile), s, tile > b.first);
  }
  if (HR_SPREAD) {
    b.k.go_on();
    copies_commit();
  }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_BLOCKS) void attention(const attention_call call)
{
  int row_tile = call.row_tiles - 1 - blockIdx.x % call.row_tiles; /* the longest of a causal call first */
  int head = blockIdx.x / call.row_tiles % call.q_heads, batch = blockIdx.x / call.row_tiles / call.q_heads;
  head_view view = view_head(call, batch, head);
  warp_state w;
  block_work b;
  b.first_row = row_tile * ROWS;
  if (b.first_row >= view.q_len)
    return;
  b.factor = softmax_factor(call);
  find_tiles(call, view, b);
  if (b.first < b.end) {
    start_copies(call, view, b);
    copies_wait<0>();
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
