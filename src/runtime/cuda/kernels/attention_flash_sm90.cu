/* Attention forward with an online softmax on Hopper's warpgroup products (sm_90a); fp16 and bf16.
 *
 *   block: HR_GROUPS × 64 query rows × the keys in tiles of HR_COLUMNS, right to left; one block a multiprocessor, which
 *   walks over row tiles of all heads
 *   ┌ warpgroup 0, one thread of it: copies Q, and K and V by tiles into HR_STAGES stages each, ahead of the others
 *   └ warpgroups 1 … HR_GROUPS, 64 rows each:
 *       S = Q Kᵀ (both from shared memory) → softmax in registers → O += P V (P from registers, V as it lies)
 *
 * A warpgroup issues S of the next tile before P V of this one, and does the softmax of the next while both are under way;
 * with HR_TURNS the warpgroups issue by turns, so that one is in its softmax while another's products run. With HR_DYNAMIC
 * blocks fetch row tiles from a counter, the longest first, which evens out causal ones; otherwise each takes every n-th.
 *
 * Tiles lie in panels of 64 columns, rows of 128 bytes swizzled as the copy engine and the products have it. Head sizes are
 * multiples of 8; the copy engine fills what a panel has beyond with zeros, and what a sequence has beyond its end. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/hopper.cuh"
#include "runtime/cuda/kernels/attention.cuh"

#define ROWS (64 * HR_GROUPS)
#define THREADS (128 * (HR_GROUPS + 1))
#define PANELS(dim) (((dim) + 63) / 64)

/* Bytes of shared memory. attention_flash_sm90.c reckons the same. */
#define PANEL_ROW 128
#define Q_PANEL (ROWS * PANEL_ROW)
#define KV_PANEL (HR_COLUMNS * PANEL_ROW)
#define Q_BYTES (PANELS(HR_QK) * Q_PANEL)
#define K_BYTES (PANELS(HR_QK) * KV_PANEL)
#define V_BYTES (PANELS(HR_V) * KV_PANEL)
#define K_AT Q_BYTES
#define V_AT (K_AT + HR_STAGES * K_BYTES)
#define BARRIERS_AT (V_AT + HR_STAGES * V_BYTES)
#define ITEMS_AT (BARRIERS_AT + 8 * BARRIERS)

#if HR_GROUPS == 3
#define PRODUCER_REGISTERS 32
#define CONSUMER_REGISTERS 160
#elif defined(HR_DYNAMIC) && HR_V <= 128
#define PRODUCER_REGISTERS 40
#define CONSUMER_REGISTERS 232
#else
#define PRODUCER_REGISTERS 24
#define CONSUMER_REGISTERS 240
#endif

extern __shared__ __align__(1024) unsigned char shared[];

struct maps {
  tensor_map q, k, v;
};

/* ---- barriers ---- */

enum barrier_name {
  Q_FULL,
  Q_EMPTY,
  K_FULL,
  K_EMPTY = K_FULL + HR_STAGES,
  V_FULL = K_EMPTY + HR_STAGES,
  V_EMPTY = V_FULL + HR_STAGES,
  ITEM_FULL = V_EMPTY + HR_STAGES,
  ITEM_EMPTY = ITEM_FULL + HR_STAGES,
  BARRIERS = ITEM_EMPTY + HR_STAGES
};

__device__ inline unsigned barrier_of(int name) { return shared_address(shared) + BARRIERS_AT + 8 * name; }

