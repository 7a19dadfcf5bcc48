/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention by mma.sync on Tensor Cores; compute capability 8.0 and newer; fp16 and bf16. One launch for
 * each gradient: each computes the scores anew (eight products of tiles instead of five), and needs no additions in
 * memory, no fp32 copy of dQ, and no more registers than one gradient's accumulators.
 *
 *   block: HR_WARPS warps with 16 · HR_M_TILES rows of the gradient each × tiles of HR_KV_TILE others
 *   own    both operands of the rows, in shared memory
 *   others both operands, HR_STAGES 2: the next tile is copied by cp.async during the current one; with queries, the
 *          row terms beside them
 *   S, dP = own · othersᵀ → P, dS in registers → sums += P or dS · others
 *
 * HR_ALIGNED: addresses, strides and head sizes are multiples of 16 bytes; otherwise tiles are copied by element.
 * backward_sm80.c chooses tiles, warps and stages; attention_backward_tiles.h has the shared memory. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_tiles_sm80.cuh"
#include "runtime/cuda/kernels/attention_backward.cuh"
#include "runtime/cuda/kernels/attention_backward_tiles.h"

#define OTHERS HR_KV_TILE

typedef float tile_products[HR_M_TILES][S_TILES][4];

template <gradient WHICH> constexpr int WIDTH_OF = WHICH == DV ? HR_V : HR_QK;

__device__ constexpr hr_backward_sm80_layout layout()
{
  return hr_backward_sm80_layout_of(HR_QK, HR_V, ROWS, OTHERS, HR_STAGES);
}

/* ---- tiles in shared memory ---- */

__device__ inline element *own_qk()
{
  return shared;
}
__device__ inline element *own_v()
{
  return shared + layout().own_qk;
}
__device__ inline element *others_qk(int stage)
{
  return own_v() + layout().own_v + stage * (layout().qk + layout().v);
}
__device__ inline element *others_v(int stage)
{
  return others_qk(stage) + layout().qk;
}
__device__ inline float2 *terms_in(int stage)
{
  return (float2 *)((unsigned char *)shared + layout().terms_at) + stage * OTHERS;
}

/* What a block computes, and the tiles of others that it goes through: `tiles` of each query head of the group. */
struct block_work {
  own_tile own;
  int rows; /* of the sequence, of the gradient */
  int first_tile, tiles, items;
};

struct item {
  int head, first;
};

__device__ inline item item_at(const block_work &b, int index)
{
  return {b.own.q_head + index / b.tiles, (b.first_tile + index % b.tiles) * OTHERS};
}

template <gradient WHICH>
__device__ inline block_work find_work(const attention_call &call, const head_view &view, const own_tile &t)
{
  block_work b = {t, WHICH == DQ ? view.q_len : view.kv_len, 0, 0, 0};
  if (t.first_row >= b.rows)
    return b;
  key_range others = others_of_tile<WHICH>(call, view, t.first_row, ROWS);
  b.first_tile = others.first / OTHERS;
  b.tiles = max(0, (others.end + OTHERS - 1) / OTHERS - b.first_tile);
  b.items = b.tiles * t.q_heads;
  return b;
}

/* ---- copies ---- */

/* Heads that share a K head may have several V heads, and the reverse. */
__device__ inline bool has_own_rows_of_its_own(const attention_call &call, const block_work &b, int index)
{
  int head = item_at(b, index).head;
  return index == 0 || (index % b.tiles == 0 && (head % call.k_group == 0 || head % call.v_group == 0));
}

/* Starts the copies of the rows of an item's head if they are not those of the head before; first waits until no thread
 * reads those. */
template <gradient WHICH>
__device__ inline void load_own(const attention_call &call, const backward_call &backward, const block_work &b,
                                int index)
{
  if (!has_own_rows_of_its_own(call, b, index))
    return;
  int head = item_at(b, index).head, rows = b.rows - b.own.first_row;
  head_view view = view_head(call, b.own.batch, head);
  operand_rows x = WHICH == DQ ? queries_of(call, backward, view, b.own.batch, head) : keys_of(call, view);
  __syncthreads();
  load_tile<ROWS, HR_QK>(own_qk(), x.qk + b.own.first_row * x.qk_row, x.qk_row, rows, call.qk_dim);
  if (WHICH != DV)
    load_tile<ROWS, HR_V>(own_v(), x.v + b.own.first_row * x.v_row, x.v_row, rows, call.v_dim);
  cp_async_commit();
}

