/* SPDX-License-Identifier: Apache-2.0 */
/* persistent.cu's attention of one new token of each sequence.
 *
 *   a group: HR_Q_EACH heads of Q that share a head of K and one of V; HR_K_SHARE groups have one head of K,
 *     HR_V_SHARE one of V
 *   an item: one of HR_SPLITS parts of the keys of a sequence for up to 4 heads of a group
 *   HR_KEY_LANES lanes: a key, 16 bytes each; the sets of lanes of all warps have every n-th key of a slot
 *
 * Keys come through the ring of slots, as weights do, which no latency of chains of loads (length, page, key) holds up.
 * Each item norms and rotates its heads of Q, and the last of the keys also the new K, which it writes to the cache
 * with V. Of several items with the same heads each adds up some of the columns of all. */

typedef hr_persistent_attention attention;

#define GROUP (HR_Q_EACH < 4 ? HR_Q_EACH : 4)   /* heads of an item, as registers allow */
#define PARTS ((HR_Q_EACH + GROUP - 1) / GROUP) /* of a group */
#define ITEMS (TOKENS * HR_GROUPS * PARTS * HR_SPLITS)
#define SPLITS HR_SPLITS

/* Columns of all heads that an item adds up, and what a split sends to it: largest scores, sums, columns. */
#define SHARE ((GROUP * V_DIM + SPLITS - 1) / SPLITS)
#define PART (2 * GROUP + SHARE)

#define QK_DIM HR_QK_DIM
#define V_DIM HR_V_DIM
#define KEY_LANES HR_KEY_LANES
#define SETS (WARPS * (WARP / KEY_LANES)) /* of lanes, in a block */

/* Keys that a TMA load copies, which are in one page, and those of a slot: first all K, then all V. */
#define TILE_KEYS HR_PERSISTENT_TILE_KEYS
#define KEY_BYTES ((QK_DIM + V_DIM) * (int)sizeof(element))
#define KEYS_UNIT (SETS > TILE_KEYS ? SETS : TILE_KEYS)
#define SLOT_KEYS (HR_PERSISTENT_SLOT / KEY_BYTES / KEYS_UNIT * KEYS_UNIT)
#define AT_ONCE (SLOT_KEYS / SETS) /* keys of a set of lanes */
#define NOTHING (-__int_as_float(0x7F800000))
#define DIM_MAX (QK_DIM > V_DIM ? QK_DIM : V_DIM)

