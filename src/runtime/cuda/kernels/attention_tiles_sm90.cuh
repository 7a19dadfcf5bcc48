/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory, mbarriers and tile scheduler of attention_flash_sm90.cu.
 *
 * hr_sm90_layout (attention_layout.h) has the shared memory: panels of 128 bytes a row, 128-byte swizzle. Rows of a
 * head are multiples of 16 bytes; TMA fills a panel's other columns, and rows outside of the tensor, with zeros. */

#ifdef HR_STAGE_O
#define STAGE_O 1
#else
#define STAGE_O 0
#endif
#define LAYOUT \
  hr_sm90_layout_of(HR_QK, HR_V, HR_CONSUMERS, HR_KV_TILE, HR_STAGES, HR_Q_STAGES, STAGE_O, (int)sizeof(element))

#define BLOCK_ROWS (HR_SM90_GROUP_ROWS * HR_CONSUMERS)
#define ROWS (BLOCK_ROWS * HR_CLUSTER)
#define PANEL hr_sm90_panel((int)sizeof(element)) /* columns */
#define PANELS(dim) hr_sm90_panels(dim, (int)sizeof(element))
#define O_PANELS hr_sm90_panels(HR_V, 2)
#define PANEL_ROW HR_SM90_PANEL_ROW
#define ITEM_STAGES HR_SM90_ITEM_STAGES
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

enum { /* bytes */
       Q_PANEL = LAYOUT.q_panel,
       K_PANEL = LAYOUT.k_panel,
       V_PANEL = LAYOUT.v_panel,
       Q_BYTES = LAYOUT.q_bytes, /* of one consumer warpgroup */
       O_BYTES = LAYOUT.o_bytes, /* of one consumer warpgroup */
       K_BYTES = LAYOUT.k_bytes,
       V_BYTES = LAYOUT.v_bytes,
       O_AT = LAYOUT.o_at,
       K_AT = LAYOUT.k_at,
       V_AT = LAYOUT.v_at,
       ITEMS_AT = LAYOUT.items_at,
       BARRIERS_AT = LAYOUT.barriers_at,
       TEAM_BYTES = LAYOUT.team_bytes
};

/* The first of a block's rows in a work item of its cluster. */
__device__ inline int block_row()
{
#if HR_CLUSTER > 1
  return (int)block_in_cluster() * BLOCK_ROWS;
#else
  return 0;
#endif
}

extern __shared__ __align__(1024) unsigned char shared[];

struct tensor_maps {
  tensor_map q, k, v, o;
};

/* ---- mbarriers: FULL when TMA has written a stage, EMPTY when its readers have released it ---- */

enum mbarrier_name {
  Q_FULL, /* per stage and consumer warpgroup */
  Q_EMPTY = Q_FULL + HR_Q_STAGES * HR_CONSUMERS,
  K_FULL = Q_EMPTY + HR_Q_STAGES * HR_CONSUMERS,
  K_EMPTY = K_FULL + HR_STAGES,
  V_FULL = K_EMPTY + HR_STAGES,
  V_EMPTY = V_FULL + HR_STAGES,
  V_LOADED = V_EMPTY + HR_STAGES, /* a V tile that has to be cleared before it is FULL */
  ITEM_LOADED,                    /* all of K of the last work item is under way: time to fetch the next one */
  ITEM_FULL,
  ITEM_EMPTY = ITEM_FULL + ITEM_STAGES,
  BARRIERS = ITEM_EMPTY + ITEM_STAGES
};
static_assert(BARRIERS == LAYOUT.barriers, "mbarriers");

/* `memory` is the address of a team's shared memory. */
__device__ inline unsigned team_memory(int team)
{
  return shared_address(shared) + team * TEAM_BYTES;
}
__device__ inline unsigned mbarrier_at(unsigned memory, int name)
{
  return memory + BARRIERS_AT + 8 * name;
}

