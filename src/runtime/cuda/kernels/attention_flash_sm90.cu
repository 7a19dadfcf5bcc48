/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward with an online softmax on Hopper (sm_90a): WGMMA, TMA, warp specialization, ping-pong; fp16, bf16,
 * fp8.
 *
 *   persistent grid, one block per multiprocessor; Q tile: HR_CONSUMERS × 64 rows; K/V tiles of HR_KV_TILE keys, from
 *   right to left, or
 *   with HR_LEFT_TO_RIGHT from left to right
 *   ┌ consumer warpgroups 0 … HR_CONSUMERS − 1, 64 rows each
 *   │   S = Q Kᵀ (WGMMA, both operands in shared memory) → online softmax in registers → O += P V (WGMMA, P in
 *   │   registers)
 *   └ producer warpgroup: one warp schedules Q tiles and loads Q, one loads K, one loads V, all by TMA
 *
 *   registers (setmaxnreg)   2 consumers: 240 + 24 of the producer    3: 160 + 32    4: 112 + 24
 *   shared memory            Q, O, stages of K and V, work items, mbarriers (attention_layout.h); up to 227 KiB
 *
 * A consumer issues S of the next tile before P V of this one, and does the online softmax of the next tile during
 * both. It skips tiles that none of its rows sees. HR_PING_PONG: consumers issue their WGMMAs in turn, guarded by named
 * barriers, so that one is in its softmax while another's WGMMAs run. Blocks fetch Q tiles from an atomic counter, the
 * longest first, which balances causal calls.
 *
 * HR_TEAMS 2: two teams of HR_CONSUMERS warpgroups, each with Q tiles, shared memory and mbarriers of its own, for
 * short sequences. HR_CLUSTER 2: two blocks process neighbouring Q tiles, and each loads half of every K/V tile for
 * both (multicast). A work item is the rows of both, and the schedule is static.
 *
 * fp8: V is that of attention_transpose_v.cu, O of the dtype of HR_OUT_…, and with HR_HEAD_SCALES heads of Q, K and V
 * have a scale (docs/notes/attention-fp8.md).
 *
 * HR_CAUSAL, HR_WINDOW: masks that may cut tiles, as may HR_FIRST_KEYS. HR_STAGE_O: O is staged through
 * its own shared memory buffer and stored by TMA, otherwise stored from registers. HR_VARLEN: variable-length
 * sequences, concatenated. HR_SCORE_MOD, HR_FIRST_KEYS: attention.cuh.
 *
 * Bound: WGMMA, 870 TFLOP/s under the power cap; one after the other with the exponentials 480 TFLOP/s at head size 64,
 * 619 at 128, 723 at 256. Measured speed and energy, versions, and what was tried and lost:
 * docs/notes/attention-hopper.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm90.cuh"
#include "runtime/cuda/kernels/attention_producer_sm90.cuh"
#include "runtime/cuda/kernels/attention_softmax_sm90.cuh"
#include "runtime/cuda/kernels/attention_epilogue_sm90.cuh"

#define THREADS (128 * (HR_TEAMS * HR_CONSUMERS + 1))

#if HR_TEAMS * HR_CONSUMERS == 4
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 112
#elif HR_TEAMS * HR_CONSUMERS == 3
#define PRODUCER_REGISTERS 32
#define CONSUMER_REGISTERS 160
#else
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
#endif

#if HR_CLUSTER > 1
#define CLUSTER_DIMS __cluster_dims__(HR_CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif

/* ---- synchronization ---- */

/* One lane of each warp arrives when its warp has read a stage. */
__device__ inline void release_stage(const consumer_state &c, int barrier)
{
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(mbarrier_at(c.memory, barrier));
}

/* A stage of K or V is written by all blocks of the cluster, so that each of them has to know. */
__device__ inline void release_kv(const consumer_state &c, int barrier)
{
#if HR_CLUSTER > 1
  if (threadIdx.x % 32 < HR_CLUSTER)
    mbarrier_arrive_in_block(mbarrier_at(c.memory, barrier), threadIdx.x % 32);
#else
  release_stage(c, barrier);
#endif
}

/* Ping-pong: named barrier 1 + g lets consumer g issue WGMMAs. */
__device__ inline void ping_pong_wait(const consumer_state &c)
{
#ifdef HR_PING_PONG
  named_barrier_sync(1 + c.group, 256);
#endif
}

__device__ inline void ping_pong_signal(const consumer_state &c)
{
#ifdef HR_PING_PONG
  named_barrier_arrive(1 + (c.group + 1) % HR_CONSUMERS, 256);
#endif
}

/* ---- WGMMAs ---- */

#define K_STEP (32 / (int)sizeof(element)) /* k of one */

