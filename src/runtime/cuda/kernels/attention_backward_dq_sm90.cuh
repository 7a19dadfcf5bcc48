/* SPDX-License-Identifier: Apache-2.0 */
/* dQ = dS K of a Q tile and a K/V tile: each consumer warpgroup of attention_backward_sm90.cu computes a half, and adds
 * it to the sums in the workspace. Of tiles of 128 rows it has 64 rows, of tiles of 64 rows 64 columns of every 128. */

#if HR_Q_TILE == 128
#define DQ_COLUMNS HR_QK
#else
#define DQ_COLUMNS 64 /* behind the head's last they are 0, as in K */
#endif
#define DQ_SUMS (DQ_COLUMNS / 2) /* of a thread */

/* dS at `ds` and K at `k` are the warpgroup's half. */
#define ISSUE_DQ(d, ds, k)                                                                \
  do {                                                                                    \
    unsigned long long a0 = matrix_descriptor(ds, 1024, 0);                               \
    unsigned long long b0 = matrix_descriptor(k, 1024, K_PANEL);                          \
    _Pragma("unroll") for (int step = 0; step < KEYS / 16; step++) {                      \
      unsigned long long a = descriptor_behind(a0, step / 4 * Q_PANEL + step % 4 * 32);   \
      unsigned long long b = descriptor_behind(b0, step * 16 * PANEL_ROW);                \
      DQ_WGMMA(d, a, b, step > 0);                                                        \
    }                                                                                     \
    wgmma_commit();                                                                       \
  } while (0)

#if HR_Q_TILE == 128
#define DQ_WGMMA(d, a, b, add) WGMMA_SS_MN_TO(HR_QK, d, a, b, add)
#else
#define DQ_WGMMA(d, a, b, add) WGMMA_SS_MN_TO(64, d, a, b, add)
#endif

__device__ inline unsigned ds_half(unsigned stage, int group)
{
  return memory_at(DS_AT + stage * DS_BYTES + (HR_Q_TILE == 128 ? group * 64 * PANEL_ROW : 0));
}

__device__ inline unsigned k_half(int group)
{
  return memory_at(HR_Q_TILE == 128 ? 0 : group * K_PANEL);
}

#ifdef HR_DETERMINISTIC
/* How many K/V tiles add to a Q tile before this one does. */
__device__ inline int turn_of(const attention_call &call, const work_item &item, int tile)
{
  int first = 0;
  if (call.window > 0)
    first = max(0, tile * HR_Q_TILE + item.kv_len - item.q_len - call.window + 1) / KEYS;
  return item.first_key / KEYS - first;
}

__device__ inline void wait_for_turn(const int *turns, int turn, int group)
{
  if (threadIdx.x % 128 == 0)
    while (load_acquire(turns) != turn)
      ;
  named_barrier_sync(1 + group, 128);
}

__device__ inline void end_turn(int *turns, int group)
{
  __threadfence();
  named_barrier_sync(1 + group, 128);
  if (threadIdx.x % 128 == 0)
    add_release(turns, 1);
}
#endif

__device__ inline void add_dq(const attention_call &call, const backward_call &backward, const work_item &item,
                              const float (&dq)[DQ_SUMS], int head, int tile, int group)
{
  int64 q_tile = q_tile_of(call, backward, item.batch, item.q_first, head, tile);
  int first = group * (HR_Q_TILE == 128 ? HR_QK / 8 : 8); /* of 64 rows and 8 columns each */
  float *to = backward.dq_sums + q_tile * (HR_Q_TILE * HR_QK) + (first * 128 + threadIdx.x % 128) * 4;
#ifdef HR_DETERMINISTIC
  int *turns = backward.turns + 2 * q_tile + group;
  wait_for_turn(turns, turn_of(call, item, tile), group);
#endif
#pragma unroll
  for (int n = 0; n < DQ_COLUMNS / 8; n++)
    if (HR_Q_TILE == 128 || n + 8 < HR_QK / 8 || first + n < HR_QK / 8)
      add_to_global(to + n * 512, dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3]);
#ifdef HR_DETERMINISTIC
  end_turn(turns, group);
#endif
}
