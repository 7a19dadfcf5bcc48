/* SPDX-License-Identifier: Apache-2.0 */
/* What decode_latent_sm90.cu shares between its warps: the work of a block, shared memory and mbarriers, and the
 * producer warps, which load Q and K by TMA ahead of the consumer warpgroups.
 *
 * Tile a of a pair is in K buffer 0, tile b in buffer 1. A buffer has two halves of panels: the EARLY one is V's half
 * of the warpgroup that computes the tile's scores, which is done with it first; the LATE one is the rest, with P. */

typedef long long int64;
typedef hr_latent_call latent_call;

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f
#define ROWS HR_LATENT_ROWS
#define KEYS HR_LATENT_KEYS
#define USED_ROWS \
  (HR_HEADS * HR_QUERIES) /* of the Q tile; row r is query r / HR_HEADS and head r % HR_HEADS of its block */
#define PANEL_ROW 128
#define PANEL_BYTES HR_LATENT_PANEL_BYTES
#define LAYOUT hr_latent_layout_of(HR_QK, HR_V)
#define BOXES (KEYS / HR_BOX) /* TMA copies of a tile's panel */

enum {
  Q_PANELS = LAYOUT.q_panels,
  V_PANELS = LAYOUT.v_panels,
  HALF_PANELS = V_PANELS / 2,
  K_AT = LAYOUT.k_at,
  K_BYTES = LAYOUT.k_bytes,
  P_AT = V_PANELS * PANEL_BYTES, /* within a K buffer */
  EXCHANGE_AT = LAYOUT.exchange_at,
  BARRIERS_AT = LAYOUT.barriers_at
};

extern __shared__ __align__(1024) unsigned char shared[];

/* HR_HALF_BOXES: [64 columns, tokens, panels, pages]; k has boxes of V's panels of a half, k_rest of those behind V.
 * Otherwise [columns, 1, tokens, pages], and k has boxes of a panel. */
struct tensor_maps {
  tensor_map q, k, k_rest;
};

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

/* Makes a value warp-uniform for the compiler. */
__device__ inline int uniform(int value)
{
  return __shfl_sync(0xFFFFFFFFu, value, 0);
}

/* ---- the work of a block: pairs of tiles of consecutive sequences ---- */

/* Keys first … end − 1. */
struct key_range {
  int first, end;
};

/* The keys that query `query` of a sequence sees. */
__device__ inline key_range keys_of_query(const latent_call &call, int length, int query)
{
  key_range keys;
  keys.end = max(0, length - call.q_len + query + 1);
  keys.first = call.window > 0 ? max(0, keys.end - call.window) : 0;
  return keys;
}

__device__ inline int length_of(const latent_call &call, int sequence)
{
  return call.lengths ? call.lengths[sequence] : call.kv_len;
}

/* The pairs of a sequence, first … end − 1: those with a key that one of its queries sees, at least one. */
__device__ inline key_range pairs_of_length(const latent_call &call, int length)
{
  key_range pairs;
  pairs.first = keys_of_query(call, length, 0).first / HR_LATENT_PAIR;
  pairs.end = max(pairs.first + 1, (length + HR_LATENT_PAIR - 1) / HR_LATENT_PAIR);
  return pairs;
}

/* How many pairs sequence `sequence` has; 0 behind the last. */
__device__ inline int count_pairs(const latent_call &call, int sequence)
{
  if (sequence >= call.batch)
    return 0;
  key_range pairs = pairs_of_length(call, length_of(call, sequence));
  return pairs.end - pairs.first;
}

/* Pairs of the batch. Called by a warp. */
__device__ inline int count_all_pairs(const latent_call &call)
{
  if (!call.lengths)
    return count_pairs(call, 0) * call.batch;
  int sum = 0;
#pragma unroll 4
  for (int sequence = threadIdx.x % 32; sequence < call.batch; sequence += 32)
    sum += count_pairs(call, sequence);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
  return sum;
}

/* A pair of the batch: its sequence, and its number within the sequence's pairs. */
struct pair_place {
  int sequence, pair;
};

/* Called by a warp. */
__device__ inline pair_place find_pair(const latent_call &call, int number)
{
  if (!call.lengths) {
    int pairs = count_pairs(call, 0);
    return {number / pairs, number % pairs};
  }
#pragma unroll 1
  for (int first = 0;; first += 32) {
    int own = count_pairs(call, first + threadIdx.x % 32), end = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      int before = __shfl_up_sync(0xFFFFFFFFu, end, distance);
      end += (int)threadIdx.x % 32 >= distance ? before : 0;
    }
    int lane = __popc(__ballot_sync(0xFFFFFFFFu, end <= number));
    if (lane < 32)
      return {first + lane, number - __shfl_sync(0xFFFFFFFFu, end - own, lane)};
    number -= __shfl_sync(0xFFFFFFFFu, end, 31);
  }
}

