/* SPDX-License-Identifier: Apache-2.0 */
/* persistent.cu's attention of one new token of each sequence.
 *
 *   a group: HR_Q_EACH heads of Q that share a head of K and one of V; HR_K_SHARE groups have one head of K,
 *     HR_V_SHARE one of V
 *   an item: one of HR_SPLITS parts of the keys of a sequence for up to 8 heads of a group
 *   a tile: 16 keys, which one warp multiplies with all heads of an item by mma.sync
 *
 * Keys come through the ring of slots, as weights do, so that no chain of loads (length, page, key) is waited for.
 * Each item norms and rotates its heads of Q, and the last of the keys also the new K, which it writes to the cache
 * with V. Of several items with the same heads each adds up some of the columns of all. */

typedef hr_persistent_attention attention;

#define GROUP (HR_Q_EACH < HR_PERSISTENT_GROUP ? HR_Q_EACH : HR_PERSISTENT_GROUP) /* heads of an item */
#define PARTS ((HR_Q_EACH + GROUP - 1) / GROUP)                                   /* of a group */
#define ITEMS (TOKENS * HR_GROUPS * PARTS * HR_SPLITS)
#define SPLITS HR_SPLITS

/* Columns of all heads that an item adds up, and what a split sends to it, 16 bytes at once: the largest score and the
 * sum of each head, columns. */
#define SHARE hr_persistent_share(GROUP, V_DIM, SPLITS)
#define STATES hr_persistent_states(GROUP)
#define PART (STATES + SHARE)
#define PART_PITCH (PART | 1) /* in shared memory, where lanes have splits */
#define PART_CHUNK 4          /* floats of 16 bytes */

#define QK_DIM HR_QK_DIM
#define V_DIM HR_V_DIM
/* Keys that a TMA load copies, which are in one page, and those of a slot: first all K, then all V. */
#define TILE_KEYS HR_PERSISTENT_TILE_KEYS
#define K_PANEL hr_persistent_panel(QK_DIM)
#define V_PANEL hr_persistent_panel(V_DIM)
#define K_PANELS (QK_DIM / K_PANEL)
#define V_PANELS (V_DIM / V_PANEL)
#define ROW_BYTES(columns) ((columns) * (int)sizeof(element))
#define K_BYTES (TILE_KEYS * ROW_BYTES(QK_DIM)) /* of a tile */
#define V_BYTES (TILE_KEYS * ROW_BYTES(V_DIM))
#define TILE_BYTES (K_BYTES + V_BYTES)
#define SWIZZLED 1024 /* bytes after which a swizzle repeats: tiles begin there */
#define SLOT_TILES ((HR_PERSISTENT_SLOT - SWIZZLED / 2) / TILE_BYTES)
#define SLOT_KEYS (SLOT_TILES * TILE_KEYS)
#define QK_STEPS ((QK_DIM + STEP - 1) / STEP) /* of columns, as linear layers have them */
#define V_STEPS ((V_DIM + 15) / 16)           /* columns of V that are the rows of an mma.sync */
#define QUERY_PITCH (QK_DIM + HR_PERSISTENT_QUERY_PADDING)
#define OUT_PITCH (V_DIM + HR_PERSISTENT_OUT_PADDING)
#define DIM_MAX (QK_DIM > V_DIM ? QK_DIM : V_DIM)

/* In shared memory, where linear layers have x. */
struct attention_room {
  float heads[GROUP + 2][DIM_MAX];       /* of Q, then K and V */
  float norms[2][DIM_MAX];               /* weights of Q's and K's, where all heads have one */
  float angles[DIM_MAX];                 /* of the new token */
  alignas(16) element fresh[2][DIM_MAX]; /* its K and V */
  alignas(16) element queries[GROUP][QUERY_PITCH];
  float most[WARPS][GROUP], sum[WARPS][GROUP], weights[GROUP][WARPS]; /* of the warps */
  float states[2 * GROUP];            /* of heads: the largest score and the sum of weights */
  float split_weights[GROUP][SPLITS]; /* over the sum of all */
  union {
    alignas(16) float out[WARPS][GROUP][OUT_PITCH];
    float received[SPLITS * PART_PITCH]; /* [split][PART_PITCH] */
  };
};

