/* SPDX-License-Identifier: Apache-2.0 */
/* Latent attention's decode on Hopper (sm_90a): WGMMA, TMA, split-KV with equal shares; fp16 and bf16.
 *
 *   teams of one block per row block (64 rows: query heads × queries) share the batch's pairs of 64-key tiles equally
 *   K tile: its first V columns are V; each is loaded once and read as K (K-major) and as V (MN-major)
 *   ┌ consumer warpgroup A: S of tile a, online softmax │ O left  += P_a V_a left,  then += P_b V_b left
 *   ├ consumer warpgroup B: S of tile b, online softmax │ O right += P_a V_a right, then += P_b V_b right
 *   └ producer warpgroup: a warp for each half of the two K tiles (TMA)
 *
 *   registers (setmaxnreg)   232 of a consumer thread (O 128, S 32, P 16), 40 of a producer
 *   shared memory            Q 72 KiB, two K tiles of 72 KiB at head size 576; P takes over the panel behind V's of its
 *   tile
 *
 * While one warpgroup is in its softmax the other's WGMMAs run. Both add P_a V_a with the row bases up to tile a, and
 * P_b V_b with those up to tile b. A half of a tile is loaded again as soon as its last reader is done.
 *
 * HR_BOX: keys of a TMA copy, which divide a page. HR_SCORE_MOD: scores are capped or the scale is negative.
 * Parts of sequences that several teams share are combined by a second kernel, in order.
 *
 * Bound: memory bandwidth up to 64 rows, WGMMA from 128 on. Numbers, and what was tried and lost:
 * docs/notes/decode-latent-gpu.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#include "runtime/cuda/kernels/decode_latent_layout.h"
#include "runtime/cuda/kernels/decode_latent_tiles.cuh"
#include "runtime/cuda/kernels/softmax_base.cuh"
#include "runtime/cuda/kernels/decode_latent_consumer.cuh"

#define PRODUCER_REGISTERS 40
#define CONSUMER_REGISTERS 232

/* ---- pairs of tiles ---- */

__device__ inline void wait_half(int buffer, int half, unsigned phase)
{
  mbarrier_wait(mbarrier_at(K_FULL + buffer * HALVES + half), phase);
}

/* Warpgroup A, whose scores of tile a are computed, up to P_b V_b, which it issues. */
__device__ inline void attend_a(const latent_call &call, const work_item &item, consumer_state &c, float factor)
{
  float base[2], rescale[2];
  update_bases(call, item, c, 2 * item.pair, factor, rescale);
  exponentials(c, 0, factor);
  exponentials(c, 1, factor);
  rescale_out(c, rescale);
  wgmma_fence();
  issue_own_pv<0>(c);
  store_p<0>(c);
  write_rows(BASE_A, c.base);
  named_barrier_arrive(A_READY, CONSUMER_THREADS);
  wgmma_wait<0>();
  release(K_EMPTY + EARLY);
  named_barrier_sync(B_READY, CONSUMER_THREADS);
  read_rows(BASE_B, base);
  change_base(c, base, rescale);
  rescale_out(c, rescale);
  wgmma_fence();
  issue_other_pv<0>(c);
}

/* All pairs of an item; `phase`: of the K tiles. */
__device__ inline void attend_item_a(const latent_call &call, work_item &item, consumer_state &c, unsigned &phase,
                                     float factor)
{
  wait_half(0, EARLY, phase);
  wgmma_fence();
  issue_qk<0, EARLY>(c);
  wait_half(0, LATE, phase);
  wgmma_fence();
  issue_qk<0, LATE>(c);
  wgmma_wait<0>();
#pragma unroll 1
  for (; item.pair + 1 < item.end; item.pair++) {
    phase ^= 1;
    attend_a(call, item, c, factor);
    wait_half(0, EARLY, phase);
    wgmma_fence();
    issue_qk<0, EARLY>(c);
    wgmma_wait<1>();
    release(K_EMPTY + HALVES + LATE);
    wait_half(0, LATE, phase);
    wgmma_fence();
    issue_qk<0, LATE>(c);
    wgmma_wait<0>();
  }
  release(Q_EMPTY);
  phase ^= 1;
  attend_a(call, item, c, factor);
  wgmma_wait<0>();
  release(K_EMPTY + HALVES + LATE);
}