/* In shared memory, where linear layers have x. */
struct attention_room {
  float heads[GROUP + 2][DIM_MAX];       /* of Q, then K and V */
  float norms[2][DIM_MAX];               /* weights of Q's and K's, where all heads have one */
  float angles[DIM_MAX];                 /* of the new token */
  alignas(16) element fresh[2][DIM_MAX]; /* its K and V */
  union {
    struct {
      float out[WARPS][GROUP][V_DIM];
      float most[WARPS][GROUP], sum[WARPS][GROUP];
    };
    float received[SPLITS * PART]; /* [split][PART] */
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

/* Copies the keys of a slot from `key` on: those of up to SLOT_KEYS / TILE_KEYS tiles. */
__device__ inline void copy_tiles(const attention &a, const rooms &r, ring &at, const item &i, int key)
{
  const unsigned full = r.full + 8 * at.slot, slot = shared_address(r.slots) + at.slot * HR_PERSISTENT_SLOT;
  const int tiles = min(SLOT_KEYS / TILE_KEYS, (i.end - key + TILE_KEYS - 1) / TILE_KEYS);
  const int *const pages = a.pages + i.sequence * a.table_pitch;
  mbarrier_wait_long(r.empty + 8 * at.slot, at.parity);
  if (lane_of() == 0)
    mbarrier_arrive_expect_tx(full, tiles * TILE_KEYS * KEY_BYTES);
  __syncwarp();
#pragma unroll 1
  for (int n = lane_of(); n < 2 * tiles; n += WARP) {
    const int tile = n / 2, first = key + tile * TILE_KEYS, page = pages[first / HR_PAGE];
    const bool is_v = n % 2 != 0;
    const int offset = is_v ? SLOT_KEYS * QK_DIM + tile * TILE_KEYS * V_DIM : tile * TILE_KEYS * QK_DIM;
    tma_load(slot + offset * (int)sizeof(element), a.maps[is_v], full, 0, is_v ? i.v_head : i.k_head, first % HR_PAGE,
             page);
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

/* The head of a warp: where it is, the weights of its norm (NULL: none), and for K and V where it goes (NULL: nowhere).
 */
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
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
      squares += __shfl_xor_sync(0xFFFFFFFFu, squares, distance);
    const float scale = rsqrtf(squares / (float)h.dim + a.epsilon);
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
  for (int i = lane_of(); h.cached && i < h.dim; i += WARP)
    h.fresh[i] = h.cached[i] = from_float(to[i]);
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
              nullptr,
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

/* Softmax of some keys: the largest score, and sums of weights and of weighted V; a lane has some columns of V. */
struct softmax_state {
  float most[GROUP], sum[GROUP], out[GROUP][CHUNK];
};

/* 2^(score − most), 0 of no score. */
__device__ inline float weight_of(float score, float most)
{
  return score == NOTHING ? 0 : exp2_approx(score - most);
}

__device__ inline uint4 load_chunk(const element *row, int dim)
{
  const int at = lane_of() % KEY_LANES * CHUNK;
  return at < dim ? *(const uint4 *)(const void *)(row + at) : make_uint4(0, 0, 0, 0);
}

__device__ inline float score_of(const attention &a, float product, int key, int length, float slope)
{
  return LOG2_E * (product * a.scale + slope * (float)(key - length + 1));
}

/* Keys of a slot that a set of lanes has, from `first` on: its chunks of K and V, 0 of keys that the item does not
 * have. */
struct key_chunks {
  uint4 k[AT_ONCE], v[AT_ONCE];

  __device__ key_chunks(const char *slot, const item &i, int first, const attention_room &room)
  {
    const element *const keys = (const element *)(const void *)slot;
    const int set = (int)threadIdx.x / KEY_LANES;
#pragma unroll
    for (int n = 0; n < AT_ONCE; n++) {
      const int at = set + n * SETS, key = first + at;
      const bool is_new = key == i.length - 1;
      k[n] = v[n] = make_uint4(0, 0, 0, 0);
      if (key >= i.begin && key < i.end) {
        k[n] = load_chunk(is_new ? room.fresh[0] : keys + at * QK_DIM, QK_DIM);
        v[n] = load_chunk(is_new ? room.fresh[1] : keys + SLOT_KEYS * QK_DIM + at * V_DIM, V_DIM);
      }
    }
  }
};

/* Adds the keys that exist. */
__device__ inline void add_keys(const attention &a, const item &i, const float (&q)[GROUP][CHUNK],
                                const float (&slopes)[GROUP], int first, const key_chunks &chunks, softmax_state &s)
{
  float scores[AT_ONCE][GROUP];
#pragma unroll
  for (int n = 0; n < AT_ONCE; n++) {
    float values[CHUNK];
    unpack(chunks.k[n], values);
#pragma unroll
    for (int h = 0; h < GROUP; h++) {
      float product = 0;
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        product = fmaf(q[h][j], values[j], product);
      scores[n][h] = product;
    }
  }
#pragma unroll
  for (int distance = KEY_LANES / 2; distance > 0; distance /= 2)
#pragma unroll
    for (int n = 0; n < AT_ONCE; n++)
#pragma unroll
      for (int h = 0; h < GROUP; h++)
        scores[n][h] += __shfl_xor_sync(0xFFFFFFFFu, scores[n][h], distance);
#pragma unroll
  for (int n = 0; n < AT_ONCE; n++)
#pragma unroll
    for (int h = 0; h < GROUP; h++) {
      const int key = first + n * SETS;
      scores[n][h] = key >= i.begin && key < i.end ? score_of(a, scores[n][h], key, i.length, slopes[h]) : NOTHING;
    }
#pragma unroll
  for (int h = 0; h < GROUP; h++) {
    float most = s.most[h];
#pragma unroll
    for (int n = 0; n < AT_ONCE; n++)
      most = fmaxf(most, scores[n][h]);
    const float kept = weight_of(s.most[h], most);
    s.most[h] = most;
    s.sum[h] *= kept;
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
      s.out[h][j] *= kept;
#pragma unroll
    for (int n = 0; n < AT_ONCE; n++) {
      scores[n][h] = weight_of(scores[n][h], most);
      s.sum[h] += scores[n][h];
    }
  }
#pragma unroll
  for (int n = 0; n < AT_ONCE; n++) {
    float values[CHUNK];
    unpack(chunks.v[n], values);
#pragma unroll
    for (int h = 0; h < GROUP; h++)
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        s.out[h][j] = fmaf(scores[n][h], values[j], s.out[h][j]);
  }
}

/* Adds up the sets of lanes of the warp, in every lane, and puts them into shared memory. */
__device__ inline void put_state(softmax_state &s, attention_room &room)
{
  const int warp = warp_of(), at = lane_of() % KEY_LANES * CHUNK;
#pragma unroll
  for (int h = 0; h < GROUP; h++) {
#pragma unroll
    for (int distance = KEY_LANES; distance < WARP; distance *= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFFu, s.most[h], distance), most = fmaxf(s.most[h], other);
      const float kept = weight_of(s.most[h], most), added = weight_of(other, most);
      s.most[h] = most;
      s.sum[h] = s.sum[h] * kept + __shfl_xor_sync(0xFFFFFFFFu, s.sum[h], distance) * added;
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        s.out[h][j] = s.out[h][j] * kept + __shfl_xor_sync(0xFFFFFFFFu, s.out[h][j], distance) * added;
    }
    if (lane_of() < KEY_LANES && at < V_DIM) {
#pragma unroll
      for (int j = 0; j < CHUNK; j++)
        room.out[warp][h][at + j] = s.out[h][j];
    }
    if (lane_of() == 0)
      room.most[warp][h] = s.most[h], room.sum[warp][h] = s.sum[h];
  }
}

__device__ inline void add_item(const attention &a, const rooms &r, ring &from, const item &i, attention_room &room)
{
  const int at = lane_of() % KEY_LANES * CHUNK, set = (int)threadIdx.x / KEY_LANES;
  softmax_state s;
  float q[GROUP][CHUNK], slopes[GROUP];
#pragma unroll
  for (int h = 0; h < GROUP; h++) {
    s.most[h] = NOTHING, s.sum[h] = 0;
    slopes[h] = a.slopes ? a.slopes[i.head(h)] : 0;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
      q[h][j] = at + j < QK_DIM ? room.heads[h][at + j] : 0;
      s.out[h][j] = 0;
    }
  }
#pragma unroll 1
  for (int first = i.start; first < i.end; first += SLOT_KEYS) {
    mbarrier_wait(r.full + 8 * from.slot, from.parity);
    const key_chunks chunks(r.slots + from.slot * HR_PERSISTENT_SLOT, i, first, room);
    __syncwarp();
    if (lane_of() == 0)
      mbarrier_arrive(r.empty + 8 * from.slot);
    from.advance(r.count);
    add_keys(a, i, q, slopes, first + set, chunks, s);
  }
  put_state(s, room);
  meet();
}

/* ---- results ---- */

/* The largest of scores `stride` apart. */
__device__ inline float largest_score(const float *scores, int stride, int count)
{
  float most = NOTHING;
#pragma unroll 4
  for (int n = 0; n < count; n++)
    most = fmaxf(most, scores[n * stride]);
  return most;
}

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

__device__ inline float *partial_of(const attention &a, const item &i, int to, int from)
{
  return a.partial + ((int64)(i.first + to) * SPLITS + from) * PART;
}

__device__ inline void send_partial(float *to, float value)
{
  const unsigned bits = __float_as_uint(value);
  *(volatile unsigned *)(void *)to = bits == HR_PERSISTENT_ABSENT_PARTIAL ? 0x7FFFFFFFu : bits;
}

/* Who receives it is its only reader, and makes it absent again, for the attention after the next: a whole layer lies
 * between. */
__device__ inline float receive_partial(float *from)
{
  unsigned bits;
  do
    bits = read_word(from);
  while (bits == HR_PERSISTENT_ABSENT_PARTIAL);
  *(volatile unsigned *)(void *)from = HR_PERSISTENT_ABSENT_PARTIAL;
  return __uint_as_float(bits);
}

/* Adds up the columns that are the item's. */
__device__ inline void add_splits(const attention &a, const item &i, attention_room &room, const post &p)
{
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < SPLITS * PART; n += THREADS) {
    const int column = i.split * SHARE + n % PART - 2 * GROUP;
    if (n % PART < 2 * GROUP || column < GROUP * V_DIM)
      room.received[n] = receive_partial(partial_of(a, i, i.split, 0) + n);
  }
  meet();
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < SHARE && i.split * SHARE + n < GROUP * V_DIM; n += THREADS) {
    const int at = i.split * SHARE + n, h = at / V_DIM;
    const float most = largest_score(room.received + h, PART, SPLITS);
    float sum = 0, out = 0;
#pragma unroll 2
    for (int split = 0; split < SPLITS; split++) {
      const float *const from = room.received + split * PART;
      const float weight = weight_of(from[h], most);
      sum = fmaf(weight, from[GROUP + h], sum);
      out = fmaf(weight, from[2 * GROUP + n], out);
    }
    store_out(a, i, out / sum, h, at % V_DIM, p);
  }
}

