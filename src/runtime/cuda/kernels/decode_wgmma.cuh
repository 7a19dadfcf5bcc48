/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of decode_split.cu by WGMMA, for groups with one K and one V head: each team, a warpgroup, multiplies all of
 * the group's Q tiles, 64 rows at once, by a chunk of each of its warps, 64 keys. Q, K and V are in panels of 64
 * columns with the 128-byte swizzle; the weights come from registers, in the fragments of mma.sync.
 *
 *   64 rows:   S → softmax → O += P V; the other team's products run beside the softmax
 *   128 rows:  S of both halves │ softmax of the first │ its P V beside the softmax of the second │ its P V */

#define PANEL_ROW 128
#define TEAM_KEYS 64

/* The start of a panel as the compiler knows it to be the same for all lanes. */
__device__ inline unsigned panel_address(const char *panel)
{
  return __shfl_sync(0xFFFFFFFFu, shared_address(panel), 0);
}

/* Starts S of rows 64 block … 64 block + 63. */
__device__ inline void issue_scores(float (&scores)[TEAM][2][4], const char *stage, int block)
{
  unsigned long long q =
      matrix_descriptor(panel_address((char *)shared + Q_AT + block * 64 * PANEL_ROW), 8 * PANEL_ROW, 0);
  unsigned long long k = matrix_descriptor(panel_address(stage), 8 * PANEL_ROW, 0);
  float *sums = scores[0][0];
#pragma unroll
  for (int step = 0; step < QK_STEPS; step++) {
    int column = step % 4 * 32;
    WGMMA_SS(64, sums, descriptor_behind(q, step / 4 * GROUP_ROWS * PANEL_ROW + column),
             descriptor_behind(k, step / 4 * PANEL_BYTES + column), step > 0);
  }
  wgmma_commit();
}

/* Starts O += P V. */
__device__ inline void issue_values(warp_state &s, unsigned (&p)[TEAM][4], const char *stage)
{
  unsigned long long v = matrix_descriptor(panel_address(stage + V_AT), 8 * PANEL_ROW, PANEL_BYTES);
  float *out = s.out[0];
  wgmma_fence();
#pragma unroll
  for (int c = 0; c < TEAM; c++)
    WGMMA_RS(HR_V, out, p[c], descriptor_behind(v, c * KEYS * PANEL_ROW));
  wgmma_commit();
}

/* Scores to weights. Where WGMMAs are under way, O is rescaled without a branch, ahead of which the compiler would wait
 * for them. */
template <bool MASKED>
__device__ inline void weigh_tile(const decode_call &call, warp_state &s, int chunk, float (&scores)[TEAM][2][4],
                                  unsigned (&p)[TEAM][4])
{
  const float to_log2 = score_unit(call) * LOG2_E;
#pragma unroll
  for (int c = 0; c < TEAM; c++) {
    scale_scores(call, scores[c]);
    if (MASKED)
      mask_scores(s, chunk + c, scores[c]);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float rescale = grow_base(s, scores, half, to_log2);
    if (BLOCKS > 1 || rescale != 1.0f)
      rescale_out(s, half, rescale);
    weigh(call, s, scores, p, half, rescale, to_log2);
  }
}

/* A team's n-th chunks, `chunk` and the next. */
template <bool MASKED>
__device__ inline void attend_tile(const decode_call &call, const block_work &w, warp_state (&states)[BLOCKS],
                                   page_queue &pages, int n)
{
  const char *stage = stage_of(threadIdx.x / 32 / TEAM * TEAM, n);
  float scores[BLOCKS][TEAM][2][4];
  unsigned p[BLOCKS][TEAM][4];
  wgmma_fence();
#pragma unroll
  for (int block = 0; block < BLOCKS; block++)
    issue_scores(scores[block], stage, block);
  load_chunk(call, w, pages, n + HR_STAGES - 1, w.chunk + (HR_STAGES - 1) * HR_WARPS);
#pragma unroll
  for (int block = 0; block < BLOCKS; block++) {
    wgmma_wait<BLOCKS - 1>(); /* behind the first, O of the one before may be under way */
    weigh_tile<MASKED>(call, states[block], w.chunk - warp_tile(), scores[block], p[block]);
    issue_values(states[block], p[block], stage);
  }
  wgmma_wait<0>();
}

/* Whether all rows see all keys of the team's chunks. */
__device__ inline bool is_plain(const warp_state (&states)[BLOCKS], int first)
{
  return first * KEYS >= states[0].plain.first && first * KEYS + TEAM_KEYS <= states[0].plain.end;
}

/* Q of a tile to shared memory, by the first team. */
__device__ inline void store_q(const warp_state &s, int tile)
{
#pragma unroll
  for (int i = 0; i < 4 * QK_STEPS; i++) {
    int half = i % 2, pair = i / 2, row = tile * ROWS + threadIdx.x % 32 / 4 + 8 * half;
    char *panel = (char *)shared + Q_AT + pair / 8 * GROUP_ROWS * PANEL_ROW;
    ((unsigned *)(panel + row * PANEL_ROW + ((pair % 8 ^ row % 8) << 4)))[threadIdx.x % 4] =
        s.q[pair / 2][half + pair % 2 * 2];
  }
}

/* All chunks of this team, of which the first HR_STAGES - 1 of each warp are on their way. */
__device__ inline void attend(const decode_call &call, block_work &w, warp_state (&states)[BLOCKS], page_queue &pages)
{
#pragma unroll
  for (int block = 0; block < BLOCKS; block++)
    if (threadIdx.x / 32 < TEAM)
      store_q(states[block], warp_tile() + TEAM * block);
  fence_proxy_async();
  __syncthreads();
  for (int n = 0; w.chunk - warp_tile() < w.chunk_end; n++, w.chunk += HR_WARPS) {
    cp_async_wait<HR_STAGES - 2>();
    fence_proxy_async();
    team_barrier();
    if (is_plain(states, w.chunk - warp_tile()))
      attend_tile<false>(call, w, states, pages, n);
    else
      attend_tile<true>(call, w, states, pages, n);
  }
}
