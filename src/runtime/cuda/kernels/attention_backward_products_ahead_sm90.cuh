/* SPDX-License-Identifier: Apache-2.0 */
/* Products of attention_backward_products_sm90.cuh, a tile ahead: exponentials, dS and additions to dQ of a tile run
 * beside WGMMAs of those before it.
 *
 *   warpgroup 0, tile i     Sᵀ(i + 1) | dQ(i − 1), left | dV += P(i) dO      → P(i + 1)
 *   warpgroup 1, tile i     dPᵀ(i + 1) | dQ(i − 1), right | dK += dS(i) Q    → dS(i + 1)
 *
 * P and dS are packed when no WGMMA reads those before: in other registers, ptxas serializes WGMMAs. FIRST: there is no
 * tile before; LAST: there is none behind. */

__device__ inline void issue_scores(const consumer_pipelines &t, const q_pipeline &at, const tile_context &c, int tile,
                                    float (&s)[HR_Q_TILE / 2])
{
  mbarrier_wait_long(mbarrier_at(Q_FULL + at.stage), at.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_QK, s, c.k + (tile >> 30), q_at(at.stage));
}

template <bool MASKED>
__device__ inline void pass_on_p(const attention_call &call, const work_item &item, const tile_context &c,
                                 consumer_pipelines &t, const q_pipeline &at, int tile, float (&s)[HR_Q_TILE / 2])
{
  unsigned p[TILE_WORDS];
  find_p<MASKED>(call, place_of(call, item, c.head, c.first_key, tile), s, p, terms_at(at.stage));
  hand_over_p(s, t.p_phase);
  arrive_of_warp(Q_EMPTY + at.stage);
}

