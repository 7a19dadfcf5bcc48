/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and the attention kernels share: kernel parameters and shared memory. C includes this
 * header, and NVRTC compiles it into every attention program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ATTENTION_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_ATTENTION_LAYOUT_H

#ifdef __CUDACC_RTC__
#define HR_DEVICE_POINTER(type) type *
#define HR_LAYOUT_FUNCTION constexpr __device__ inline
#define HR_LAYOUT_ASSERT(condition) static_assert(condition, #condition)
typedef long long hr_layout_int64;
struct hr_layout_strides {
  long long batch, row, head; /* in elements */
};
#else
#include <headroom/attention.h>
#include <stdint.h>
#define HR_DEVICE_POINTER(type) uint64_t
#define HR_LAYOUT_FUNCTION static inline
#define HR_LAYOUT_ASSERT(condition) _Static_assert(condition, #condition)
typedef int64_t hr_layout_int64;
typedef hr_strides hr_layout_strides;
#endif

/* ---- kernel parameters ---- */

/** One attention call; the first parameter of every attention kernel. */
typedef struct hr_attention_call {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const element) k;
  HR_DEVICE_POINTER(const element) v;
  HR_DEVICE_POINTER(out_element) o;
  HR_DEVICE_POINTER(float) lse;            /* NULL: not wanted */
  HR_DEVICE_POINTER(const float) slopes;   /* ALiBi, one per query head; NULL: no bias */
  HR_DEVICE_POINTER(const float) q_scales; /* of fp8 operands, one per head; NULL: 1, here and below */
  HR_DEVICE_POINTER(const float) k_scales;
  HR_DEVICE_POINTER(const float) v_scales;
  HR_DEVICE_POINTER(const int) q_offsets; /* first row of each sequence, and the end; NULL: sequences of one length */
  HR_DEVICE_POINTER(const int) kv_offsets;
  HR_DEVICE_POINTER(const int) first_keys; /* of each query, with HR_FIRST_KEYS */
  HR_DEVICE_POINTER(int) counters; /* of a persistent grid: work items fetched, blocks finished; 0 before and after */
  hr_layout_strides q_at, k_at, v_at, o_at, lse_at;
  int q_len, kv_len;             /* of the longest sequence */
  int q_heads, k_group, v_group; /* groups: query heads that share a K head, a V head */
  int qk_dim, v_dim;
  int causal, window;    /* window: keys to the left that a row sees, itself included; 0: all */
  int q_tiles;           /* per head */
  int heads, work_items; /* q_heads · batch; q_tiles · heads */
  int band_heads, bands; /* heads whose Q tiles are processed at the same time; such bands before the last one */
  float scale, softcap;  /* softcap 0: none */
  float top; /* whole, 0 or less: weights of the row maximum of at most 2^top add up to 1 at most over all keys */
} hr_attention_call;

HR_LAYOUT_ASSERT(sizeof(hr_attention_call) == 13 * 8 + 5 * 24 + 18 * 4);

/** A block of scores in memory and its split-KV results; the second parameter of attention_blocked. */
typedef struct hr_score_block {
  HR_DEVICE_POINTER(const float) scores;   /* [head][row][pitch] */
  HR_DEVICE_POINTER(float) partial_o;      /* [split][head][Q tile][row of it][HR_V], not normalized */
  HR_DEVICE_POINTER(float2) partial_stats; /* [split][head][Q tile][row of it]: row maximum, row sum; 0: no keys */
  int pitch;
  int first_head, heads;
  int first_row, rows, q_tiles;
  int splits, split_tiles; /* K/V tiles of a split */
} hr_score_block;

HR_LAYOUT_ASSERT(sizeof(hr_score_block) == 3 * 8 + 8 * 4);

/** All scores in memory; the last parameter of attention_materialized's softmax. */
typedef struct hr_score_matrix {
  hr_layout_int64 rows, pitch; /* per head; elements from one row to the next */
} hr_score_matrix;

HR_LAYOUT_ASSERT(sizeof(hr_score_matrix) == 16);

/* ---- attention_flash_sm90 ----
 *
 *   Q [q_stages][consumer] | O [consumer], with stage_o | K [stages] | V [stages] | work items | mbarriers
 *
 * A tile consists of panels: rows of 128 bytes, 128-byte swizzle. V of fp8 is transposed: rows of keys. */

