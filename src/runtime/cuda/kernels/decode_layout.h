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
  HR_DECODE_ROWS = 16, /* of a Q tile: query heads × queries */
  HR_DECODE_KEYS = 16, /* that a warp processes at a time */
  HR_DECODE_SPLITS_MOST = 128
};

/** One decode call; the parameter of decode_split. A group is a block of query heads of one sequence. */
typedef struct hr_decode_call {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const element) k;
  HR_DEVICE_POINTER(const element) v;
  HR_DEVICE_POINTER(element) o;
  HR_DEVICE_POINTER(float) lse;            /* NULL: not wanted */
  HR_DEVICE_POINTER(const int) lengths;    /* NULL: all kv_len */
  HR_DEVICE_POINTER(const int) pages;      /* NULL: in order */
  HR_DEVICE_POINTER(const float) sinks;    /* NULL: none */
  HR_DEVICE_POINTER(float) partial_o;      /* [group][split][row][HR_V], not normalized */
  HR_DEVICE_POINTER(float2) partial_stats; /* [group][split][row]: base, row sum */
  HR_DEVICE_POINTER(int) counters;         /* splits that have finished, of each group; 0 before and after */
  hr_layout_strides q_at, o_at;
  hr_layout_kv_strides k_at, v_at;
  int kv_len, q_heads;
  int k_group, v_group; /* query heads that share a K head, a V head */
  int qk_dim, v_dim;
  int head_blocks, splits; /* groups of a sequence; splits of a group's keys */
  int page_size, table_pitch;
  int window;           /* 0: all keys */
  float scale, softcap; /* softcap 0: none */
} hr_decode_call;

HR_LAYOUT_ASSERT(sizeof(hr_decode_call) == 11 * 8 + 4 * 24 + 13 * 4 + 4);

/** Shared memory: Q | [warps][stages] of K and V of HR_DECODE_KEYS keys. Then, in their place, [rows] totals | [warps]
 *  [rows] factors | [warps][rows] base and sum | [warps][rows][v] of O. In the last block of a group [rows] totals |
 *  [splits][rows] factors | 4 floats of each thread. */
typedef struct hr_decode_layout {
  int q_size, k_size, v_size; /* elements: of Q; of one K head, one V head of a stage */
  int stage_size;             /* elements */
  int o_pitch;                /* floats between rows of O */
  int stats_at, o_at;         /* bytes */
  int bytes;
} hr_decode_layout;

HR_LAYOUT_FUNCTION hr_decode_layout hr_decode_layout_of(int qk, int v, int k_heads, int v_heads, int warps, int stages,
                                                        int element_bytes)
{
  hr_decode_layout l = {0};
  int streams = 0, combined = 0, splits = (HR_DECODE_SPLITS_MOST * 4 + 8) * HR_DECODE_ROWS + warps * 32 * 16;
  l.q_size = HR_DECODE_ROWS * hr_sm80_pitch(qk, element_bytes);
  l.k_size = HR_DECODE_KEYS * hr_sm80_pitch(qk, element_bytes);
  l.v_size = HR_DECODE_KEYS * hr_sm80_pitch(v, element_bytes);
  l.stage_size = k_heads * l.k_size + v_heads * l.v_size;
  l.o_pitch = v + 4;
  l.stats_at = HR_DECODE_ROWS * (8 + 4 * warps);
  l.o_at = l.stats_at + warps * HR_DECODE_ROWS * 8;
  streams = (l.q_size + warps * stages * l.stage_size) * element_bytes;
  combined = l.o_at + warps * HR_DECODE_ROWS * l.o_pitch * 4;
  l.bytes = streams > combined ? streams : combined;
  l.bytes = l.bytes > splits ? l.bytes : splits;
  return l;
}

#endif