/* The stage of a tile or work item, and the parity of its mbarrier phase; it advances over all work of a block. */
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
};
typedef pipeline_state<HR_STAGES> kv_pipeline;
typedef pipeline_state<HR_Q_STAGES> q_pipeline;
typedef pipeline_state<ITEM_STAGES> item_pipeline;

__device__ inline void init_mbarriers(unsigned memory)
{
  const int warps = 4 * HR_CONSUMERS,
            producers = HR_TEAMS > 1 ? 1 : 2; /* a lane of each consumer warp; the warps that load K and V */
  for (int i = 0; i < HR_Q_STAGES * HR_CONSUMERS; i++) {
    mbarrier_init(mbarrier_at(memory, Q_FULL + i), 1);
    mbarrier_init(mbarrier_at(memory, Q_EMPTY + i), 4);
  }
  for (int i = 0; i < HR_STAGES; i++) {
    mbarrier_init(mbarrier_at(memory, K_FULL + i), 1);
    mbarrier_init(mbarrier_at(memory, V_FULL + i), 1);
    mbarrier_init(mbarrier_at(memory, K_EMPTY + i), warps * HR_CLUSTER);
    mbarrier_init(mbarrier_at(memory, V_EMPTY + i), warps * HR_CLUSTER);
  }
  mbarrier_init(mbarrier_at(memory, V_LOADED), 1);
  mbarrier_init(mbarrier_at(memory, ITEM_LOADED), 1);
  for (int i = 0; i < ITEM_STAGES; i++) {
    mbarrier_init(mbarrier_at(memory, ITEM_FULL + i), 1);
    mbarrier_init(mbarrier_at(memory, ITEM_EMPTY + i), warps + producers);
  }
}

/* ---- the tile scheduler ---- */

