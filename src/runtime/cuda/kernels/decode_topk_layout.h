/* SPDX-License-Identifier: Apache-2.0 */
/* What the host code and decode_topk.cu share: sizes and kernel parameters. C includes this header, and NVRTC compiles
 * it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_DECODE_TOPK_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_DECODE_TOPK_LAYOUT_H

#include "runtime/cuda/kernels/decode_layout.h"

enum {
  HR_TOPK_SCORE_WARPS = 4,  /* of a block of topk_score */
  HR_TOPK_SCORE_KEYS = 256, /* of such a block */
  HR_TOPK_ROWS = 16,        /* of its Q tile: query rows that share a K head */
  HR_TOPK_THREADS = 1024,   /* of a block of topk_gather */
  HR_TOPK_DIGIT_BITS = 11   /* of the selection */
};

/** One decode call; the parameter of both kernels. A row is a query of a head: (sequence · q_heads + head) · q_len +
 *  query. */
typedef struct hr_topk_call {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const element) k;
  HR_DEVICE_POINTER(const element) v;
  HR_DEVICE_POINTER(element) o;
  HR_DEVICE_POINTER(float) lse;             /* NULL: not wanted */
  HR_DEVICE_POINTER(const int) lengths;     /* NULL: all kv_len */
  HR_DEVICE_POINTER(const int) pages;       /* NULL: in order */
  HR_DEVICE_POINTER(const int) page_starts; /* in pages; NULL: at sequence · table_pitch */
  HR_DEVICE_POINTER(const float) sinks;     /* NULL: none */
  HR_DEVICE_POINTER(unsigned) keys;         /* [row][pitch]: scores as integers in their order */
  HR_DEVICE_POINTER(int) places;            /* [row][top_k]: chosen keys, from the first visible one on, ascending */
  HR_DEVICE_POINTER(float) partial;         /* [row][split][HR_V + 1]: weights · V, sum of weights */
  HR_DEVICE_POINTER(int) counters;          /* splits that have finished, of each row; 0 before and after */
  hr_layout_strides q_at, o_at;
  hr_layout_kv_strides k_at, v_at;
  int kv_len, q_len, q_heads, k_heads;
  int k_group, v_group; /* query heads that share a K head, a V head */
  int qk_dim, v_dim;
  int page_size, table_pitch;
  int window; /* 0: all keys */
  int top_k;
  int score_blocks, tiles; /* of a sequence's keys; Q tiles of a K head */
  int splits;              /* of a row's chosen keys */
  int pitch;               /* floats */
  float scale, softcap;    /* the scale's absolute value; softcap 0: none */
  float sign;              /* of the scale */
  float top; /* whole, 0 or less: the largest weight is 2^top, so that those of a row add up to 1 at most */
} hr_topk_call;

HR_LAYOUT_ASSERT(sizeof(hr_topk_call) == 13 * 8 + 4 * 24 + 20 * 4);

/** Shared memory of topk_gather: a histogram or, later, [warp][v] sums | 64 words | keys of the row, with HR_IN_SHARED.
 */
HR_LAYOUT_FUNCTION int hr_topk_fixed_bytes(int v)
{
  int histogram = 4 << HR_TOPK_DIGIT_BITS, sums = HR_TOPK_THREADS / 32 * (v + 1) * 4;
  return (histogram > sums ? histogram : sums) + 64 * 4;
}

#endif