/* Each thread copies the terms that it looks at in settle_tile(). */
__device__ inline void load_terms(const float2 *from, int stage, int first, int rows)
{
  if (threadIdx.x >= OTHERS)
    return;
  int row = first + threadIdx.x;
  const float2 *term = from + min(row, rows - 1);
  unsigned to = shared_address(terms_in(stage) + threadIdx.x);
  cp_async_4(to, &term->x, row < rows);
  cp_async_4(to + 4, &term->y, row < rows);
}

/* Starts the copies of an item's others; those behind the last become 0, with their terms. */
template <gradient WHICH>
__device__ inline void load_others(const attention_call &call, const backward_call &backward, const block_work &b,
                                   int index)
{
  item at = item_at(b, index);
  int stage = index % HR_STAGES;
  head_view view = view_head(call, b.own.batch, at.head);
  operand_rows x = WHICH == DQ ? keys_of(call, view) : queries_of(call, backward, view, b.own.batch, at.head);
  load_tile<OTHERS, HR_QK>(others_qk(stage), x.qk + at.first * x.qk_row, x.qk_row, x.rows - at.first, call.qk_dim);
  load_tile<OTHERS, HR_V>(others_v(stage), x.v + at.first * x.v_row, x.v_row, x.rows - at.first, call.v_dim);
  if (WHICH != DQ)
    load_terms(row_terms_of(call, backward, view), stage, at.first, x.rows);
  cp_async_commit();
}

/* Queries without keys add nothing, whatever their Q and dO contain. */
__device__ inline void clear_empty_rows(int stage)
{
  for (int row = threadIdx.x / 32; row < OTHERS; row += HR_WARPS) {
    if (has_keys(terms_in(stage)[row]))
      continue;
    for (int column = threadIdx.x % 32; column < HR_QK; column += 32)
      others_qk(stage)[row * PITCH(HR_QK) + column] = 0;
    for (int column = threadIdx.x % 32; column < HR_V; column += 32)
      others_v(stage)[row * PITCH(HR_V) + column] = 0;
  }
}

/* Waits for the copies of all threads, and until none reads the tile before. */
template <gradient WHICH> __device__ inline void settle_tile(int stage)
{
  cp_async_wait<0>();
  bool empty = WHICH != DQ && threadIdx.x < OTHERS && !has_keys(terms_in(stage)[threadIdx.x % OTHERS]);
  if (__syncthreads_or(empty)) {
    clear_empty_rows(stage);
    __syncthreads();
  }
}

/* ---- products ---- */

__device__ inline void clear_products(tile_products &x)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int n = 0; n < S_TILES; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        x[i][n][e] = 0;
}

/* S or dP: a warp's rows times the others. */
template <int WIDTH> __device__ inline void multiply_rows(tile_products &to, const element *own, const element *others)
{
  int lane = threadIdx.x % 32;
  unsigned own_row = shared_address(own + (row_group() * WARP_ROWS + lane % 16) * PITCH(WIDTH) + lane / 16 * CHUNK);
  unsigned other_row = shared_address(others + (lane / 16 * 8 + lane % 8) * PITCH(WIDTH) + lane / 8 % 2 * CHUNK);
  clear_products(to);
#pragma unroll
  for (int step = 0; step < WIDTH; step += MMA_K) {
    unsigned a[HR_M_TILES][4];
#pragma unroll
    for (int i = 0; i < HR_M_TILES; i++)
      ldmatrix_x4(a[i], own_row + (i * 16 * PITCH(WIDTH) + step) * (int)sizeof(element));
#pragma unroll
    for (int n = 0; n < S_TILES; n += 2) {
      unsigned b[4];
      ldmatrix_x4(b, other_row + (n * 8 * PITCH(WIDTH) + step) * (int)sizeof(element));
#pragma unroll
      for (int i = 0; i < HR_M_TILES; i++) {
        mma_sync(to[i][n], a[i], b[0], b[1]);
        mma_sync(to[i][n + 1], a[i], b[2], b[3]);
      }
    }
  }
}

