/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention for the calls that faster kernels refuse: any head sizes, strides and alignment, latent attention,
 * every format; fp32 arithmetic, split-KV.
 *
 *   block: one query of a sequence, HR_HEADS query heads that share a K head and a V head, one split of the keys that
 *   the query sees
 *   chunk of 64 keys:  S = Q K, a warp per key, lanes along the head size
 *                      online softmax, a warp per head
 *                      O += P V, a thread per column, O in shared memory
 *   splits are combined by a second kernel, in order
 *
 * HR_CACHE_FP8, HR_CACHE_INT8: K and V have one byte and scales, which multiply scores and elements of V.
 *
 * Bound: instructions; K and V are read again for every HR_HEADS heads and every query. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/decode_rows_layout.h"

#if defined(HR_CACHE_FP8) && !defined(HR_DTYPE_fp8)
#include "runtime/cuda/kernels/fp8.cuh"
#endif

typedef long long int64;
typedef hr_decode_rows_call rows_call;

/* ---- elements of K and V ---- */

#if defined(HR_CACHE_FP8)
#define HR_QUANTIZED
typedef unsigned char cached;
__device__ inline float cached_to_float(cached value)
{
  return fp8_to_float(value);
}
#elif defined(HR_CACHE_INT8)
#define HR_QUANTIZED
typedef signed char cached;
__device__ inline float cached_to_float(cached value)
{
  return (float)value;
}
#else
typedef element cached;
__device__ inline float cached_to_float(cached value)
{
  return to_float(value);
}
#endif

#define THREADS HR_DECODE_ROWS_THREADS
#define WARPS (THREADS / 32)
#define KEYS HR_DECODE_ROWS_KEYS

extern __shared__ __align__(16) unsigned char shared[];

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

/* Shared memory (decode_rows_layout.h). */
__device__ inline int64 *k_offsets()
{
  return (int64 *)shared;
}
__device__ inline int64 *v_offsets()
{
  return k_offsets() + KEYS;
}
__device__ inline float *k_scales()
{
  return (float *)(v_offsets() + KEYS);
}
__device__ inline float *v_scales()
{
  return k_scales() + KEYS;
}
__device__ inline float *q_row(const rows_call &call, int head)
{
  return v_scales() + KEYS + head * call.qk_dim;
}
__device__ inline float *o_row(const rows_call &call, int head)
{
  return q_row(call, HR_HEADS) + head * call.v_dim;
}
__device__ inline float *scores(const rows_call &call)
{
  return o_row(call, HR_HEADS);
}
__device__ inline float *factors(const rows_call &call)
{
  return scores(call) + KEYS * HR_HEADS;
}

/* ---- the work of a block ---- */

struct block_work {
  int sequence, query, first_head, split;
  int first_key, end_key;
};

/* Keys first … end − 1 that a query sees. */
struct key_range {
  int first, end;
};

__device__ inline key_range keys_of_query(const rows_call &call, int sequence, int query)
{
  key_range keys;
  int length = call.lengths ? call.lengths[sequence] : call.kv_len;
  keys.end = max(0, length - call.q_len + query + 1);
  keys.first = call.window > 0 ? max(0, keys.end - call.window) : 0;
  return keys;
}

__device__ inline block_work find_work(const rows_call &call)
{
  block_work w;
  int head_blocks = call.q_heads / HR_HEADS, group = blockIdx.x / call.splits;
  w.split = blockIdx.x % call.splits;
  w.first_head = group % head_blocks * HR_HEADS;
  w.query = group / head_blocks % call.q_len;
  w.sequence = group / head_blocks / call.q_len;
  key_range keys = keys_of_query(call, w.sequence, w.query);
  int chunks = (keys.end - keys.first + KEYS - 1) / KEYS, share = (chunks + call.splits - 1) / call.splits * KEYS;
  w.first_key = min(keys.end, keys.first + w.split * share);
  w.end_key = min(keys.end, w.first_key + share);
  return w;
}

__device__ inline int64 row_of(const rows_call &call, const block_work &w, int head)
{
  return ((int64)w.sequence * call.q_len + w.query) * call.q_heads + w.first_head + head;
}