/* Which stage a tile, or the number of an item, takes, and the parity of its phase; counted over all of a block's work. */
struct turn {
  unsigned stage, parity;
  __device__ inline void next()
  {
    stage++;
    if (stage == HR_STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ inline void create_barriers()
{
  barrier_create(barrier_of(Q_FULL), 1);
  barrier_create(barrier_of(Q_EMPTY), 4 * HR_GROUPS); /* a lane of each consuming warp */
  for (int i = 0; i < HR_STAGES; i++) {
    barrier_create(barrier_of(K_FULL + i), 1);
    barrier_create(barrier_of(V_FULL + i), 1);
    barrier_create(barrier_of(K_EMPTY + i), 4 * HR_GROUPS);
    barrier_create(barrier_of(V_EMPTY + i), 4 * HR_GROUPS);
    barrier_create(barrier_of(ITEM_FULL + i), 1);
    barrier_create(barrier_of(ITEM_EMPTY + i), 4 * HR_GROUPS);
  }
  barriers_publish();
}

/* ---- what there is to do ---- */

/* One row tile of one head, and the tiles of keys that some row of it sees. */
struct work_item {
  int batch, head, first_row;
  int first_tile, end_tile;
};

/* Heads are taken in bands whose K and V fit the L2; within a band the row tiles at the bottom, the longest of a causal
 * call, come first. */
__device__ inline work_item item_of(const attention_call &call, int index)
{
  int band_items = call.band_heads * call.row_tiles, band = index / band_items, rest = index % band_items;
  int heads = min(call.band_heads, call.heads - band * call.band_heads);
  int head = band * call.band_heads + rest % heads;
  work_item item;
  item.batch = head / call.q_heads;
  item.head = head % call.q_heads;
  item.first_row = (call.row_tiles - 1 - rest / heads) * ROWS;
  int shift = call.kv_len - call.q_len, last_row = min(item.first_row + ROWS, call.q_len) - 1;
  int first = call.window > 0 ? max(0, item.first_row + shift - call.window + 1) : 0;
  int end = call.causal ? max(0, last_row + shift + 1) : call.kv_len;
  item.first_tile = first / HR_COLUMNS;
  item.end_tile = (end + HR_COLUMNS - 1) / HR_COLUMNS;
  return item;
}

/* ---- the producer ---- */

__device__ inline void copy_kv(const tensor_map &map, int tile_at, int panels, int panel_bytes, int full, int empty,
                               const turn &t, int head, int first_key, int batch)
{
  unsigned barrier = barrier_of(full + t.stage), to = shared_address(shared) + tile_at + t.stage * panels * panel_bytes;
  barrier_wait(barrier_of(empty + t.stage), t.parity ^ 1);
  barrier_expect(barrier, panels * panel_bytes);
  for (int panel = 0; panel < panels; panel++)
    copy_box(to + panel * panel_bytes, map, barrier, panel * 64, head, first_key, batch);
}

/* Where the number of an item lies that the producer has fetched. */
__device__ inline volatile int *item_slot(unsigned stage) { return (volatile int *)(shared + ITEMS_AT) + stage; }

/* Tells the consumers which item comes next; with HR_DYNAMIC only, as they can count otherwise. */
__device__ inline void announce(turn &items, int index)
{
#ifdef HR_DYNAMIC
  barrier_wait(barrier_of(ITEM_EMPTY + items.stage), items.parity ^ 1);
  *item_slot(items.stage) = index;
  barrier_arrive(barrier_of(ITEM_FULL + items.stage));
  items.next();
#endif
}

__device__ inline int item_after(const attention_call &call, int index)
{
#ifdef HR_DYNAMIC
  return gridDim.x + atomicAdd(call.counters, 1);
#else
  return index + gridDim.x;
#endif
}

/* The last block to get here leaves the counters as they were, for the next run. */
__device__ inline void end_fetching(const attention_call &call)
{
#ifdef HR_DYNAMIC
  __threadfence();
  if (atomicAdd(call.counters + 1, 1) == gridDim.x - 1) {
    call.counters[0] = 0;
    call.counters[1] = 0;
  }
#endif
}

__device__ inline void produce(const attention_call &call, const maps &maps)
{
  turn t = {0, 0}, items = {0, 0};
  unsigned q_parity = 0;
  prefetch_map(maps.q);
  prefetch_map(maps.k);
  prefetch_map(maps.v);
  int index = blockIdx.x;
  for (int next; index < call.items; index = next) {
    next = item_after(call, index);
    announce(items, index);
    work_item item = item_of(call, index);
    if (item.first_tile >= item.end_tile)
      continue;
    int k_head = item.head / call.k_group, v_head = item.head / call.v_group;
    barrier_wait(barrier_of(Q_EMPTY), q_parity ^ 1);
    barrier_expect(barrier_of(Q_FULL), Q_BYTES);
    for (int panel = 0; panel < PANELS(HR_QK); panel++)
      copy_box(shared_address(shared) + panel * Q_PANEL, maps.q, barrier_of(Q_FULL), panel * 64, item.head,
               item.first_row, item.batch);
    q_parity ^= 1;
    for (int tile = item.end_tile - 1; tile >= item.first_tile; tile--) {
      copy_kv(maps.k, K_AT, PANELS(HR_QK), KV_PANEL, K_FULL, K_EMPTY, t, k_head, tile * HR_COLUMNS, item.batch);
      copy_kv(maps.v, V_AT, PANELS(HR_V), KV_PANEL, V_FULL, V_EMPTY, t, v_head, tile * HR_COLUMNS, item.batch);
      t.next();
    }
  }
  announce(items, index); /* the end */
  end_fetching(call);
}

/* ---- a consumer ---- */

/* A thread's share of 64 rows: rows t / 4 and t / 4 + 8 of its warp's 16, of every 8 columns 2 (t % 4) and the next. */
struct consumer {
  float scores[HR_COLUMNS / 2], out[HR_V / 2];
  unsigned weights[HR_COLUMNS / 4]; /* scores after the softmax, in pairs of 16 bits */
  float largest[2], sum[2], correction[2];
  int group; /* warpgroup, from 0 */
};

/* One lane of each warp says that the warp has read a stage. */
__device__ inline void release(int barrier)
{
  if (threadIdx.x % 32 == 0)
    barrier_arrive(barrier_of(barrier));
}

/* Starts scores = Q Kᵀ. */
__device__ inline void start_scores(consumer &c, unsigned stage)
{
  unsigned q = shared_address(shared) + c.group * 64 * PANEL_ROW, k = shared_address(shared) + K_AT + stage * K_BYTES;
#pragma unroll
  for (int step = 0; step < HR_QK / 16; step++) {
    unsigned long long a = describe_operand(q + step / 4 * Q_PANEL + step % 4 * 32, 1024, 0);
    unsigned long long b = describe_operand(k + step / 4 * KV_PANEL + step % 4 * 32, 1024, 0);
    WGMMA_SHARED(HR_COLUMNS, c.scores, a, b, step > 0);
  }
  products_commit();
}

/* Starts out += P V. */
__device__ inline void start_out(consumer &c, unsigned stage)
{
  unsigned v = shared_address(shared) + V_AT + stage * V_BYTES;
#pragma unroll
  for (int step = 0; step < HR_COLUMNS / 16; step++) {
    unsigned long long b = describe_operand(v + step * 16 * PANEL_ROW, 1024, KV_PANEL);
    WGMMA_REGISTERS(HR_V, c.out, c.weights + 4 * step, b);
  }
  products_commit();
}

__device__ inline int row_of(const consumer &c, const work_item &item, int half)
{
  return item.first_row + c.group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* −∞ where a row does not see a key; nothing where all rows of the warpgroup see all keys of the tile. */
__device__ inline void mask_scores(const attention_call &call, const head_view &view, consumer &c, const work_item &item,
                                   int tile)
{
  int first_key = tile * HR_COLUMNS, first_row = item.first_row + c.group * 64;
  if (first_key + HR_COLUMNS <= keys_of_row(call, view, first_row).end &&
      first_key >= keys_of_row(call, view, first_row + 63).first)
    return;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    key_range keys = keys_of_row(call, view, row_of(c, item, half));
    int first = keys.first - first_key - threadIdx.x % 4 * 2, end = keys.end - first_key - threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (n * 8 + e < first || n * 8 + e >= end)
          c.scores[n * 4 + half * 2 + e] = minus_infinity();
  }
}

/* Scores become 2^(factor · (score − largest)), sums follow, and `correction` is what earlier weights shrink by. */
__device__ inline void soften(consumer &c, float factor)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float before = c.largest[half], largest = before, sum = 0;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
      largest = fmaxf(largest, fmaxf(c.scores[n * 4 + half * 2], c.scores[n * 4 + half * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
    float base = largest == minus_infinity() ? 0 : largest * factor;
    c.correction[half] = power_of_two(before * factor - base);
    c.largest[half] = largest;
#pragma unroll
    for (int n = 0; n < HR_COLUMNS / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float weight = power_of_two(c.scores[n * 4 + half * 2 + e] * factor - base);
        c.scores[n * 4 + half * 2 + e] = weight;
        sum += weight;
      }
    c.sum[half] = c.sum[half] * c.correction[half] + sum;
  }
}

/* The scores as the first operand of P V. */
__device__ inline void round_weights(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_COLUMNS / 4; i++)
    c.weights[i] = pack_two(c.scores[2 * i], c.scores[2 * i + 1]);
}

__device__ inline void correct_out(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] *= c.correction[i / 2 % 2];
}

/* ---- the end of a row tile ---- */

/* Four words of each of a row's four lanes, transposed: lane l gets word l of all. */
__device__ inline uint4 gather_row(const unsigned (&words)[4])
{
  int lane = threadIdx.x % 4;
  unsigned kept[4];
#pragma unroll
  for (int i = 0; i < 4; i++) { /* lane l hands word (l ^ i) to lane l ^ i and gets what that lane has for l */
    unsigned give = lane == 0 ? words[i] : lane == 1 ? words[1 ^ i] : lane == 2 ? words[2 ^ i] : words[3 ^ i];
    kept[i] = i == 0 ? give : __float_as_uint(__shfl_xor_sync(0xFFFFFFFFu, __uint_as_float(give), i));
  }
  /* kept[i] came from lane l ^ i */
  uint4 row;
  row.x = lane == 0 ? kept[0] : lane == 1 ? kept[1] : lane == 2 ? kept[2] : kept[3];
  row.y = lane == 0 ? kept[1] : lane == 1 ? kept[0] : lane == 2 ? kept[3] : kept[2];
  row.z = lane == 0 ? kept[2] : lane == 1 ? kept[3] : lane == 2 ? kept[0] : kept[1];
  row.w = lane == 0 ? kept[3] : lane == 1 ? kept[2] : lane == 2 ? kept[1] : kept[0];
  return row;
}

/* Writes a row's 64 bytes by its four lanes at once, from four products' columns. */
__device__ inline void store_row(const attention_call &call, const head_view &view, const consumer &c, int row, int half,
                                 float inverse)
{
  element *to = view.o + (int64)row * call.o_at.row;
#pragma unroll
  for (int n = 0; n < HR_V / 8; n += 4) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int at = (n + i < HR_V / 8 ? n + i : 0) * 4 + half * 2;
      words[i] = pack_two(c.out[at] * inverse, c.out[at + 1] * inverse);
    }
    uint4 chunk = gather_row(words);
    int column = (n + threadIdx.x % 4) * 8;
    if (row < view.q_len && column < call.v_dim)
      *(uint4 *)(to + column) = chunk;
  }
}

