/* SPDX-License-Identifier: Apache-2.0 */
/* Consumer warpgroups of attention_backward_sm90.cu that share a K/V tile of 64 keys by its products, for large heads:
 * warpgroup 0 does Sᵀ, P and dV, warpgroup 1 dPᵀ, dS and dK, each a part of dQ. The order of a tile's products is in
 * attention_backward_products_ahead_sm90.cuh, or where registers allow none ahead _in_turn_sm90.cuh. */

/* P of a thread of warpgroup 0 for the same thread of warpgroup 1, in fp32. */
__device__ inline unsigned p_of_thread()
{
  return memory_at(P_AT) + threadIdx.x % 128 * 16;
}

__device__ inline void hand_over_p(const float (&s)[HR_Q_TILE / 2], unsigned &phase)
{
  mbarrier_wait_long(mbarrier_at(P_EMPTY), phase ^ 1);
#pragma unroll
  for (int i = 0; i < HR_Q_TILE / 8; i++)
    store_shared(p_of_thread() + i * 2048, make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]));
  __syncwarp();
  arrive_of_warp(P_FULL);
  phase ^= 1;
}

/* dPᵀ becomes dS. */
__device__ inline void receive_p(float (&dp)[HR_Q_TILE / 2], unsigned terms, unsigned &phase)
{
  mbarrier_wait_long(mbarrier_at(P_FULL), phase);
#pragma unroll
  for (int n = 0; n < HR_Q_TILE / 8; n++) {
    float4 p = load_shared(p_of_thread() + n * 2048);
    float2 delta = row_terms_at(terms, n, 8);
    dp[4 * n] = p.x * (dp[4 * n] - delta.x);
    dp[4 * n + 1] = p.y * (dp[4 * n + 1] - delta.y);
    dp[4 * n + 2] = p.z * (dp[4 * n + 2] - delta.x);
    dp[4 * n + 3] = p.w * (dp[4 * n + 3] - delta.y);
  }
  phase ^= 1;
  __syncwarp();
  arrive_of_warp(P_EMPTY);
}

/* The A operand of a thread. */
__device__ inline void pack(const float (&values)[HR_Q_TILE / 2], unsigned (&words)[TILE_WORDS])
{
#pragma unroll
  for (int i = 0; i < TILE_WORDS; i++)
    words[i] = pack_pair(values[2 * i], values[2 * i + 1]);
}

/* dQ of a head's last tile. */
template <int GROUP>
__device__ inline void end_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                const consumer_pipelines &t, const tile_context &c)
{
  ds_pipeline last = t.ds;
  last.before();
  mbarrier_wait_long(mbarrier_at(DS_FULL + last.stage), last.phase);
  if (GROUP == 0) {
    float dq[HR_DQ_FIRST / 2];
    wgmma_fence();
    ISSUE_DQ(HR_DQ_FIRST, dq, ds_part(last.stage, 0), k_part(0));
    wgmma_wait<0>();
    add_dq<HR_DQ_FIRST>(call, backward, item, dq, c.head, item.end_tile - 1, 0);
    end_last_turn(call, backward, item, c.head, 0);
  }
#if HR_DQ_SECOND > 0
  if (GROUP == 1) {
    float dq[HR_DQ_SECOND / 2];
    wgmma_fence();
    ISSUE_DQ(HR_DQ_SECOND, dq, ds_part(last.stage, 1), k_part(1));
    wgmma_wait<0>();
    add_dq<HR_DQ_SECOND>(call, backward, item, dq, c.head, item.end_tile - 1, 1);
    end_last_turn(call, backward, item, c.head, 1);
  }
#endif
  __syncwarp();
  arrive_of_warp(DS_EMPTY + last.stage);
}

#ifdef HR_AHEAD
#include "runtime/cuda/kernels/attention_backward_products_ahead_sm90.cuh"
#else
#include "runtime/cuda/kernels/attention_backward_products_in_turn_sm90.cuh"
#endif

/* Waits for K and V where a head is the first of theirs. */
__device__ inline void begin_head(const attention_call &call, const work_item &item, consumer_pipelines &t, int head)
{
  if (begins_group(item, head, call.k_group))
    wait_for_kv(K_FULL, t.k_phase);
  if (begins_group(item, head, call.v_group))
    wait_for_kv(V_FULL, t.v_phase);
  __syncwarp();
}

__device__ inline void release_kv(const attention_call &call, const backward_call &backward, const work_item &item,
                                  int head)
{
  if (ends_group(backward, item, head, call.k_group))
    arrive_of_warp(K_EMPTY);
  if (ends_group(backward, item, head, call.v_group))
    arrive_of_warp(V_EMPTY);
}

__device__ inline void consume_scores(const attention_call &call, const backward_call &backward, const work_item &item,
                                      consumer_pipelines &t)
{
  float dv[HR_V / 2];
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    const tile_context c = {head, 0, item.first_key, memory_at(0), memory_at(V_AT)};
    if (begins_group(item, head, call.v_group))
      clear(dv);
    if (item.first_tile < item.end_tile) {
      begin_head(call, item, t, head);
      score_head(call, backward, item, dv, t, c);
      release_kv(call, backward, item, head);
    }
    if (ends_group(backward, item, head, call.v_group))
      write_dv(call, backward, item, dv, head / call.v_group, 0);
  }
}

__device__ inline void consume_gradients(const attention_call &call, const backward_call &backward,
                                         const work_item &item, consumer_pipelines &t)
{
  float dk[HR_QK / 2];
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    const tile_context c = {head, 1, item.first_key, memory_at(0), memory_at(V_AT)};
    if (begins_group(item, head, call.k_group))
      clear(dk);
    if (item.first_tile < item.end_tile) {
      begin_head(call, item, t, head);
      gradient_head(call, backward, item, dk, t, c);
      release_kv(call, backward, item, head);
    }
    if (ends_group(backward, item, head, call.k_group))
      write_dk(call, backward, item, dk, head / call.k_group, 0);
  }
}

/* A loop for each warpgroup, so that neither keeps the other's sums. */
__device__ inline void consume(const attention_call &call, const backward_call &backward, int group)
{
  consumer_pipelines t = {};
  work_item item;
  if (group == 0) {
#pragma unroll 1
    while (next_item(call, backward, t, item))
      consume_scores(call, backward, item, t);
  } else {
#pragma unroll 1
    while (next_item(call, backward, t, item))
      consume_gradients(call, backward, item, t);
  }
}
