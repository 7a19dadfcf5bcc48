/* SPDX-License-Identifier: Apache-2.0 */
/* The producer warps of attention_flash_sm90.cu: they schedule Q tiles and load Q, K and V by TMA ahead of the consumer
 * warpgroups. */

__device__ inline void load_q_tile(const tensor_map &map, unsigned memory, const work_item &item, const q_pipeline &t)
{
#pragma unroll 1
  for (int group = 0; group < HR_CONSUMERS; group++) {
    int at = t.stage * HR_CONSUMERS + group;
    unsigned barrier = mbarrier_at(memory, Q_FULL + at), to = memory + at * Q_BYTES;
    mbarrier_wait_long(mbarrier_at(memory, Q_EMPTY + at), t.phase ^ 1);
    mbarrier_arrive_expect_tx(barrier, PANELS(HR_QK) * Q_PANEL);
    for (int panel = 0; panel < PANELS(HR_QK); panel++)
      tma_load(to + panel * Q_PANEL, map, barrier, panel * PANEL, item.head,
               item.q_first + item.first_row + block_row() + group * 64, entry_of(item));
  }
}

/* The last block that gets here resets the counters for the next run. */
__device__ inline void reset_counters(const attention_call &call)
{
  __threadfence();
  if (atomicAdd(call.counters + 1, 1) == gridDim.x * HR_TEAMS - 1) {
    call.counters[0] = 0;
    call.counters[1] = 0;
  }
}

#if HR_CLUSTER == 1 && (defined(HR_CAUSAL) || HR_TEAMS > 1)
#define WAITS_FOR_ITEM
#endif

/* The work item of a block after `index`: from the counter, or in clusters, whose Q tiles are of one length and whose
 * other block would need a message, a static one. */
__device__ inline int next_item(const attention_call &call, int index)
{
#if HR_CLUSTER > 1
  return index + gridDim.x / HR_CLUSTER;
#else
  return gridDim.x * HR_TEAMS + atomicAdd(call.counters, 1);
#endif
}

/* Fetches Q tiles, publishes them as work items and loads Q. Of unequal ones it fetches none before all of K of the one
 * before is under way: a block whose Q tiles are long then takes fewer of them. All other warps get to global memory by
 * a work item, and so after the kernel before. */
__device__ inline void produce_q(const attention_call &call, const tensor_maps &tensor_maps, int team, unsigned memory)
{
  item_pipeline work_items = {0, 0};
  q_pipeline q = {0, 0};
  unsigned loaded_phase = 0;
  prefetch_tensor_map(tensor_maps.q);
  int index = team * gridDim.x + blockIdx.x / HR_CLUSTER;
#pragma unroll 1
  for (; index < call.work_items; index = next_item(call, index)) {
#if defined(HR_VARLEN) || defined(HR_FIRST_KEYS)
    wait_for_kernel_before(); /* which may write the offsets, or the first keys */
#endif
    work_item item = find_item(call, index);
    wait_for_kernel_before();
#ifdef HR_VARLEN
    if (item.first_row >= item.q_len) /* a sequence shorter than the longest */
      continue;
#endif
    publish_item(memory, work_items, item);
    load_q_tile(tensor_maps.q, memory, item, q);
    q.next();
#ifdef WAITS_FOR_ITEM
    mbarrier_wait_long(mbarrier_at(memory, ITEM_LOADED), loaded_phase);
    loaded_phase ^= 1;
#endif
  }
  wait_for_kernel_before(); /* a team without an item has not */
  work_item none = {-1};
  publish_item(memory, work_items, none);
#if HR_CLUSTER == 1
  reset_counters(call);
#endif
}

/* Zeroes the rows of a V tile that belong to the next sequence: their P is 0, but 0 · NaN is NaN. Called by a warp. */
__device__ inline void clear_v_rows(unsigned char *tile, int rows, int lane)
{
#pragma unroll 1
  for (int panel = 0; panel < PANELS(HR_V); panel++)
#pragma unroll 1
    for (int i = rows * (PANEL_ROW / 16) + lane; i < HR_KV_TILE * (PANEL_ROW / 16); i += 32)
      ((uint4 *)(tile + panel * V_PANEL))[i] = make_uint4(0, 0, 0, 0);
  fence_proxy_async();
  __syncwarp();
}

/* Loads a K or V tile of panels of K_PANEL bytes to shared memory `at` when mbarrier `empty` allows; of a cluster, a
 * share of it for all blocks. */
__device__ inline void load_kv_tile(const tensor_map &map, int panels, unsigned at, unsigned full, unsigned empty,
                                    unsigned parity, int head, const work_item &item, int tile)
{
  mbarrier_wait_long(empty, parity);
  mbarrier_arrive_expect_tx(full, panels * K_PANEL);
  for (int panel = 0; panel < panels; panel++)
#if HR_CLUSTER > 1
    tma_load_to_both(at + panel * K_PANEL + block_in_cluster() * (K_PANEL / HR_CLUSTER), map, full, panel * PANEL, head,
                     item.kv_first + tile * HR_KV_TILE + (int)block_in_cluster() * (HR_KV_TILE / HR_CLUSTER),
                     entry_of(item));
#else
    tma_load(at + panel * K_PANEL, map, full, panel * PANEL, head, item.kv_first + tile * HR_KV_TILE, entry_of(item));
#endif
}