/* Divides by the sum of weights. A row without keys is 0; one whose every score is −∞ is NaN. */
__device__ inline void finish(const attention_call &call, const head_view &view, const consumer &c,
                              const work_item &item, float factor)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = c.sum[half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    int row = row_of(c, item, half);
    key_range keys = keys_of_row(call, view, row);
    store_row(call, view, c, row, half, keys.first >= keys.end ? 0.0f : 1.0f / sum);
    if (view.lse && row < view.q_len && threadIdx.x % 4 == 0)
      view.lse[row * call.lse_at.row] = (c.largest[half] * factor + log2f(sum)) * LN_2;
  }
}

/* ---- the kernel ---- */

__device__ inline void begin(consumer &c)
{
#pragma unroll
  for (int i = 0; i < HR_V / 2; i++)
    c.out[i] = 0;
  c.largest[0] = c.largest[1] = minus_infinity();
  c.sum[0] = c.sum[1] = 0;
}

/* Named barriers 1 …: a warpgroup's turn to issue products. */
__device__ inline void wait_for_turn(const consumer &c)
{
#ifdef HR_TURNS
  named_wait(1 + c.group, 256);
#endif
}

__device__ inline void pass_turn(const consumer &c)
{
#ifdef HR_TURNS
  named_arrive(1 + (c.group + 1) % HR_GROUPS, 256);
#endif
}