/* sums += weights · others, for 16 of them. */
template <int WIDTH>
__device__ inline void add_others(float (&sums)[HR_M_TILES][WIDTH / 8][4], const tile_products &weights,
                                  const element *others, int step)
{
  int lane = threadIdx.x % 32;
  unsigned first = shared_address(others + (step * MMA_K + lane % 16) * PITCH(WIDTH) + lane / 16 * CHUNK);
  unsigned a[HR_M_TILES][4];
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      a[i][e] = pack_pair(weights[i][2 * step + e / 2][e % 2 * 2], weights[i][2 * step + e / 2][e % 2 * 2 + 1]);
#pragma unroll
  for (int n = 0; n < WIDTH / 8; n += 2) {
    unsigned b[4];
    ldmatrix_x4_trans(b, first + n * 8 * (int)sizeof(element));
#pragma unroll
    for (int i = 0; i < HR_M_TILES; i++) {
      mma_sync(sums[i][n], a[i], b[0], b[1]);
      mma_sync(sums[i][n + 1], a[i], b[2], b[3]);
    }
  }
}

/* ---- P and dS ---- */

/* Row of the head of a thread's half (0: t / 4, 1: t / 4 + 8) of an M tile. */
__device__ inline int own_row(const block_work &b, int m_tile, int half)
{
  return b.own.first_row + row_group() * WARP_ROWS + m_tile * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* Caps and biases a score; its derivative by scale · q · k. */
__device__ inline float modify(const attention_call &call, const head_view &view, float &score, int query, int key)
{
  float slope = 1;
#ifdef HR_SCORE_MOD
  score *= call.scale;
  if (call.softcap > 0) {
    float capped = tanh_approx(__fdividef(score, call.softcap));
    score = call.softcap * capped;
    slope = 1 - capped * capped;
  }
  if (call.slopes)
    score += view.slope * (float)(key - (query + view.kv_len - view.q_len));
#endif
  return slope;
}

/* What a thread knows of the queries that are rows of its tile. */
struct own_queries {
  float2 terms[HR_M_TILES][2];
  key_range keys[HR_M_TILES][2];
};

__device__ inline void find_own_queries(const attention_call &call, const backward_call &backward,
                                        const head_view &view, const block_work &b, own_queries &own)
{
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = min(own_row(b, i, half), b.rows - 1);
      own.terms[i][half] = row_terms_of(call, backward, view)[row];
      own.keys[i][half] = keys_of_row(call, view, row);
    }
}

/* The terms of a pair of a row and a column, and whether the query sees the key. */
struct pair_terms {
  float2 terms;
  bool visible;
};

/* Turns a score into P, or with dP into dS. */
template <gradient WHICH>
__device__ inline float weight_of(const attention_call &call, const head_view &view, float score, float dp,
                                  const pair_terms &pair, int query, int key)
{
  float slope = modify(call, view, score, query, key);
  float p = exp2_approx(fmaf(score, softmax_factor(call), -pair.terms.x));
  float weight = WHICH == DV ? p : p * (dp - pair.terms.y) * slope;
  return pair.visible ? weight : 0;
}

/* Replaces S by the weights of a tile; UNMASKED: every query sees every key. */
template <gradient WHICH, bool UNMASKED>
__device__ inline void weigh(const attention_call &call, const head_view &view, const block_work &b,
                             const own_queries &own, const float2 *terms, int first, tile_products &s,
                             const tile_products &dp)
{
#pragma unroll
  for (int n = 0; n < S_TILES; n++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      int column = n * 8 + threadIdx.x % 4 * 2 + e, other = first + column;
      float2 of_column = WHICH == DQ ? make_float2(0, 0) : terms[column];
      key_range keys = WHICH == DQ || UNMASKED ? key_range{0, 0} : keys_of_query(call, view, other);
#pragma unroll
      for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          int row = own_row(b, i, half), query = WHICH == DQ ? row : other, key = WHICH == DQ ? other : row;
          pair_terms pair = {WHICH == DQ ? own.terms[i][half] : of_column,
                             UNMASKED || contains(WHICH == DQ ? own.keys[i][half] : keys, key)};
          float &x = s[i][n][half * 2 + e];
          x = weight_of<WHICH>(call, view, x, WHICH == DV ? 0 : dp[i][n][half * 2 + e], pair, query, key);
        }
    }
}

/* Whether every query of a tile sees every key. */
template <gradient WHICH>
__device__ inline bool is_unmasked(const attention_call &call, const head_view &view, const block_work &b, int first)
{
  int query = WHICH == DQ ? b.own.first_row : first, key = WHICH == DQ ? first : b.own.first_row;
  int last_query = min(query + (WHICH == DQ ? ROWS : OTHERS), WHICH == DQ ? b.rows : query + OTHERS) - 1;
  int end_key = WHICH == DQ ? key + OTHERS : min(key + ROWS, b.rows);
  return last_query < view.q_len && keys_of_row(call, view, query).end >= end_key &&
         keys_of_row(call, view, last_query).first <= key;
}