/* Keys of a sequence from `begin` to `end`; its slots begin at `start`. */
struct item {
  int split, sequence, first; /* of the item's with the same heads */
  int k_head, v_head, first_head, heads;
  int length, start, begin, end;

  __device__ item(const attention &a, int number)
  {
    const int part = number / SPLITS % PARTS, group = number / (SPLITS * PARTS) % HR_GROUPS;
    split = number % SPLITS;
    sequence = number / (SPLITS * PARTS * HR_GROUPS);
    first = number - split;
    k_head = group / HR_K_SHARE, v_head = group / HR_V_SHARE;
    first_head = group * HR_Q_EACH + part * GROUP;
    heads = min(GROUP, HR_Q_EACH - part * GROUP);
    length = a.lengths[sequence];
    const int hidden = a.window > 0 ? max(0, length - a.window) : 0, before = hidden / TILE_KEYS;
    const int tiles = (length + TILE_KEYS - 1) / TILE_KEYS - before, each = (tiles + SPLITS - 1) / SPLITS;
    start = (before + split * each) * TILE_KEYS;
    begin = max(start, hidden);
    end = min(length, start + each * TILE_KEYS);
  }
  __device__ bool has_new() const
  {
    return begin < length && end == length;
  }
  /* The heads behind the last one are computed with its Q and not stored. */
  __device__ int head(int h) const
  {
    return first_head + min(h, heads - 1);
  }
};

/* The token's place among those of the cache. */
__device__ inline int64 place_of(const attention &a, const item &i, int key)
{
  const int at = i.sequence * a.table_pitch + key / HR_PAGE;
  return (int64)a.pages[at] * HR_PAGE + key % HR_PAGE;
}

__device__ inline element *k_at(const attention &a, const item &i, int64 place)
{
  return a.k_cache + (place * (HR_GROUPS / HR_K_SHARE) + i.k_head) * QK_DIM;
}
__device__ inline element *v_at(const attention &a, const item &i, int64 place)
{
  return a.v_cache + (place * (HR_GROUPS / HR_V_SHARE) + i.v_head) * V_DIM;
}

/* ---- the warp that copies ---- */

/* Before the first copy of keys. */
__device__ inline void take_maps(const attention &a)
{
  if (lane_of() < 2) {
    acquire_tensor_map(a.maps[lane_of()]);
    prefetch_tensor_map(a.maps[lane_of()]);
  }
  __syncwarp();
}

/* Where a slot has tiles: every other one begins in the middle of what a swizzle repeats. */
__device__ inline unsigned tiles_of_slot(const rooms &r, int slot)
{
  static_assert(HR_PERSISTENT_SLOT % SWIZZLED == SWIZZLED / 2);
  return (shared_address(r.slots) + slot * HR_PERSISTENT_SLOT + SWIZZLED / 2) & ~(SWIZZLED - 1u);
}

/* Copies the tiles of a slot, from `key` on. */
__device__ inline void copy_tiles(const attention &a, const rooms &r, ring &at, const item &i, int key)
{
  constexpr int PANELS = K_PANELS + V_PANELS;
  const unsigned full = r.full + 8 * at.slot, slot = tiles_of_slot(r, at.slot);
  const int tiles = min(SLOT_TILES, (i.end - key + TILE_KEYS - 1) / TILE_KEYS);
  const int *const pages = a.pages + i.sequence * a.table_pitch;
  r.cycles.note(HR_CYCLES_COPIES);
  await_slot(r, at);
  r.cycles.note(HR_CYCLES_SLOTS);
  if (lane_of() == 0)
    mbarrier_arrive_expect_tx(full, tiles * TILE_BYTES);
  __syncwarp();
#pragma unroll 1
  for (int n = lane_of(); n < tiles * PANELS; n += WARP) {
    const int tile = n / PANELS, panel = n % PANELS, first = key + tile * TILE_KEYS, page = pages[first / HR_PAGE];
    const bool is_v = panel >= K_PANELS;
    const int column = is_v ? (panel - K_PANELS) * V_PANEL : panel * K_PANEL;
    const unsigned to = is_v ? slot + SLOT_TILES * K_BYTES + tile * V_BYTES : slot + tile * K_BYTES;
    tma_load(to + TILE_KEYS * ROW_BYTES(column), a.maps[is_v], full, column, is_v ? i.v_head : i.k_head,
             first % HR_PAGE, page);
  }
  at.advance(r.count);
}

