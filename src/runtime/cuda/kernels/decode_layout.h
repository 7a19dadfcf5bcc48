/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and decode_split.cu share: kernel parameters and shared memory. C includes this header,
 * and NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_DECODE_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_DECODE_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

#ifdef __CUDACC_RTC__
struct hr_layout_kv_strides {
  long long page, token, head; /* in elements */
};
#else
#include <headroom/decode.h>
typedef hr_kv_strides hr_layout_kv_strides;
#endif

enum {
  HR_DECODE_ROWS = 16,        /* of a Q tile: query heads × queries */
  HR_DECODE_GROUP_ROWS = 128, /* of a group's Q tiles, at most */
  HR_DECODE_KEYS = 16,        /* that a warp processes at a time */
  HR_DECODE_SPLITS_MAX = 128,
  HR_DECODE_CLUSTER_MAX = 16 /* splits that the blocks of a cluster combine */
};

/** One decode call; the parameter of decode_split. A group is a block of query heads of one sequence. */
typedef struct hr_decode_call {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const void) k;
  HR_DEVICE_POINTER(const void) v;
  HR_DEVICE_POINTER(element) o;
  HR_DEVICE_POINTER(float) lse;             /* NULL: not wanted */
  HR_DEVICE_POINTER(const int) lengths;     /* NULL: all kv_len */
  HR_DEVICE_POINTER(const int) pages;       /* NULL: in order */
  HR_DEVICE_POINTER(const int) page_starts; /* in pages; NULL: at sequence · table_pitch */
  HR_DEVICE_POINTER(const float) sinks;     /* NULL: none */
  HR_DEVICE_POINTER(const float) k_scales;  /* of a quantized cache */
  HR_DEVICE_POINTER(const float) v_scales;
  HR_DEVICE_POINTER(float) partial_o;      /* [place_of_split()][padded row][HR_V], not normalized */
  HR_DEVICE_POINTER(float2) partial_stats; /* [place_of_split()][padded row]: base, row sum */
  HR_DEVICE_POINTER(int) counters;         /* splits that have finished, of each group; 0 before and after */
  hr_layout_strides q_at, o_at;
  hr_layout_kv_strides k_at, v_at;
  hr_layout_kv_strides k_scale_at, v_scale_at; /* in floats */
  int batch, kv_len, q_heads;
  int qk_dim, v_dim;
  int splits;    /* of a group's keys */
  int share_min; /* steps of an equal share, so that no sequence has more than HR_DECODE_SPLITS_MAX parts */
  int table_pitch;
  int window;           /* 0: all keys */
  float scale, softcap; /* softcap 0: none */
  float top; /* whole, 0 or less: the largest weight is 2^top, so that those of all keys add up to 1 at most */
} hr_decode_call;

HR_LAYOUT_ASSERT(sizeof(hr_decode_call) == 14 * 8 + 6 * 24 + 12 * 4);

/** Bytes between rows of a tile of K or V: a multiple of 128, whose 16-byte chunks are swizzled. (Rows padded
 *  to odd numbers of chunks made every copy of 128 bytes two writes, and reading 8% slower.) */
HR_LAYOUT_FUNCTION int hr_decode_pitch(int dim, int element_bytes)
{
  return (dim * element_bytes + 127) / 128 * 128;
}

/** Groups of four columns of O that each block of a cluster combines. */
HR_LAYOUT_FUNCTION int hr_decode_own_columns(int rows, int v, int cluster)
{
  return (rows * v / 4 + cluster - 1) / cluster;
}

/** A block's tiles. A team is a warp for each Q tile, or for WGMMA four warps with one or two each. */
typedef struct hr_decode_shape {
  int qk, v;       /* head sizes, rounded up to 16 */
  int rows, tiles; /* of the group: rows, and Q tiles of HR_DECODE_ROWS that hold them */
  int k_heads, v_heads;
  int warps, team, stages; /* `team`: warps of one */
  int cluster;
  int element_bytes; /* of K and V */
  int token_scales, wgmma;
} hr_decode_shape;

/** Shared memory, in bytes: [warps][stages] of K and V of HR_DECODE_KEYS keys, with the keys' scales, or for WGMMA
 *  [teams][stages] of K and V of a chunk of each warp, and Q | in a cluster, what the blocks send: [splits][columns] of
 *  O | [splits][rows] base and sum | an mbarrier. After the last chunk, in the place of the stages: [teams][rows] base
 *  and sum | [teams][rows][v] of O. In the last block of a group [rows] totals | [splits][rows] factors | 4 floats of
 *  each thread. */
typedef struct hr_decode_layout {
  int k_size, v_size; /* of one K head, one V head of a stage */
  int scales_at;      /* in a stage: [k_heads][keys] of K, [v_heads][keys] of V */
  int stage_size;
  int o_pitch; /* floats between rows of O */
  int q_at, o_at, received_at, received_stats_at, barrier_at;
  int bytes;
} hr_decode_layout;

HR_LAYOUT_FUNCTION hr_decode_layout hr_decode_layout_of(hr_decode_shape s)
{
  hr_decode_layout l = {0};
  int padded = s.tiles * HR_DECODE_ROWS, all_rows = s.warps / s.team * padded, streams = 0, combined = 0;
  int splits = (HR_DECODE_SPLITS_MAX * 4 + 8) * padded + s.warps * 32 * 16;
  l.k_size = HR_DECODE_KEYS * hr_decode_pitch(s.qk, s.element_bytes);
  l.v_size = HR_DECODE_KEYS * hr_decode_pitch(s.v, s.element_bytes);
  l.scales_at = s.k_heads * l.k_size + s.v_heads * l.v_size;
  l.stage_size = l.scales_at + (s.token_scales ? ((s.k_heads + s.v_heads) * HR_DECODE_KEYS * 4 + 127) / 128 * 128 : 0);
  l.o_pitch = s.v + 8; /* rows begin in other banks: a thread stores 8 bytes, eight rows at a time */
  l.o_at = all_rows * 8;
  l.q_at = s.warps * s.stages * l.stage_size;
  streams = l.q_at + (s.wgmma ? padded * hr_decode_pitch(s.qk, s.element_bytes) : 0);
  combined = l.o_at + all_rows * l.o_pitch * 4;
  l.received_at = streams > combined ? streams : combined;
  l.received_at = l.received_at > splits ? l.received_at : splits;
  l.received_stats_at = l.received_at + s.cluster * hr_decode_own_columns(s.rows, s.v, s.cluster) * 16;
  l.barrier_at = l.received_stats_at + s.cluster * padded * 8;
  l.bytes = s.cluster > 1 ? l.barrier_at + 8 : l.received_at;
  return l;
}

#endif