/* All tiles of an item. S of a tile is issued before P V of the one before, and the softmax runs beside both. */
__device__ inline void attend(const attention_call &call, const head_view &view, consumer &c, const work_item &item,
                              turn &t, float factor)
{
  barrier_wait(barrier_of(K_FULL + t.stage), t.parity);
  products_begin();
  start_scores(c, t.stage);
  products_wait<0>();
  release(K_EMPTY + t.stage);
  int tile = item.end_tile - 1;
  mask_scores(call, view, c, item, tile);
  soften(c, factor);
  round_weights(c);
  turn next = t;
  next.next();
  if (tile > item.first_tile)
    barrier_wait(barrier_of(K_FULL + next.stage), next.parity);
#pragma unroll 1
  for (tile--; tile >= item.first_tile; tile--) {
    wait_for_turn(c);
    products_begin();
    start_scores(c, next.stage);
    barrier_wait(barrier_of(V_FULL + t.stage), t.parity);
    products_begin();
    start_out(c, t.stage);
    pass_turn(c);
    products_wait<1>();
    release(K_EMPTY + next.stage);
    mask_scores(call, view, c, item, tile);
    soften(c, factor);
    turn before = t;
    t = next;
    next.next();
    if (tile > item.first_tile) /* here, since the compiler moves the next wait up to the last branch before it */
      barrier_wait(barrier_of(K_FULL + next.stage), next.parity);
    products_wait<0>();
    release(V_EMPTY + before.stage);
    correct_out(c);
    round_weights(c);
  }
  release(Q_EMPTY);
  barrier_wait(barrier_of(V_FULL + t.stage), t.parity);
  products_begin();
  start_out(c, t.stage);
  products_wait<0>();
  release(V_EMPTY + t.stage);
  t.next();
}