/* Warpgroup B adds P_a V_a with A's bases, while its own scores are computed, and then P_b V_b. */
__device__ inline void attend_b(const latent_call &call, const work_item &item, consumer_state &c, unsigned phase,
                                float factor)
{
  float base[2], rescale[2];
  wait_half(1, EARLY, phase);
  wgmma_fence();
  issue_qk<1, EARLY>(c);
  wait_half(1, LATE, phase);
  wgmma_fence();
  issue_qk<1, LATE>(c);
  named_barrier_sync(A_READY, CONSUMER_THREADS);
  read_rows(BASE_A, base);
  change_base(c, base, rescale);
  wgmma_wait<0>();
  rescale_out(c, rescale);
  wgmma_fence();
  issue_other_pv<1>(c);
  update_bases(call, item, c, 2 * item.pair + 1, factor, rescale);
  exponentials(c, 0, factor);
  wait_half(1, LATE, phase); /* is over; the compiler moves the next wait up to the last branch before it */
  wgmma_wait<0>();
  release(K_EMPTY + LATE);
  exponentials(c, 1, factor);
  rescale_out(c, rescale);
  wgmma_fence();
  issue_own_pv<1>(c);
  store_p<1>(c);
  write_rows(BASE_B, c.base);
  named_barrier_arrive(B_READY, CONSUMER_THREADS);
  wgmma_wait<0>();
  release(K_EMPTY + HALVES + EARLY);
}

__device__ inline void attend_item_b(const latent_call &call, work_item &item, consumer_state &c, unsigned &phase,
                                     float factor)
{
#pragma unroll 1
  for (; item.pair < item.end; item.pair++, phase ^= 1)
    attend_b(call, item, c, phase, factor);
  release(Q_EMPTY);
}

#include "runtime/cuda/kernels/decode_latent_combine.cuh"

/* ---- the kernel ---- */

template <int GROUP> __device__ inline void consume(const latent_call &call)
{
  float factor = softmax_factor(call);
  unsigned phase = 0, q_phase = 0;
  work_item item = first_item(call);
  if (item.pair == item.end)
    return;
  do {
    consumer_state c;
#pragma unroll
    for (int i = 0; i < V_HALF / 2; i++)
      c.out[i] = 0;
    c.base[0] = c.base[1] = minus_infinity();
    c.sum[0] = c.sum[1] = 0;
    c.unmasked = find_unmasked(call, item);
    mbarrier_wait(mbarrier_at(Q_FULL), q_phase);
    q_phase ^= 1;
    if (GROUP == 0)
      attend_item_a(call, item, c, phase, factor);
    else
      attend_item_b(call, item, c, phase, factor);
    store_item<GROUP>(call, item, c);
  } while (next_item(call, item));
}

/* Rows behind the Q tile's last are 0: they cost less power than NaN, and Q is copied without them. */
__device__ inline void clear_q_rows()
{
  for (int panel = 0; panel < Q_PANELS; panel++)
    for (int i = USED_ROWS * (PANEL_ROW / 16) + threadIdx.x; i < PANEL_BYTES / 16; i += blockDim.x)
      ((uint4 *)(shared + panel * PANEL_BYTES))[i] = make_uint4(0, 0, 0, 0);
  fence_proxy_async();
}

extern "C" __global__ __launch_bounds__(CONSUMER_THREADS + 128, 1) void decode(const __grid_constant__ latent_call call,
                                                                               const __grid_constant__ tensor_maps maps)
{
  if (threadIdx.x == 0)
    init_mbarriers();
  if (threadIdx.x % 128 == 0) {
    prefetch_tensor_map(maps.q);
    prefetch_tensor_map(maps.k);
  }
  clear_q_rows();
  __syncthreads();
  int group = uniform(threadIdx.x / 128);
  if (group == 2) {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    produce(call, maps, threadIdx.x / 32 - 8);
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    if (group == 0)
      consume<0>(call);
    else
      consume<1>(call);
  }
}
