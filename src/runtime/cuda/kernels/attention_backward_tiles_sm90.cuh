/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory, mbarriers and work items of attention_backward_sm90.cu. */
#include "runtime/cuda/kernels/attention_backward_layout.h"

typedef hr_backward_call backward_call;

#ifdef HR_SPLIT_PRODUCTS
#define SPLIT_PRODUCTS 1
#define KEYS 64
#define KEY_GROUPS 1 /* warpgroups that store dS, 64 keys each */
#else
#define SPLIT_PRODUCTS 0
#define KEYS 128
#define KEY_GROUPS 2
#endif
#define LAYOUT hr_backward_layout_of(HR_QK, HR_V, KEYS, HR_Q_TILE, HR_STAGES, SPLIT_PRODUCTS)
#define PANEL 64 /* columns */
#define PANELS(dim) hr_sm90_panels(dim, 2)
#define K_PANELS hr_backward_k_panels(HR_QK, HR_Q_TILE)
#define PANEL_ROW HR_SM90_PANEL_ROW
#define DS_STAGES HR_BACKWARD_DS_STAGES
#define ITEM_STAGES HR_BACKWARD_ITEM_STAGES

enum { /* bytes */
       Q_PANEL = LAYOUT.q_panel,
       K_PANEL = LAYOUT.k_panel,
       Q_BYTES = LAYOUT.q_bytes,
       DO_BYTES = LAYOUT.do_bytes,
       K_BYTES = LAYOUT.k_bytes,
       V_BYTES = LAYOUT.v_bytes,
       DS_BYTES = LAYOUT.ds_bytes,
       TERMS_BYTES = LAYOUT.terms_bytes,
       V_AT = LAYOUT.v_at,
       Q_AT = LAYOUT.q_at,
       DO_AT = LAYOUT.do_at,
       DS_AT = LAYOUT.ds_at,
       P_AT = LAYOUT.p_at,
       TERMS_AT = LAYOUT.terms_at,
       BARRIERS_AT = LAYOUT.barriers_at,
       ITEMS_AT = LAYOUT.items_at
};

extern __shared__ __align__(1024) unsigned char shared[];

struct tensor_maps {
  tensor_map q, k, v, d_o;
};

/* ---- mbarriers: FULL when a stage is written, EMPTY when its readers have released it ---- */

enum mbarrier_name {
  K_FULL,
  K_EMPTY,
  V_FULL,
  V_EMPTY,
  Q_FULL, /* with row terms */
  Q_EMPTY = Q_FULL + HR_STAGES,
  DO_FULL = Q_EMPTY + HR_STAGES,
  DO_EMPTY = DO_FULL + HR_STAGES,
  DS_FULL = DO_EMPTY + HR_STAGES,
  DS_EMPTY = DS_FULL + DS_STAGES,
  P_FULL = DS_EMPTY + DS_STAGES,
  P_EMPTY,
  LOADED, /* a tile that has to be cleared before it is FULL */
  ITEM_FULL,
  ITEM_EMPTY = ITEM_FULL + ITEM_STAGES,
  BARRIERS = ITEM_EMPTY + ITEM_STAGES
};
static_assert(BARRIERS == LAYOUT.barriers, "mbarriers");

__device__ inline unsigned memory_at(int bytes)
{
  return shared_address(shared) + bytes;
}
__device__ inline unsigned mbarrier_at(int name)
{
  return memory_at(BARRIERS_AT + 8 * name);
}

__device__ inline void init_mbarriers()
{
  const int both = 8; /* a lane of each consumer warp */
  mbarrier_init(mbarrier_at(K_FULL), 1);
  mbarrier_init(mbarrier_at(V_FULL), 1);
  mbarrier_init(mbarrier_at(LOADED), 1);
  mbarrier_init(mbarrier_at(K_EMPTY), both);
  mbarrier_init(mbarrier_at(V_EMPTY), both);
  for (int i = 0; i < HR_STAGES; i++) {
    mbarrier_init(mbarrier_at(Q_FULL + i), 1);
    mbarrier_init(mbarrier_at(DO_FULL + i), 1);
    mbarrier_init(mbarrier_at(Q_EMPTY + i), both);
    mbarrier_init(mbarrier_at(DO_EMPTY + i), both);
  }
  for (int i = 0; i < DS_STAGES; i++) {
    mbarrier_init(mbarrier_at(DS_FULL + i), 4 * KEY_GROUPS);
    mbarrier_init(mbarrier_at(DS_EMPTY + i), both);
  }
  for (int i = 0; i < ITEM_STAGES; i++) {
    mbarrier_init(mbarrier_at(ITEM_FULL + i), 1);
    mbarrier_init(mbarrier_at(ITEM_EMPTY + i), both);
  }
  mbarrier_init(mbarrier_at(P_FULL), 4);
  mbarrier_init(mbarrier_at(P_EMPTY), 4);
}