/* Adds up the warps, and with several splits sends each its columns. */
__device__ inline void finish_item(const attention &a, const item &i, attention_room &room, const post &p)
{
  constexpr bool all = SPLITS == 1;
#pragma unroll 1
  for (int n = (int)threadIdx.x; n < GROUP * V_DIM; n += THREADS) {
    const int h = n / V_DIM, column = n % V_DIM;
    const float most = largest_score(&room.most[0][h], GROUP, WARPS);
    float sum = 0, out = 0;
#pragma unroll 4
    for (int warp = 0; warp < WARPS; warp++) {
      const float weight = weight_of(room.most[warp][h], most);
      sum = fmaf(weight, room.sum[warp][h], sum);
      out = fmaf(weight, room.out[warp][h][column], out);
    }
    if (all) {
      store_out(a, i, out / sum, h, column, p);
      continue;
    }
    send_partial(partial_of(a, i, n / SHARE, i.split) + 2 * GROUP + n % SHARE, out);
#pragma unroll 1
    for (int to = column; to < SPLITS; to += V_DIM) {
      send_partial(partial_of(a, i, to, i.split) + h, most);
      send_partial(partial_of(a, i, to, i.split) + GROUP + h, sum);
    }
  }
  meet();
  if (!all)
    add_splits(a, i, room, p);
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
    put_heads(a, i, room, p);
    add_item(a, r, from, i, room);
    finish_item(a, i, room, p);
  }
}