/* Adds an item's others, which have arrived. */
template <gradient WHICH>
__device__ inline void add_item(const attention_call &call, const block_work &b, const own_queries &own, int index,
                                float (&sums)[HR_M_TILES][WIDTH_OF<WHICH> / 8][4])
{
  item at = item_at(b, index);
  int stage = index % HR_STAGES;
  head_view view = view_head(call, b.own.batch, at.head);
  tile_products s, dp;
  multiply_rows<HR_QK>(s, own_qk(), others_qk(stage));
  if (WHICH != DV)
    multiply_rows<HR_V>(dp, own_v(), others_v(stage));
  if (is_unmasked<WHICH>(call, view, b, at.first))
    weigh<WHICH, true>(call, view, b, own, terms_in(stage), at.first, s, dp);
  else
    weigh<WHICH, false>(call, view, b, own, terms_in(stage), at.first, s, dp);
#pragma unroll
  for (int step = 0; step < S_TILES / 2; step++)
    add_others<WIDTH_OF<WHICH>>(sums, s, WHICH == DV ? others_v(stage) : others_qk(stage), step);
}

/* ---- the kernels ---- */

/* Two neighbouring columns. */
__device__ inline void store_pair(element *to, float left, float right, int columns)
{
#ifdef HR_ALIGNED
  if (columns > 0)
    *(unsigned *)to = pack_pair(left, right);
#else
  if (columns > 0)
    to[0] = from_float(left);
  if (columns > 1)
    to[1] = from_float(right);
#endif
}

/* A thread's part of the rows, 0 of a query without keys and of a key that no query sees. */
template <gradient WHICH>
__device__ inline void store(const attention_call &call, const backward_call &backward, const head_view &view,
                             const block_work &b, const own_queries &own,
                             const float (&sums)[HR_M_TILES][WIDTH_OF<WHICH> / 8][4])
{
  element *to = gradient_of<WHICH>(call, backward, b.own);
  int dim = WHICH == DV ? call.v_dim : call.qk_dim;
  float scale = WHICH == DV ? 1 : call.scale;
#pragma unroll
  for (int i = 0; i < HR_M_TILES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = own_row(b, i, half);
      if (row >= b.rows)
        continue;
      bool some = WHICH == DQ ? has_keys(own.terms[i][half]) : key_is_seen(call, view, row);
#pragma unroll
      for (int n = 0; n < WIDTH_OF<WHICH> / 8; n++) {
        int column = n * 8 + threadIdx.x % 4 * 2;
        const float *x = &sums[i][n][half * 2];
        store_pair(to + (row - b.own.first_row) * gradient_row<WHICH>(backward) + column, some ? x[0] * scale : 0,
                   some ? x[1] * scale : 0, dim - column);
      }
    }
}

template <gradient WHICH>
__device__ inline void differentiate(const attention_call &call, const backward_call &backward)
{
  own_tile t = find_tile<WHICH>(call, ROWS);
  head_view view = view_head(call, t.batch, t.q_head);
  block_work b = find_work<WHICH>(call, view, t);
  if (t.first_row >= b.rows)
    return; /* a sequence shorter than the longest */
  own_queries own = {};
  if (WHICH == DQ)
    find_own_queries(call, backward, view, b, own);
  float sums[HR_M_TILES][WIDTH_OF<WHICH> / 8][4] = {};
  if (b.items > 0)
    load_others<WHICH>(call, backward, b, 0);
#pragma unroll 1
  for (int index = 0; index < b.items; index++) {
    load_own<WHICH>(call, backward, b, index);
    settle_tile<WHICH>(index % HR_STAGES);
    if (HR_STAGES == 2 && index + 1 < b.items)
      load_others<WHICH>(call, backward, b, index + 1);
    add_item<WHICH>(call, b, own, index, sums);
    if (HR_STAGES == 1 && index + 1 < b.items) {
      __syncthreads();
      load_others<WHICH>(call, backward, b, index + 1);
    }
  }
  cp_async_wait<0>();
  store<WHICH>(call, backward, view, b, own, sums);
}

#define GRADIENT(name, which)                                                                             \
  extern "C" __global__ __launch_bounds__(THREADS, HR_MIN_BLOCKS) void name(const attention_call call,    \
                                                                            const backward_call backward) \
  {                                                                                                       \
    differentiate<which>(call, backward);                                                                 \
  }
GRADIENT(dq, DQ)
GRADIENT(dk, DK)
GRADIENT(dv, DV)