template <bool MASKED, bool FIRST, bool LAST>
__device__ inline void score_tile(const attention_call &call, const backward_call &backward, const work_item &item,
                                  float (&dv)[HR_V / 2], unsigned (&p)[TILE_WORDS], consumer_pipelines &t,
                                  const tile_context &c, int tile)
{
  float s[HR_Q_TILE / 2], dq[HR_DQ_FIRST / 2];
  ds_pipeline before = t.ds;
  q_pipeline behind = t.q;
  before.before();
  behind.next();
  if (!LAST)
    issue_scores(t, behind, c, tile, s);
  if (!FIRST) {
    mbarrier_wait_long(mbarrier_at(DS_FULL + before.stage), before.phase);
    wgmma_fence();
    ISSUE_DQ(HR_DQ_FIRST, dq, ds_part(before.stage, 0), k_part(0) + (tile >> 30));
  }
  mbarrier_wait_long(mbarrier_at(DO_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_GRADIENT(HR_V, dv, p, do_at(t.q.stage));
  if (!LAST) {
    wgmma_wait<FIRST ? 1 : 2>();
    pass_on_p<MASKED>(call, item, c, t, behind, tile + 1, s);
  }
  if (!FIRST) {
    wgmma_wait<1>();
    arrive_of_warp(DS_EMPTY + before.stage);
    add_dq<HR_DQ_FIRST>(call, backward, item, dq, c.head, tile - 1, 0);
  }
  wgmma_wait<0>();
  arrive_of_warp(DO_EMPTY + t.q.stage);
  t.q = behind;
  t.ds.next();
  if (!LAST)
    pack(s, p);
}

__device__ inline void issue_gradients(const q_pipeline &at, const tile_context &c, int tile,
                                       float (&dp)[HR_Q_TILE / 2])
{
  mbarrier_wait_long(mbarrier_at(DO_FULL + at.stage), at.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_V, dp, c.v + (tile >> 30), do_at(at.stage));
}

/* dPᵀ, which is there, becomes dS. Q has come, too, with the row terms. */
__device__ inline void take_p(consumer_pipelines &t, const q_pipeline &at, float (&dp)[HR_Q_TILE / 2])
{
  arrive_of_warp(DO_EMPTY + at.stage);
  mbarrier_wait_long(mbarrier_at(Q_FULL + at.stage), at.phase);
  receive_p(dp, terms_at(at.stage), t.p_phase);
}

template <bool FIRST, bool LAST>
__device__ inline void gradient_tile(const attention_call &call, const backward_call &backward, const work_item &item,
                                     float (&dk)[HR_QK / 2], unsigned (&ds)[TILE_WORDS], consumer_pipelines &t,
                                     const tile_context &c, int tile)
{
  float dp[HR_Q_TILE / 2];
  ds_pipeline before = t.ds;
  q_pipeline behind = t.q;
  before.before();
  behind.next();
  if (!LAST)
    issue_gradients(behind, c, tile, dp);
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
  if (!LAST) {
    wgmma_wait<FIRST || HR_DQ_SECOND == 0 ? 1 : 2>();
    take_p(t, behind, dp);
  }
  if (!FIRST) {
#if HR_DQ_SECOND > 0
    wgmma_wait<1>();
#endif
    arrive_of_warp(DS_EMPTY + before.stage);
  }
#if HR_DQ_SECOND > 0
  if (!FIRST)
    add_dq<HR_DQ_SECOND>(call, backward, item, dq, c.head, tile - 1, 1);
#endif
  wgmma_wait<0>();
  arrive_of_warp(Q_EMPTY + t.q.stage);
  t.q = behind;
  t.ds.next();
  if (!LAST) {
    pack(dp, ds);
    hand_over_ds(ds, 0, t.ds);
  }
}

template <bool FIRST>
__device__ inline void score_tile_of(const attention_call &call, const backward_call &backward, const work_item &item,
                                     float (&dv)[HR_V / 2], unsigned (&p)[TILE_WORDS], consumer_pipelines &t,
                                     const tile_context &c, int tile)
{
  if (tile + 1 == item.end_tile)
    score_tile<false, FIRST, true>(call, backward, item, dv, p, t, c, tile);
  else if (is_masked(call, item, c.first_key, tile + 1))
    score_tile<true, FIRST, false>(call, backward, item, dv, p, t, c, tile);
  else
    score_tile<false, FIRST, false>(call, backward, item, dv, p, t, c, tile);
}

__device__ inline void score_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                  float (&dv)[HR_V / 2], consumer_pipelines &t, const tile_context &c)
{
  float s[HR_Q_TILE / 2];
  unsigned p[TILE_WORDS];
  issue_scores(t, t.q, c, item.first_tile, s);
  wgmma_wait<0>();
  pass_on_p<true>(call, item, c, t, t.q, item.first_tile, s);
  pack(s, p);
  score_tile_of<true>(call, backward, item, dv, p, t, c, item.first_tile);
#pragma unroll 1
  for (int tile = item.first_tile + 1; tile < item.end_tile; tile++)
    score_tile_of<false>(call, backward, item, dv, p, t, c, tile);
  end_head<0>(call, backward, item, t, c);
}

template <bool FIRST>
__device__ inline void gradient_tile_of(const attention_call &call, const backward_call &backward,
                                        const work_item &item, float (&dk)[HR_QK / 2], unsigned (&ds)[TILE_WORDS],
                                        consumer_pipelines &t, const tile_context &c, int tile)
{
  if (tile + 1 == item.end_tile)
    gradient_tile<FIRST, true>(call, backward, item, dk, ds, t, c, tile);
  else
    gradient_tile<FIRST, false>(call, backward, item, dk, ds, t, c, tile);
}

__device__ inline void gradient_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                     float (&dk)[HR_QK / 2], consumer_pipelines &t, const tile_context &c)
{
  float dp[HR_Q_TILE / 2];
  unsigned ds[TILE_WORDS];
  issue_gradients(t.q, c, item.first_tile, dp);
  wgmma_wait<0>();
  take_p(t, t.q, dp);
  pack(dp, ds);
  hand_over_ds(ds, 0, t.ds);
  gradient_tile_of<true>(call, backward, item, dk, ds, t, c, item.first_tile);
#pragma unroll 1
  for (int tile = item.first_tile + 1; tile < item.end_tile; tile++)
    gradient_tile_of<false>(call, backward, item, dk, ds, t, c, tile);
  end_head<1>(call, backward, item, t, c);
}
