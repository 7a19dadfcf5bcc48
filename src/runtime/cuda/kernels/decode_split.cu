/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention by mma.sync on Tensor Cores with split-KV; compute capability 8.0 and newer; fp16 and bf16.
 *
 *   block: one group of query heads that share K and V heads × one split of the sequence's keys
 *   group: up to 8 Q tiles of 16 rows (query heads × queries); one, or as many as the heads of a K or V head have
 *   team:  a warp per Q tile, or with HR_WGMMA four warps with one or two each; HR_WARPS / TEAM of them. A warp copies
 *          every HR_WARPS-th chunk of 16 keys of the split to cp.async stages, and the team's warps process one
 *          another's: a barrier of the team per stage, none where a team is one warp
 *   warp:  its Q tile in registers; S = Q Kᵀ → mask → P in registers → O += P V
 *   the teams' O are combined in shared memory, and the splits' O by a cluster's blocks or by the last of a group's
 *
 * K heads and V heads of a group are each read once. Where a tile's rows belong to several K or V heads, each of these
 * heads' products is computed for all rows and the rows that it belongs to take it. HR_UNIT_HEADS query heads, of which
 * no others share K or V heads, are HR_PARTS groups, the last of which may be smaller.
 *
 * HR_CACHE_FP8, HR_CACHE_INT8: K and V have one byte and scales (decode_quantized.cuh); HR_TOKEN_SCALES: each key has
 * its own. HR_ALIGNED: addresses, strides and head sizes of K and V are multiples of HR_COPY_BYTES, 16 or 4, those of Q
 * of 4; otherwise K and V are copied by element. HR_CHUNK_IN_PAGE: no chunk crosses the end of a page. HR_SOFTCAP:
 * scores are capped. HR_CLUSTER > 1: the splits of a group are a cluster of blocks, compute capability 9.0. HR_EARLY:
 * programmatic dependent launch; HR_LETS_NEXT: the next kernel's blocks may start ahead of the combining. HR_PAGE_SIZE:
 * tokens of a page; 0: a sequence has one. HR_SHARES: blocks have equal shares of all sequences' keys
 * (decode_shares.cuh). HR_WGMMA: products by WGMMA (decode_wgmma.cuh), compute capability 9.0. decode_split_tiles.c
 * chooses heads, warps, stages and splits; decode_layout.h has the shared memory.
 *
 * Bound: memory bandwidth. Numbers, and what was tried and lost: docs/notes/decode-gpu.md. */
#include "runtime/cuda/kernels/dtype.cuh"
#if defined(HR_CACHE_FP8) || defined(HR_CACHE_INT8)
#define HR_QUANTIZED
typedef unsigned char cached; /* an element of K and V */
#else
typedef element cached;
#endif
#if HR_CLUSTER > 1 || defined(HR_EARLY) || defined(HR_WGMMA)
#include "runtime/cuda/kernels/ptx_sm90.cuh"
#else
#include "runtime/cuda/kernels/ptx_sm80.cuh"
#endif
#include "runtime/cuda/kernels/decode_layout.h"

typedef long long int64;
typedef hr_decode_call decode_call;
typedef hr_layout_kv_strides strides;

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f
#define ROWS HR_DECODE_ROWS
#define KEYS HR_DECODE_KEYS
#define USED_ROWS (HR_HEADS * HR_Q_LEN) /* of the group */
#ifdef HR_WGMMA
#define WGMMA 1
#define TEAM 4                         /* warps of a team */
#define BLOCKS ((USED_ROWS + 63) / 64) /* Q tiles of a warp */
#define STAGE_ALIGNMENT 1024
#else
#define WGMMA 0
#define TEAM ((USED_ROWS + ROWS - 1) / ROWS)
#define BLOCKS 1
#define STAGE_ALIGNMENT 128
#endif
#define TILES (TEAM * BLOCKS)
#define GROUP_ROWS (TILES * ROWS)
#define TEAMS (HR_WARPS / TEAM)
#define HALVES (USED_ROWS > 8 ? 2 : 1) /* of a Q tile, 8 rows, that are used */
#define CHUNKS_AT_ONCE (TILES == 1 || HR_QK + HR_V > 256 ? 1 : TILES % 4 == 0 && HR_WARPS * HR_MIN_BLOCKS <= 8 ? 4 : 2)
#ifdef HR_SOFTCAP
#define SCALED_LAST 0
#else
#define SCALED_LAST (TILES > 1)
#endif
#define THREADS (32 * HR_WARPS)
#define CACHED_BYTES ((int)sizeof(cached))
#define CHUNK (16 / CACHED_BYTES) /* elements of one 16-byte copy */
#ifdef HR_TOKEN_SCALES
#define TOKEN_SCALES 1
#else
#define TOKEN_SCALES 0
#endif
#define AT_ONCE 4     /* ldmatrix before their first product: one takes as long as the other */
#define PAGES_AHEAD 4 /* chunks whose page numbers are loaded before their copies start, where a chunk has several */
#define QK_STEPS (HR_QK / 16)
#define O_TILES (HR_V / 8)
#define LAYOUT                                                                                                       \
  hr_decode_layout_of({HR_QK, HR_V, USED_ROWS, TILES, HR_K_HEADS, HR_V_HEADS, HR_WARPS, TEAM, HR_STAGES, HR_CLUSTER, \
                       CACHED_BYTES, TOKEN_SCALES, WGMMA})

