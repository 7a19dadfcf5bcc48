/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward with an online softmax on Hopper (sm_90a): WGMMA, TMA, warp specialization, ping-pong; fp16 and bf16.
 *
 *   persistent grid, one block per multiprocessor; Q tile: HR_CONSUMERS × 64 rows; K/V tiles of HR_KV_TILE keys, from right to left
 *   ┌ consumer warpgroups 0 … HR_CONSUMERS − 1, 64 rows each
 *   │   S = Q Kᵀ (WGMMA, both operands in shared memory) → online softmax in registers → O += P V (WGMMA, P in registers)
 *   └ producer warpgroup: one warp schedules Q tiles and loads Q, one loads K, one loads V, all by TMA
 *
 *   registers (setmaxnreg)   2 consumers: 240 + 24 of the producer    3: 160 + 32    4: 112 + 24
 *   shared memory            Q, O, stages of K and V, work items, mbarriers (attention_layout.h); up to 227 KiB
 *
 * A consumer issues S of the next tile before P V of this one, and does the online softmax of the next tile during both. It skips
 * tiles that none of its rows sees. HR_PING_PONG: consumers issue their WGMMAs in turn, guarded by named barriers, so that one is in
 * its softmax while another's WGMMAs run. Blocks fetch Q tiles from an atomic counter, the longest first, which balances causal calls.
 *
 * HR_CAUSAL, HR_WINDOW: masks that may cut tiles. HR_STAGE_O: O is staged through its own shared memory buffer and stored by TMA,
 * otherwise stored from registers. HR_VARLEN: variable-length sequences, concatenated. HR_SCORE_MOD: attention.cuh.
 *
 * Bound: WGMMA, 870 TFLOP/s under the power cap; one after the other with the exponentials 480 TFLOP/s at head size 64, 619 at 128,
 * 723 at 256. H200, 2026-11-22, bf16, 16384 tokens: 549, 679 and 793 TFLOP/s (63, 78, 91% of WGMMA). Versions, and what was tried
 * and lost: docs/attention-hopper.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm90.cuh"

#define THREADS (128 * (HR_CONSUMERS + 1))

#if HR_CONSUMERS == 4
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 112
#elif HR_CONSUMERS == 3
#define PRODUCER_REGISTERS 32
#define CONSUMER_REGISTERS 160
#else
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
#endif

/* A thread's registers, its share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16, of every 8 columns 2 (t % 4) and the next. */
struct consumer_state {
  float scores[HR_KV_TILE / 2], out[HR_V / 2];
  unsigned p[HR_KV_TILE / 4]; /* P in pairs of 16 bits */
  float row_max[2], row_sum[2], rescale[2];
  int group; /* consumer warpgroup, from 0 */
};

/* A consumer's part of a work item: its first row, K/V tiles that some row sees, tiles of which every row sees every key. */
struct row_span {
  int first_row, first_tile, end_tile, first_unmasked, end_unmasked;
  float slope; /* of ALiBi, with HR_SCORE_MOD */
};

/* ---- synchronization ---- */