/* Issues S = Q Kᵀ. */
__device__ inline void issue_qk(consumer_state &c, unsigned q, unsigned stage)
{
  unsigned long long a0 = matrix_descriptor(q, 1024, 0);
  unsigned long long b0 = matrix_descriptor(c.memory + K_AT + stage * K_BYTES, 1024, 0);
#pragma unroll
  for (int step = 0; step < HR_QK / K_STEP; step++) {
    unsigned long long a = descriptor_behind(a0, step / 4 * Q_PANEL + step % 4 * 32);
    unsigned long long b = descriptor_behind(b0, step / 4 * K_PANEL + step % 4 * 32);
    WGMMA_SS(HR_KV_TILE, c.scores, a, b, step > 0);
  }
  wgmma_commit();
}

/* Issues O += P V. */
__device__ inline void issue_pv(consumer_state &c, unsigned stage)
{
#ifdef HR_DTYPE_fp8
  unsigned long long b0 = matrix_descriptor(c.memory + V_AT + stage * V_BYTES, 1024, 0);
#else
  unsigned long long b0 = matrix_descriptor(c.memory + V_AT + stage * V_BYTES, 1024, V_PANEL);
#endif
#pragma unroll
  for (int step = 0; step < HR_KV_TILE / K_STEP; step++) {
#ifdef HR_DTYPE_fp8
    unsigned long long b = descriptor_behind(b0, step / 4 * V_PANEL + step % 4 * 32);
#else
    unsigned long long b = descriptor_behind(b0, step * K_STEP * PANEL_ROW);
#endif
    WGMMA_RS(HR_V, c.out, c.p + 4 * step, b);
  }
  wgmma_commit();
}

/* ---- the kernel ---- */

/* Releases tiles that no row of the warpgroup sees; in the first `turns` of them it takes part in the ping-pong. Every
 * lane waits for itself: a late lane must have seen a stage full before its warp releases it, or it waits forever once
 * the stage is full again. */
__device__ inline void skip_tiles(const consumer_state &c, kv_pipeline &t, int count, int turns)
{
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    if (i < turns) {
      ping_pong_wait(c);
      ping_pong_signal(c);
    }
    mbarrier_wait_long(mbarrier_at(c.memory, K_FULL + t.stage), t.phase);
    __syncwarp();
    release_kv(c, K_EMPTY + t.stage);
    mbarrier_wait_long(mbarrier_at(c.memory, V_FULL + t.stage), t.phase);
    __syncwarp();
    release_kv(c, V_EMPTY + t.stage);
    t.next();
  }
}

/* S of a tile beside P V of the tile before (`t`), whose softmax is done; then the softmax of the tile. MIDDLE: it is
 * not the last one. */