/* Keys of all items of the block, in their order; the new token's are copied with the others of its tile, and not
 * used. */
__device__ inline void copy_keys(const attention &a, const rooms &r, ring &at)
{
#pragma unroll 1
  for (int number = (int)blockIdx.x; number < ITEMS; number += gridDim.x) {
    const item i(a, number);
#pragma unroll 1
    for (int key = i.start; key < i.end; key += SLOT_KEYS)
      copy_tiles(a, r, at, i, key);
  }
}

/* ---- heads of the new token ---- */

/* The head of a warp: where it is, the weights of its norm (NULL: none), and where it goes, K and V also to the cache
 * (`cached`; NULL: not). */
struct head {
  const element *from;
  bool arrives;
  const float *norm;
  element *fresh, *cached;
  int dim, rotated;
};

/* Rounds as a value in memory would be. */
__device__ inline float rounded(float value)
{
  return to_float(from_float(value));
}

__device__ inline void put_head(const attention &a, const head &h, const float *angles, float *to, const post &p)
{
  float squares = 0;
#pragma unroll
  for (int n = 0; n < (DIM_MAX + WARP - 1) / WARP; n++) {
    const int i = n * WARP + lane_of();
    if (i < h.dim) {
      to[i] = await_element(h.from + i, h.arrives, p);
      squares += to[i] * to[i];
    }
  }
  if (h.norm) {
    const float scale = rsqrtf(sum_of_lanes(squares) / (float)h.dim + a.epsilon);
#pragma unroll 1
    for (int i = lane_of(); i < h.dim; i += WARP)
      to[i] = rounded(to[i] * scale * h.norm[i]);
  }
  __syncwarp();
  const int half = h.rotated / 2;
#pragma unroll 1
  for (int i = lane_of(); i < half; i += WARP) {
    const int first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : half + i;
    const float x = to[first], y = to[second];
    to[first] = rounded(x * angles[i] - y * angles[half + i]);
    to[second] = rounded(y * angles[i] + x * angles[half + i]);
  }
  __syncwarp();
#pragma unroll 1
  for (int i = lane_of(); i < h.dim; i += WARP) {
    h.fresh[i] = from_float(to[i]);
    if (h.cached)
      h.cached[i] = h.fresh[i];
  }
}

/* What no other instruction writes. */
__device__ inline void put_constants(const attention &a, const item &i, attention_room &room)
{
  const element *const angles = a.angles + (int64)(i.length - 1) * a.rotated;
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < a.rotated; n += THREADS)
    room.angles[n] = to_float(angles[n]);
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < QK_DIM && a.q_norm; n += THREADS)
    room.norms[0][n] = to_float(a.q_norm[n]), room.norms[1][n] = to_float(a.k_norm[n]);
  meet();
}

/* Q, and with the last keys K and V. */
__device__ inline void put_heads(const attention &a, const item &i, attention_room &room, const post &p)
{
#pragma unroll 1
  for (int mine = warp_of(); mine < GROUP + (i.has_new() ? 2 : 0); mine += WARPS) {
    head h = {a.q + i.sequence * a.q_row + i.head(mine) * QK_DIM,
              a.q_arrives != 0,
              a.q_norm ? room.norms[0] : nullptr,
              room.queries[min(mine, GROUP - 1)],
              nullptr,
              QK_DIM,
              a.rotated};
    if (mine == GROUP) {
      h.from = a.k + i.sequence * a.k_row + i.k_head * QK_DIM, h.arrives = a.k_arrives != 0;
      h.norm = a.q_norm ? room.norms[1] : nullptr;
      h.fresh = room.fresh[0], h.cached = k_at(a, i, place_of(a, i, i.length - 1));
    } else if (mine > GROUP) {
      h.from = a.v + i.sequence * a.v_row + i.v_head * V_DIM, h.arrives = a.v_arrives != 0;
      h.norm = nullptr, h.rotated = 0, h.dim = V_DIM;
      h.fresh = room.fresh[1], h.cached = v_at(a, i, place_of(a, i, i.length - 1));
    }
    put_head(a, h, room.angles, room.heads[mine], p);
  }
  meet();
}