/* One lane of each warp arrives when its warp has read a stage. */
__device__ inline void release_stage(int barrier)
{
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(mbarrier_at(barrier));
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

/* Issues S = Q Kᵀ. */
__device__ inline void issue_qk(consumer_state &c, unsigned q, unsigned stage)
{
  unsigned k = shared_address(shared) + K_AT + stage * K_BYTES;
#pragma unroll
  for (int step = 0; step < HR_QK / 16; step++) {
    unsigned long long a = matrix_descriptor(q + step / 4 * Q_PANEL + step % 4 * 32, 1024, 0);
    unsigned long long b = matrix_descriptor(k + step / 4 * KV_PANEL + step % 4 * 32, 1024, 0);
    WGMMA_SS(HR_KV_TILE, c.scores, a, b, step > 0);
  }
  wgmma_commit();
}

/* Issues O += P V. */
__device__ inline void issue_pv(consumer_state &c, unsigned stage)
{
  unsigned v = shared_address(shared) + V_AT + stage * V_BYTES;
#pragma unroll
  for (int step = 0; step < HR_KV_TILE / 16; step++) {
    unsigned long long b = matrix_descriptor(v + step * 16 * PANEL_ROW, 1024, KV_PANEL);
    WGMMA_RS(HR_V, c.out, c.p + 4 * step, b);
  }
  wgmma_commit();
}

/* ---- online softmax ---- */

__device__ inline int row_of(const row_span &sp, int half)
{
  return sp.first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* A consumer's part of a work item. */
__device__ inline row_span span_of(const attention_call &call, const consumer_state &c, const work_item &item)
{
  row_span sp;
  sp.first_row = item.first_row + c.group * 64;
  tile_range tiles = kv_tiles_of_rows(call, item, sp.first_row, 64);
  head_view view = lengths_of(item);
  sp.first_tile = tiles.first;
  sp.end_tile = tiles.end;
  sp.first_unmasked = (keys_of_row(call, view, sp.first_row + 63).first + HR_KV_TILE - 1) / HR_KV_TILE;
  sp.end_unmasked = keys_of_row(call, view, sp.first_row).end / HR_KV_TILE;
#ifdef HR_SCORE_MOD
  sp.slope = call.slopes ? call.slopes[item.head] : 0;
#endif
  return sp;
}

/* Soft cap and ALiBi, as in modify_score(). */
__device__ inline void modify_scores(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                                     int tile)
{
#ifdef HR_SCORE_MOD
  int first_key = tile * HR_KV_TILE + threadIdx.x % 4 * 2 - (item.kv_len - item.q_len);
  float softcap = call.softcap, inverse = 1 / softcap;
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 2; i++) {
    float compute_scores = c.scores[i] * call.scale;
    if (softcap > 0)
      compute_scores = softcap * tanh_approx(compute_scores * inverse);
    c.scores[i] = compute_scores + sp.slope * (float)(first_key + i / 4 * 8 + i % 2 - row_of(sp, i / 2 % 2));
  }
#endif
}

/* Scores of keys that a row does not see become −∞; skipped if every row of the warpgroup sees every key of the tile. */
__device__ inline void mask_scores(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                                   int tile)
{
  if (tile >= sp.first_unmasked && tile < sp.end_unmasked)
    return;
  int first_key = tile * HR_KV_TILE;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_row(call, lengths_of(item), row_of(sp, half));
    int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (n * 8 + e < first || n * 8 + e >= end)
          c.scores[n * 4 + half * 2 + e] = minus_infinity();
  }
}

/* P = 2^(factor · (S − row maximum)); updates row maximum and row sum. `rescale` is the factor of earlier tiles. */
__device__ inline void online_softmax(consumer_state &c, float factor)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float before = c.row_max[half], row_max = before, sum = 0;
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
      row_max = fmaxf(row_max, fmaxf(c.scores[n * 4 + half * 2], c.scores[n * 4 + half * 2 + 1]));
    row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 1));
    row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 2));
    float base = row_max == minus_infinity() ? 0 : row_max * factor;
    c.rescale[half] = exp2_approx(before * factor - base);
    c.row_max[half] = row_max;
#pragma unroll
    for (int n = 0; n < HR_KV_TILE / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float weight = exp2_approx(c.scores[n * 4 + half * 2 + e] * factor - base);
        c.scores[n * 4 + half * 2 + e] = weight;
        sum += weight;
      }
    c.row_sum[half] = c.row_sum[half] * c.rescale[half] + sum;
  }
}

/* P as the A operand of P V. */
__device__ inline void convert_p(consumer_state &c)
{
#pragma unroll
  for (int i = 0; i < HR_KV_TILE / 4; i++)
    c.p[i] = pack_pair(c.scores[2 * i], c.scores[2 * i + 1]);
}

__device__ inline void rescale_out(consumer_state &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] *= c.rescale[i / 2 % 2];
}

/* ---- epilogue ---- */

/* Two elements of O in a word. `inverse` 0 (a row without keys) gives 0 even where 0 · NaN of V made NaN. */
__device__ inline unsigned scale_pair(float low, float high, float inverse)
{
  unsigned both = pack_pair(low * inverse, high * inverse);
#if defined(HR_CAUSAL) || defined(HR_VARLEN) /* otherwise every row has keys */
  both &= inverse == 0 ? 0u : ~0u;
#endif
  return both;
}