/* The item after `index` (blockIdx.x after −1); call.items or more at the end. */
__device__ inline int take_item(turn &items, int index)
{
#ifdef HR_DYNAMIC
  barrier_wait(barrier_of(ITEM_FULL + items.stage), items.parity);
  index = *item_slot(items.stage);
  __syncwarp();
  release(ITEM_EMPTY + items.stage);
  items.next();
  return index;
#else
  return index < 0 ? blockIdx.x : index + gridDim.x;
#endif
}

__device__ inline void consume(const attention_call &call)
{
  consumer c;
  c.group = threadIdx.x / 128 - 1;
  float factor = softmax_factor(call);
  turn t = {0, 0}, items = {0, 0};
  unsigned q_parity = 0;
#ifdef HR_TURNS
  if (c.group == HR_GROUPS - 1)
    pass_turn(c);
#endif
#pragma unroll 1
  for (int index = take_item(items, -1); index < call.items; index = take_item(items, index)) {
    work_item item = item_of(call, index);
    head_view view = view_head(call, item.batch, item.head);
    begin(c);
    if (item.first_tile < item.end_tile) {
      barrier_wait(barrier_of(Q_FULL), q_parity);
      q_parity ^= 1;
      attend(call, view, c, item, t, factor);
    }
    finish(call, view, c, item, factor);
  }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention(const __grid_constant__ attention_call call,
                                                                   const __grid_constant__ maps maps)
{
  if (threadIdx.x == 0)
    create_barriers();
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_give_back<PRODUCER_REGISTERS>();
    if (threadIdx.x == 0)
      produce(call, maps);
  } else {
    registers_take<CONSUMER_REGISTERS>();
    consume(call);
  }
}