enum {
  HR_SM90_GROUP_ROWS = 64, /* of a consumer warpgroup */
  HR_SM90_PANEL_ROW = 128, /* bytes */
  HR_SM90_ITEM_STAGES = 2,
  HR_SM90_ITEM_BYTES = 48,
  HR_SM90_STORE_ROWS = 16 /* of O, that one TMA store takes */
};

typedef struct hr_sm90_layout {
  int q_panel, k_panel, v_panel; /* bytes of a panel */
  int q_bytes, o_bytes;          /* of a consumer warpgroup's 64 rows */
  int k_bytes, v_bytes;          /* of a tile */
  int o_at, k_at, v_at, items_at, barriers_at, barriers;
  int bytes, team_bytes; /* team_bytes: from one team to the next */
} hr_sm90_layout;

/** Columns of a panel. */
HR_LAYOUT_FUNCTION int hr_sm90_panel(int element_bytes)
{
  return HR_SM90_PANEL_ROW / element_bytes;
}

HR_LAYOUT_FUNCTION int hr_sm90_panels(int columns, int element_bytes)
{
  return (columns + hr_sm90_panel(element_bytes) - 1) / hr_sm90_panel(element_bytes);
}

/** O has elements of 2 bytes. */
HR_LAYOUT_FUNCTION hr_sm90_layout hr_sm90_layout_of(int qk, int v, int consumers, int kv_tile, int stages, int q_stages,
                                                    int stage_o, int element_bytes)
{
  hr_sm90_layout l = {0};
  l.q_panel = HR_SM90_GROUP_ROWS * HR_SM90_PANEL_ROW;
  l.k_panel = kv_tile * HR_SM90_PANEL_ROW;
  l.v_panel = (element_bytes == 1 ? v : kv_tile) * HR_SM90_PANEL_ROW;
  l.q_bytes = hr_sm90_panels(qk, element_bytes) * l.q_panel;
  l.o_bytes = hr_sm90_panels(v, 2) * l.q_panel;
  l.k_bytes = hr_sm90_panels(qk, element_bytes) * l.k_panel;
  l.v_bytes = hr_sm90_panels(element_bytes == 1 ? kv_tile : v, element_bytes) * l.v_panel;
  l.o_at = q_stages * consumers * l.q_bytes;
  l.k_at = l.o_at + (stage_o ? consumers * l.o_bytes : 0);
  l.v_at = l.k_at + stages * l.k_bytes;
  l.items_at = l.v_at + stages * l.v_bytes;
  l.barriers_at = l.items_at + HR_SM90_ITEM_STAGES * HR_SM90_ITEM_BYTES;
  l.barriers = 2 * q_stages * consumers + 4 * stages + 2 + 2 * HR_SM90_ITEM_STAGES;
  l.bytes = l.barriers_at + 8 * l.barriers;
  l.team_bytes = (l.bytes + 1023) / 1024 * 1024;
  return l;
}

/* ---- V of fp8, transposed by attention_transpose_v.cu for attention_flash_sm90, as WGMMA takes 8-bit operands K-major
 * only
 *
 *   rows of keys, [entry][V head][v_dim][column], for tiles of HR_TRANSPOSED_KEYS keys; columns without a key are 0
 *
 * In every 16 keys, column 4 t + i holds key 2 t + i % 2 + 8 (i / 2): these are the keys of whose scores thread t of
 * four has accumulators, so that P becomes an operand of WGMMA without an exchange between threads. */

enum { HR_TRANSPOSED_KEYS = 128, HR_TRANSPOSED_THREADS = 256 };

/** The second parameter of attention_transpose_v. */
typedef struct hr_transposed_v {
  HR_DEVICE_POINTER(element) to;
  hr_layout_int64 row, head, entry; /* bytes from one to the next */
  int tiles, v_heads;               /* tiles: of the longest sequence, with that of zeros */
} hr_transposed_v;

HR_LAYOUT_ASSERT(sizeof(hr_transposed_v) == 4 * 8 + 2 * 4);

/** The tile where sequence `sequence` begins, whose first key is row `first` of all sequences, concatenated. The tiles
 *  of a sequence and one more, of zeros, end before those of the next begin: attention's K/V tiles of other sizes may
 *  reach into it. */
HR_LAYOUT_FUNCTION hr_layout_int64 hr_transposed_tile(hr_layout_int64 first, hr_layout_int64 sequence)
{
  return first / HR_TRANSPOSED_KEYS + 2 * sequence;
}

/* ---- attention_flash_sm80: Q, whose space O takes over | [stages] of K and V | what warps that share rows exchange
 * ---- */