enum {
  K_SIZE = LAYOUT.k_size,
  V_SIZE = LAYOUT.v_size,
  SCALES_AT = LAYOUT.scales_at,
  STAGE_SIZE = LAYOUT.stage_size,
  V_AT = (WGMMA ? TEAM : HR_K_HEADS) * K_SIZE, /* in a stage */
  Q_AT = LAYOUT.q_at,
  O_PITCH = LAYOUT.o_pitch,
  O_AT = LAYOUT.o_at,
  RECEIVED_AT = LAYOUT.received_at,
  RECEIVED_STATS_AT = LAYOUT.received_stats_at,
  BARRIER_AT = LAYOUT.barrier_at
};

extern __shared__ __align__(STAGE_ALIGNMENT)
element shared[];

__device__ inline float minus_infinity()
{
  return __uint_as_float(0xFF800000u);
}

/* This warp's number in its team, and its Q tile, the first of them with WGMMA. */
__device__ inline int warp_tile()
{
  return threadIdx.x / 32 % TEAM;
}

#include "runtime/cuda/kernels/decode_work.cuh"
#include "runtime/cuda/kernels/decode_load.cuh"

/* ---- GEMMs and softmax of a warp ---- */

/* A thread has rows t / 4 and t / 4 + 8 (half 0 and 1): accumulators of O, the base, which is the largest score, and
 * the sum of the weights. */
struct warp_state {
  unsigned q[QK_STEPS][4]; /* with WGMMA until it is in shared memory: from registers that a loop keeps, NVRTC 13.0 made
                            * WGMMAs of ones that it had reused */
  float out[O_TILES][4];
  float base[2], sum[2];    /* the base in units of score_unit() */
  int k_head[2], v_head[2]; /* of the rows, within the group */
  int first_v, last_v;      /* V heads of the tile */
  key_range keys[2];
  key_range plain; /* keys of the split that all rows see */
#ifdef HR_QUANTIZED
  float score_factor[2]; /* of the rows */
#endif
};

__device__ inline void add_rows(warp_state &s, int n, int head, const unsigned (&p)[4], unsigned v0, unsigned v1)
{
  if (HR_V_HEADS == 1) {
    mma_sync(s.out[n], p, v0, v1);
    return;
  }
  float added[4] = {s.out[n][0], s.out[n][1], s.out[n][2], s.out[n][3]};
  mma_sync(added, p, v0, v1);
#pragma unroll
  for (int e = 0; e < 4; e++)
    s.out[n][e] = s.v_head[e / 2] == head ? added[e] : s.out[n][e];
}

/* Whether a V head belongs to rows of the warp's tile. */
__device__ inline bool of_tile(const warp_state &s, int head)
{
  return TILES == 1 || HR_V_HEADS == 1 || (head >= s.first_v && head <= s.last_v);
}

#ifdef HR_QUANTIZED
#include "runtime/cuda/kernels/decode_quantized.cuh"
#else

/* The products of all rows and a head's keys; `from`: this lane's row of K. */
__device__ inline void multiply_head(const warp_state &s, unsigned from, float (&found)[2][4])
{
  int lane = threadIdx.x % 32, chunk = lane / 8 % 2;
#pragma unroll
  for (int first = 0; first < QK_STEPS; first += AT_ONCE) {
    unsigned k[AT_ONCE][4];
#pragma unroll
    for (int i = 0; i < AT_ONCE && first + i < QK_STEPS; i++)
      ldmatrix_x4(k[i], tile_chunk(from, lane, (first + i) * 2 + chunk));
#pragma unroll
    for (int i = 0; i < AT_ONCE && first + i < QK_STEPS; i++) {
      mma_sync(found[0], s.q[first + i], k[i][0], k[i][1]);
      mma_sync(found[1], s.q[first + i], k[i][2], k[i][3]);
    }
  }
}

