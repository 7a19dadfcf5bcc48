/* What lies in the shared memory of attention_flash_sm90.cu, and the threads that fill it: which row tile of which head
 * comes next, and copies of Q, K and V by tiles into stages, ahead of the warpgroups that multiply.
 *
 * Tiles lie in panels of 64 columns, rows of 128 bytes swizzled as the copy engine and the products have it. Head sizes are
 * multiples of 8; the copy engine fills what a panel has beyond with zeros, and what a tensor has beyond its end. */

#define ROWS (64 * HR_GROUPS)
#define PANELS(dim) (((dim) + 63) / 64)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Bytes. Q and O in parts of 64 rows, one a warpgroup; attention_flash_sm90.c reckons the same. */
#define PANEL_ROW 128
#define Q_PANEL (64 * PANEL_ROW)
#define KV_PANEL (HR_COLUMNS * PANEL_ROW)
#define Q_PART (PANELS(HR_QK) * Q_PANEL)
#define O_PART (PANELS(HR_V) * Q_PANEL)
#define K_BYTES (PANELS(HR_QK) * KV_PANEL)
#define V_BYTES (PANELS(HR_V) * KV_PANEL)
#define O_AT (HR_Q_STAGES * HR_GROUPS * Q_PART)
#ifdef HR_OUT_APART
#define K_AT (O_AT + HR_GROUPS * O_PART)
#else
#define K_AT O_AT
#endif
#define V_AT (K_AT + HR_STAGES * K_BYTES)
#define ITEMS_AT (V_AT + HR_STAGES * V_BYTES)
#define BARRIERS_AT (ITEMS_AT + ITEM_STAGES * ITEM_BYTES)

#define ITEM_STAGES 2
#define ITEM_BYTES 48

extern __shared__ __align__(1024) unsigned char shared[];

struct maps {
  tensor_map q, k, v, o;
};

/* ---- barriers ---- */

enum barrier_name {
  Q_FULL, /* of a stage and a warpgroup */
  Q_EMPTY = Q_FULL + HR_Q_STAGES * HR_GROUPS,
  K_FULL = Q_EMPTY + HR_Q_STAGES * HR_GROUPS,
  K_EMPTY = K_FULL + HR_STAGES,
  V_FULL = K_EMPTY + HR_STAGES,
  V_EMPTY = V_FULL + HR_STAGES,
  V_LOADED = V_EMPTY + HR_STAGES, /* a tile of V that is not FULL before it is cleared */
  ITEM_FULL,
  ITEM_EMPTY = ITEM_FULL + ITEM_STAGES,
  BARRIERS = ITEM_EMPTY + ITEM_STAGES
};

__device__ inline unsigned barrier_of(int name) { return shared_address(shared) + BARRIERS_AT + 8 * name; }

