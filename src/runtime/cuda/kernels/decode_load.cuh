/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of K and V for decode_split.cu: where a chunk of keys is, and its copies to the stages of a warp. */

/* ---- tiles in shared memory: KEYS rows of 128 bytes or a multiple, in which 16-byte chunks are swizzled; for WGMMA
 * panels of 64 columns, each with rows of 128 bytes of all chunks of a team ---- */

#ifdef HR_WGMMA
#define PANEL_BYTES (TEAM * KEYS * 128)
#endif

/* Where a row of a tile begins. */
template <int WIDTH> __device__ inline int row_offset(int row)
{
#ifdef HR_WGMMA
  return row * 128;
#else
  return row * hr_decode_pitch(WIDTH, CACHED_BYTES);
#endif
}

/* Where in row `row` a chunk begins. */
__device__ inline int chunk_offset(int row, int chunk)
{
#ifdef HR_WGMMA
  return chunk / 8 * PANEL_BYTES + ((chunk % 8 ^ row % 8) << 4);
#else
  return (chunk ^ row % 8) << 4;
#endif
}

/* The shared address of a row. */
template <int WIDTH> __device__ inline unsigned tile_row(const char *tile, int row)
{
  return shared_address(tile) + row_offset<WIDTH>(row);
}

/* The shared address of a chunk of row `row`, which begins at `begin`. */
__device__ inline unsigned tile_chunk(unsigned begin, int row, int chunk)
{
  return begin + chunk_offset(row, chunk);
}

/* A warp's stage of its n-th chunk; with WGMMA where it begins in the team's. */
__device__ inline char *stage_of(int warp, int n)
{
#ifdef HR_WGMMA
  return (char *)shared + (warp / TEAM * HR_STAGES + n % HR_STAGES) * TEAM * STAGE_SIZE + warp % TEAM * KEYS * 128;
#else
  return (char *)shared + (warp * HR_STAGES + n % HR_STAGES) * STAGE_SIZE;
#endif
}

/* The scales of a stage: [head][key]. */
__device__ inline const float *k_scales_of(const char *stage)
{
  return (const float *)(stage + SCALES_AT);
}
__device__ inline const float *v_scales_of(const char *stage)
{
  return k_scales_of(stage) + HR_K_HEADS * KEYS;
}

/* ---- where keys are ---- */

/* The page of this lane's key of a chunk, and the key's number there. Lanes 16 to 31 have the keys of lanes 0 to 15.
 * With HR_CHUNK_IN_PAGE all keys of a chunk are on one page, and every lane has the first. */
struct chunk_place {
  int page, token;
};

/* Where a key's page is in the sequence's row of the page table; HR_PAGE_SIZE 0: the row has one page. */
__device__ inline int place_of_key(int key)
{
  return HR_PAGE_SIZE == 0 ? 0 : key / max(HR_PAGE_SIZE, 1);
}
__device__ inline int token_of_key(int key)
{
  return HR_PAGE_SIZE == 0 ? key : key % max(HR_PAGE_SIZE, 1);
}

/* The page of a place; 0 behind the sequence's end, where the table may have any number. */
__device__ inline int page_at(const decode_call &call, const block_work &w, int place, bool there)
{
  int64 at = w.first_place + place;
  return !call.pages ? (int)at : there ? call.pages[at] : 0;
}

/* Page numbers of this warp's chunks, which are taken in their order. A load waits behind the copies that are under
 * way, which is as long as several chunks take. */
#if HR_PAGE_SIZE == 0

struct page_queue {
  int page;
};

__device__ inline page_queue start_pages(const decode_call &call, const block_work &w)
{
  return {page_at(call, w, 0, w.chunk < w.chunk_end)};
}

__device__ inline chunk_place take_place(const decode_call &, const block_work &, page_queue &q, int, int chunk)
{
  return {q.page, chunk * KEYS};
}

#elif defined(HR_CHUNK_IN_PAGE)

/* A lane has the page of one of 32 chunks, and of one of the next 32. */
struct page_queue {
  int now, next;
};