#ifdef HR_STAGE_O
/* A warp's 16 rows go through shared memory to a TMA store. */
__device__ inline void store_o(const tensor_maps &tensor_maps, const consumer_state &c, const work_item &item, const row_span &sp, unsigned to,
                                 const float (&inverse)[2])
{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, row = lane % 16;
  to += warp * 16 * PANEL_ROW;
  if (lane == 0)
    tma_store_wait(); /* of the work item before */
  __syncwarp();
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    int chunk = (n % 8 + lane / 16) ^ row % 8;
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      words[i] = scale_pair(c.out[n * 4 + 2 * i], c.out[n * 4 + 2 * i + 1], inverse[i % 2]);
    stmatrix_x4(to + n / 8 * Q_PANEL + row * PANEL_ROW + chunk * 16, words[0], words[1], words[2], words[3]);
  }
  fence_proxy_async();
  __syncwarp();
  if (lane == 0) {
    if (sp.first_row + warp * 16 < item.q_len)
      for (int panel = 0; panel < PANELS(HR_V); panel++)
        tma_store(tensor_maps.o, to + panel * Q_PANEL, panel * 64, item.head, sp.first_row + warp * 16, item.batch);
    tma_store_commit();
  }
}
#else
/* Neighbouring lanes exchange words of two 8-column tiles, so that a row's four lanes write 32 bytes at once. */
__device__ inline void store_o_row(const attention_call &call, const head_view &view, const consumer_state &c, const row_span &sp,
                                 int half, float inverse)
{
  int row = row_of(sp, half), lane = threadIdx.x % 4;
  element *to = view.o + (int64)row * call.o_at.row + lane % 2 * 8 + lane / 2 * 4;
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 2) {
    const float *o = c.out + n * 4 + half * 2;
    unsigned a = scale_pair(o[0], o[1], inverse), b = scale_pair(o[4], o[5], inverse);
    unsigned got = __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? a : b, 1);
    if (row < view.q_len && n * 8 + lane % 2 * 8 < call.v_dim)
      *(uint2 *)(to + n * 8) = lane % 2 ? make_uint2(got, b) : make_uint2(a, got);
  }
}
#endif

/* Divides O by the row sum and stores it. A row without keys is 0; one whose every score is −∞ is NaN. */
__device__ inline void epilogue(const attention_call &call, const tensor_maps &tensor_maps, const consumer_state &c, const work_item &item,
                              const row_span &sp, unsigned out, float factor)
{
  head_view view = view_head(call, item.batch, item.head);
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = c.row_sum[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    int row = row_of(sp, half);
    key_range keys = keys_of_row(call, view, row);
    inverse[half] = keys.first >= keys.end ? 0.0f : 1.0f / sum;
    if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
      view.lse[row * call.lse_at.row] = (c.row_max[half] * factor + log2f(sum)) * LN_2;
#ifndef HR_STAGE_O
    store_o_row(call, view, c, sp, half, inverse[half]);
#endif
  }
#ifdef HR_STAGE_O
  store_o(tensor_maps, c, item, sp, out, inverse);
#endif
}

/* ---- the kernel ---- */

__device__ inline void clear_accumulators(consumer_state &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] = 0;
  c.row_max[0] = c.row_max[1] = minus_infinity();
  c.row_sum[0] = c.row_sum[1] = 0;
}

/* Releases tiles that no row of the warpgroup sees; in the first `turns` of them it takes part in the ping-pong. Every lane waits for
 * itself: a late lane must have seen a stage full before its warp releases it, or it waits forever once the stage is full again. */
__device__ inline void skip_tiles(const consumer_state &c, kv_pipeline &t, int count, int turns)
{
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    if (i < turns) {
      ping_pong_wait(c);
      ping_pong_signal(c);
    }
    mbarrier_wait(mbarrier_at(K_FULL + t.stage), t.phase);
    __syncwarp();
    release_stage(K_EMPTY + t.stage);
    mbarrier_wait(mbarrier_at(V_FULL + t.stage), t.phase);
    __syncwarp();
    release_stage(V_EMPTY + t.stage);
    t.next();
  }
}