/* A Q tile of one head, and the K/V tiles that some of its rows see. */
struct work_item {
  int batch, head; /* batch −1: no work is left */
  int first_row, first_tile, end_tile;
  int q_len, kv_len;     /* of the sequence */
  int q_first, kv_first; /* first row of the sequence in its batch entry */
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

/* ---- the order of K/V tiles: from right to left, or with HR_LEFT_TO_RIGHT from left to right; only causal calls,
 * whose last tiles on
 * either side may be masked. Then warpgroups with fewer tiles end earlier, and write O while others go on. The compiler
 * has to see that HAS_NEXT and IN_RANGE of the next tile are the same: otherwise programs with one loop for all tiles
 * gave wrong results. ---- */

#ifdef HR_LEFT_TO_RIGHT
#define FIRST_TILE(range) ((range).first_tile)
#define LAST_TILE(range) ((range).end_tile - 1)
#define IN_RANGE(tile, range) ((tile) < (range).end_tile) /* of a tile behind the first */
#define HAS_NEXT(tile, range) ((tile) + 1 < (range).end_tile)
#define TILE_STEP 1
#else
#define FIRST_TILE(range) ((range).end_tile - 1)
#define LAST_TILE(range) ((range).first_tile)
#define IN_RANGE(tile, range) ((tile) >= (range).first_tile)
#define HAS_NEXT(tile, range) ((tile) > (range).first_tile)
#define TILE_STEP -1
#endif

/* The view that keys_of_row() needs. */
__device__ inline head_view lengths_of(const attention_call &call, const work_item &item)
{
  head_view view = {};
  view.q_len = item.q_len;
  view.kv_len = item.kv_len;
  set_first_keys(call, view, entry_of(item), item.q_first);
  return view;
}

/* K/V tiles first … end − 1. */
struct tile_range {
  int first, end;
};

/* The K/V tiles that some of `rows` rows see. */
__device__ inline tile_range kv_tiles_of_rows(const attention_call &call, const work_item &item, int first_row,
                                              int rows)
{
  int last_row = min(first_row + rows, item.q_len) - 1;
  if (last_row < first_row)
    return {0, 0};
  head_view view = lengths_of(call, item);
  return {keys_of_row(call, view, first_row).first / HR_KV_TILE,
          (keys_of_row(call, view, last_row).end + HR_KV_TILE - 1) / HR_KV_TILE};
}

/* Heads are processed in bands, so that K and V are still in the L2 when they are read again; in a band the last Q
 * tiles, the longest of a causal call, come first. The last band takes all heads that are left, enough to let all
 * blocks end together. */
__device__ inline work_item find_item(const attention_call &call, int index)
{
  int band_items = call.band_heads * call.q_tiles, band = min(index / band_items, call.bands),
      rest = index - band * band_items;
  int heads = band < call.bands ? call.band_heads : call.heads - band * call.band_heads;
  int head = band * call.band_heads + rest % heads;
  work_item item;
  item.batch = head / call.q_heads;
  item.head = head % call.q_heads;
  item.first_row = (call.q_tiles - 1 - rest / heads) * ROWS;
  find_sequence(call, item);
  tile_range tiles = kv_tiles_of_rows(call, item, item.first_row, ROWS);
  item.first_tile = tiles.first;
  item.end_tile = LARGER(tiles.first, tiles.end);
  return item;
}

/* ---- work items: one thread computes them, which takes divisions, and all other warps read them ---- */

__device__ inline int4 *item_slot(unsigned memory, unsigned stage)
{
  return (int4 *)(shared + (memory - shared_address(shared)) + ITEMS_AT + stage * HR_SM90_ITEM_BYTES);
}

__device__ inline void publish_item(unsigned memory, item_pipeline &t, const work_item &item)
{
  int4 *slot = item_slot(memory, t.stage);
  mbarrier_wait_long(mbarrier_at(memory, ITEM_EMPTY + t.stage), t.phase ^ 1);
  slot[0] = make_int4(item.batch, item.head, item.first_row, item.first_tile);
  slot[1] = make_int4(item.end_tile, item.q_len, item.kv_len, item.q_first);
  slot[2] = make_int4(item.kv_first, 0, 0, 0);
  mbarrier_arrive(mbarrier_at(memory, ITEM_FULL + t.stage));
  t.next();
}

/* Lane 0, which also arrives at the mbarrier, reads for its warp. Predicated instead of a branch, so that the compiler
 * knows the warp as converged. */
__device__ inline int4 read_first_lane(const int4 *from)
{
  int4 value;
  asm volatile("{\n"
               ".reg .pred first;\n"
               "setp.eq.u32 first, %5, 0;\n"
               "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
               "@first ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               "}"
               : "=&r"(value.x), "=&r"(value.y), "=&r"(value.z), "=&r"(value.w)
               : "r"(shared_address(from)), "r"(threadIdx.x % 32)
               : "memory");
  return value;
}

/* Makes a value warp-uniform for the compiler: addresses of tiles then stay in uniform registers, from which WGMMA
 * takes them (12% of a call's time at head size 128). */
__device__ inline int uniform(int value)
{
  return __shfl_sync(0xFFFFFFFFu, value, 0);
}

/* Called by a whole warp. */
__device__ inline work_item receive_item(const attention_call &call, unsigned memory, item_pipeline &t)
{
  mbarrier_wait_long(mbarrier_at(memory, ITEM_FULL + t.stage), t.phase);
  const int4 *slot = item_slot(memory, t.stage);
  int4 a = read_first_lane(slot), b = read_first_lane(slot + 1);
  work_item item;
  item.batch = uniform(a.x);
  item.head = uniform(a.y);
  item.first_row = uniform(a.z);
  item.first_tile = uniform(a.w);
  item.end_tile = uniform(b.x);
#ifdef HR_VARLEN
  int4 c = read_first_lane(slot + 2);
  item.q_len = uniform(b.y);
  item.kv_len = uniform(b.z);
  item.q_first = uniform(b.w);
  item.kv_first = uniform(c.x);
#else
  find_sequence(call, item);
#endif
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(mbarrier_at(memory, ITEM_EMPTY + t.stage));
  t.next();
  return item;
}