__device__ inline int page_of_lane(const decode_call &call, const block_work &w, int first_chunk)
{
  int chunk = first_chunk + threadIdx.x % 32 * HR_WARPS;
  return page_at(call, w, place_of_key(chunk * KEYS), chunk < w.chunk_end);
}

__device__ inline page_queue start_pages(const decode_call &call, const block_work &w)
{
  page_queue q;
  q.now = page_of_lane(call, w, w.chunk);
  q.next = page_of_lane(call, w, w.chunk + 32 * HR_WARPS);
  return q;
}

/* The place of the warp's n-th chunk, `chunk`; n = 0, 1, 2 … */
__device__ inline chunk_place take_place(const decode_call &call, const block_work &w, page_queue &q, int n, int chunk)
{
  if (n % 32 == 0 && n > 0) {
    q.now = q.next;
    q.next = page_of_lane(call, w, chunk + 32 * HR_WARPS);
  }
  return {__shfl_sync(0xFFFFFFFFu, q.now, n % 32), token_of_key(chunk * KEYS)};
}

#else

/* A lane has the places of its keys in the next chunks. */
struct page_queue {
  chunk_place ahead[PAGES_AHEAD];
};

__device__ inline chunk_place find_place(const decode_call &call, const block_work &w, int chunk)
{
  int key = chunk * KEYS + threadIdx.x % KEYS;
  return {page_at(call, w, place_of_key(key), chunk < w.chunk_end && key < w.length), token_of_key(key)};
}

__device__ inline page_queue start_pages(const decode_call &call, const block_work &w)
{
  page_queue q;
#pragma unroll
  for (int i = 0; i < PAGES_AHEAD; i++)
    q.ahead[i] = find_place(call, w, w.chunk + i * HR_WARPS);
  return q;
}

__device__ inline chunk_place take_place(const decode_call &call, const block_work &w, page_queue &q, int, int chunk)
{
  chunk_place taken = q.ahead[0];
#pragma unroll
  for (int i = 0; i + 1 < PAGES_AHEAD; i++)
    q.ahead[i] = q.ahead[i + 1];
  q.ahead[PAGES_AHEAD - 1] = find_place(call, w, chunk + PAGES_AHEAD * HR_WARPS);
  return taken;
}

#endif

__device__ inline int64 shuffle(int64 value, int lane)
{
  unsigned low = __shfl_sync(0xFFFFFFFFu, (unsigned)value, lane);
  unsigned high = __shfl_sync(0xFFFFFFFFu, (unsigned)(value >> 32), lane);
  return (int64)((unsigned long long)high << 32 | low);
}

/* The offset of key `key` of a chunk; `offset`: of this lane's key. */
__device__ inline int64 key_offset(int64 offset, int key, int64 token_stride)
{
#ifdef HR_CHUNK_IN_PAGE
  return offset + key * token_stride;
#else
  return shuffle(offset, key);
#endif
}

/* ---- copies ---- */

#ifdef HR_ALIGNED
__device__ inline void cp_async_piece(unsigned to, const void *from, bool there)
{
  if (HR_COPY_BYTES == 16)
    cp_async_16(to, from, there);
  else
    cp_async_4(to, from, there);
}
#endif

/* Starts the copies of HEADS heads of a chunk's keys, of which there are `heads`, to tiles of KEYS × WIDTH; keys behind
 * the end and columns behind `dim` become 0. */