/* S of a tile beside P V of the tile before (`t`), whose softmax is done; then the softmax of the tile. */
template <bool MASKED>
__device__ inline void attend_tile(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c,
                                   unsigned q, int q_empty, kv_pipeline &t, int tile, float factor)
{
  kv_pipeline next = t, before = t;
  next.next();
  ping_pong_wait(c);
  wgmma_fence();
  issue_qk(c, q, next.stage);
  mbarrier_wait(mbarrier_at(V_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_pv(c, t.stage);
  ping_pong_signal(c);
  wgmma_wait<1>();
  release_stage(K_EMPTY + next.stage);
  if (tile == sp.first_tile)
    release_stage(q_empty);
  modify_scores(call, item, sp, c, tile);
  if (MASKED)
    mask_scores(call, item, sp, c, tile);
  online_softmax(c, factor);
  t = next;
  next.next();
  if (tile > sp.first_tile) /* here, as the compiler moves the next wait up to the last branch before it */
    mbarrier_wait(mbarrier_at(K_FULL + next.stage), next.phase);
  wgmma_wait<0>();
  release_stage(V_EMPTY + before.stage);
  rescale_out(c);
  convert_p(c);
}

/* All K/V tiles of a work item that the warpgroup sees, at least one. */
__device__ inline void attend(const attention_call &call, const work_item &item, const row_span &sp, consumer_state &c, unsigned q,
                              int q_empty, kv_pipeline &t, float factor)
{
  int tile = sp.end_tile - 1;
  mbarrier_wait(mbarrier_at(K_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_qk(c, q, t.stage);
  wgmma_wait<0>();
  release_stage(K_EMPTY + t.stage);
  if (tile == sp.first_tile)
    release_stage(q_empty);
  modify_scores(call, item, sp, c, tile);
  mask_scores(call, item, sp, c, tile);
  online_softmax(c, factor);
  convert_p(c);
  kv_pipeline next = t;
  next.next();
  if (tile > sp.first_tile)
    mbarrier_wait(mbarrier_at(K_FULL + next.stage), next.phase);
  tile--;
#if defined(HR_WINDOW) || defined(HR_SCORE_MOD) /* one loop, to compile less */
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#else
#ifdef HR_CAUSAL
#pragma unroll 1
  for (; tile >= sp.first_tile && tile >= sp.end_unmasked; tile--)
    attend_tile<true>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
#pragma unroll 1
  for (; tile >= sp.first_tile; tile--)
    attend_tile<false>(call, item, sp, c, q, q_empty, t, tile, factor);
#endif
  mbarrier_wait(mbarrier_at(V_FULL + t.stage), t.phase);
  wgmma_fence();
  issue_pv(c, t.stage);
  wgmma_wait<0>();
  release_stage(V_EMPTY + t.stage);
  t.next();
}

__device__ inline void consume(const attention_call &call, const tensor_maps &tensor_maps)
{
  consumer_state c;
  c.group = uniform(threadIdx.x / 128);
  float factor = softmax_factor(call);
  kv_pipeline t = {0, 0};
  q_pipeline q = {0, 0};
  item_pipeline work_items = {0, 0};
#ifdef HR_PING_PONG
  if (c.group == HR_CONSUMERS - 1)
    ping_pong_signal(c);
#endif
#pragma unroll 1
  for (work_item item = receive_item(call, work_items); item.batch >= 0; item = receive_item(call, work_items)) {
    int at = q.stage * HR_CONSUMERS + c.group, tiles = item.end_tile - item.first_tile;
    row_span sp = span_of(call, c, item);
    clear_accumulators(c);
    mbarrier_wait(mbarrier_at(Q_FULL + at), q.phase);
    if (sp.first_tile < sp.end_tile) {
      skip_tiles(c, t, item.end_tile - sp.end_tile, tiles);
      attend(call, item, sp, c, shared_address(shared) + at * Q_BYTES, Q_EMPTY + at, t, factor);
      skip_tiles(c, t, sp.first_tile - item.first_tile, tiles);
    } else {
      skip_tiles(c, t, tiles, tiles - 1);
      __syncwarp();
      release_stage(Q_EMPTY + at);
    }
    epilogue(call, tensor_maps, c, item, sp, shared_address(shared) + O_AT + c.group * O_BYTES, factor);
    q.next();
  }
#ifdef HR_STAGE_O
  if (threadIdx.x % 32 == 0)
    tma_store_wait();
#endif
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention(const __grid_constant__ attention_call call,
                                                                   const __grid_constant__ tensor_maps tensor_maps)
{
  if (threadIdx.x == 0)
    init_mbarriers();
  __syncthreads();
  if (threadIdx.x < 128 * HR_CONSUMERS) {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consume(call, tensor_maps);
  } else {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    produce(call, tensor_maps, threadIdx.x / 32 - 4 * HR_CONSUMERS);
  }
}
