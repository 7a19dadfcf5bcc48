/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that attention_backward_naive.cu and attention_backward_sm80.cu share. A launch computes one gradient, and a
 * block a tile of its rows; nothing is added in memory, so that every run writes the same bits.
 *
 *   gradient   rows of a tile      loop over tiles of      sum
 *   dQ         queries: Q and dO   keys: K and V           dS K
 *   dK         keys: K and V       queries: Q and dO       dSᵀ Q, over the query heads of K's head
 *   dV         keys: K and V       queries: Q and dO       Pᵀ dO, over the query heads of V's head
 *
 * The row terms are those of attention_backward_terms.cu. */
#include "runtime/cuda/kernels/attention_backward_layout.h"

typedef hr_backward_call backward_call;

enum gradient { DQ, DK, DV };

/* Where the rows of a sequence are in tensors. */
struct sequence_place {
  int64 entry, q_first, kv_first;
};

__device__ inline sequence_place place_of(const attention_call &call, int batch)
{
  if (!call.q_offsets)
    return {batch, 0, 0};
  return {0, call.q_offsets[batch], call.kv_offsets[batch]};
}

__device__ inline int64 offset_in(const strides &at, int64 entry, int64 row, int head)
{
  return entry * at.batch + row * at.row + head * at.head;
}

/* A head's queries or keys: Q and dO, or K and V. */
struct operand_rows {
  const element *qk, *v; /* rows of qk_dim and of v_dim elements */
  int64 qk_row, v_row;   /* elements from one row to the next */
  int rows;
};

__device__ inline operand_rows queries_of(const attention_call &call, const backward_call &backward,
                                          const head_view &view, int batch, int head)
{
  sequence_place at = place_of(call, batch);
  const element *d_o = backward.d_o + offset_in(backward.do_at, at.entry, at.q_first, head);
  return {view.q, d_o, call.q_at.row, backward.do_at.row, view.q_len};
}

__device__ inline operand_rows keys_of(const attention_call &call, const head_view &view)
{
  return {view.k, view.v, call.k_at.row, call.v_at.row, view.kv_len};
}

/* The row terms from query 0 of the head on: lse · log2 e, +∞ if the query sees no key, and delta. */
__device__ inline float2 *row_terms_of(const attention_call &call, const backward_call &backward, const head_view &view)
{
  return (float2 *)backward.row_terms + (view.lse - call.lse);
}

__device__ inline bool has_keys(float2 terms)
{
  return terms.x != -minus_infinity();
}

/* The tile of a block, and the query heads that add to it. */
struct own_tile {
  int batch, head, first_row;
  int q_head, q_heads;
};

template <gradient WHICH> __device__ inline own_tile find_tile(const attention_call &call, int rows)
{
  int tiles = ((WHICH == DQ ? call.q_len : call.kv_len) + rows - 1) / rows;
  int group = WHICH == DQ ? 1 : WHICH == DK ? call.k_group : call.v_group, heads = call.q_heads / group;
  int of_head = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  own_tile t = {of_head / heads, of_head % heads, 0, 0, group};
  t.first_row = (WHICH == DQ ? tiles - 1 - tile : tile) * rows; /* the longest of a causal call first */
  t.q_head = t.head * group;
  return t;
}

/* The tile's first row of the gradient. */
template <gradient WHICH>
__device__ inline element *gradient_of(const attention_call &call, const backward_call &backward, const own_tile &t)
{
  sequence_place at = place_of(call, t.batch);
  if (WHICH == DQ)
    return backward.dq + offset_in(backward.dq_at, at.entry, at.q_first + t.first_row, t.head);
  if (WHICH == DK)
    return backward.dk + offset_in(backward.dk_at, at.entry, at.kv_first + t.first_row, t.head);
  return backward.dv + offset_in(backward.dv_at, at.entry, at.kv_first + t.first_row, t.head);
}

template <gradient WHICH> __device__ inline int64 gradient_row(const backward_call &backward)
{
  return WHICH == DQ ? backward.dq_at.row : WHICH == DK ? backward.dk_at.row : backward.dv_at.row;
}

/* The queries that may see keys first … end − 1. */
__device__ inline key_range queries_of_keys(const attention_call &call, const head_view &view, int first, int end)
{
  int before = view.kv_len - view.q_len;
  key_range queries = {0, view.q_len};
  if (call.causal)
    queries.first = max(0, first - before);
  if (call.window > 0)
    queries.end = min(view.q_len, end - 1 + call.window - before);
  return queries;
}

/* The end of the queries whose first key is before `key`; first keys never decrease. */
__device__ inline int end_of_queries(const head_view &view, key_range queries, int key)
{
#ifdef HR_FIRST_KEYS
  while (queries.first < queries.end) {
    int middle = (queries.first + queries.end) / 2;
    if (view.first_keys[middle] < key)
      queries.first = middle + 1;
    else
      queries.end = middle;
  }
#endif
  return queries.end;
}

/* The keys that a row of a tile sees, or the queries that may see it: what the block loops over. */
template <gradient WHICH>
__device__ inline key_range others_of_tile(const attention_call &call, const head_view &view, int first_row, int rows)
{
  if (WHICH != DQ) {
    int end = min(first_row + rows, view.kv_len);
    key_range queries = queries_of_keys(call, view, first_row, end);
    return {queries.first, end_of_queries(view, queries, end)};
  }
  int last_row = min(first_row + rows, view.q_len) - 1;
  return {keys_of_row(call, view, first_row).first, keys_of_row(call, view, last_row).end};
}

__device__ inline bool contains(const key_range &keys, int key)
{
  return key >= keys.first && key < keys.end;
}

/* The keys of a query; none behind the last. */
__device__ inline key_range keys_of_query(const attention_call &call, const head_view &view, int query)
{
  if (query >= view.q_len)
    return {0, 0};
  return keys_of_row(call, view, query);
}

/* Whether some query sees the key: the first that may, as first keys never decrease. */
__device__ inline bool key_is_seen(const attention_call &call, const head_view &view, int key)
{
  key_range queries = queries_of_keys(call, view, key, key + 1);
  return queries.first < queries.end && contains(keys_of_query(call, view, queries.first), key);
}
