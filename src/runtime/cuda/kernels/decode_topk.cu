/* SPDX-License-Identifier: Apache-2.0 */
/* Selective V: decode attention over the keys with the largest scores of each query head; compute capability 8.0 and
 * newer, fp16 and bf16. Two kernels:
 *
 *   topk_score    block: one K head × 256 keys of a sequence; a warp has 64 of them, 8 at a time
 *                 Q tile: 16 rows (query heads × queries that share the K head) in registers; S = Q Kᵀ by mma.sync →
 *                 memory, fp32
 *   topk_gather   block: one query row × one split of its chosen keys. Each block finds the k-th largest score, digit
 *   by digit, and
 *                 lists its share of the chosen keys; their V rows are gathered by 16 bytes a lane, and the splits are
 *                 added by the
 *                 block of a row that finishes last
 *
 * Operands of the mma come from memory without shared memory: a lane loads 16 bytes of a row of Q and of K, whose
 * elements are taken as the mma's columns in the same order for both, which leaves the sum over the columns as it is.
 *
 * The choice is exact: scores as integers in their order, NaN the largest; among equal ones positions, the earlier the
 * larger.
 *
 * HR_ALIGNED: addresses, strides and head sizes are multiples of 16 bytes; otherwise elements are loaded one at a time.
 * HR_IN_SHARED: a row's scores fit shared memory; otherwise every digit reads them from memory. HR_SOFTCAP: scores are
 * capped. decode_topk.c chooses splits. Numbers: docs/notes/decode-gpu.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/decode_topk_layout.h"

typedef long long int64;
typedef hr_topk_call topk_call;

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f
#define ALL_LANES 0xFFFFFFFFu
#define STEPS (HR_QK / 32)                        /* a lane's loads of a row of Q or K */
#define TILES_AHEAD (STEPS >= 8 ? 2 : 16 / STEPS) /* of 8 keys, loaded at a time */
#define WARP_KEYS (HR_TOPK_SCORE_KEYS / HR_TOPK_SCORE_WARPS)
#define WARPS (HR_TOPK_THREADS / 32)
#define BINS (1 << HR_TOPK_DIGIT_BITS)

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

/* ---- sequences ---- */

__device__ inline int length_of(const topk_call &call, int sequence)
{
  return call.lengths ? call.lengths[sequence] : call.kv_len;
}

/* The first key that query `query` sees; of query 0: that any query sees. */
__device__ inline int first_key(const topk_call &call, int length, int query)
{
  return call.window > 0 ? max(0, length - call.q_len + query + 1 - call.window) : 0;
}

/* Elements from the cache's start to head 0 of a token. */
__device__ inline int64 token_at(const topk_call &call, const hr_layout_kv_strides &at, int sequence, int token)
{
  int place = call.table_pitch == 1 ? 0 : token / call.page_size, within = token - place * call.page_size;
  int64 at_place = (call.page_starts ? call.page_starts[sequence] : (int64)sequence * call.table_pitch) + place;
  return (call.pages ? call.pages[at_place] : at_place) * at.page + within * at.token;
}

/* Eight elements, 0 from `count` on. */
__device__ inline uint4 load_eight(const element *from, int count)
{
  uint4 words = make_uint4(0, 0, 0, 0);
#ifdef HR_ALIGNED
  if (count > 0)
    words = *(const uint4 *)from;
#else
  unsigned pairs[4] = {};
#pragma unroll
  for (int i = 0; i < 8; i++)
    pairs[i / 2] |= i < count ? (unsigned)from[i] << 16 * (i % 2) : 0;
  words = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
#endif
  return words;
}

#include "runtime/cuda/kernels/decode_topk_select.cuh"

/* ---- scores ---- */

struct q_tile {
  uint4 low[STEPS], high[STEPS]; /* rows lane / 4 and lane / 4 + 8 */
};

__device__ inline void load_row(const topk_call &call, const element *row, bool there, uint4 (&to)[STEPS])
{
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    int column = step * 32 + threadIdx.x % 4 * 8;
    to[step] = load_eight(row + column, there ? call.qk_dim - column : 0);
  }
}

/* Row `row` of those that share a K head. */
__device__ inline void load_query(const topk_call &call, int sequence, int k_head, int row, uint4 (&to)[STEPS])
{
  int head = k_head * call.k_group + row / call.q_len;
  const element *from = call.q + sequence * call.q_at.batch + row % call.q_len * call.q_at.row + head * call.q_at.head;
  load_row(call, from, row < call.k_group * call.q_len, to);
}

/* Scores of 16 rows × 8 keys: rows lane / 4 and lane / 4 + 8, two keys each. */
__device__ inline void multiply(const q_tile &q, const uint4 (&k)[STEPS], float (&scores)[4])
{
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    const unsigned first[4] = {q.low[step].x, q.high[step].x, q.low[step].y, q.high[step].y};
    const unsigned second[4] = {q.low[step].z, q.high[step].z, q.low[step].w, q.high[step].w};
    mma_sync(scores, first, k[step].x, k[step].y);
    mma_sync(scores, second, k[step].z, k[step].w);
  }
}