/* Which stage a tile or an item takes, and the parity of its phase; counted over all of a block's work. */
template <int STAGES> struct turn {
  unsigned stage, parity;
  __device__ inline void next()
  {
    stage++;
    if (stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};
typedef turn<HR_STAGES> tile_turn;
typedef turn<HR_Q_STAGES> q_turn;
typedef turn<ITEM_STAGES> item_turn;

__device__ inline void create_barriers()
{
  const int warps = 4 * HR_GROUPS, copying = 2; /* a lane of each consuming warp; the threads that copy K and V */
  for (int i = 0; i < HR_Q_STAGES * HR_GROUPS; i++) {
    barrier_create(barrier_of(Q_FULL + i), 1);
    barrier_create(barrier_of(Q_EMPTY + i), 4);
  }
  for (int i = 0; i < HR_STAGES; i++) {
    barrier_create(barrier_of(K_FULL + i), 1);
    barrier_create(barrier_of(V_FULL + i), 1);
    barrier_create(barrier_of(K_EMPTY + i), warps);
    barrier_create(barrier_of(V_EMPTY + i), warps);
  }
  barrier_create(barrier_of(V_LOADED), 1);
  for (int i = 0; i < ITEM_STAGES; i++) {
    barrier_create(barrier_of(ITEM_FULL + i), 1);
    barrier_create(barrier_of(ITEM_EMPTY + i), warps + copying);
  }
  barriers_publish();
}

/* ---- what there is to do ---- */

/* One row tile of one head, and the tiles of keys that some row of it sees. */
struct work_item {
  int batch, head; /* batch −1: nothing is left */
  int first_row, first_tile, end_tile;
  int q_len, kv_len;     /* of the sequence */
  int q_first, kv_first; /* where the sequence begins in its entry of the tensors */
};

/* The entry of the batch in tensors; sequences of different lengths lie behind each other in one. */
__device__ inline int entry_of(const work_item &item)
{
#ifdef HR_VARIABLE
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
#ifdef HR_VARIABLE
  item.q_first = call.q_offsets[item.batch];
  item.kv_first = call.kv_offsets[item.batch];
  item.q_len = call.q_offsets[item.batch + 1] - item.q_first;
  item.kv_len = call.kv_offsets[item.batch + 1] - item.kv_first;
#endif
}

/* What keys_of_row() asks of a view. */
__device__ inline head_view lengths_of(const work_item &item)
{
  head_view view = {};
  view.q_len = item.q_len;
  view.kv_len = item.kv_len;
  return view;
}

/* Tiles of keys, first … end − 1. */
struct tile_range {
  int first, end;
};

/* Those that some of `rows` rows see. */
__device__ inline tile_range tiles_of_rows(const attention_call &call, const work_item &item, int first_row, int rows)
{
  int last_row = min(first_row + rows, item.q_len) - 1;
  if (last_row < first_row)
    return {0, 0};
  head_view view = lengths_of(item);
  return {keys_of_row(call, view, first_row).first / HR_COLUMNS,
          (keys_of_row(call, view, last_row).end + HR_COLUMNS - 1) / HR_COLUMNS};
}

/* Heads are taken in bands of about as many row tiles as are worked on at a time, so that K and V are still in the L2 when
 * they are read again; within a band the row tiles at the bottom, the longest of a causal call, come first. */
__device__ inline work_item item_of(const attention_call &call, int index)
{
  int band_items = call.band_heads * call.row_tiles, band = index / band_items, rest = index % band_items;
  int heads = min(call.band_heads, call.heads - band * call.band_heads);
  int head = band * call.band_heads + rest % heads;
  work_item item;
  item.batch = head / call.q_heads;
  item.head = head % call.q_heads;
  item.first_row = (call.row_tiles - 1 - rest / heads) * ROWS;
  find_sequence(call, item);
  tile_range tiles = tiles_of_rows(call, item, item.first_row, ROWS);
  item.first_tile = tiles.first;
  item.end_tile = LARGER(tiles.first, tiles.end);
  return item;
}

/* ---- items are passed on: one thread works them out, which takes divisions, and all others read them ---- */

__device__ inline int4 *item_slot(unsigned stage) { return (int4 *)(shared + ITEMS_AT + stage * ITEM_BYTES); }

__device__ inline void give_item(item_turn &t, const work_item &item)
{
  int4 *slot = item_slot(t.stage);
  barrier_wait(barrier_of(ITEM_EMPTY + t.stage), t.parity ^ 1);
  slot[0] = make_int4(item.batch, item.head, item.first_row, item.first_tile);
  slot[1] = make_int4(item.end_tile, item.q_len, item.kv_len, item.q_first);
  slot[2] = make_int4(item.kv_first, 0, 0, 0);
  barrier_arrive(barrier_of(ITEM_FULL + t.stage));
  t.next();
}

/* Lane 0 reads for its warp, which it can answer for when it arrives at a barrier; no branch, so that what all lanes have
 * then is known to be the same. */
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

/* The same in all lanes, and known as that to the compiler: addresses of tiles then stay in the registers that products
 * take them from (12% of a call's time at head size 128). */
__device__ inline int uniform(int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

/* For a whole warp. */
__device__ inline work_item take_item(const attention_call &call, item_turn &t)
{
  barrier_wait(barrier_of(ITEM_FULL + t.stage), t.parity);
  const int4 *slot = item_slot(t.stage);
  int4 a = read_first_lane(slot), b = read_first_lane(slot + 1);
  work_item item;
  item.batch = uniform(a.x);
  item.head = uniform(a.y);
  item.first_row = uniform(a.z);
  item.first_tile = uniform(a.w);
  item.end_tile = uniform(b.x);
#ifdef HR_VARIABLE
  int4 c = read_first_lane(slot + 2);
  item.q_len = uniform(b.y);
  item.kv_len = uniform(b.z);
  item.q_first = uniform(b.w);
  item.kv_first = uniform(c.x);
#else
  find_sequence(call, item);
#endif
  if (threadIdx.x % 32 == 0)
    barrier_arrive(barrier_of(ITEM_EMPTY + t.stage));
  t.next();
  return item;
}

/* ---- the producers ---- */

__device__ inline void copy_q(const tensor_map &map, const work_item &item, const q_turn &t)
{
#pragma unroll 1
  for (int group = 0; group < HR_GROUPS; group++) {
    int at = t.stage * HR_GROUPS + group;
    unsigned barrier = barrier_of(Q_FULL + at), to = shared_address(shared) + at * Q_PART;
    barrier_wait(barrier_of(Q_EMPTY + at), t.parity ^ 1);
    barrier_expect(barrier, PANELS(HR_QK) * Q_PANEL);
    for (int panel = 0; panel < PANELS(HR_QK); panel++)
      copy_box(to + panel * Q_PANEL, map, barrier, panel * 64, item.head, item.q_first + item.first_row + group * 64,
               entry_of(item));
  }
}

/* The last block to get here leaves the counters as they were, for the next run. */
__device__ inline void end_fetching(const attention_call &call)
{
  __threadfence();
  if (atomicAdd(call.counters + 1, 1) == gridDim.x - 1) {
    call.counters[0] = 0;
    call.counters[1] = 0;
  }
}

/* Fetches items, and copies Q. */
__device__ inline void produce_items(const attention_call &call, const maps &maps)
{
  item_turn items = {0, 0};
  q_turn q = {0, 0};
  prefetch_map(maps.q);
  int index = blockIdx.x;
#pragma unroll 1
  for (int next; index < call.items; index = next) {
    next = gridDim.x + atomicAdd(call.counters, 1);
    work_item item = item_of(call, index);
#ifdef HR_VARIABLE
    if (item.first_row >= item.q_len) /* a sequence shorter than the longest */
      continue;
#endif
    give_item(items, item);
    copy_q(maps.q, item, q);
    q.next();
  }
  work_item none = {-1};
  give_item(items, none);
  end_fetching(call);
}

/* Values of a tile that lie in the next sequence become 0: their weights are, but they may be NaN. By a warp. */
__device__ inline void clear_values(unsigned char *tile, int rows, int lane)
{
#pragma unroll 1
  for (int panel = 0; panel < PANELS(HR_V); panel++)
#pragma unroll 1
    for (int i = rows * (PANEL_ROW / 16) + lane; i < HR_COLUMNS * (PANEL_ROW / 16); i += 32)
      ((uint4 *)(tile + panel * KV_PANEL))[i] = make_uint4(0, 0, 0, 0);
  writes_publish();
  __syncwarp();
}

/* Copies K, or V, by a warp: tiles of `panels` panels to `tile_at`, as the barriers `full` and `empty` say. With CLEARS it
 * clears what lies behind a sequence. */
template <bool CLEARS>
__device__ inline void produce_tiles(const attention_call &call, const tensor_map &map, int panels, int tile_at, int full,
                                     int empty, int group)
{
  tile_turn t = {0, 0};
  item_turn items = {0, 0};
  unsigned loaded_parity = 0;
  int lane = threadIdx.x % 32;
  if (lane == 0)
    prefetch_map(map);
#pragma unroll 1
  for (work_item item = take_item(call, items); item.batch >= 0; item = take_item(call, items)) {
    int head = item.head / group;
#pragma unroll 1
    for (int tile = item.end_tile - 1; tile >= item.first_tile; tile--, t.next()) {
      int rows = item.kv_len - tile * HR_COLUMNS, at = tile_at + t.stage * panels * KV_PANEL;
      bool clears = CLEARS && rows < HR_COLUMNS;
      unsigned barrier = barrier_of(clears ? V_LOADED : full + t.stage);
      if (lane == 0) {
        barrier_wait(barrier_of(empty + t.stage), t.parity ^ 1);
        barrier_expect(barrier, panels * KV_PANEL);
        for (int panel = 0; panel < panels; panel++)
          copy_box(shared_address(shared) + at + panel * KV_PANEL, map, barrier, panel * 64, head,
                   item.kv_first + tile * HR_COLUMNS, entry_of(item));
      }
      __syncwarp();
      if (clears) {
        barrier_wait(barrier, loaded_parity);
        loaded_parity ^= 1;
        clear_values(shared + at, rows, lane);
        if (lane == 0)
          barrier_arrive(barrier_of(full + t.stage));
      }
    }
  }
}

/* Warps 0 … 3 behind the consumers. */
__device__ inline void produce(const attention_call &call, const maps &maps, int warp)
{
#ifdef HR_VARIABLE
  const bool clears = true;
#else
  const bool clears = false;
#endif
  if (warp == 0 && threadIdx.x % 32 == 0)
    produce_items(call, maps);
  else if (warp == 1)
    produce_tiles<false>(call, maps.k, PANELS(HR_QK), K_AT, K_FULL, K_EMPTY, call.k_group);
  else if (warp == 2)
    produce_tiles<clears>(call, maps.v, PANELS(HR_V), V_AT, V_FULL, V_EMPTY, call.v_group);
}