#ifdef HR_DTYPE_fp8
/* Loads a tile of transposed V: panels of PANEL keys and HR_V rows. */
__device__ inline void load_v_tile(const tensor_map &map, unsigned memory, const kv_pipeline &t, unsigned &, int head,
                                   const work_item &item, int tile)
{
  unsigned at = memory + V_AT + t.stage * V_BYTES, full = mbarrier_at(memory, V_FULL + t.stage);
  int first = tile * HR_KV_TILE;
#ifdef HR_VARLEN
  first += (int)hr_transposed_tile(item.kv_first, item.batch) * HR_TRANSPOSED_KEYS;
#endif
  if (threadIdx.x % 32 == 0) {
    mbarrier_wait_long(mbarrier_at(memory, V_EMPTY + t.stage), t.phase ^ 1);
    mbarrier_arrive_expect_tx(full, V_BYTES);
    for (int panel = 0; panel < PANELS(HR_KV_TILE); panel++)
#if HR_CLUSTER > 1
      tma_load_to_both(at + panel * V_PANEL + block_in_cluster() * (V_PANEL / HR_CLUSTER), map, full,
                       first + panel * PANEL, (int)block_in_cluster() * (HR_V / HR_CLUSTER), head, entry_of(item));
#else
      tma_load(at + panel * V_PANEL, map, full, first + panel * PANEL, 0, head, entry_of(item));
#endif
  }
  __syncwarp();
}
#else

/* Loads a V tile. Called by a warp, which zeroes rows behind the end of a variable-length sequence: their P is 0, but 0
 * · NaN is NaN. */
__device__ inline void load_v_tile(const tensor_map &map, unsigned memory, const kv_pipeline &t, unsigned &loaded_phase,
                                   int head, const work_item &item, int tile)
{
#ifdef HR_VARLEN
  int rows = item.kv_len - tile * HR_KV_TILE;
  bool clears = rows < HR_KV_TILE;
#else
  const bool clears = false;
#endif
  unsigned at = memory + V_AT + t.stage * V_BYTES, full = mbarrier_at(memory, clears ? V_LOADED : V_FULL + t.stage);
  if (threadIdx.x % 32 == 0)
    load_kv_tile(map, PANELS(HR_V), at, full, mbarrier_at(memory, V_EMPTY + t.stage), t.phase ^ 1, head, item, tile);
  __syncwarp();
#ifdef HR_VARLEN
  if (clears) {
    mbarrier_wait_long(full, loaded_phase);
    loaded_phase ^= 1;
    clear_v_rows(shared + (at - shared_address(shared)), rows, threadIdx.x % 32);
    if (threadIdx.x % 32 == 0)
      mbarrier_arrive(mbarrier_at(memory, V_FULL + t.stage));
  }
#endif
}
#endif

/* Loads K, V or both by TMA. Called by a warp. */
template <bool LOADS_K, bool LOADS_V>
__device__ inline void produce_kv(const attention_call &call, const tensor_maps &tensor_maps, unsigned memory)
{
  kv_pipeline t = {0, 0};
  item_pipeline work_items = {0, 0};
  unsigned loaded_phase = 0;
  int lane = threadIdx.x % 32;
  if (LOADS_K && lane == 0)
    prefetch_tensor_map(tensor_maps.k);
  if (LOADS_V && lane == 0)
    prefetch_tensor_map(tensor_maps.v);
#pragma unroll 1
  for (work_item item = receive_item(call, memory, work_items); item.batch >= 0;
       item = receive_item(call, memory, work_items)) {
    int k_head = item.head / call.k_group, v_head = item.head / call.v_group;
#pragma unroll 1
    for (int i = item.end_tile - item.first_tile, tile = FIRST_TILE(item); i > 0; i--, tile += TILE_STEP, t.next()) {
      if (LOADS_K && lane == 0)
        load_kv_tile(tensor_maps.k, PANELS(HR_QK), memory + K_AT + t.stage * K_BYTES,
                     mbarrier_at(memory, K_FULL + t.stage), mbarrier_at(memory, K_EMPTY + t.stage), t.phase ^ 1, k_head,
                     item, tile);
      __syncwarp();
      if (LOADS_V)
        load_v_tile(tensor_maps.v, memory, t, loaded_phase, v_head, item, tile);
    }
#ifdef WAITS_FOR_ITEM
    if (LOADS_K && lane == 0)
      mbarrier_arrive(mbarrier_at(memory, ITEM_LOADED));
#endif
  }
}

/* The producer warpgroup. One team: warp 0 schedules and loads Q, warp 1 loads K, warp 2 loads V. Two teams: two warps
 * each, of which the second loads K and V. */
__device__ inline void produce(const attention_call &call, const tensor_maps &tensor_maps, int warp)
{
#if HR_TEAMS > 1
  int team = uniform(warp / 2);
  unsigned memory = team_memory(team);
  if (warp % 2 == 0 && threadIdx.x % 32 == 0)
    produce_q(call, tensor_maps, team, memory);
  else if (warp % 2 == 1)
    produce_kv<true, true>(call, tensor_maps, memory);
#else
  unsigned memory = team_memory(0);
  if (warp == 0 && threadIdx.x % 32 == 0)
    produce_q(call, tensor_maps, 0, memory);
  else if (warp == 1)
    produce_kv<true, false>(call, tensor_maps, memory);
  else if (warp == 2)
    produce_kv<false, true>(call, tensor_maps, memory);
#endif
}