/* ---- keys ---- */

/* Softmax of a warp's tiles. The thread has the largest score and the sum of weights of head lane / 4, of its own keys,
 * and of the weighted V columns lane / 4 and lane / 4 + 8 of each step for heads 2 (lane % 4) and the next. */
struct softmax_state {
  float most, sum, out[V_STEPS][4];
};

/* 2^(score − most), 0 of no score. */
__device__ inline float weight_of(float score, float most)
{
  return score == NOTHING ? 0 : exp2_approx(score - most);
}

/* 16 bytes of Q of head lane / 4, from `column` on. */
__device__ inline uint4 query_chunk(const attention_room &room, int column)
{
  const int h = lane_of() / 4;
  const bool is_there = h < GROUP && column < QK_DIM;
  return is_there ? *(const uint4 *)(const void *)(room.queries[h] + column) : make_uint4(0, 0, 0, 0);
}

/* Where 16 bytes of a key's columns from `column` on are in a tile of K or V. */
template <int PANEL> __device__ inline unsigned chunk_at(unsigned tile, int key, int column)
{
  constexpr unsigned SWIZZLE = ROW_BYTES(PANEL) == 128 ? 7 : ROW_BYTES(PANEL) == 64 ? 3 : 0;
  const unsigned at = tile + ROW_BYTES(column / PANEL * TILE_KEYS * PANEL + key * PANEL + column % PANEL);
  return at ^ (at >> 7 & SWIZZLE) << 4;
}

/* Writes a key of a tile: `row`, or with NULL zeros. */
template <int DIM> __device__ inline void put_key(unsigned tile, int key, const element *row)
{
#pragma unroll 1
  for (int column = lane_of() * CHUNK; column < DIM; column += WARP * CHUNK) {
    float4 chunk = make_float4(0, 0, 0, 0);
    if (row)
      chunk = *(const float4 *)(const void *)(row + column);
    store_shared(chunk_at<hr_persistent_panel(DIM)>(tile, key, column), chunk);
  }
}

/* What the copy of a tile has not: the new token's K and V; and V that no weight of 0 may meet, as it may be NaN. */
__device__ inline void complete_tile(const item &i, int first, unsigned k, unsigned v, const attention_room &room)
{
  if (first >= i.begin && first + TILE_KEYS < i.length)
    return;
#pragma unroll 1
  for (int n = 0; n < TILE_KEYS; n++) {
    const int key = first + n;
    if (key >= i.begin && key < i.length - 1)
      continue;
    put_key<V_DIM>(v, n, key == i.length - 1 ? room.fresh[1] : nullptr);
    if (key == i.length - 1)
      put_key<QK_DIM>(k, n, room.fresh[0]);
  }
  fence_proxy_async();
  __syncwarp();
}

/* Column `n` of an mma.sync has this key of half a tile. Columns next to each other have keys so far apart that 8 lanes
 * that load 64 bytes of two keys meet in no bank. */
__device__ inline int key_of_column(int n)
{
  constexpr int ROW = ROW_BYTES(K_PANEL), APART = ROW % 128 == 64 ? 1 : ROW % 64 == 32 ? 2 : 4;
  const int pair = n / 2;
  return pair / APART * 2 * APART + pair % APART + n % 2 * APART;
}

/* Products with the two keys of columns 2 (lane % 4) and the next, of each half of the tile. */
__device__ inline void multiply_keys(const attention_room &room, unsigned k, float (&products)[2][4])
{
#pragma unroll 2
  for (int step = 0; step < QK_STEPS; step++) {
    const int column = step * STEP + lane_of() % 4 * CHUNK;
    const uint4 x = query_chunk(room, column);
    const unsigned first[4] = {x.x, 0, x.y, 0}, second[4] = {x.z, 0, x.w, 0};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float4 keys = make_float4(0, 0, 0, 0);
      if (QK_DIM % STEP == 0 || column < QK_DIM)
        keys = load_shared(chunk_at<K_PANEL>(k, half * 8 + key_of_column(lane_of() / 4), column));
      mma_sync(products[half], first, __float_as_uint(keys.x), __float_as_uint(keys.y));
      mma_sync(products[half], second, __float_as_uint(keys.z), __float_as_uint(keys.w));
    }
  }
}

