/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer warpgroups of attention_backward_sm90.cu, which keep dK and dV in registers. */

/* ---- WGMMAs ---- */

/* d = a · bᵀ: 64 rows of K or V, those of the tile at `a`, and a tile of Q or dO. */
#define ISSUE_SCORES(dim, d, a_at, b_at)                                                \
  do {                                                                                  \
    unsigned long long a0 = matrix_descriptor(a_at, 1024, 0);                           \
    unsigned long long b0 = matrix_descriptor(b_at, 1024, 0);                           \
    _Pragma("unroll") for (int step = 0; step < (dim) / 16; step++)                     \
    {                                                                                   \
      unsigned long long a = descriptor_behind(a0, step / 4 * K_PANEL + step % 4 * 32); \
      unsigned long long b = descriptor_behind(b0, step / 4 * Q_PANEL + step % 4 * 32); \
      WGMMA_SS(HR_Q_TILE, d, a, b, step > 0);                                           \
    }                                                                                   \
    wgmma_commit();                                                                     \
  } while (0)

/* d += a · b: P or dS in registers and a tile of dO or Q. */
#define ISSUE_GRADIENT(columns, d, a, b_at)                                \
  do {                                                                     \
    unsigned long long b0 = matrix_descriptor(b_at, 1024, Q_PANEL);        \
    _Pragma("unroll") for (int step = 0; step < HR_Q_TILE / 16; step++)    \
    {                                                                      \
      unsigned long long b = descriptor_behind(b0, step * 16 * PANEL_ROW); \
      WGMMA_RS(columns, d, a + 4 * step, b);                               \
    }                                                                      \
    wgmma_commit();                                                        \
  } while (0)

__device__ inline unsigned q_at(unsigned stage)
{
  return memory_at(Q_AT + stage * Q_BYTES);
}
__device__ inline unsigned do_at(unsigned stage)
{
  return memory_at(DO_AT + stage * DO_BYTES);
}
__device__ inline unsigned terms_at(unsigned stage)
{
  return memory_at(TERMS_AT + stage * TERMS_BYTES);
}

template <int COUNT> __device__ inline void clear(float (&sums)[COUNT])
{
#pragma unroll
  for (int i = 0; i < COUNT; i++)
    sums[i] = 0;
}

/* ---- writing dK and dV ---- */

/* Rows of 64 keys. Neighbouring lanes exchange words of two 8-column tiles, so that a row's four lanes write 32 bytes
 * at once. */
template <int COLUMNS>
__device__ inline void store_rows(const float (&sums)[COLUMNS / 2], element *to, int64 pitch, int rows, int columns,
                                  float factor)
{
  int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    element *at = to + (row + half * 8) * pitch + lane % 2 * 8 + lane / 2 * 4;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n += 2) {
      const float *from = sums + n * 4 + half * 2;
      unsigned a = pack_pair(from[0] * factor, from[1] * factor), b = pack_pair(from[4] * factor, from[5] * factor);
      unsigned got = __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? a : b, 1);
      if (row + half * 8 < rows && n * 8 + lane % 2 * 8 < columns)
        *(uint2 *)(at + n * 8) = lane % 2 ? make_uint2(got, b) : make_uint2(a, got);
    }
  }
}

/* The rows of keys from `first_key` on, of a K or V head. */
template <int COLUMNS>
__device__ inline void store_gradient(const float (&sums)[COLUMNS / 2], element *to, const strides &at,
                                      const work_item &item, int head, int first_key, int columns, float factor)
{
  to += entry_of(item) * at.batch + (int64)(item.kv_first + first_key) * at.row + head * at.head;
  store_rows<COLUMNS>(sums, to, at.row, item.kv_len - first_key, columns, factor);
}

/* Where several work items add to a head. */
template <int COLUMNS> __device__ inline void add_gradient(const float (&sums)[COLUMNS / 2], float *to, int group)
{
  to += (group * 4 + threadIdx.x / 32 % 4) * (COLUMNS / 8) * 128 + threadIdx.x % 32 * 4;
#pragma unroll
  for (int n = 0; n < COLUMNS / 8; n++)
    add_to_global(to + n * 128, sums[4 * n], sums[4 * n + 1], sums[4 * n + 2], sums[4 * n + 3]);
}

