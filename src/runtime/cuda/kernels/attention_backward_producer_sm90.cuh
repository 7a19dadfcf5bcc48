/* SPDX-License-Identifier: Apache-2.0 */
/* The producer warp of attention_backward_sm90.cu: it loads K and V, and Q, dO and row terms, by TMA. */

/* A tile of one head: where it goes, and from which row of the tensor on. */
struct tile_load {
  unsigned to;
  int panels, panel_bytes, head, row, entry;
};

/* Starts to load a tile, and `bytes` from `beside`, when `empty` allows. Called by a warp. */
__device__ inline void load_tile(const tensor_map &map, const tile_load &t, unsigned full, int empty, unsigned parity,
                                 const float *beside = nullptr, unsigned beside_to = 0, int bytes = 0)
{
  mbarrier_wait_long(mbarrier_at(empty), parity);
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    mbarrier_arrive_expect_tx(full, t.panels * t.panel_bytes + bytes);
    for (int panel = 0; panel < t.panels; panel++)
      tma_load(t.to + panel * t.panel_bytes, map, full, panel * PANEL, t.head, t.row, t.entry);
    if (bytes > 0)
      bulk_load(beside_to, beside, bytes, full);
  }
  __syncwarp();
}

/* ---- rows of NaN: 0 · NaN is NaN. Rows behind the end of a variable-length sequence belong to the next; dO of a
 * query without keys may contain anything ---- */

__device__ inline void clear_row(const tile_load &t, int row)
{
  unsigned char *tile = shared + (t.to - shared_address(shared));
#pragma unroll 1
  for (int i = 0; i < t.panels * (PANEL_ROW / 16); i++)
    *(uint4 *)(tile + i / 8 * t.panel_bytes + row * PANEL_ROW + i % 8 * 16) = make_uint4(0, 0, 0, 0);
}

/* The tile has arrived at LOADED: waits, and after rows are cleared passes it on. */
__device__ inline void wait_for_loaded(unsigned &phase)
{
  mbarrier_wait_long(mbarrier_at(LOADED), phase);
  phase ^= 1;
  __syncwarp();
}

__device__ inline void pass_on(int full)
{
  fence_proxy_async();
  __syncwarp();
  arrive_of_warp(full);
}

/* Clears the rows from `rows` on. */
__device__ inline void clear_rows_behind(const tile_load &t, int rows, int full, unsigned &phase)
{
  wait_for_loaded(phase);
#pragma unroll 1
  for (int row = max(0, rows) + threadIdx.x % 32; row < KEYS; row += 32)
    clear_row(t, row);
  pass_on(full);
}

/* Clears the rows whose lse is infinite. */
__device__ inline void clear_empty_rows(const tile_load &t, unsigned terms, int full, unsigned &phase)
{
  wait_for_loaded(phase);
  const float *lse = (const float *)(shared + (terms - shared_address(shared)));
#pragma unroll 1
  for (int row = threadIdx.x % 32; row < HR_Q_TILE; row += 32)
    if (lse[row / 2 * 4 + row % 2] == -minus_infinity())
      clear_row(t, row);
  pass_on(full);
}

struct producer_state {
  q_pipeline q;
  unsigned k_phase, v_phase, loaded_phase;
  bool clears; /* rows of the Q tile under way */
};

/* Whether rows of a Q tile have to be cleared. */
__device__ inline bool clears_rows(const backward_call &backward, int64 q_tile)
{
#ifdef HR_CLEARS
  return backward.clears[q_tile] != 0;
#else
  return false;
#endif
}

__device__ inline void load_q(const attention_call &call, const backward_call &backward, const tensor_maps &maps,
                              const work_item &item, int head, int tile, producer_state &p)
{
  int64 q_tile = q_tile_of(call, backward, item, head, tile);
  unsigned stage = p.q.stage, terms = memory_at(TERMS_AT + stage * TERMS_BYTES);
  const tile_load t = {memory_at(Q_AT + stage * Q_BYTES), PANELS(HR_QK), Q_PANEL, head,
                       item.q_first + tile * HR_Q_TILE,   entry_of(item)};
  p.clears = clears_rows(backward, q_tile);
  load_tile(maps.q, t, mbarrier_at(p.clears ? LOADED : Q_FULL + stage), Q_EMPTY + stage, p.q.phase ^ 1,
            backward.row_terms + q_tile * (2 * HR_Q_TILE), terms, TERMS_BYTES);
  if (p.clears)
    clear_empty_rows(t, terms, Q_FULL + stage, p.loaded_phase);
}

/* After load_q() of the same tile. */
__device__ inline void load_do(const tensor_maps &maps, const work_item &item, int head, int tile, producer_state &p)
{
  unsigned stage = p.q.stage;
  const tile_load t = {memory_at(DO_AT + stage * DO_BYTES), PANELS(HR_V),  Q_PANEL, head,
                       item.q_first + tile * HR_Q_TILE,     entry_of(item)};
  load_tile(maps.d_o, t, mbarrier_at(p.clears ? LOADED : DO_FULL + stage), DO_EMPTY + stage, p.q.phase ^ 1);
  if (p.clears)
    clear_empty_rows(t, memory_at(TERMS_AT + stage * TERMS_BYTES), DO_FULL + stage, p.loaded_phase);
}

/* K or V, when query head `head` is the first that reads it. */
__device__ inline void load_kv(const tensor_map &map, const work_item &item, int at, int panels, int head, int group,
                               int full, int empty, unsigned &phase, unsigned &loaded_phase)
{
  if (!begins_group(item, head, group))
    return;
  const tile_load t = {memory_at(at), panels, K_PANEL, head / group, item.kv_first + item.first_key, entry_of(item)};
  int rows = item.kv_len - item.first_key;
#ifdef HR_VARLEN
  bool clears = rows < KEYS;
#else
  const bool clears = false;
#endif
  load_tile(map, t, mbarrier_at(clears ? LOADED : full), empty, phase ^ 1);
  if (clears)
    clear_rows_behind(t, rows, full, loaded_phase);
  phase ^= 1;
}

/* Q and dO of the first tile before K and V, which the item before may still read. */
__device__ inline void load_item(const attention_call &call, const backward_call &backward, const tensor_maps &maps,
                                 const work_item &item, producer_state &p)
{
  if (item.first_tile >= item.end_tile)
    return;
#pragma unroll 1
  for (int head = item.first_head; head < item.first_head + backward.group_heads; head++) {
#pragma unroll 1
    for (int tile = item.first_tile; tile < item.end_tile; tile++) {
      load_q(call, backward, maps, item, head, tile, p);
      load_do(maps, item, head, tile, p);
      p.q.next();
      if (tile > item.first_tile)
        continue;
      load_kv(maps.k, item, 0, K_PANELS, head, call.k_group, K_FULL, K_EMPTY, p.k_phase, p.loaded_phase);
      load_kv(maps.v, item, V_AT, PANELS(HR_V), head, call.v_group, V_FULL, V_EMPTY, p.v_phase, p.loaded_phase);
    }
  }
}

__device__ inline void produce(const attention_call &call, const backward_call &backward, const tensor_maps &maps)
{
  producer_state p = {};
  item_pipeline items = {};
  for (int index = blockIdx.x;; index = take_item(backward)) {
    pass_item_on(index, items);
    if (!is_item(call, backward, index))
      break;
    load_item(call, backward, maps, find_item(call, backward, index), p);
  }
}
