/* The second half of attention whose scores lie in memory, as a library's Q Kᵀ left them: unscaled, in fp32. The softmax
 * happens while the second product takes its operand, so that weights are never in memory and scores are read once.
 *
 *   block: HR_WARPS warps with 16 · HR_ROW_TILES query rows each × a part of the keys in tiles of HR_COLUMNS, right to left
 *   ┌ S ┐  two stages each, filled by cp.async while the stage before is worked on; one barrier a tile
 *   └ V ┘
 *   S → mask → weights in registers, O corrected where a row outgrew its base → O += P V
 *
 * Bound by reading scores, 4 bytes each, as long as enough blocks are at it: where there are too few rows for that the keys
 * are dealt out to several blocks, which leave their sums, and `combine` makes rows of O of these. */
#define HR_QK 16 /* of tiles that are not here */
#define HR_STAGES 2
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles.cuh"
#include "runtime/cuda/kernels/attention_online.cuh"
#include "runtime/cuda/kernels/attention_parts.cuh"

#define S_PITCH (HR_COLUMNS + 8) /* words: pairs of 4 rows lie in different banks */
#define S_SIZE (ROWS * S_PITCH * (int)(sizeof(float) / sizeof(element))) /* elements; blocked.c reckons the same */

/* The keys that a block of threads is at, and where its next tile of V comes from. */
struct fused_keys : row_block {
  tile_source<HR_V> v;
};

__device__ inline element *s_stage(int tile) { return shared + tile % HR_STAGES * (S_SIZE + V_SIZE); }
__device__ inline element *v_stage(int tile) { return s_stage(tile) + S_SIZE; }

/* The first of its tiles, which may end early, and sets out for those before it. */
__device__ inline void start_copies(const attention_call &call, const head_view &view, const score_block &block,
                                    const score_work &work, fused_keys &keys)
{
  int last_key = (keys.end - 1) * HR_COLUMNS;
  copy_scores<S_PITCH>(s_stage(keys.end - 1), work, block.pitch, last_key);
  fill_tile<HR_COLUMNS, HR_V>(v_stage(keys.end - 1), view.v + last_key * call.v_at.row, call.v_at.row,
                              view.kv_len - last_key, call.v_dim);
  copies_commit();
  keys.v.open(view.v, call.v_at.row, last_key - HR_COLUMNS, call.v_dim);
}

/* A thread's scores, laid out as sums of a product would be. */
__device__ inline void take_scores(warp_state &w, const element *s_tile)
{
  int lane = threadIdx.x % 32;
  const float *row = (const float *)s_tile + (threadIdx.x / 32 * TEAM_ROWS + lane / 4) * S_PITCH + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int n = 0; n < SCORE_TILES; n++) {
        float2 pair = *(const float2 *)(row + (i * 16 + half * 8) * S_PITCH + n * 8);
        w.scores[i][n][half * 2] = pair.x;
        w.scores[i][n][half * 2 + 1] = pair.y;
      }
}

/* One tile of keys; WHOLE: all of them are seen by all rows. */
template <bool WHOLE>
__device__ inline void step(const attention_call &call, const head_view &view, const score_block &block,
                            const score_work &work, fused_keys &keys, warp_state &w, int tile)
{
  float factor = softmax_factor(call);
  copies_wait<0>();
  __syncthreads(); /* this stage is there, and nobody reads the other one any more */
  if (tile > keys.first) {
    copy_scores<S_PITCH>(s_stage(tile - 1), work, block.pitch, (tile - 1) * HR_COLUMNS);
    keys.v.copy(v_stage(tile - 1));
    copies_commit();
  }
  take_scores(w, s_stage(tile));
  modify_scores(call, view, w, keys.first_row, tile * HR_COLUMNS);
  if (!WHOLE)
    mask_scores(call, view, w, keys.first_row, tile * HR_COLUMNS);
  raise_bases(w, factor);
  unsigned v_first = v_address(v_stage(tile));
#pragma unroll
  for (int s = 0; s < KEY_STEPS; s++) {
    weigh(w, factor, s);
    multiply_values(w, w.weights[s], v_first, s);
  }
}

#ifdef HR_DTYPE_tf32
/* A thread's part of a row of sums, each column where it belongs. */
__device__ inline void store_sums(const warp_state &w, float *row, int i, int half) { stage_out(w, row, i, half); }
#else
__device__ inline void store_sums(const warp_state &w, float *row, int i, int half)
{
#pragma unroll
  for (int n = 0; n < OUT_TILES; n++)
    *(float2 *)(row + n * 8 + threadIdx.x % 4 * 2) = make_float2(w.out[i][n][half * 2], w.out[i][n][half * 2 + 1]);
}
#endif

/* Leaves sums and what they are relative to. */
__device__ inline void store_part(const score_block &block, const score_work &work, const warp_state &w, bool keys)
{
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < HR_ROW_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64 place =
          place_of(block, work.part, work.head, work.row_tile, threadIdx.x / 32 * TEAM_ROWS + i * 16 + half * 8 + lane / 4);
      float sum = w.sum[i][half];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      if (lane % 4 == 0)
        block.states[place] = make_float2(w.base[i][half], sum);
      if (keys)
        store_sums(w, block.sums + place * HR_V, i, half);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, HR_BLOCKS) void attention(const attention_call call,
                                                                         const score_block block)
{
  score_work work = find_work(block);
  int head = block.first_head + work.head;
  head_view view = view_head(call, head / call.q_heads, head % call.q_heads);
  fused_keys keys;
  warp_state w;
  keys.first_row = work.first_row;
  find_tiles(call, view, keys);
  keys.first = max(keys.first, work.part * block.part_tiles);
  keys.end = min(keys.end, (work.part + 1) * block.part_tiles);
  if (keys.first < keys.end)
    start_copies(call, view, block, work, keys);
  clear_sums(w);
#pragma unroll 1
  for (int tile = keys.end - 1; tile >= keys.first; tile--) {
    if (tile >= keys.whole_first && tile < keys.whole_end)
      step<true>(call, view, block, work, keys, w, tile);
    else
      step<false>(call, view, block, work, keys, w, tile);
  }
  if (block.parts > 1) {
    store_part(block, work, w, keys.first < keys.end);
    return;
  }
  __syncthreads(); /* the stages take O */
  finish(call, view, w, work.first_row);
}

/* A row of O for each warp. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const attention_call call, const score_block block)
{
  combine_row(call, block, 1);
}
