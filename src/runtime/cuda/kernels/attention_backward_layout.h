/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and the programs of attention_backward_sm90.cu share: kernel parameters, workspace and
 * shared memory. */
#ifndef HR_RUNTIME_CUDA_KERNELS_ATTENTION_BACKWARD_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_ATTENTION_BACKWARD_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

/** What a backward call has besides hr_attention_call; the second parameter. Workspace: `row_terms`, all sums,
 *  `sink_terms`, `clears`, `turns` and `taken`. */
typedef struct hr_backward_call {
  HR_DEVICE_POINTER(const element) d_o;
  HR_DEVICE_POINTER(element) dq;
  HR_DEVICE_POINTER(element) dk;
  HR_DEVICE_POINTER(element) dv;
  HR_DEVICE_POINTER(float) row_terms;  /* [Q tile][pair of rows]: lse · log2 e of both, delta of both */
  HR_DEVICE_POINTER(float) dq_sums;    /* [Q tile][16 rows][8 columns][lane]: 4 floats */
  HR_DEVICE_POINTER(float) dk_sums;    /* [K/V tile], as dq_sums, where several work items add to dK; otherwise NULL */
  HR_DEVICE_POINTER(float) dv_sums;    /* the same of dV */
  HR_DEVICE_POINTER(float) sink_terms; /* [Q tile], of d_sinks; NULL: none */
  HR_DEVICE_POINTER(const float) sinks;
  HR_DEVICE_POINTER(float) d_sinks;
  HR_DEVICE_POINTER(int) clears; /* [Q tile], with HR_CLEARS: whether it has rows without keys or of no query */
  HR_DEVICE_POINTER(int) turns;  /* [Q tile][2]: K/V tiles that have added to each part of dQ; NULL: in any order */
  HR_DEVICE_POINTER(int) taken;  /* work items that blocks have taken, beside the first of each */
  hr_layout_strides do_at, dq_at, dk_at, dv_at;
  hr_layout_int64 cleared; /* floats of dk_sums and dv_sums, one behind the other */
  int group_heads, groups; /* query heads of a work item; such groups */
  int kv_tiles, q_tiles;   /* kv_tiles: of the longest sequence; q_tiles: of a head in row_terms and dq_sums */
  int k_tiles;             /* of a head in dk_sums and dv_sums */
  int band_groups, bands;  /* groups whose K/V tiles are processed at the same time; such bands before the last one */
} hr_backward_call;

HR_LAYOUT_ASSERT(sizeof(hr_backward_call) == 14 * 8 + 4 * 24 + 8 + 8 * 4);

/** The Q tile, or K/V tile, where a sequence begins among those of a head: its first row is row `first` of all
 *  sequences, concatenated, and tiles have `rows`. */
HR_LAYOUT_FUNCTION hr_layout_int64 hr_backward_first_tile(hr_layout_int64 first, hr_layout_int64 sequence, int rows)
{
  return first / rows + sequence;
}

/* ---- shared memory ----
 *
 *   K | V | Q [stages] | dO [stages] | dS [2] | P, with split_products | row terms [stages] | mbarriers | items [2]
 *
 * Tiles consist of panels as in attention_flash_sm90. */

enum {
  HR_BACKWARD_DS_STAGES = 2,
  HR_BACKWARD_ITEM_STAGES = 2,
  HR_BACKWARD_THREADS = 384,
  HR_BACKWARD_ROWS_THREADS = 256
};

typedef struct hr_backward_layout {
  int q_panel, k_panel; /* bytes; q_panel: of Q, dO and dS; k_panel: of K and V */
  int q_bytes, do_bytes, k_bytes, v_bytes, ds_bytes, p_bytes, terms_bytes;
  int v_at, q_at, do_at, ds_at, p_at, terms_at, barriers_at, barriers, items_at, bytes;
} hr_backward_layout;

/** Tiles of 64 rows have dQ by 64 columns at least twice. */
HR_LAYOUT_FUNCTION int hr_backward_k_panels(int qk, int rows)
{
  return qk <= 64 && rows == 64 ? 2 : hr_sm90_panels(qk, 2);
}

/** `keys` of a K/V tile, `rows` of a Q tile. */
HR_LAYOUT_FUNCTION hr_backward_layout hr_backward_layout_of(int qk, int v, int keys, int rows, int stages,
                                                            int split_products)
{
  hr_backward_layout l = {0};
  l.q_panel = rows * HR_SM90_PANEL_ROW;
  l.k_panel = keys * HR_SM90_PANEL_ROW;
  l.q_bytes = hr_sm90_panels(qk, 2) * l.q_panel;
  l.do_bytes = hr_sm90_panels(v, 2) * l.q_panel;
  l.k_bytes = hr_backward_k_panels(qk, rows) * l.k_panel;
  l.v_bytes = hr_sm90_panels(v, 2) * l.k_panel;
  l.ds_bytes = keys / 64 * l.q_panel;
  l.p_bytes = split_products ? keys * rows * 4 : 0;
  l.terms_bytes = rows * 8;
  l.v_at = l.k_bytes;
  l.q_at = l.v_at + l.v_bytes;
  l.do_at = l.q_at + stages * l.q_bytes;
  l.ds_at = l.do_at + stages * l.do_bytes;
  l.p_at = l.ds_at + HR_BACKWARD_DS_STAGES * l.ds_bytes;
  l.terms_at = l.p_at + l.p_bytes;
  l.barriers_at = l.terms_at + stages * l.terms_bytes;
  l.barriers = 4 + 4 * stages + 2 * HR_BACKWARD_DS_STAGES + 3 + 2 * HR_BACKWARD_ITEM_STAGES;
  l.items_at = l.barriers_at + 8 * l.barriers;
  l.bytes = l.items_at + 4 * HR_BACKWARD_ITEM_STAGES;
  return l;
}

#endif