__device__ inline float score_scale(const warp_state &, const char *, int, int)
{
  return 1;
}

__device__ inline void mma_pv(warp_state &s, const char *stage, const float (&)[2][4], unsigned (&p)[4])
{
  int lane = threadIdx.x % 32;
  unsigned from = tile_row<HR_V>(stage + V_AT, lane % 16), chunk = lane / 16;
#pragma unroll
  for (int head = 0; head < HR_V_HEADS; head++, from += V_SIZE) {
    if (!of_tile(s, head))
      continue;
#pragma unroll
    for (int first = 0; first < O_TILES; first += 2 * AT_ONCE) {
      unsigned v[AT_ONCE][4];
#pragma unroll
      for (int i = 0; i < AT_ONCE && first + 2 * i < O_TILES; i++)
        ldmatrix_x4_trans(v[i], tile_chunk(from, lane, first + 2 * i + chunk));
#pragma unroll
      for (int i = 0; i < AT_ONCE && first + 2 * i < O_TILES; i++) {
        add_rows(s, first + 2 * i, head, p, v[i][0], v[i][1]);
        add_rows(s, first + 2 * i + 1, head, p, v[i][2], v[i][3]);
      }
    }
  }
}

#endif

/* Two neighbouring elements of a row of Q; 0 behind its end. */
__device__ inline unsigned load_pair(const decode_call &call, const element *row, int column)
{
#ifdef HR_ALIGNED
  return column < call.qk_dim ? *(const unsigned *)(row + column) : 0;
#else
  unsigned low = column < call.qk_dim ? row[column] : 0, high = column + 1 < call.qk_dim ? row[column + 1] : 0;
  return low | high << 16;
#endif
}

/* The columns of this thread's pair i of a row of Q. */
__device__ inline int column_of_pair(int i)
{
#ifdef HR_QUANTIZED
  return i / 2 * 16 + threadIdx.x % 4 * 4 + i % 2 * 2;
#else
  return i * 8 + threadIdx.x % 4 * 2;
#endif
}

/* `tile`: the Q tile. */
__device__ inline warp_state start_warp(const decode_call &call, const block_work &w, int tile)
{
  warp_state s = {};
  const unsigned sign = SCALED_LAST && call.scale < 0 ? 0x80008000u : 0;
#pragma unroll
  for (int half = 0; half < HALVES; half++) {
    int row = tile * ROWS + threadIdx.x % 32 / 4 + 8 * half;
    int64 at = row % HR_Q_LEN * call.q_at.row + row_head(w, row) * call.q_at.head;
    const element *q = call.q + w.sequence * call.q_at.batch + at;
    if (row < w.rows)
#pragma unroll
      for (int i = 0; i < 2 * QK_STEPS; i++)
        s.q[i / 2][half + i % 2 * 2] = load_pair(call, q, column_of_pair(i)) ^ sign;
    s.base[half] = minus_infinity();
    s.k_head[half] = row / (USED_ROWS / HR_K_HEADS);
    s.v_head[half] = row / (USED_ROWS / HR_V_HEADS);
    s.keys[half] = keys_of_row(call, w, row);
    if (TILES > 1)
      s.keys[half].end = min(s.keys[half].end, w.chunk_end * KEYS);
#ifdef HR_QUANTIZED
    s.score_factor[half] = scale_q(s.q, half);
    if (!TOKEN_SCALES && row < w.rows)
      s.score_factor[half] *= call.k_scales[row_head(w, row) / HR_K_GROUP];
#endif
  }
  s.plain.first = call.window > 0 ? max(0, w.length - call.window) : 0;
  s.plain.end = min(w.length - HR_Q_LEN + 1, w.chunk_end * KEYS);
  s.first_v = tile * ROWS / (USED_ROWS / HR_V_HEADS);
  s.last_v = (tile * ROWS + ROWS - 1) / (USED_ROWS / HR_V_HEADS);
  return s;
}

/* Scores of 16 rows × 16 keys: [tile of 8 keys][2 · half + key within the pair]. */
__device__ inline void mma_qk(const warp_state &s, const char *stage, float (&scores)[2][4])
{
  int lane = threadIdx.x % 32;
  unsigned from = tile_row<HR_QK>(stage, lane % 8 + lane / 16 * 8);
#pragma unroll
  for (int head = 0; head < HR_K_HEADS; head++, from += K_SIZE) {
    float found[2][4] = {};
    multiply_head(s, from, found);
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i % 4 / 2 < HALVES && (HR_K_HEADS == 1 || s.k_head[i % 4 / 2] == head))
        scores[i / 4][i % 4] = found[i / 4][i % 4] * score_scale(s, stage, head, i);
  }
}