/* Makes scores of products; returns the largest of all keys of the tile. */
__device__ inline float make_scores(const attention &a, const item &i, int first, float slope, float (&scores)[2][4])
{
  float most = NOTHING;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const int key = first + half * 8 + key_of_column(lane_of() % 4 * 2 + n);
      const float score = LOG2_E * (scores[half][n] * a.scale + slope * (float)(key - i.length + 1));
      scores[half][n] = key >= i.begin && key < i.end ? score : NOTHING;
      most = fmaxf(most, scores[half][n]);
    }
  most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
  return fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
}

/* A value of head lane / 4 where V's columns are: of head 2 (lane % 4) + n. */
__device__ inline float at_columns(float value, int n)
{
  return __shfl_sync(0xFFFFFFFFu, value, (lane_of() % 4 * 2 + n) * 4);
}

/* Adds a tile, whose first key is `first`. */
__device__ inline void add_tile(const attention &a, const item &i, const attention_room &room, float slope, int first,
                                unsigned k, unsigned v, softmax_state &s)
{
  float scores[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  unsigned weights[2];
  multiply_keys(room, k, scores);
  const float most = fmaxf(s.most, make_scores(a, i, first, slope, scores)), kept = weight_of(s.most, most);
  s.most = most, s.sum *= kept;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const float pair[2] = {weight_of(scores[half][0], most), weight_of(scores[half][1], most)};
    s.sum += pair[0] + pair[1];
    weights[half] = word_of(pair);
  }
  const float kept_of[2] = {at_columns(kept, 0), at_columns(kept, 1)};
  const int key = key_of_column(lane_of() % 8) + lane_of() / 16 * 8, column = lane_of() / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < V_STEPS; step++) {
    unsigned columns[4];
    const int at = step * 16 + column;
    ldmatrix_x4_trans(columns, chunk_at<V_PANEL>(v, key, V_DIM % 16 == 0 ? at : min(at, V_DIM - CHUNK)));
#pragma unroll
    for (int n = 0; n < 4; n++)
      s.out[step][n] *= kept_of[n % 2];
    mma_sync(s.out[step], columns, weights[0], weights[1]);
  }
}

/* Adds up the threads with a head, and puts the warp's results into shared memory. */
__device__ inline void put_state(softmax_state &s, attention_room &room)
{
  const int warp = warp_of(), h = lane_of() / 4;
  s.sum += __shfl_xor_sync(0xFFFFFFFFu, s.sum, 1);
  s.sum += __shfl_xor_sync(0xFFFFFFFFu, s.sum, 2);
  if (h < GROUP && lane_of() % 4 == 0)
    room.most[warp][h] = s.most, room.sum[warp][h] = s.sum;
#pragma unroll
  for (int step = 0; step < V_STEPS; step++)
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const int head = lane_of() % 4 * 2 + n % 2, column = step * 16 + lane_of() / 4 + n / 2 * 8;
      if (head < GROUP && column < V_DIM)
        room.out[warp][head][column] = s.out[step][n];
    }
}

/* Each warp has every 8th tile. */
__device__ inline void add_item(const attention &a, const rooms &r, ring &from, const item &i, attention_room &room)
{
  const float slope = a.slopes ? a.slopes[i.head(lane_of() / 4)] : 0;
  softmax_state s = {NOTHING, 0, {}};
#pragma unroll 1
  for (int first = i.start, tile = 0; first < i.end; first += SLOT_KEYS, tile += SLOT_TILES) {
    const unsigned keys = tiles_of_slot(r, from.slot);
    mbarrier_wait(r.full + 8 * from.slot, from.parity);
#pragma unroll 1
    for (int n = (warp_of() - tile) & (WARPS - 1); n < SLOT_TILES && first + n * TILE_KEYS < i.end; n += WARPS) {
      const unsigned k = keys + n * K_BYTES, v = keys + SLOT_TILES * K_BYTES + n * V_BYTES;
      complete_tile(i, first + n * TILE_KEYS, k, v, room);
      add_tile(a, i, room, slope, first + n * TILE_KEYS, k, v, s);
    }
    __syncwarp();
    if (lane_of() == 0)
      mbarrier_arrive(r.empty + 8 * from.slot);
    from.advance(r.count);
  }
  put_state(s, room);
  meet();
}