/* The stage of a tile and the parity of its mbarrier phase. */
template <int STAGES> struct pipeline_state {
  unsigned stage, phase;
  __device__ inline void next()
  {
    stage++;
    if (stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
  __device__ inline void before()
  {
    phase ^= stage == 0;
    stage = (stage == 0 ? STAGES : stage) - 1;
  }
};
typedef pipeline_state<HR_STAGES> q_pipeline;
typedef pipeline_state<DS_STAGES> ds_pipeline;
typedef pipeline_state<ITEM_STAGES> item_pipeline;

/* Makes a value warp-uniform for the compiler. */
__device__ inline int uniform(int value)
{
  return __shfl_sync(0xFFFFFFFFu, value, 0);
}

/* One lane of each warp arrives when its warp has read, or written, a stage. */
__device__ inline void arrive_of_warp(int barrier)
{
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(mbarrier_at(barrier));
}

/* ---- work items: a K/V tile of the K and V heads of a group of query heads ---- */

struct work_item {
  int batch, first_head;
  int first_key, first_tile, end_tile; /* Q tiles that see some of its keys */
  int q_len, kv_len;                   /* of the sequence */
  int q_first, kv_first;               /* first row of the sequence in its batch entry */
};

/* The batch index in the tensors; variable-length sequences are concatenated in one batch entry. */
__device__ inline int entry_of(const work_item &item)
{
#ifdef HR_VARLEN
  return 0;
#else
  return item.batch;
#endif
}

__device__ inline void find_sequence(const attention_call &call, work_item &item)
{
  item.q_first = item.kv_first = 0;
  item.q_len = call.q_len;
  item.kv_len = call.kv_len;
#ifdef HR_VARLEN
  item.q_first = call.q_offsets[item.batch];
  item.kv_first = call.kv_offsets[item.batch];
  item.q_len = call.q_offsets[item.batch + 1] - item.q_first;
  item.kv_len = call.kv_offsets[item.batch + 1] - item.kv_first;
#endif
}

/* The Q tiles whose rows see keys of the tile. */
__device__ inline void find_q_tiles(const attention_call &call, work_item &item)
{
  int ahead = item.kv_len - item.q_len, first = 0, end = item.q_len;
  if (call.causal)
    first = max(0, item.first_key - ahead);
  if (call.window > 0)
    end = min(end, min(item.first_key + KEYS, item.kv_len) - 1 - ahead + call.window);
  item.first_tile = first / HR_Q_TILE;
  bool seen = first < end && item.first_key < item.kv_len;
  item.end_tile = seen ? (end + HR_Q_TILE - 1) / HR_Q_TILE : item.first_tile;
}

/* Groups of heads are processed in bands, so that blocks that run together read the same Q and dO; in a band the first
 * tiles, the longest of a causal call, come first. The last band takes all groups that are left. HR_DETERMINISTIC: a
 * group's tiles in the order in which they add to dQ. */
__device__ inline work_item find_item(const attention_call &call, const backward_call &backward, int index)
{
  int band_items = backward.band_groups * backward.kv_tiles, band = min(index / band_items, backward.bands),
      rest = index - band * band_items, all = call.heads / backward.group_heads;
  int groups = band < backward.bands ? backward.band_groups : all - band * backward.band_groups;
  int tile = rest / groups, group = band * backward.band_groups + rest % groups;
#ifdef HR_DETERMINISTIC
  if (call.causal)
    tile = backward.kv_tiles - 1 - tile;
#endif
  work_item item;
  item.first_key = tile * KEYS;
  item.batch = group / backward.groups;
  item.first_head = (group - item.batch * backward.groups) * backward.group_heads;
  find_sequence(call, item);
  find_q_tiles(call, item);
  return item;
}

/* Blocks take one item after another, in their order: the producer the next one when the last loads of an item are
 * under way, so that no item waits while a block is free. */
__device__ inline bool is_item(const attention_call &call, const backward_call &backward, int index)
{
  return index < call.heads / backward.group_heads * backward.kv_tiles;
}

/* Called by the producer's warp. */
__device__ inline int take_item(const backward_call &backward)
{
  int taken = 0;
  if (threadIdx.x % 32 == 0)
    taken = atomicAdd(backward.taken, 1);
  return gridDim.x + uniform(taken);
}

__device__ inline int *item_at(unsigned stage)
{
  return (int *)(shared + ITEMS_AT) + stage;
}

/* From the producer to the consumers. */
__device__ inline void pass_item_on(int index, item_pipeline &t)
{
  mbarrier_wait_long(mbarrier_at(ITEM_EMPTY + t.stage), t.phase ^ 1);
  if (threadIdx.x % 32 == 0)
    *item_at(t.stage) = index;
  __syncwarp();
  arrive_of_warp(ITEM_FULL + t.stage);
  t.next();
}

__device__ inline int receive_item(item_pipeline &t)
{
  mbarrier_wait_long(mbarrier_at(ITEM_FULL + t.stage), t.phase);
  int index = *item_at(t.stage);
  __syncwarp();
  arrive_of_warp(ITEM_EMPTY + t.stage);
  t.next();
  return index;
}

/* The view that keys_of_row() needs. */
__device__ inline head_view lengths_of(const attention_call &call, const work_item &item)
{
  head_view view = {};
  view.q_len = item.q_len;
  view.kv_len = item.kv_len;
  set_first_keys(call, view, entry_of(item), item.q_first);
  return view;
}

/* A tile of `rows` among those of all `heads`, of which each has `tiles`. */
__device__ inline int64 tile_of(int batch, int first, int heads, int head, int tiles, int tile, int rows)
{
#ifdef HR_VARLEN
  return (int64)head * tiles + hr_backward_first_tile(first, batch, rows) + tile;
#else
  return ((int64)batch * heads + head) * tiles + tile;
#endif
}

__device__ inline int64 q_tile_of(const attention_call &call, const backward_call &backward, const work_item &item,
                                  int head, int tile)
{
  return tile_of(item.batch, item.q_first, call.q_heads, head, backward.q_tiles, tile, HR_Q_TILE);
}

/* Whether a query head is the first, or the last, of a work item that reads a K or V head of `group` query heads. */
__device__ inline bool begins_group(const work_item &item, int head, int group)
{
  return head == item.first_head || head % group == 0;
}
__device__ inline bool ends_group(const backward_call &backward, const work_item &item, int head, int group)
{
  return head + 1 == item.first_head + backward.group_heads || (head + 1) % group == 0;
}