extern "C" __global__ __launch_bounds__(32 * HR_TOPK_SCORE_WARPS) void topk_score(const topk_call call)
{
  int tile = blockIdx.x % call.tiles, item = blockIdx.x / call.tiles;
  int k_head = item % call.k_heads, block = item / call.k_heads % call.score_blocks,
      sequence = item / call.k_heads / call.score_blocks;
  int length = length_of(call, sequence), first = first_key(call, length, 0), lane = threadIdx.x % 32;
  int key = first + block * HR_TOPK_SCORE_KEYS + threadIdx.x / 32 * WARP_KEYS, end = min(length, key + WARP_KEYS);
  if (key >= end)
    return;
  int rows = call.k_group * call.q_len, row = tile * HR_TOPK_ROWS + lane / 4;
  q_tile q;
  load_query(call, sequence, k_head, row, q.low);
  load_query(call, sequence, k_head, row + 8, q.high);
  unsigned *to =
      call.keys + (((int64)sequence * call.k_heads + k_head) * rows + row) * call.pitch - first + lane % 4 * 2;
  const element *from = call.k + k_head * call.k_at.head;
#pragma unroll 1
  for (; key < end; key += 8 * TILES_AHEAD) {
    uint4 k[TILES_AHEAD][STEPS];
#pragma unroll
    for (int i = 0; i < TILES_AHEAD; i++) {
      int own = key + i * 8 + lane / 4;
      load_row(call, from + (own < end ? token_at(call, call.k_at, sequence, own) : 0), own < end, k[i]);
    }
#pragma unroll
    for (int i = 0; i < TILES_AHEAD; i++) {
      float scores[4] = {};
      multiply(q, k[i], scores);
      int own = key + i * 8;
      if (own + lane % 4 * 2 < end && row < rows)
        *(uint2 *)(to + own) = make_uint2(key_of(scores[0] * call.sign), key_of(scores[1] * call.sign));
      if (own + lane % 4 * 2 < end && row + 8 < rows)
        *(uint2 *)(to + 8 * (int64)call.pitch + own) =
            make_uint2(key_of(scores[2] * call.sign), key_of(scores[3] * call.sign));
    }
  }
}

/* ---- the chosen keys ---- */

/* A product of Q and K as a score. By __fmul_rn(), which the compiler does not merge with the subtraction of a base:
 * the base itself has been rounded. */
__device__ inline float scaled(const topk_call &call, float score)
{
#ifdef HR_SOFTCAP
  return __fmul_rn(call.softcap, tanhf(score * call.scale / call.softcap));
#else
  return __fmul_rn(score, call.scale);
#endif
}

/* A base of −inf would make NaN of −inf − −inf. */
__device__ inline float safe(float base)
{
  return base == minus_infinity() ? 0.0f : base;
}

/* 2^top for the base, exactly, however large that is: the difference comes before the scaling. `base` is safe. */
__device__ inline float weight_of(float score, float base, float top)
{
  return exp2_approx(fmaf(score - base, LOG2_E, top));
}

#define LANES_OF_ROW (HR_V / 8)            /* a power of two: 16 bytes a lane */
#define ROWS_AT_A_TIME (32 / LANES_OF_ROW) /* of a warp */
#define TURNS (32 / ROWS_AT_A_TIME)        /* for the keys of a warp's lanes */
#define UNROLL (TURNS < 8 ? TURNS : 8)

struct columns {
  float sums[8];
  float weights; /* of this lane's keys */
};

__device__ inline void add_row(columns &c, uint4 words, float weight)
{
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 8; i++)
    c.sums[i] += weight * value_in(word[i / 2], i % 2);
}

__device__ inline int64 shuffle(int64 value, int lane)
{
  unsigned low = __shfl_sync(ALL_LANES, (unsigned)value, lane),
           high = __shfl_sync(ALL_LANES, (unsigned)(value >> 32), lane);
  return (int64)((unsigned long long)high << 32 | low);
}

/* Adds the rows of V of a warp's keys, one key a lane, of which there are `count`. */
__device__ inline void add_keys(const topk_call &call, columns &c, const element *v, int64 at, float weight, int count)
{
  int own = threadIdx.x % 32 / LANES_OF_ROW, column = threadIdx.x % LANES_OF_ROW * 8;
#pragma unroll 1
  for (int turn = 0; turn < TURNS && turn * ROWS_AT_A_TIME < count; turn += UNROLL) {
    uint4 row[UNROLL];
#pragma unroll
    for (int n = 0; n < UNROLL; n++) {
      int key = (turn + n) * ROWS_AT_A_TIME + own;
      row[n] = load_eight(v + shuffle(at, key) + column, key < count ? call.v_dim - column : 0);
    }
#pragma unroll
    for (int n = 0; n < UNROLL; n++)
      add_row(c, row[n], __shfl_sync(ALL_LANES, weight, (turn + n) * ROWS_AT_A_TIME + own)); /* without a key, 0 · 0 */
  }
}