/* ---- results ---- */

__device__ inline void store_out(const attention &a, const item &i, float out, int h, int column, const post &p)
{
  element *const to = a.o + i.sequence * a.o_row + (i.first_head + h) * V_DIM + column;
  if (h >= i.heads)
    return;
  if (a.keeps_o)
    *to = from_float(out);
  else
    post_element(to, out, p);
}

/* Sets the weights of the warps' results; a lane has a warp's of a head. */
__device__ inline void weigh_warps(attention_room &room)
{
  const int h = (int)threadIdx.x / WARPS, warp = (int)threadIdx.x % WARPS;
  if (warp_of() < (GROUP * WARPS + WARP - 1) / WARP) {
    const bool is_there = h < GROUP;
    const float own = is_there ? room.most[warp][h] : NOTHING, most = most_of_lanes<WARPS>(own);
    const float weight = weight_of(own, most), sum = sum_of_lanes<WARPS>(is_there ? weight * room.sum[warp][h] : 0);
    if (is_there)
      room.weights[h][warp] = weight;
    if (is_there && warp == 0)
      room.states[2 * h] = most, room.states[2 * h + 1] = sum;
  }
  meet();
}

/* Columns of a head, from `column` on, added up over the warps. */
template <int COLUMNS>
__device__ inline void add_columns(const attention_room &room, int h, int column, float (&out)[COLUMNS])
{
#pragma unroll
  for (int i = 0; i < COLUMNS; i++)
    out[i] = 0;
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++)
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
      out[i] = fmaf(room.weights[h][warp], room.out[warp][h][column + i], out[i]);
}

__device__ inline uint4 *partial_of(const attention &a, const item &i, int to, int from)
{
  return (uint4 *)(void *)(a.partial + ((int64)(i.first + to) * SPLITS + from) * PART);
}

/* Bits of a result that is there. */
__device__ inline unsigned present(float value)
{
  const unsigned bits = __float_as_uint(value);
  return bits == HR_PERSISTENT_ABSENT_PARTIAL ? 0x7FFFFFFFu : bits;
}

__device__ inline bool is_partial(const uint4 &c)
{
  return c.x == HR_PERSISTENT_ABSENT_PARTIAL || c.y == HR_PERSISTENT_ABSENT_PARTIAL ||
         c.z == HR_PERSISTENT_ABSENT_PARTIAL || c.w == HR_PERSISTENT_ABSENT_PARTIAL;
}

/* Sends each of the items with the same heads its columns, and what their weights are relative to. */
__device__ inline void send_splits(const attention &a, const item &i, const attention_room &room)
{
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < SPLITS * PART / PART_CHUNK; n += THREADS) {
    const int to = n / (PART / PART_CHUNK), at = n % (PART / PART_CHUNK) * PART_CHUNK;
    const int column = to * SHARE + at - STATES;
    float values[PART_CHUNK] = {0, 0, 0, 0};
    if (at < STATES) {
#pragma unroll
      for (int j = 0; j < PART_CHUNK; j++)
        values[j] = at + j < 2 * GROUP ? room.states[at + j] : 0;
    } else if (column < GROUP * V_DIM)
      add_columns(room, column / V_DIM, column % V_DIM, values);
    store_chunk(partial_of(a, i, to, i.split) + at / PART_CHUNK,
                make_uint4(present(values[0]), present(values[1]), present(values[2]), present(values[3])));
  }
}

#define RECEIVED ((SPLITS * PART / PART_CHUNK + THREADS - 1) / THREADS) /* chunks of a thread */

/* Receives what all splits send. Who receives it is its only reader, and makes it absent again, for the attention after
 * the next: a whole layer lies between. */
