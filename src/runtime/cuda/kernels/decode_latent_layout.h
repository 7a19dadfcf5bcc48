/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and decode_latent_sm90.cu share: kernel parameters and shared memory. C includes this
 * header, and NVRTC compiles it into the program. */
#ifndef HR_RUNTIME_CUDA_KERNELS_DECODE_LATENT_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_DECODE_LATENT_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

enum {
  HR_LATENT_ROWS = 64, /* of a Q tile: query heads × queries */
  HR_LATENT_KEYS = 64, /* of a tile */
  HR_LATENT_PAIR = 2 * HR_LATENT_KEYS,
  HR_LATENT_PANEL = 64,         /* columns: rows of 128 bytes, 128-byte swizzle */
  HR_LATENT_PANEL_BYTES = 8192, /* HR_LATENT_ROWS or HR_LATENT_KEYS rows */
  HR_LATENT_COMBINE_THREADS = 128,
  HR_LATENT_COMBINE_ROWS = 4 /* of a block: one of each warp */
};

/** One decode call with latent attention. A row block is a Q tile of a sequence; a team has one thread block per row
 *  block, and all teams share the pairs of tiles of the batch equally. */
typedef struct hr_latent_call {
  HR_DEVICE_POINTER(element) o;
  HR_DEVICE_POINTER(float) lse;             /* NULL: not wanted */
  HR_DEVICE_POINTER(const int) lengths;     /* NULL: all kv_len */
  HR_DEVICE_POINTER(const int) pages;       /* NULL: in order */
  HR_DEVICE_POINTER(const int) page_starts; /* in pages; NULL: at sequence · table_pitch */
  HR_DEVICE_POINTER(const float) sinks;     /* NULL: none */
  HR_DEVICE_POINTER(float) partial_o;       /* [team][2][row block][row][HR_V], not normalized */
  HR_DEVICE_POINTER(float2) partial_stats;  /* [team][2][row block][row]: base, row sum */
  hr_layout_strides o_at;
  int batch, q_len, kv_len, q_heads, v_dim;
  int head_blocks, row_blocks; /* row block r has head block r % head_blocks */
  int teams;
  int page_size, table_pitch;
  int window;           /* 0: all keys */
  float scale, softcap; /* softcap 0: none */
  float top;            /* whole, 0 or less: weights of the largest score of at most 2^top add up to 1 at most */
} hr_latent_call;

HR_LAYOUT_ASSERT(sizeof(hr_latent_call) == 8 * 8 + 24 + 14 * 4);

/** Shared memory in bytes: Q | two K tiles | what the consumer warpgroups exchange | mbarriers. A K tile has a panel
 *  behind V's, that P takes over after S. */
typedef struct hr_latent_layout {
  int q_panels, v_panels, k_panels;
  int k_at, k_bytes;
  int exchange_at; /* [4][row] floats */
  int barriers_at, barriers;
  int bytes;
} hr_latent_layout;

/** `qk` and `v`: head sizes rounded up by hr_latent_v_size() and hr_latent_qk_size(). */
HR_LAYOUT_FUNCTION hr_latent_layout hr_latent_layout_of(int qk, int v)
{
  hr_latent_layout l = {0};
  l.q_panels = qk / HR_LATENT_PANEL;
  l.v_panels = v / HR_LATENT_PANEL;
  l.k_panels = l.q_panels > l.v_panels ? l.q_panels : l.v_panels + 1;
  l.k_at = l.q_panels * HR_LATENT_PANEL_BYTES;
  l.k_bytes = l.k_panels * HR_LATENT_PANEL_BYTES;
  l.exchange_at = l.k_at + 2 * l.k_bytes;
  l.barriers_at = l.exchange_at + 4 * HR_LATENT_ROWS * 4;
  l.barriers = 2 + 3 * 4;
  l.bytes = l.barriers_at + 8 * l.barriers;
  return l;
}

/** Each of two consumer warpgroups has half of V's columns, in whole panels. */
HR_LAYOUT_FUNCTION int hr_latent_v_size(int v_dim)
{
  return (v_dim + 2 * HR_LATENT_PANEL - 1) / (2 * HR_LATENT_PANEL) * (2 * HR_LATENT_PANEL);
}

HR_LAYOUT_FUNCTION int hr_latent_qk_size(int qk_dim, int v_dim)
{
  int qk = (qk_dim + HR_LATENT_PANEL - 1) / HR_LATENT_PANEL * HR_LATENT_PANEL, v = hr_latent_v_size(v_dim);
  return qk > v ? qk : v;
}

#endif