/* How the pairs of the batch are divided: `larger` teams have one more than the others. */
struct team_shares {
  int pairs, share, larger;
  __device__ inline int begin(int team) const
  {
    return team * share + min(team, larger);
  }
  __device__ inline int team_of(int pair) const
  {
    int behind = pair - larger * (share + 1);
    return behind < 0 ? pair / (share + 1) : larger + behind / share;
  }
};

__device__ inline team_shares divide_pairs(const latent_call &call)
{
  int pairs = count_all_pairs(call);
  return {pairs, pairs / call.teams, pairs % call.teams};
}

/* A part of a sequence's pairs. */
struct work_item {
  int sequence, length;
  int pair, end; /* of the keys: pair i begins with key i · HR_LATENT_PAIR */
  bool whole;    /* all of the sequence's pairs */
  bool first;    /* of the block's share */
  int left;      /* pairs of the share behind this item */
};

__device__ inline void set_item(const latent_call &call, work_item &item, int skipped)
{
  item.length = length_of(call, item.sequence);
  key_range pairs = pairs_of_length(call, item.length);
  item.pair = pairs.first + skipped;
  item.end = min(pairs.end, item.pair + item.left);
  item.whole = skipped == 0 && item.end == pairs.end;
  item.left -= item.end - item.pair;
}

/* The first item of this block; a warp has no work if pair == end. */
__device__ inline work_item first_item(const latent_call &call)
{
  int team = blockIdx.x / call.row_blocks;
  team_shares shares = divide_pairs(call);
  int begin = shares.begin(team);
  work_item item = {};
  item.left = shares.begin(team + 1) - begin;
  if (item.left == 0)
    return item;
  pair_place place = find_pair(call, begin);
  item.sequence = place.sequence;
  item.first = true;
  set_item(call, item, place.pair);
  return item;
}

__device__ inline bool next_item(const latent_call &call, work_item &item)
{
  if (item.left == 0)
    return false;
  item.sequence++;
  item.first = false;
  set_item(call, item, 0);
  return true;
}

/* ---- mbarriers: FULL when TMA has written, EMPTY when the readers have released ---- */

enum { EARLY, LATE, HALVES };

enum mbarrier_name {
  Q_FULL,
  Q_EMPTY,
  K_FULL, /* per buffer and half */
  K_EMPTY = K_FULL + 2 * HALVES,
  K_LOADED = K_EMPTY + 2 * HALVES, /* a tile that has to be cleared before it is FULL */
  BARRIERS = K_LOADED + 2 * HALVES
};
static_assert(BARRIERS == LAYOUT.barriers, "mbarriers");

__device__ inline unsigned mbarrier_at(int name)
{
  return shared_address(shared) + BARRIERS_AT + 8 * name;
}

__device__ inline void init_mbarriers()
{
  mbarrier_init(mbarrier_at(Q_FULL), 1);
  mbarrier_init(mbarrier_at(Q_EMPTY), 8); /* a lane of each consumer warp */
  for (int i = 0; i < 2 * HALVES; i++) {
    mbarrier_init(mbarrier_at(K_FULL + i), 1);
    mbarrier_init(mbarrier_at(K_EMPTY + i), 4); /* a lane of each warp of the warpgroup that reads it last */
    mbarrier_init(mbarrier_at(K_LOADED + i), 1);
  }
  fence_mbarrier_init();
}

/* Whether panel `panel` of a buffer is in its early half. */
__device__ constexpr bool is_early(int buffer, int panel)
{
  return panel / HALF_PANELS == buffer;
}

__device__ constexpr int panels_of_half(int half)
{
  return half == EARLY ? HALF_PANELS : Q_PANELS - HALF_PANELS;
}

/* The i-th panel of a half. */
__device__ inline int panel_of_half(int buffer, int half, int i)
{
  if (half == EARLY)
    return buffer * HALF_PANELS + i;
  return i < HALF_PANELS ? (1 - buffer) * HALF_PANELS + i : HALF_PANELS + i;
}

/* ---- producer warps: each loads one half of one buffer, the first also Q ---- */

/* The place of a box of keys in the cache; a token behind the page, which TMA fills with zeros, where no key is
 * wanted. */
struct box_place {
  int page, token;
};

/* This lane's box of a tile: lanes from BOXES on have none. */
__device__ inline box_place find_box(const latent_call &call, const work_item &item, int tile)
{
  int key = tile * KEYS + (int)threadIdx.x * HR_BOX % KEYS;
  box_place box = {0, call.page_size};
  if (key >= item.length || key + HR_BOX <= keys_of_query(call, item.length, 0).first)
    return box;
  int place = call.table_pitch == 1 ? 0 : key / call.page_size;
  box.token = call.table_pitch == 1 ? key : key % call.page_size;
  int64 start = call.page_starts ? call.page_starts[item.sequence] : (int64)item.sequence * call.table_pitch;
  box.page = (int)start + place;
  if (call.pages)
    box.page = call.pages[start + place];
  return box;
}