/* Weights · V of places first … end − 1 of the list that are this warp's, 32 at a time. */
__device__ inline columns gather(const topk_call &call, const row_work &w, float base, int first, int end)
{
  const int *list = call.places + (int64)w.row * call.top_k;
  const element *v = call.v + w.head / call.v_group * call.v_at.head;
  columns c = {};
  int i = first + threadIdx.x, place = i < end ? list[i] : 0;
#pragma unroll 1
  for (; i - threadIdx.x % 32 < end; i += HR_TOPK_THREADS) {
    float weight = 0;
    int64 at = 0;
    if (i < end) {
      at = token_at(call, call.v_at, w.sequence, w.first + place);
      weight = weight_of(scaled(call, score_of(key_at(w, place))), base, call.top);
    }
    c.weights += weight;
    place = i + HR_TOPK_THREADS < end ? list[i + HR_TOPK_THREADS] : 0; /* of the next turn */
    add_keys(call, c, v, at, weight, min(32, end - (i - (int)threadIdx.x % 32)));
  }
  return c;
}

/* Sums over the block in shared memory, [warp][HR_V + 1], the last of a row the sum of weights. Returns column `column`
 * of the total to thread `column`. */
__device__ inline float add_warps(columns c)
{
  float *sums = (float *)shared;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = LANES_OF_ROW; distance < 32; distance *= 2)
#pragma unroll
    for (int i = 0; i < 8; i++)
      c.sums[i] += __shfl_xor_sync(ALL_LANES, c.sums[i], distance);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    c.weights += __shfl_xor_sync(ALL_LANES, c.weights, distance);
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (lane < LANES_OF_ROW)
      sums[warp * (HR_V + 1) + lane * 8 + i] = c.sums[i];
  if (lane == 0)
    sums[warp * (HR_V + 1) + HR_V] = c.weights;
  __syncthreads();
  float total = 0;
  for (int i = 0; threadIdx.x <= HR_V && i < WARPS; i++)
    total += sums[i * (HR_V + 1) + threadIdx.x];
  return total;
}

/* Writes the row of O and the log-sum-exp; thread `column` has a column of the weights · V, thread HR_V their sum. */
__device__ inline void finish(const topk_call &call, const row_work &w, float own, float base)
{
  float *weights = (float *)words();
  if (threadIdx.x == HR_V)
    *weights = own;
  __syncthreads();
  float sum = *weights, factor = 1;
  if (call.sinks) {
    float sink = call.sinks[w.head], larger = fmaxf(base, sink);
    factor = weight_of(base, safe(larger), 0);
    sum = sum * factor + weight_of(sink, safe(larger), call.top);
    base = larger;
  }
  element *o = call.o + w.sequence * call.o_at.batch + w.query * call.o_at.row + w.head * call.o_at.head;
  if (threadIdx.x < call.v_dim)
    o[threadIdx.x] = from_float(w.count == 0 ? 0.0f : own * factor / sum);
  if (call.lse && threadIdx.x == 0)
    call.lse[((int64)w.sequence * call.q_len + w.query) * call.q_heads + w.head] =
        base + (log2f(sum) - call.top) * LN_2;
}

/* Whether this block is the last of its row to get here; the counter is 0 again after the last. */
__device__ inline bool is_last(const topk_call &call, const row_work &w)
{
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    int finished = atomicAdd(call.counters + w.row, 1);
    if (finished == call.splits - 1)
      call.counters[w.row] = 0;
    __threadfence();
    words()[0] = finished == call.splits - 1;
  }
  __syncthreads();
  bool last = words()[0];
  __syncthreads();
  return last;
}

extern "C" __global__ __launch_bounds__(HR_TOPK_THREADS) void topk_gather(const topk_call call)
{
  row_work w = find_row(call);
  float base = minus_infinity(), own = 0;
  if (w.count > 0) {
    unsigned largest = 0;
    load_keys(w);
    choice c = choose(w, largest);
    base = scaled(call, score_of(block_max(largest)));
    int share = (w.chosen + call.splits - 1) / call.splits;
    int first = min(w.chosen, w.split * share), end = min(w.chosen, first + share);
    list_chosen(call, w, c, first, end);
    __syncthreads();
    own = add_warps(gather(call, w, safe(base), first, end));
  }
  if (call.splits > 1) {
    float *partial = call.partial + (int64)w.row * call.splits * (HR_V + 1) + threadIdx.x;
    if (threadIdx.x <= HR_V)
      partial[w.split * (HR_V + 1)] = own;
    if (!is_last(call, w))
      return;
    own = 0;
    for (int i = 0; threadIdx.x <= HR_V && i < call.splits; i++)
      own += __ldcg(partial + i * (HR_V + 1));
  }
  finish(call, w, own, base);
}
