/* SPDX-License-Identifier: Apache-2.0 */
/* The producer warp of attention_backward_sm90.cu: it loads K and V, and Q, dO and row terms, by TMA. */

/* Zeroes rows behind the end of a variable-length sequence, which belong to the next: 0 · NaN is NaN. */
__device__ inline void clear_rows(unsigned at, int panels, int panel_bytes, int rows)
{
  unsigned char *tile = shared + (at - shared_address(shared));
#pragma unroll 1
  for (int panel = 0; panel < panels; panel++)
#pragma unroll 1
    for (int i = rows * (PANEL_ROW / 16) + threadIdx.x % 32; i < panel_bytes / 16; i += 32)
      ((uint4 *)(tile + panel * panel_bytes))[i] = make_uint4(0, 0, 0, 0);
  fence_proxy_async();
  __syncwarp();
}

/* A tile of one head: where it goes, and from which row of the tensor on. */
struct tile_load {
  unsigned to;
  int panels, panel_bytes, head, row, entry;
  int rows; /* of the sequence, from the first of the tile on */
};

__device__ inline void start_load(const tensor_map &map, const tile_load &t, unsigned barrier)
{
  for (int panel = 0; panel < t.panels; panel++)
    tma_load(t.to + panel * t.panel_bytes, map, barrier, panel * PANEL, t.head, t.row, t.entry);
}

/* Loads a tile, and `bytes` from `beside`, when `empty` allows. Called by a warp. */
__device__ inline void load_tile(const tensor_map &map, const tile_load &t, int full, int empty, unsigned parity,
                                 unsigned &loaded_phase, const float *beside = nullptr, unsigned beside_to = 0,
                                 int bytes = 0)
{
#ifdef HR_VARLEN
  bool clears = t.rows * PANEL_ROW < t.panel_bytes;
#else
  const bool clears = false;
#endif
  unsigned barrier = mbarrier_at(clears ? LOADED : full);
  mbarrier_wait_long(mbarrier_at(empty), parity);
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    mbarrier_arrive_expect_tx(barrier, t.panels * t.panel_bytes + bytes);
    start_load(map, t, barrier);
    if (bytes > 0)
      bulk_load(beside_to, beside, bytes, barrier);
  }
  __syncwarp();
#ifdef HR_VARLEN
  if (clears) {
    mbarrier_wait_long(barrier, loaded_phase);
    loaded_phase ^= 1;
    clear_rows(t.to, t.panels, t.panel_bytes, max(0, t.rows));
    arrive_of_warp(full);
  }
#endif
}

struct producer_state {
  q_pipeline q;
  unsigned k_phase, v_phase, loaded_phase;
};

__device__ inline void load_q(const attention_call &call, const backward_call &backward, const tensor_maps &maps,
                              const work_item &item, int head, int tile, producer_state &p)
{
  int first = tile * HR_Q_TILE;
  tile_load t = {memory_at(Q_AT + p.q.stage * Q_BYTES), PANELS(HR_QK),  Q_PANEL,
                 head, item.q_first + first, entry_of(item), item.q_len - first};
  const float *terms =
      backward.row_terms + q_tile_of(call, backward, item.batch, item.q_first, head, tile) * (2 * HR_Q_TILE);
  load_tile(maps.q, t, Q_FULL + p.q.stage, Q_EMPTY + p.q.stage, p.q.phase ^ 1, p.loaded_phase, terms,
            memory_at(TERMS_AT + p.q.stage * TERMS_BYTES), TERMS_BYTES);
}

__device__ inline void load_do(const tensor_maps &maps, const work_item &item, int head, int tile, producer_state &p)
{
  int first = tile * HR_Q_TILE;
  tile_load t = {memory_at(DO_AT + p.q.stage * DO_BYTES), PANELS(HR_V),  Q_PANEL,
                 head, item.q_first + first, entry_of(item), item.q_len - first};
  load_tile(maps.d_o, t, DO_FULL + p.q.stage, DO_EMPTY + p.q.stage, p.q.phase ^ 1, p.loaded_phase);
}

/* K or V, when query head `head` is the first of its group. */
__device__ inline void load_kv(const tensor_map &map, const work_item &item, int at, int panels, int head, int group,
                               int full, int empty, unsigned &phase, unsigned &loaded_phase)
{
  if (head % group != 0)
    return;
  tile_load t = {memory_at(at), panels, K_PANEL, head / group, item.kv_first + item.first_key, entry_of(item),
                 item.kv_len - item.first_key};
  load_tile(map, t, full, empty, phase ^ 1, loaded_phase);
  phase ^= 1;
}

__device__ inline void produce(const attention_call &call, const backward_call &backward, const tensor_maps &maps,
                               const work_item &item)
{
  producer_state p = {};
  if (item.first_tile >= item.end_tile)
    return;
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
    load_kv(maps.k, item, 0, K_PANELS, head, call.k_group, K_FULL, K_EMPTY, p.k_phase, p.loaded_phase);
    load_q(call, backward, maps, item, head, item.first_tile, p);
    load_kv(maps.v, item, V_AT, PANELS(HR_V), head, call.v_group, V_FULL, V_EMPTY, p.v_phase, p.loaded_phase);
#pragma unroll 1
    for (int tile = item.first_tile; tile < item.end_tile; tile++) {
      if (tile > item.first_tile)
        load_q(call, backward, maps, item, head, tile, p);
      load_do(maps, item, head, tile, p);
      p.q.next();
    }
  }
}