/* Zeroes the rows of a tile behind the sequence's end: their P is 0, but 0 · NaN is NaN. Called by a warp. */
__device__ inline void clear_rows(unsigned char *tile, int buffer, int half, int rows)
{
#pragma unroll 1
  for (int i = 0; i < panels_of_half(half); i++)
#pragma unroll 1
    for (int chunk = rows * (PANEL_ROW / 16) + threadIdx.x % 32; chunk < PANEL_BYTES / 16; chunk += 32)
      ((uint4 *)(tile + panel_of_half(buffer, half, i) * PANEL_BYTES))[chunk] = make_uint4(0, 0, 0, 0);
  fence_proxy_async();
  __syncwarp();
}

/* Starts the copies of a half. Called by a warp. */
__device__ inline void copy_half(const tensor_maps &maps, box_place box, int buffer, int half, unsigned barrier)
{
  int lane = threadIdx.x % 32;
  unsigned to = shared_address(shared) + K_AT + buffer * K_BYTES;
#ifdef HR_HALF_BOXES
  int first = panel_of_half(buffer, half, 0);
  if (lane == 0)
    tma_load(to + first * PANEL_BYTES, maps.k, barrier, 0, box.token, first, box.page);
  if (lane == 0 && half == LATE && Q_PANELS > V_PANELS)
    tma_load(to + V_PANELS * PANEL_BYTES, maps.k_rest, barrier, 0, box.token, V_PANELS, box.page);
#else
  if (lane < BOXES)
#pragma unroll 1
    for (int i = 0; i < panels_of_half(half); i++) {
      int panel = panel_of_half(buffer, half, i);
      tma_load(to + panel * PANEL_BYTES + lane * HR_BOX * PANEL_ROW, maps.k, barrier, panel * 64, 0, box.token,
               box.page);
    }
#endif
  __syncwarp();
}

/* Loads a half of a tile whose buffer is empty. `rows`: keys of the tile that the sequence has. */
__device__ inline void load_half(const tensor_maps &maps, box_place box, int buffer, int half, int rows,
                                 unsigned &cleared_phase)
{
  int lane = threadIdx.x % 32, name = buffer * HALVES + half;
  bool clears = rows > 0 && rows < KEYS && rows % HR_BOX != 0; /* whole boxes are zero already */
  unsigned barrier = mbarrier_at((clears ? K_LOADED : K_FULL) + name);
  if (lane == 0)
    mbarrier_arrive_expect_tx(barrier, panels_of_half(half) * PANEL_BYTES);
  __syncwarp();
  copy_half(maps, box, buffer, half, barrier);
  if (!clears)
    return;
  mbarrier_wait(barrier, cleared_phase);
  cleared_phase ^= 1;
  clear_rows(shared + K_AT + buffer * K_BYTES, buffer, half, rows);
  if (lane == 0)
    mbarrier_arrive(mbarrier_at(K_FULL + name));
}

/* Row blocks of a sequence: blocks of heads, then blocks of queries. */
__device__ inline int first_head(const latent_call &call)
{
  return blockIdx.x % call.row_blocks % call.head_blocks * HR_HEADS;
}
__device__ inline int first_query(const latent_call &call)
{
  return blockIdx.x % call.row_blocks / call.head_blocks * HR_QUERIES;
}

__device__ inline void load_q(const latent_call &call, const tensor_maps &maps, const work_item &item, unsigned phase)
{
  mbarrier_wait(mbarrier_at(Q_EMPTY), phase ^ 1);
  mbarrier_arrive_expect_tx(mbarrier_at(Q_FULL), Q_PANELS * USED_ROWS * PANEL_ROW);
#pragma unroll 1
  for (int panel = 0; panel < Q_PANELS; panel++)
    tma_load(shared_address(shared) + panel * PANEL_BYTES, maps.q, mbarrier_at(Q_FULL), panel * 64, first_head(call),
             first_query(call), item.sequence);
}

/* A producer warp; its number gives its buffer and half. The one that is needed last loads Q. */
__device__ inline void produce(const latent_call &call, const tensor_maps &maps, int warp)
{
  int buffer = warp / HALVES, half = warp % HALVES;
  unsigned phase = 0, q_phase = 0, cleared_phase = 0;
  bool loads_q = warp == 3 && threadIdx.x % 32 == 0;
  work_item item = first_item(call);
  if (item.pair == item.end)
    return;
  do {
    if (loads_q)
      load_q(call, maps, item, q_phase);
    __syncwarp();
    q_phase ^= 1;
    box_place box = find_box(call, item, 2 * item.pair + buffer);
#pragma unroll 1
    for (; item.pair < item.end; item.pair++, phase ^= 1) {
      int tile = 2 * item.pair + buffer;
      mbarrier_wait(mbarrier_at(K_EMPTY + warp), phase ^ 1);
      load_half(maps, box, buffer, half, item.length - tile * KEYS, cleared_phase);
      box = find_box(call, item, tile + 2);
    }
  } while (next_item(call, item));
}