/* What a score is multiplied by to be the natural logarithm of a weight: with several Q tiles a score is the product
 * before it is scaled, since their instructions count, and Q has the sign. */
__device__ inline float score_unit(const decode_call &call)
{
  return SCALED_LAST ? fabsf(call.scale) : 1;
}

__device__ inline float score_of(const decode_call &call, float product)
{
#ifdef HR_SOFTCAP
  return __fmul_rn(call.softcap, tanhf(product * call.scale / call.softcap));
#else
  return SCALED_LAST ? product : __fmul_rn(product, call.scale);
#endif
}

/* Products to scores. By __fmul_rn(), which the compiler does not merge with the subtraction of a base: the base itself
 * has been rounded. */
__device__ inline void scale_scores(const decode_call &call, float (&scores)[2][4])
{
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (i % 4 / 2 < HALVES)
      scores[i / 4][i % 4] = score_of(call, scores[i / 4][i % 4]);
}

/* −inf where a row does not see the key. */
__device__ inline void mask_scores(const warp_state &s, int chunk, float (&scores)[2][4])
{
  int first = chunk * KEYS + threadIdx.x % 4 * 2;
  if (TILES > 1 && chunk * KEYS >= s.plain.first && chunk * KEYS + KEYS <= s.plain.end)
    return;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int key = first + i / 4 * 8 + i % 2, half = i % 4 / 2;
    if (half < HALVES)
      scores[i / 4][i % 4] =
          key >= s.keys[half].first && key < s.keys[half].end ? scores[i / 4][i % 4] : minus_infinity();
  }
}

/* A base of −inf, while a row has seen no key, would make NaN of −inf − −inf. */
__device__ inline float safe(float base)
{
  return base == minus_infinity() ? 0.0f : base;
}

/* 2^top for the base, exactly, however large that is: the difference comes before the scaling. */
__device__ inline float weight_of(float score, float base, float top, float to_log2 = LOG2_E)
{
  return exp2_approx(fmaf(score - safe(base), to_log2, top));
}