template <bool MASKED, bool MIDDLE = false>
__device__ inline void attend_tile(const attention_call &call, const work_item &item, const row_span &sp,
                                   consumer_state &c, unsigned q, int q_empty, kv_pipeline &t, int tile, float factor)
{
  kv_pipeline next = t, before = t;
  next.next();
  ping_pong_wait(c);
  wgmma_fence();
  issue_qk(c, q, next.stage);
  mbarrier_wait_long(mbarrier_at(c.memory, V_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_pv(c, t.stage);
  ping_pong_signal(c);
  wgmma_wait<1>();
  release_kv(c, K_EMPTY + next.stage);
  if (tile == LAST_TILE(sp))
    release_stage(c, q_empty);
  modify_scores(call, item, sp, c, tile);
  if (MASKED)
    mask_scores(call, item, sp, c, tile);
  online_softmax(c, factor, above_row_max(call));
  t = next;
  next.next();
  /* Here, as the compiler moves wgmma_wait() up to the last branch before it. Row sums are never negative, but the
   * compiler does not know it, and so leaves this wait behind the exponentials. */
  if (MIDDLE || HAS_NEXT(tile, sp))
    mbarrier_wait_long(mbarrier_at(c.memory, K_FULL + next.stage),
                       next.phase ^ (unsigned)(c.row_sum[0] < 0 || c.row_sum[1] < 0));
  wgmma_wait<0>();
  release_kv(c, V_EMPTY + before.stage);
  rescale_out(c);
  convert_p(c);
}

/* All K/V tiles of a work item that the warpgroup sees, at least one. */
__device__ inline void attend(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                              unsigned q, int q_empty, kv_pipeline &t, float factor)
{
  int tile = FIRST_TILE(sp);
  mbarrier_wait_long(mbarrier_at(c.memory, K_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_qk(c, q, t.stage);
  wgmma_wait<0>();
  release_kv(c, K_EMPTY + t.stage);
  if (tile == LAST_TILE(sp))
    release_stage(c, q_empty);
  modify_scores(call, item, sp, c, tile);
  mask_scores(call, item, sp, c, tile);
  online_softmax(c, factor, above_row_max(call));
  convert_p(c);
  kv_pipeline next = t;
  next.next();
  if (HAS_NEXT(tile, sp))
    mbarrier_wait_long(mbarrier_at(c.memory, K_FULL + next.stage), next.phase);
  tile += TILE_STEP;
#if defined(HR_WINDOW) || defined(HR_SCORE_MOD) /* one loop, to compile less */
#pragma unroll 1
  for (; IN_RANGE(tile, sp); tile += TILE_STEP)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#elif defined(HR_LEFT_TO_RIGHT)
#ifdef HR_FIRST_KEYS
#pragma unroll 1
  for (; tile < sp.end_tile && tile < sp.first_unmasked; tile++)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
#pragma unroll 1
  for (; tile < sp.end_tile && tile < sp.end_unmasked; tile++)
    attend_tile<false>(call, item, sp, c, q, q_empty, t, tile, factor);
#pragma unroll 1
  for (; tile < sp.end_tile; tile++)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#else
#ifdef HR_CAUSAL
#pragma unroll 1
  for (; tile >= sp.first_tile && tile >= sp.end_unmasked; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
#ifdef HR_FIRST_KEYS
  int last = LARGER(sp.first_tile, sp.first_unmasked - 1);
#pragma unroll 1
  for (; tile > last; tile--) /* always with a next tile: a branch on it takes 2 to 7% of a call */
    attend_tile<false, true>(call, item, sp, c, q, q_empty, t, tile, factor);
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#else
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<false>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
#endif
  mbarrier_wait_long(mbarrier_at(c.memory, V_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_pv(c, t.stage);
  wgmma_wait<0>();
  release_kv(c, V_EMPTY + t.stage);
  t.next();
}

__device__ inline void consume(const attention_call &call, const tensor_maps &tensor_maps)
{
  consumer_state c;
  int warpgroup = uniform(threadIdx.x / 128);
  c.group = HR_TEAMS > 1 ? warpgroup % HR_CONSUMERS : warpgroup;
  c.memory = team_memory(HR_TEAMS > 1 ? warpgroup / HR_CONSUMERS : 0);
  kv_pipeline t = {0, 0};
  q_pipeline q = {0, 0};
  item_pipeline work_items = {0, 0};
#ifdef HR_PING_PONG
  if (c.group == HR_CONSUMERS - 1)
    ping_pong_signal(c);
#endif
#pragma unroll 1
  for (work_item item = receive_item(call, c.memory, work_items); item.batch >= 0;
       item = receive_item(call, c.memory, work_items)) {
    int at = q.stage * HR_CONSUMERS + c.group, tiles = item.end_tile - item.first_tile;
    row_span sp = span_of(call, c, item);
    float factor = softmax_factor(call, sp.score_scale);
    clear_accumulators(c);
    mbarrier_wait_long(mbarrier_at(c.memory, Q_FULL + at), q.phase);
    if (sp.first_tile < sp.end_tile) {
      int before = (FIRST_TILE(sp) - FIRST_TILE(item)) * TILE_STEP,
          behind = (LAST_TILE(item) - LAST_TILE(sp)) * TILE_STEP;
      skip_tiles(c, t, before, tiles);
      attend(call, item, sp, c, c.memory + at * Q_BYTES, Q_EMPTY + at, t, factor);
      skip_tiles(c, t, behind, tiles);
    } else {
      skip_tiles(c, t, tiles, tiles - 1);
      __syncwarp();
      release_stage(c, Q_EMPTY + at);
    }
    epilogue(call, tensor_maps, c, item, sp, c.memory + O_AT + c.group * O_BYTES);
    q.next();
  }
#ifdef HR_STAGE_O
  if (threadIdx.x % 32 == 0)
    tma_store_wait();
#endif
}

/* All blocks of the cluster: before TMA and mbarriers reach into another one, and before one of them ends. */
__device__ inline void cluster_sync()
{
#if HR_CLUSTER > 1
  __syncwarp();
  cluster_arrive();
  cluster_wait();
#endif
}

extern "C" __global__ CLUSTER_DIMS __launch_bounds__(THREADS,
                                                     1) void attention(const __grid_constant__ attention_call call,
                                                                       const __grid_constant__ tensor_maps tensor_maps)
{
  if (threadIdx.x == 0) {
    for (int team = 0; team < HR_TEAMS; team++)
      init_mbarriers(team_memory(team));
    fence_mbarrier_init();
  }
  __syncthreads();
  cluster_sync();
  allow_next_kernel();
  if (threadIdx.x < 128 * HR_TEAMS * HR_CONSUMERS) {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consume(call, tensor_maps);
  } else {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    produce(call, tensor_maps, threadIdx.x / 32 - 4 * HR_TEAMS * HR_CONSUMERS);
  }
  cluster_sync();
}