/* Places of the chunk's keys, and their scales. */
__device__ inline void find_keys(const rows_call &call, const block_work &w, int first, int count)
{
  for (int i = threadIdx.x; i < count; i += THREADS) {
    int64 start = call.page_starts ? call.page_starts[w.sequence] : (int64)w.sequence * call.table_pitch;
    int64 place = start + (first + i) / call.page_size;
    int64 page = call.pages ? call.pages[place] : place, token = (first + i) % call.page_size;
    k_offsets()[i] = page * call.k_at.page + token * call.k_at.token + w.first_head / call.k_group * call.k_at.head;
    v_offsets()[i] = page * call.v_at.page + token * call.v_at.token + w.first_head / call.v_group * call.v_at.head;
#ifdef HR_QUANTIZED
    const hr_layout_kv_strides &k_at = call.k_scale_at, &v_at = call.v_scale_at;
    k_scales()[i] = call.k_scales[page * k_at.page + token * k_at.token + w.first_head / call.k_group * k_at.head];
    v_scales()[i] = call.v_scales[page * v_at.page + token * v_at.token + w.first_head / call.v_group * v_at.head];
#endif
  }
}

__device__ inline void start_block(const rows_call &call, const block_work &w)
{
  const element *q = call.q + w.sequence * call.q_at.batch + w.query * call.q_at.row + w.first_head * call.q_at.head;
  for (int i = threadIdx.x; i < HR_HEADS * call.qk_dim; i += THREADS)
    q_row(call, 0)[i] = to_float(q[i / call.qk_dim * call.q_at.head + i % call.qk_dim]);
  for (int i = threadIdx.x; i < HR_HEADS * call.v_dim; i += THREADS)
    o_row(call, 0)[i] = 0;
}

/* ---- a chunk of keys ---- */

__device__ inline float finished_score(const rows_call &call, float score)
{
  score *= call.scale;
  return call.softcap > 0 ? call.softcap * tanhf(score / call.softcap) : score;
}

#ifdef HR_QUANTIZED
__device__ inline float score_scale(int key)
{
  return k_scales()[key];
}
__device__ inline float value_scale(int key)
{
  return v_scales()[key];
}
#else
__device__ inline float score_scale(int)
{
  return 1;
}
__device__ inline float value_scale(int)
{
  return 1;
}
#endif

/* What ALiBi adds to the score of a key. */
__device__ inline float position_term(const rows_call &call, const block_work &w, int head, int key)
{
  int length = call.lengths ? call.lengths[w.sequence] : call.kv_len;
  return call.slopes ? call.slopes[w.first_head + head] * (float)(key - (length - call.q_len + w.query)) : 0.0f;
}

/* `count` keys from `first` on. */
__device__ inline void compute_scores(const rows_call &call, const block_work &w, int first, int count)
{
  int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int key = threadIdx.x / 32; key < count; key += WARPS) {
    const cached *k = (const cached *)call.k + k_offsets()[key];
    float sums[HR_HEADS] = {};
#pragma unroll 4
    for (int i = lane; i < call.qk_dim; i += 32) {
      float value = cached_to_float(k[i]);
#pragma unroll
      for (int head = 0; head < HR_HEADS; head++)
        sums[head] += q_row(call, head)[i] * value;
    }
#pragma unroll
    for (int head = 0; head < HR_HEADS; head++) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sums[head] += __shfl_xor_sync(0xFFFFFFFFu, sums[head], distance);
      if (lane == 0)
        scores(call)[key * HR_HEADS + head] =
            finished_score(call, sums[head] * score_scale(key)) + position_term(call, w, head, first + key);
    }
  }
}

/* A base of −∞, while a row has seen no key, would make NaN of −∞ − −∞. */
__device__ inline float safe(float base)
{
  return base == minus_infinity() ? 0.0f : base;
}

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

/* 2^top for the base, exactly, however large that is: the difference comes before the scaling. */
__device__ inline float weight_of(float score, float base, float top)
{
  return exp2f(fmaf(score - safe(base), LOG2_E, top));
}

/* The largest score of a row, and the sum of its weights. */
struct row_state {
  float base, sum;
};