__device__ inline void receive_splits(const attention &a, const item &i, attention_room &room)
{
  constexpr unsigned ABSENT = HR_PERSISTENT_ABSENT_PARTIAL;
  uint4 *const from = partial_of(a, i, i.split, 0), chunks[RECEIVED];
  bool missing[RECEIVED], any;
#pragma unroll
  for (int n = 0; n < RECEIVED; n++)
    missing[n] = (int)threadIdx.x + n * THREADS < SPLITS * PART / PART_CHUNK;
  do {
    any = false;
#pragma unroll
    for (int n = 0; n < RECEIVED; n++)
      if (missing[n])
        chunks[n] = read_chunk(from + threadIdx.x + n * THREADS);
#pragma unroll
    for (int n = 0; n < RECEIVED; n++)
      any |= missing[n] = missing[n] && is_partial(chunks[n]);
  } while (any);
#pragma unroll
  for (int n = 0; n < RECEIVED; n++) {
    const int chunk = (int)threadIdx.x + n * THREADS, at = chunk * PART_CHUNK;
    if (at >= SPLITS * PART)
      break;
    store_chunk(from + chunk, make_uint4(ABSENT, ABSENT, ABSENT, ABSENT));
    float *const to = room.received + at / PART * PART_PITCH + at % PART;
    to[0] = __uint_as_float(chunks[n].x), to[1] = __uint_as_float(chunks[n].y);
    to[2] = __uint_as_float(chunks[n].z), to[3] = __uint_as_float(chunks[n].w);
  }
  meet();
}

/* Sets the weights of the splits; a warp has a head, a lane a split. */
__device__ inline void weigh_splits(attention_room &room)
{
  constexpr int LANES = SPLITS > 16 ? 32 : SPLITS > 8 ? 16 : SPLITS > 4 ? 8 : SPLITS > 2 ? 4 : 2;
  static_assert(GROUP <= WARPS && SPLITS <= WARP);
  const int h = warp_of(), split = lane_of();
  if (h < GROUP) {
    const float *const state = room.received + min(split, SPLITS - 1) * PART_PITCH + 2 * h;
    const float own = split < SPLITS ? state[0] : NOTHING, weight = weight_of(own, most_of_lanes<LANES>(own));
    const float sum = sum_of_lanes<LANES>(split < SPLITS ? weight * state[1] : 0);
    if (split < SPLITS)
      room.split_weights[h][split] = weight / sum;
  }
  meet();
}

/* Adds up the columns that are the item's. Threads next to each other store them: when lanes added up splits, and each
 * column was a store of its own, while all blocks ask for them, a layer of OPT-1.3B took 3.7 us longer. */
__device__ inline void add_splits(const attention &a, const item &i, attention_room &room, const post &p)
{
  receive_splits(a, i, room);
  weigh_splits(room);
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < SHARE && i.split * SHARE + n < GROUP * V_DIM; n += THREADS) {
    const int at = i.split * SHARE + n, h = at / V_DIM;
    float out = 0;
#pragma unroll 8
    for (int split = 0; split < SPLITS; split++)
      out = fmaf(room.split_weights[h][split], room.received[split * PART_PITCH + STATES + n], out);
    store_out(a, i, out, h, at % V_DIM, p);
  }
}

/* Adds up the warps of an item that is the only one with its heads. */
__device__ inline void store_item(const attention &a, const item &i, const attention_room &room, const post &p)
{
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < GROUP * V_DIM; n += THREADS) {
    const int h = n / V_DIM, column = n % V_DIM;
    float out[1];
    add_columns(room, h, column, out);
    store_out(a, i, out[0] / room.states[2 * h + 1], h, column, p);
  }
}

__device__ inline void finish_item(const attention &a, const rooms &r, const item &i, attention_room &room,
                                   const post &p)
{
  weigh_warps(room);
  if (SPLITS == 1) {
    store_item(a, i, room, p);
  } else {
    send_splits(a, i, room);
    meet();
    r.cycles.note(HR_CYCLES_SENT);
    add_splits(a, i, room, p);
  }
  meet();
}

/* What needs nothing of other instructions goes first. Where there are several splits each block has one item. */
__device__ inline void attend(const attention &a, const rooms &r, ring &from, const post &p)
{
  attention_room &room = *(attention_room *)(void *)r.x;
#pragma unroll 1
  for (int number = (int)blockIdx.x; number < ITEMS; number += gridDim.x) {
    const item i(a, number);
    put_constants(a, i, room);
    r.cycles.note(HR_CYCLES_BEGIN);
    put_heads(a, i, room, p);
    r.cycles.note(HR_CYCLES_X);
    add_item(a, r, from, i, room);
    r.cycles.note(HR_CYCLES_KEYS);
    finish_item(a, r, i, room, p);
    r.cycles.note(HR_CYCLES_RESULTS);
  }
}