/* The K/V tile of a work item among those of all heads. */
__device__ inline int64 k_tile_of(const attention_call &call, const backward_call &backward, const work_item &item,
                                  int heads, int head)
{
  return tile_of(item.batch, item.kv_first, heads, head, backward.k_tiles, item.first_key / KEYS, KEYS);
}

__device__ inline void write_dk(const attention_call &call, const backward_call &backward, const work_item &item,
                                const float (&dk)[HR_QK / 2], int head, int group)
{
  if (backward.dk_sums)
    add_gradient<HR_QK>(
        dk, backward.dk_sums + k_tile_of(call, backward, item, call.q_heads / call.k_group, head) * (KEYS * HR_QK),
        group);
  else
    store_gradient<HR_QK>(dk, backward.dk, backward.dk_at, item, head, item.first_key + group * 64, call.qk_dim,
                          call.scale);
}

__device__ inline void write_dv(const attention_call &call, const backward_call &backward, const work_item &item,
                                const float (&dv)[HR_V / 2], int head, int group)
{
  if (backward.dv_sums)
    add_gradient<HR_V>(
        dv, backward.dv_sums + k_tile_of(call, backward, item, call.q_heads / call.v_group, head) * (KEYS * HR_V),
        group);
  else
    store_gradient<HR_V>(dv, backward.dv, backward.dv_at, item, head, item.first_key + group * 64, call.v_dim, 1);
}

/* ---- tiles ---- */

__device__ inline tile_place place_of(const attention_call &call, const work_item &item, int head, int first_key,
                                      int tile)
{
  tile_place at = {};
  at.key = first_key + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  at.row = tile * HR_Q_TILE + threadIdx.x % 4 * 2;
  at.ahead = item.kv_len - item.q_len;
  at.kv_len = item.kv_len;
  at.last_row = item.q_len - 1;
#ifdef HR_FIRST_KEYS
  at.first_keys = lengths_of(call, item).first_keys;
#endif
#ifdef HR_SCORE_MOD
  at.slope = call.slopes ? call.slopes[head] : 0;
#endif
  return at;
}

/* Whether some query of the tile does not see some of 64 keys. Rows behind a sequence's last have an infinite lse. */
__device__ inline bool is_masked(const attention_call &call, const work_item &item, int first_key, int tile)
{
#ifdef HR_FIRST_KEYS
  return true;
#else
  int first = tile * HR_Q_TILE + item.kv_len - item.q_len, last = first + HR_Q_TILE - 1;
  return first_key + 64 > item.kv_len || call.causal && first < first_key + 63 ||
         call.window > 0 && last - call.window + 1 > first_key;
#endif
}

struct consumer_pipelines {
  item_pipeline items;
  q_pipeline q;
  ds_pipeline ds;
  unsigned k_phase, v_phase, p_phase;
};

/* The next work item with keys: a sequence may be shorter than the longest. False behind the last. */
__device__ inline bool next_item(const attention_call &call, const backward_call &backward, consumer_pipelines &t,
                                 work_item &item)
{
  do {
    int index = receive_item(t.items);
    if (!is_item(call, backward, index))
      return false;
    item = find_item(call, backward, index);
  } while (item.first_key >= item.kv_len);
  return true;
}

__device__ inline void wait_for_kv(int full, unsigned &phase)
{
  mbarrier_wait_long(mbarrier_at(full), phase);
  phase ^= 1;
}

__device__ inline void hand_over_ds(const unsigned (&ds)[TILE_WORDS], int group, const ds_pipeline &t)
{
  mbarrier_wait_long(mbarrier_at(DS_EMPTY + t.stage), t.phase ^ 1);
  __syncwarp();
  store_ds(ds, memory_at(DS_AT + t.stage * DS_BYTES + group * Q_PANEL));
  fence_proxy_async();
  __syncwarp();
  arrive_of_warp(DS_FULL + t.stage);
}

/* What a tile takes from its head and the warpgroup's 64 keys. */
struct tile_context {
  int head, group, first_key;
  unsigned k, v; /* the keys' rows of K and V in shared memory */
};