/* Warp `head` turns the scores of its head into weights; its lanes have the row's state. */
__device__ inline void softmax(const rows_call &call, row_state &row, int count)
{
  int head = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (head >= HR_HEADS)
    return;
  float base = row.base, sum = 0;
  for (int key = lane; key < count; key += 32)
    base = fmaxf(base, scores(call)[key * HR_HEADS + head]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    base = fmaxf(base, __shfl_xor_sync(0xFFFFFFFFu, base, distance));
  for (int key = lane; key < count; key += 32) {
    float weight = weight_of(scores(call)[key * HR_HEADS + head], base, call.top);
    scores(call)[key * HR_HEADS + head] = weight;
    sum += weight;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
  float factor = weight_of(row.base, base, 0);
  row = {base, row.sum * factor + sum};
  if (lane == 0)
    factors(call)[head] = factor;
}

__device__ inline void add_values(const rows_call &call, int count)
{
#pragma unroll 1
  for (int column = threadIdx.x; column < call.v_dim; column += THREADS) {
    float sums[HR_HEADS];
#pragma unroll
    for (int head = 0; head < HR_HEADS; head++)
      sums[head] = o_row(call, head)[column] * factors(call)[head];
#pragma unroll 8
    for (int key = 0; key < count; key++) {
      float value = cached_to_float(((const cached *)call.v)[v_offsets()[key] + column]) * value_scale(key);
#pragma unroll
      for (int head = 0; head < HR_HEADS; head++)
        sums[head] += scores(call)[key * HR_HEADS + head] * value;
    }
#pragma unroll
    for (int head = 0; head < HR_HEADS; head++)
      o_row(call, head)[column] = sums[head];
  }
}

/* ---- results ---- */

/* What O of a row is multiplied by; with sinks, the state is that with the sink. 0 for a query without keys. */
__device__ inline float finish_row(const rows_call &call, int64 row, row_state &state)
{
  int head = (int)(row % call.q_heads), query = (int)(row / call.q_heads % call.q_len);
  key_range keys = keys_of_query(call, (int)(row / call.q_heads / call.q_len), query);
  float inverse = 1;
  if (call.sinks) {
    float sink = call.sinks[head], larger = fmaxf(state.base, sink);
    inverse = weight_of(state.base, larger, 0);
    state = {larger, state.sum * inverse + weight_of(sink, larger, call.top)};
  }
  return keys.first >= keys.end ? 0.0f : inverse / state.sum;
}

__device__ inline element *o_of_row(const rows_call &call, int64 row)
{
  return call.o + row / call.q_heads / call.q_len * call.o_at.batch + row / call.q_heads % call.q_len * call.o_at.row +
         row % call.q_heads * call.o_at.head;
}

__device__ inline void store_lse(const rows_call &call, int64 row, row_state state)
{
  if (call.lse && threadIdx.x % 32 == 0)
    call.lse[row] = state.base + (log2f(state.sum) - call.top) * LN_2;
}

/* O of a head: a part of a row, or the whole. A warp per head, which has the row's state. */
__device__ inline void store_head(const rows_call &call, const block_work &w, row_state state)
{
  int head = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (head >= HR_HEADS)
    return;
  int64 row = row_of(call, w, head), part = row * call.splits + w.split;
  if (call.splits > 1) {
    for (int column = lane; column < call.v_dim; column += 32)
      call.partial_o[part * call.v_dim + column] = o_row(call, head)[column];
    if (lane == 0)
      call.partial_stats[part] = make_float2(state.base, state.sum);
    return;
  }
  float inverse = finish_row(call, row, state);
  for (int column = lane; column < call.v_dim; column += 32)
    o_of_row(call, row)[column] = from_float(inverse == 0 ? 0.0f : o_row(call, head)[column] * inverse);
  store_lse(call, row, state);
}

extern "C" __global__ __launch_bounds__(THREADS) void decode(const rows_call call)
{
  block_work w = find_work(call);
  row_state row = {minus_infinity(), 0};
  start_block(call, w);
#pragma unroll 1
  for (int first = w.first_key; first < w.end_key; first += KEYS) {
    int count = min(KEYS, w.end_key - first);
    __syncthreads();
    find_keys(call, w, first, count);
    __syncthreads();
    compute_scores(call, w, first, count);
    __syncthreads();
    softmax(call, row, count);
    __syncthreads();
    add_values(call, count);
  }
  __syncthreads();
  store_head(call, w, row);
}

/* A block per row. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const rows_call call)
{
  int64 row = blockIdx.x, part = row * call.splits;
  row_state state = {minus_infinity(), 0};
  for (int split = 0; split < call.splits; split++)
    state.base = fmaxf(state.base, call.partial_stats[part + split].x);
  for (int split = 0; split < call.splits; split++)
    state.sum += call.partial_stats[part + split].y * weight_of(call.partial_stats[part + split].x, state.base, 0);
  float base = state.base, inverse = finish_row(call, row, state);
  for (int column = threadIdx.x; column < call.v_dim; column += THREADS) {
    float sum = 0;
    for (int split = 0; split < call.splits; split++)
      sum +=
          call.partial_o[(part + split) * call.v_dim + column] * weight_of(call.partial_stats[part + split].x, base, 0);
    o_of_row(call, row)[column] = from_float(inverse == 0 ? 0.0f : sum * inverse);
  }
  if (threadIdx.x < 32)
    store_lse(call, row, state);
}
