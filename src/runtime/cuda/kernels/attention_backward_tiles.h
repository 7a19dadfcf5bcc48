/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles that the host code shares with the programs attention_backward_terms, attention_backward_naive and
 * attention_backward_sm80. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ATTENTION_BACKWARD_TILES_H
#define HR_RUNTIME_CUDA_KERNELS_ATTENTION_BACKWARD_TILES_H

#include "runtime/cuda/kernels/attention_layout.h"

enum { HR_BACKWARD_TERMS_THREADS = 256, HR_BACKWARD_TERMS_ROWS = 32 };

/* ---- attention_backward_naive: rows in fp32 | the tile that is looped over in fp32, with odd pitches ---- */

enum {
  HR_BACKWARD_NAIVE_WARPS = 4,
  HR_BACKWARD_NAIVE_WARP_ROWS = 4,
  HR_BACKWARD_NAIVE_ROWS = HR_BACKWARD_NAIVE_WARPS * HR_BACKWARD_NAIVE_WARP_ROWS,
  HR_BACKWARD_NAIVE_OTHERS = 32
};

HR_LAYOUT_FUNCTION int hr_backward_naive_bytes(int qk_dim, int v_dim)
{
  int others = hr_naive_k_pitch(qk_dim) + hr_naive_k_pitch(v_dim);
  return 4 * (HR_BACKWARD_NAIVE_ROWS * (qk_dim + v_dim) + HR_BACKWARD_NAIVE_OTHERS * others);
}

/* ---- attention_backward_sm80: rows of both operands | [stages] of the others | [stages] of their row terms ---- */

typedef struct hr_backward_sm80_layout {
  int own_qk, own_v, qk, v; /* elements of a tile */
  int terms_at, bytes;
} hr_backward_sm80_layout;

HR_LAYOUT_FUNCTION hr_backward_sm80_layout hr_backward_sm80_layout_of(int qk, int v, int rows, int others, int stages)
{
  hr_backward_sm80_layout l = {0};
  l.own_qk = rows * hr_sm80_pitch(qk, 2);
  l.own_v = rows * hr_sm80_pitch(v, 2);
  l.qk = others * hr_sm80_pitch(qk, 2);
  l.v = others * hr_sm80_pitch(v, 2);
  l.terms_at = 2 * (l.own_qk + l.own_v + stages * (l.qk + l.v));
  l.bytes = l.terms_at + stages * others * 8;
  return l;
}

#endif