/* The largest score of a row's half in COUNT chunks, of all lanes that share the row. */
template <int COUNT> __device__ inline float largest_of(const float (&scores)[COUNT][2][4], int half)
{
  float most = minus_infinity();
#pragma unroll
  for (int c = 0; c < COUNT; c++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      most = fmaxf(most, fmaxf(scores[c][i][2 * half], scores[c][i][2 * half + 1]));
  most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
  return fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
}

/* A row's base with its scores of COUNT chunks. Returns what O and the sum so far are to be multiplied by. */
template <int COUNT>
__device__ inline float grow_base(warp_state &s, const float (&scores)[COUNT][2][4], int half, float to_log2)
{
  float most = fmaxf(largest_of(scores, half), s.base[half]);
  float rescale = weight_of(s.base[half], most, 0, to_log2);
  s.base[half] = most;
  return rescale;
}

/* A row's scores of COUNT chunks to weights, and these to mma operands; the sum so far is multiplied by `rescale`. */
template <int COUNT>
__device__ inline void weigh(const decode_call &call, warp_state &s, float (&scores)[COUNT][2][4],
                             unsigned (&p)[COUNT][4], int half, float rescale, float to_log2)
{
  float sum = 0;
#pragma unroll
  for (int c = 0; c < COUNT; c++) {
    float *low = &scores[c][0][2 * half], *high = &scores[c][1][2 * half];
    for (int e = 0; e < 2; e++) {
      low[e] = weight_of(low[e], s.base[half], call.top, to_log2);
      high[e] = weight_of(high[e], s.base[half], call.top, to_log2);
    }
    sum += low[0] + low[1] + high[0] + high[1];
    p[c][half] = pack_pair(low[0], low[1]);
    p[c][2 + half] = pack_pair(high[0], high[1]);
  }
  s.sum[half] = s.sum[half] * rescale + sum;
}

__device__ inline void rescale_out(warp_state &s, int half, float rescale)
{
#pragma unroll
  for (int n = 0; n < O_TILES; n++)
    s.out[n][2 * half] *= rescale, s.out[n][2 * half + 1] *= rescale;
}

/* Waits until every warp of the team has the chunk that it waited for and has left the one before. */
__device__ inline void team_barrier()
{
  named_barrier_sync(1 + threadIdx.x / 32 / TEAM, 32 * TEAM);
}

#ifdef HR_WGMMA
#include "runtime/cuda/kernels/decode_wgmma.cuh"
#else

/* COUNT chunks, the n-th of the warps from `warp` on, `chunk` and the next. */
template <int COUNT>
__device__ inline void attend_chunks(const decode_call &call, warp_state &s, int chunk, int warp, int n)
{
  const float to_log2 = score_unit(call) * LOG2_E;
  float scores[COUNT][2][4] = {};
  unsigned p[COUNT][4] = {};
#pragma unroll
  for (int c = 0; c < COUNT; c++)
    mma_qk(s, stage_of(warp + c, n), scores[c]);
#pragma unroll
  for (int c = 0; c < COUNT; c++) {
    scale_scores(call, scores[c]);
    mask_scores(s, chunk + c, scores[c]);
  }
#pragma unroll
  for (int half = 0; half < HALVES; half++) {
    float rescale = grow_base(s, scores, half, to_log2);
    weigh(call, s, scores, p, half, rescale, to_log2);
    if (rescale != 1.0f)
      rescale_out(s, half, rescale);
  }
#pragma unroll
  for (int c = 0; c < COUNT; c++)
    mma_pv(s, stage_of(warp + c, n), scores[c], p[c]);
}

#if USED_ROWS <= 16 /* one Q tile */

/* All chunks of this warp, of which the first HR_STAGES - 1 are on their way. */
__device__ inline void attend(const decode_call &call, block_work &w, warp_state (&states)[1], page_queue &pages)
{
  warp_state &s = states[0];
  for (int n = 0; w.chunk < w.chunk_end; n++, w.chunk += HR_WARPS) {
    load_chunk(call, w, pages, n + HR_STAGES - 1, w.chunk + (HR_STAGES - 1) * HR_WARPS);
    cp_async_wait<HR_STAGES - 1>();
    __syncwarp();
    attend_chunks<1>(call, s, w.chunk, threadIdx.x / 32, n);
    __syncwarp();
  }
}

#else

/* All chunks of this team, of which the first HR_STAGES - 1 of each warp are on their way. */
__device__ inline void attend(const decode_call &call, block_work &w, warp_state (&states)[1], page_queue &pages)
{
  warp_state &s = states[0];
  const int first_warp = threadIdx.x / 32 / TILES * TILES;
  for (int n = 0; w.chunk - warp_tile() < w.chunk_end; n++, w.chunk += HR_WARPS) {
    cp_async_wait<HR_STAGES - 2>();
    team_barrier();
    load_chunk(call, w, pages, n + HR_STAGES - 1, w.chunk + (HR_STAGES - 1) * HR_WARPS);
    int first = w.chunk - warp_tile(), i = 0;
#pragma unroll 1
    for (; i + CHUNKS_AT_ONCE <= TILES && first + i < w.chunk_end; i += CHUNKS_AT_ONCE)
      attend_chunks<CHUNKS_AT_ONCE>(call, s, first + i, first_warp + i, n);
    if (TILES % CHUNKS_AT_ONCE != 0 && i < TILES && first + i < w.chunk_end) /* an odd number of tiles */
      attend_chunks<1>(call, s, first + i, first_warp + i, n);
  }
}

#endif

#endif

#include "runtime/cuda/kernels/decode_combine.cuh"

/* A group's query heads and a part of their keys. */
__device__ inline void attend_part(const decode_call &call, block_work &w)
{
  page_queue pages = start_pages(call, w);
#pragma unroll
  for (int i = 0; i < HR_STAGES - 1; i++)
    load_chunk(call, w, pages, i, w.chunk + i * HR_WARPS);
  begin_combine(w);
  warp_state states[BLOCKS];
#pragma unroll
  for (int block = 0; block < BLOCKS; block++)
    states[block] = start_warp(call, w, warp_tile() + TEAM * block);
  attend(call, w, states, pages);
  cp_async_wait<0>();
  __syncthreads(); /* O replaces the stages */
#pragma unroll
  for (int block = 0; block < BLOCKS; block++)
    store_warp(call, states[block], warp_tile() + TEAM * block);
  wait_for_parts(call, w);
  __syncthreads();
  combine_warps(call, w);
#ifdef HR_LETS_NEXT
  if (is_last_work(w))
    allow_next_kernel();
#endif
  combine_splits(call, w);
}

extern "C" __global__ IN_CLUSTERS __launch_bounds__(THREADS, HR_MIN_BLOCKS) void decode(const decode_call call)
{
#ifdef HR_EARLY
  wait_for_kernel_before();
#endif
  block_work w = find_work(call);
  if (!is_work(w))
    return;
  do {
    attend_part(call, w);
  } while (next_work(call, w));
}

#ifdef HR_APART
/* The second launch, of a block per group. */
extern "C" __global__ __launch_bounds__(THREADS) void combine(const decode_call call)
{
  add_splits(call, find_work(call));
}
#endif