template <int WIDTH, int HEADS, int SIZE>
__device__ inline void load_keys(char *to, const cached *from, int64 offset, const strides &at, int dim, int keys,
                                 int heads)
{
#ifdef HR_ALIGNED
  constexpr int PIECE = HR_COPY_BYTES / CACHED_BYTES, PIECES = WIDTH / PIECE;
#pragma unroll
  for (int i = 0; i < (KEYS * PIECES + 31) / 32; i++) {
    int place = i * 32 + threadIdx.x % 32, key = place / PIECES, column = place % PIECES * PIECE;
    const cached *row = from + key_offset(offset, key % KEYS, at.token) + column;
    unsigned target = tile_chunk(tile_row<WIDTH>(to, key), key, column / CHUNK) + column % CHUNK * CACHED_BYTES;
#pragma unroll
    for (int head = 0; head < HEADS; head++)
      if (KEYS * PIECES % 32 == 0 || key < KEYS)
        cp_async_piece(target + head * SIZE, row + head * at.head, key < keys && column < dim && head < heads);
  }
#else
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < KEYS * WIDTH; i += 32) {
    int key = i / WIDTH, column = i % WIDTH;
    int64 row = key_offset(offset, key, at.token);
    cached *tile = (cached *)(to + row_offset<WIDTH>(key) + chunk_offset(key, column / CHUNK)) + column % CHUNK;
    for (int head = 0; head < HEADS; head++, tile += SIZE / CACHED_BYTES)
      *tile = key < keys && column < dim && head < heads ? from[row + head * at.head + column] : (cached)0;
  }
#endif
}

#ifdef HR_TOKEN_SCALES
/* Starts the copies of the scales of HEADS heads, of which there are `heads`; those of keys behind the end become 0. */
template <int HEADS>
__device__ inline void load_scales(const float *to, const float *from, int64 offset, const strides &at, int keys,
                                   int heads)
{
#pragma unroll
  for (int i = 0; i < (KEYS * HEADS + 31) / 32; i++) {
    int place = i * 32 + threadIdx.x % 32, key = place % KEYS, head = place / KEYS;
    const float *scale = from + key_offset(offset, key, at.token) + head * at.head;
    if (head < HEADS)
      cp_async_4(shared_address(to + head * KEYS + key), scale, key < keys && head < heads);
  }
}
#endif

/* Heads of HEADS that the group's rows read, with GROUP query heads each: all but in the last part of a unit. */
template <int HEADS, int GROUP> __device__ inline int heads_read(const block_work &w)
{
  return HEADS == 1 || HR_PARTS * HR_HEADS == HR_UNIT_HEADS ? HEADS : w.rows / (GROUP * HR_Q_LEN);
}

/* Starts the copies of the warp's n-th chunk, `chunk`, and commits them as a group. Behind the split's end it is empty;
 * a team's warps read one another's chunks, and there they become 0. */
__device__ inline void load_chunk(const decode_call &call, const block_work &w, page_queue &pages, int n, int chunk)
{
  chunk_place place = take_place(call, w, pages, n, chunk);
  char *stage = stage_of(threadIdx.x / 32, n);
  if (chunk - warp_tile() < w.chunk_end) {
    int keys = TILES == 1 || chunk < w.chunk_end ? w.length - chunk * KEYS : 0;
    int k_heads = heads_read<HR_K_HEADS, HR_K_GROUP>(w), v_heads = heads_read<HR_V_HEADS, HR_V_GROUP>(w);
    int64 k_offset = place.page * call.k_at.page + place.token * call.k_at.token;
    int64 v_offset = place.page * call.v_at.page + place.token * call.v_at.token;
    load_keys<HR_QK, HR_K_HEADS, K_SIZE>(stage, (const cached *)call.k + w.first_head / HR_K_GROUP * call.k_at.head,
                                         k_offset, call.k_at, call.qk_dim, keys, k_heads);
    load_keys<HR_V, HR_V_HEADS, V_SIZE>(stage + V_AT,
                                        (const cached *)call.v + w.first_head / HR_V_GROUP * call.v_at.head, v_offset,
                                        call.v_at, call.v_dim, keys, v_heads);
#ifdef HR_TOKEN_SCALES
    load_scales<HR_K_HEADS>(k_scales_of(stage), call.k_scales + w.first_head / HR_K_GROUP * call.k_scale_at.head,
                            place.page * call.k_scale_at.page + place.token * call.k_scale_at.token, call.k_scale_at,
                            keys, k_heads);
    load_scales<HR_V_HEADS>(v_scales_of(stage), call.v_scales + w.first_head / HR_V_GROUP * call.v_scale_at.head,
                            place.page * call.v_scale_at.page + place.token * call.v_scale_at.token, call.v_scale_at,
                            keys, v_heads);
#endif
  }
  cp_async_commit();
}
