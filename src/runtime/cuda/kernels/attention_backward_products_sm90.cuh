/* SPDX-License-Identifier: Apache-2.0 */
/* Consumer warpgroups of attention_backward_sm90.cu that share a K/V tile of 64 keys by its products, for large heads:
 * warpgroup 0 does Sᵀ, P and dV, warpgroup 1 dPᵀ, dS and dK, each a part of dQ. */

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

__device__ inline void receive_p(float (&s)[HR_Q_TILE / 2], unsigned &phase)
{
  mbarrier_wait_long(mbarrier_at(P_FULL), phase);
#pragma unroll
  for (int i = 0; i < HR_Q_TILE / 8; i++) {
    float4 four = load_shared(p_of_thread() + i * 2048);
    s[4 * i] = four.x;
    s[4 * i + 1] = four.y;
    s[4 * i + 2] = four.z;
    s[4 * i + 3] = four.w;
  }
  phase ^= 1;
}

/* FIRST: there is no tile before, whose dQ is computed. */
template <bool MASKED, bool FIRST>
__device__ inline void score_tile(const attention_call &call, const backward_call &backward, const work_item &item,
                                  float (&dv)[HR_V / 2], consumer_pipelines &t, const tile_context &c, int tile)
{
  float s[HR_Q_TILE / 2], dq[HR_DQ_FIRST / 2];
  unsigned p[TILE_WORDS];
  ds_pipeline before = t.ds;
  before.before();
  mbarrier_wait_long(mbarrier_at(Q_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_QK, s, c.k + (tile >> 30), q_at(t.q.stage));
  wgmma_wait<0>();
  find_p<MASKED>(call, place_of(call, item, c.head, c.first_key, tile), s, p, terms_at(t.q.stage));
  hand_over_p(s, t.p_phase);
  arrive_of_warp(Q_EMPTY + t.q.stage);
  if (!FIRST) {
    mbarrier_wait_long(mbarrier_at(DS_FULL + before.stage), before.phase);
    wgmma_fence();
    ISSUE_DQ(HR_DQ_FIRST, dq, ds_part(before.stage, 0), k_part(0) + (tile >> 30));
  }
  mbarrier_wait_long(mbarrier_at(DO_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_GRADIENT(HR_V, dv, p, do_at(t.q.stage));
  if (!FIRST) {
    wgmma_wait<1>();
    arrive_of_warp(DS_EMPTY + before.stage);
    add_dq<HR_DQ_FIRST>(call, backward, item, dq, c.head, tile - 1, 0);
  }
  wgmma_wait<0>();
  arrive_of_warp(DO_EMPTY + t.q.stage);
  t.q.next();
  t.ds.next();
}

template <bool FIRST>
__device__ inline void gradient_tile(const attention_call &call, const backward_call &backward, const work_item &item,
                                     float (&dk)[HR_QK / 2], consumer_pipelines &t, const tile_context &c, int tile)
{
  float s[HR_Q_TILE / 2], dp[HR_Q_TILE / 2];
  unsigned ds[TILE_WORDS];
  ds_pipeline before = t.ds;
  before.before();
  mbarrier_wait_long(mbarrier_at(DO_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_V, dp, c.v + (tile >> 30), do_at(t.q.stage));
  mbarrier_wait_long(mbarrier_at(Q_FULL + t.q.stage), t.q.phase);
  wgmma_wait<0>();
  arrive_of_warp(DO_EMPTY + t.q.stage);
  receive_p(s, t.p_phase);
  find_ds(s, dp, ds, terms_at(t.q.stage));
  __syncwarp();
  arrive_of_warp(P_EMPTY);
  hand_over_ds(ds, 0, t.ds);
#if HR_DQ_SECOND > 0
  float dq[HR_DQ_SECOND / 2];
  if (!FIRST) {
    mbarrier_wait_long(mbarrier_at(DS_FULL + before.stage), before.phase);
    wgmma_fence();
    ISSUE_DQ(HR_DQ_SECOND, dq, ds_part(before.stage, 1), k_part(1) + (tile >> 30));
  }
#endif
  wgmma_fence();
  ISSUE_GRADIENT(HR_QK, dk, ds, q_at(t.q.stage));
  if (!FIRST) {
    wgmma_wait<1>();
    arrive_of_warp(DS_EMPTY + before.stage);
#if HR_DQ_SECOND > 0
    add_dq<HR_DQ_SECOND>(call, backward, item, dq, c.head, tile - 1, 1);
#endif
  }
  wgmma_wait<0>();
  arrive_of_warp(Q_EMPTY + t.q.stage);
  t.q.next();
  t.ds.next();
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

__device__ inline void score_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                  float (&dv)[HR_V / 2], consumer_pipelines &t, const tile_context &c)
{
  score_tile<true, true>(call, backward, item, dv, t, c, item.first_tile);
#pragma unroll 1
  for (int tile = item.first_tile + 1; tile < item.end_tile; tile++)
    if (is_masked(call, item, c.first_key, tile))
      score_tile<true, false>(call, backward, item, dv, t, c, tile);
    else
      score_tile<false, false>(call, backward, item, dv, t, c, tile);
  end_head<0>(call, backward, item, t, c);
}

__device__ inline void gradient_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                     float (&dk)[HR_QK / 2], consumer_pipelines &t, const tile_context &c)
{
  gradient_tile<true>(call, backward, item, dk, t, c, item.first_tile);
#pragma unroll 1
  for (int tile = item.first_tile + 1; tile < item.end_tile; tile++)
    gradient_tile<false>(call, backward, item, dk, t, c, tile);
  end_head<1>(call, backward, item, t, c);
}

/* Waits for K and V where a head is the first of theirs. */
__device__ inline void begin_head(const attention_call &call, const work_item &item, consumer_pipelines &t, int head)
{
  bool seen = item.first_tile < item.end_tile;
  if (begins_group(item, head, call.k_group)) {
    if (seen)
      mbarrier_wait_long(mbarrier_at(K_FULL), t.k_phase);
    t.k_phase ^= 1;
  }
  if (begins_group(item, head, call.v_group)) {
    if (seen)
      mbarrier_wait_long(mbarrier_at(V_FULL), t.v_phase);
    t.v_phase ^= 1;
  }
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

__device__ inline void consume_scores(const attention_call &call, const backward_call &backward, const work_item &item)
{
  float dv[HR_V / 2];
  consumer_pipelines t = {};
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    const tile_context c = {head, 0, item.first_key, memory_at(0), memory_at(V_AT)};
    if (begins_group(item, head, call.v_group))
      clear(dv);
    begin_head(call, item, t, head);
    if (item.first_tile < item.end_tile)
      score_head(call, backward, item, dv, t, c);
    release_kv(call, backward, item, head);
    if (ends_group(backward, item, head, call.v_group))
      write_dv(call, backward, item, dv, head / call.v_group, 0);
  }
}

__device__ inline void consume_gradients(const attention_call &call, const backward_call &backward,
                                         const work_item &item)
{
  float dk[HR_QK / 2];
  consumer_pipelines t = {};
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    const tile_context c = {head, 1, item.first_key, memory_at(0), memory_at(V_AT)};
    if (begins_group(item, head, call.k_group))
      clear(dk);
    begin_head(call, item, t, head);
    if (item.first_tile < item.end_tile)
      gradient_head(call, backward, item, dk, t, c);
    release_kv(call, backward, item, head);
    if (ends_group(backward, item, head, call.k_group))
      write_dk(call, backward, item, dk, head / call.k_group, 0);
  }
}

__device__ inline void consume(const attention_call &call, const backward_call &backward, const work_item &item,
                               int group)
{
  if (group == 0)
    consume_scores(call, backward, item);
  else
    consume_gradients(call, backward, item);
}
