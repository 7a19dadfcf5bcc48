/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and decode_rows.cu share: kernel parameters and shared memory. C includes this header, and
 * NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_DECODE_ROWS_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_DECODE_ROWS_LAYOUT_H

#include "runtime/cuda/kernels/decode_layout.h"

enum {
  HR_DECODE_ROWS_THREADS = 256,
  HR_DECODE_ROWS_HEADS_MAX = 8, /* of a block: a warp each for the softmax */
  HR_DECODE_ROWS_KEYS = 64      /* of a chunk */
};

/** One decode call; the parameter of decode_rows. Row r is head r % q_heads of query r / q_heads % q_len. */
typedef struct hr_decode_rows_call {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const void) k;
  HR_DEVICE_POINTER(const void) v;
  HR_DEVICE_POINTER(element) o;
  HR_DEVICE_POINTER(float) lse;             /* NULL: not wanted */
  HR_DEVICE_POINTER(const int) lengths;     /* NULL: all kv_len */
  HR_DEVICE_POINTER(const int) pages;       /* NULL: in order */
  HR_DEVICE_POINTER(const int) page_starts; /* in pages; NULL: at sequence · table_pitch */
  HR_DEVICE_POINTER(const float) sinks;     /* NULL: none */
  HR_DEVICE_POINTER(const float) slopes;    /* of ALiBi; NULL: none */
  HR_DEVICE_POINTER(const float) k_scales;  /* of a quantized cache */
  HR_DEVICE_POINTER(const float) v_scales;
  HR_DEVICE_POINTER(float) partial_o;      /* [row][split][v_dim], not normalized */
  HR_DEVICE_POINTER(float2) partial_stats; /* [row][split]: base, row sum */
  hr_layout_strides q_at, o_at;
  hr_layout_kv_strides k_at, v_at;
  hr_layout_kv_strides k_scale_at, v_scale_at; /* in floats */
  int q_len, kv_len, q_heads;
  int k_group, v_group; /* query heads that share a K head, a V head */
  int qk_dim, v_dim;
  int splits;
  int page_size, table_pitch;
  int window;           /* 0: all keys */
  float scale, softcap; /* softcap 0: none */
  float top; /* whole, 0 or less: the largest weight is 2^top, so that those of all keys add up to 1 at most */
} hr_decode_rows_call;

HR_LAYOUT_ASSERT(sizeof(hr_decode_rows_call) == 14 * 8 + 6 * 24 + 14 * 4);

/** Bytes of shared memory: offsets of the chunk's keys in K and V | their scales | Q | O | scores [key][head] | factors
 *  [head]. */
HR_LAYOUT_FUNCTION int hr_decode_rows_bytes(int heads, int qk_dim, int v_dim)
{
  return 2 * (8 + 4) * HR_DECODE_ROWS_KEYS + 4 * heads * (qk_dim + v_dim + HR_DECODE_ROWS_KEYS + 1);
}

#endif
