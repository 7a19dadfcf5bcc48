/* SPDX-License-Identifier: Apache-2.0 */
/* dQ = dS K of a Q tile and a K/V tile: each consumer warpgroup of attention_backward_sm90.cu computes a part, and
 * adds it to the sums in the workspace. Of tiles of 128 rows that is 64 rows, otherwise HR_DQ_FIRST columns, or
 * HR_DQ_SECOND. Columns behind the head's last are 0, as in K, and not added. */

#define DQ_ROW_PARTS (HR_Q_TILE == 128)

/* d = dS · K: `ds` and `k` are where the part begins. */
#define ISSUE_DQ(columns, d, ds, k)                                                     \
  do {                                                                                  \
    unsigned long long a0 = matrix_descriptor(ds, 1024, 0);                             \
    unsigned long long b0 = matrix_descriptor(k, 1024, K_PANEL);                        \
    _Pragma("unroll") for (int step = 0; step < KEYS / 16; step++)                      \
    {                                                                                   \
      unsigned long long a = descriptor_behind(a0, step / 4 * Q_PANEL + step % 4 * 32); \
      unsigned long long b = descriptor_behind(b0, step * 16 * PANEL_ROW);              \
      WGMMA_SS_MN_TO(columns, d, a, b, step > 0);                                       \
    }                                                                                   \
    wgmma_commit();                                                                     \
  } while (0)

__device__ inline unsigned ds_part(unsigned stage, int group)
{
  return memory_at(DS_AT + stage * DS_BYTES + (DQ_ROW_PARTS ? group * 64 * PANEL_ROW : 0));
}

__device__ inline unsigned k_part(int group)
{
  return memory_at(DQ_ROW_PARTS ? 0 : group * (HR_DQ_FIRST / PANEL) * K_PANEL);
}

#ifdef HR_DETERMINISTIC
/* How many K/V tiles add to a Q tile before this one does: of causal calls those with later keys, as a tile's first
 * queries are those that no later key is for; then none waits for long. */
__device__ inline int turn_of(const attention_call &call, const work_item &item, int tile)
{
  int first_row = tile * HR_Q_TILE + item.kv_len - item.q_len,
      last_row = min((tile + 1) * HR_Q_TILE, item.q_len) - 1 + item.kv_len - item.q_len;
  if (call.causal)
    return last_row / KEYS - item.first_key / KEYS;
  return (item.first_key - (call.window > 0 ? max(0, first_row - call.window + 1) / KEYS * KEYS : 0)) / KEYS;
}

__device__ inline void wait_for_turn(const int *turns, int turn, int group)
{
  if (threadIdx.x % 128 == 0)
    while (load_acquire(turns) != turn)
      ;
  named_barrier_sync(1 + group, 128);
}

/* After what the warpgroup added a tile ago, as the fence waits for it. */
__device__ inline void end_turn(int *turns, int group)
{
  __threadfence();
  named_barrier_sync(1 + group, 128);
  if (threadIdx.x % 128 == 0)
    add_release(turns, 1);
}
#endif

/* After the last tile of a head. */
__device__ inline void end_last_turn(const attention_call &call, const backward_call &backward, const work_item &item,
                                     int head, int group)
{
#ifdef HR_DETERMINISTIC
  end_turn(backward.turns + 2 * q_tile_of(call, backward, item, head, item.end_tile - 1) + group, group);
#endif
}

template <int COLUMNS>
__device__ inline void add_dq(const attention_call &call, const backward_call &backward, const work_item &item,
                              const float (&dq)[COLUMNS / 2], int head, int tile, int group)
{
  int64 q_tile = q_tile_of(call, backward, item, head, tile);
  int warp = threadIdx.x / 32 % 4 + (DQ_ROW_PARTS ? group * 4 : 0), first = DQ_ROW_PARTS ? 0 : group * HR_DQ_FIRST / 8;
  float *to =
      backward.dq_sums + q_tile * (HR_Q_TILE * HR_QK) + (warp * (HR_QK / 8) + first) * 128 + threadIdx.x % 32 * 4;
#ifdef HR_DETERMINISTIC
  int *turns = backward.turns + 2 * q_tile + group;
  if (tile > item.first_tile)
    end_turn(turns - 2, group); /* of the tile before */
  wait_for_turn(turns, turn_of(call, item, tile), group);
#endif
#pragma unroll
  for (int n = 0; n < COLUMNS / 8; n++)
    if (DQ_ROW_PARTS || HR_DQ_FIRST + COLUMNS <= HR_QK || first + n < HR_QK / 8)
      add_to_global(to + n * 128, dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3]);
}