/** Elements between rows of a tile. An odd number of 16-byte chunks, so that ldmatrix's 8 rows fall into different
 *  banks. */
HR_LAYOUT_FUNCTION int hr_sm80_pitch(int dim, int element_bytes)
{
  return (dim / (16 / element_bytes) | 1) * (16 / element_bytes);
}

typedef struct hr_sm80_layout {
  int q_size, k_size, v_size; /* elements of a tile */
  int exchange_at, bytes;
} hr_sm80_layout;

HR_LAYOUT_FUNCTION hr_sm80_layout hr_sm80_layout_of(int qk, int v, int warps, int m_tiles, int row_warps, int kv_tile,
                                                    int stages, int element_bytes)
{
  hr_sm80_layout l = {0};
  int qk_pitch = hr_sm80_pitch(qk, element_bytes), v_pitch = hr_sm80_pitch(v, element_bytes);
  int warp_rows = 16 * m_tiles, p_bytes = kv_tile / row_warps * element_bytes; /* of a row */
  l.q_size = warps / row_warps * warp_rows * (qk_pitch > v_pitch ? qk_pitch : v_pitch);
  l.k_size = kv_tile * qk_pitch;
  l.v_size = kv_tile * v_pitch;
  l.exchange_at = (l.q_size + stages * (l.k_size + l.v_size)) * element_bytes;
  l.bytes = l.exchange_at + (row_warps == 1 ? 0 : warps * warp_rows * (p_bytes + 4));
  return l;
}

/* ---- attention_flash_fp32: Q | K | V | P ---- */

enum { HR_FP32_ROWS = 64, HR_FP32_THREADS = 256 };

/** Floats between rows of a Q, K or P tile: 4 more than a multiple of 32, so that 8 rows fall into different banks. */
HR_LAYOUT_FUNCTION int hr_fp32_pitch(int dim)
{
  return (dim + 31) / 32 * 32 + 4;
}

typedef struct hr_fp32_layout {
  int q_size, k_size, v_size, p_size; /* floats */
  int bytes;
} hr_fp32_layout;

HR_LAYOUT_FUNCTION hr_fp32_layout hr_fp32_layout_of(int qk, int v, int kv_tile)
{
  hr_fp32_layout l = {0};
  l.q_size = HR_FP32_ROWS * hr_fp32_pitch(qk);
  l.k_size = kv_tile * hr_fp32_pitch(qk);
  l.v_size = kv_tile * v;
  l.p_size = HR_FP32_ROWS * hr_fp32_pitch(kv_tile);
  l.bytes = 4 * (l.q_size + l.k_size + l.v_size + l.p_size);
  return l;
}

/* ---- attention_blocked: two stages of scores and V; O takes over their space. In fp32 P takes over the scores'.
 * ---- */

enum { HR_BLOCKED_STAGES = 2 };

/** Floats between rows of a tile of scores: pairs of 4 rows fall into different banks. */
HR_LAYOUT_FUNCTION int hr_blocked_score_pitch(int kv_tile)
{
  return kv_tile + 8;
}

HR_LAYOUT_FUNCTION int hr_blocked_bytes(int v, int rows, int kv_tile, int element_bytes)
{
  int v_row = hr_sm80_pitch(v, element_bytes) * element_bytes;
  int stages = HR_BLOCKED_STAGES * (4 * rows * hr_blocked_score_pitch(kv_tile) + kv_tile * v_row);
  return stages > rows * v_row ? stages : rows * v_row;
}

HR_LAYOUT_FUNCTION int hr_blocked_fp32_bytes(int v, int kv_tile)
{
  return HR_BLOCKED_STAGES * 4 * (HR_FP32_ROWS * hr_fp32_pitch(kv_tile) + kv_tile * v);
}

/* ---- attention_naive: Q in float64 | K in fp32 ---- */

enum {
  HR_NAIVE_WARPS = 8,
  HR_NAIVE_WARP_ROWS = 4,
  HR_NAIVE_ROWS = HR_NAIVE_WARPS * HR_NAIVE_WARP_ROWS,
  HR_NAIVE_KEYS = 32
};

/** Floats between rows of K: odd, so that lanes read from different banks. */
HR_LAYOUT_FUNCTION int hr_naive_k_pitch(int qk_dim)
{
  return qk_dim | 1;
}

HR_LAYOUT_FUNCTION int hr_naive_bytes(int qk_dim)
{
  return HR_NAIVE_ROWS * qk_dim * 8 + HR_NAIVE_KEYS * hr_naive_k_pitch(qk_dim) * 4;
}

#endif
