/* SPDX-License-Identifier: Apache-2.0 */
/* Consumer warpgroups of attention_backward_sm90.cu that share a K/V tile by its keys: each does all products of its
 * 64 keys, and a part of dQ. */

struct gradients {
  float dk[HR_QK / 2], dv[HR_V / 2];
};

/* dQ is of the tile before, so that the warpgroups need not wait for each other; FIRST: there is none. */
template <bool MASKED, bool FIRST>
__device__ inline void backward_tile(const attention_call &call, const backward_call &backward, const work_item &item,
                                     gradients &g, consumer_pipelines &t, const tile_context &c, int tile)
{
  float s[HR_Q_TILE / 2], dp[HR_Q_TILE / 2], dq[HR_DQ_FIRST / 2];
  unsigned k = c.k + (tile >> 30), v = c.v + (tile >> 30); /* 0, so that descriptors are not kept in registers */
  unsigned p[TILE_WORDS], ds[TILE_WORDS];
  ds_pipeline before = t.ds;
  before.before();
  mbarrier_wait_long(mbarrier_at(Q_FULL + t.q.stage), t.q.phase);
  wgmma_fence();
  ISSUE_SCORES(HR_QK, s, k, q_at(t.q.stage));
  mbarrier_wait_long(mbarrier_at(DO_FULL + t.q.stage), t.q.phase);
  ISSUE_SCORES(HR_V, dp, v, do_at(t.q.stage));
  wgmma_wait<1>();
  find_p<MASKED>(call, place_of(call, item, c.head, c.first_key, tile), s, p, terms_at(t.q.stage));
  wgmma_wait<0>();
  find_ds(s, dp, ds, terms_at(t.q.stage));
  wgmma_fence();
  ISSUE_GRADIENT(HR_V, g.dv, p, do_at(t.q.stage));
  hand_over_ds(ds, c.group, t.ds);
  if (!FIRST) {
    mbarrier_wait_long(mbarrier_at(DS_FULL + before.stage), before.phase);
    wgmma_fence();
    ISSUE_DQ(HR_DQ_FIRST, dq, ds_part(before.stage, c.group), k_part(c.group) + (tile >> 30));
  }
  ISSUE_GRADIENT(HR_QK, g.dk, ds, q_at(t.q.stage));
  wgmma_wait<1>();
  arrive_of_warp(DO_EMPTY + t.q.stage);
  if (!FIRST) {
    arrive_of_warp(DS_EMPTY + before.stage);
    add_dq<HR_DQ_FIRST>(call, backward, item, dq, c.head, tile - 1, c.group);
  }
  wgmma_wait<0>();
  arrive_of_warp(Q_EMPTY + t.q.stage);
  t.q.next();
  t.ds.next();
}

__device__ inline void end_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                gradients &g, consumer_pipelines &t, const tile_context &c)
{
  float dq[HR_DQ_FIRST / 2];
  ds_pipeline last = t.ds;
  last.before();
  mbarrier_wait_long(mbarrier_at(DS_FULL + last.stage), last.phase);
  wgmma_fence();
  ISSUE_DQ(HR_DQ_FIRST, dq, ds_part(last.stage, c.group), k_part(c.group));
  wgmma_wait<0>();
  arrive_of_warp(DS_EMPTY + last.stage);
  add_dq<HR_DQ_FIRST>(call, backward, item, dq, c.head, item.end_tile - 1, c.group);
  end_last_turn(call, backward, item, c.head, c.group);
}

__device__ inline void backward_head(const attention_call &call, const backward_call &backward, const work_item &item,
                                     gradients &g, consumer_pipelines &t, const tile_context &c)
{
  backward_tile<true, true>(call, backward, item, g, t, c, item.first_tile);
#pragma unroll 1
  for (int tile = item.first_tile + 1; tile < item.end_tile; tile++)
    if (is_masked(call, item, c.first_key, tile))
      backward_tile<true, false>(call, backward, item, g, t, c, tile);
    else
      backward_tile<false, false>(call, backward, item, g, t, c, tile);
  end_head(call, backward, item, g, t, c);
}

__device__ inline void consume_item(const attention_call &call, const backward_call &backward, const work_item &item,
                                    consumer_pipelines &t, int group)
{
  gradients g;
  int first_key = item.first_key + group * 64;
  bool seen = item.first_tile < item.end_tile;
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    if (begins_group(item, head, call.k_group)) {
      clear(g.dk);
      if (seen)
        wait_for_kv(K_FULL, t.k_phase);
    }
    if (begins_group(item, head, call.v_group)) {
      clear(g.dv);
      if (seen)
        wait_for_kv(V_FULL, t.v_phase);
    }
    if (seen) {
      const tile_context c = {head, group, first_key, memory_at(group * 64 * PANEL_ROW),
                              memory_at(V_AT + group * 64 * PANEL_ROW)};
      backward_head(call, backward, item, g, t, c);
    }
    if (ends_group(backward, item, head, call.k_group)) {
      if (seen)
        arrive_of_warp(K_EMPTY);
      write_dk(call, backward, item, g.dk, head / call.k_group, group);
    }
    if (ends_group(backward, item, head, call.v_group)) {
      if (seen)
        arrive_of_warp(V_EMPTY);
      write_dv(call, backward, item, g.dv, head / call.v_group, group);
    }
  }
}

__device__ inline void consume(const attention_call &call, const backward_call &backward, int group)
{
  consumer_pipelines t = {};
#pragma unroll 1
  for (work_item item; next_item(call, backward, t, item);)
    consume_item(call, backward, item, t, group);
}
