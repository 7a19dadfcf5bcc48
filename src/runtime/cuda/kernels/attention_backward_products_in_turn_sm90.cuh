/* SPDX-License-Identifier: Apache-2.0 */
/* Products of attention_backward_products_sm90.cuh, a tile after the other. */

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
  float dp[HR_Q_TILE / 2];
  unsigned ds[TILE_WORDS];
  ds_pipeline before = t.ds;
  before.before();
  mbarrier_wait_long(mbarrier_at(DO_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_V, dp, c.v + (tile >> 30), do_at(t.q.stage));
  mbarrier_wait_long(mbarrier_at(Q_FULL + t.q.stage), t.q.phase);
  wgmma_wait<0>();
  arrive_of_warp(DO_EMPTY + t.q.stage);
  receive_p(dp, terms_at(t.q.stage), t.p_phase);
  pack(dp, ds);
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
