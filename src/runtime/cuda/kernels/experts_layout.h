/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the host code and the programs of routed experts share. C includes this header, and NVRTC compiles it
 * into the programs. */
#ifndef HR_RUNTIME_CUDA_KERNELS_EXPERTS_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_EXPERTS_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"
#include "runtime/cuda/kernels/gemv_layout.h"

#define HR_GROUPED_WIDE_TILE 256 /* as WGMMA's instruction names it */

enum {
  HR_ROUTE_WARPS = 4,            /* tokens of a block */
  HR_PLACE_THREADS = 1024,       /* of the block of an expert */
  HR_ROUTER_CLUSTER = 8,         /* blocks that route few tokens */
  HR_ROUTER_THREADS = 512,       /* of each */
  HR_GROUPED_ROWS = 128,         /* of W, of a tile */
  HR_GROUPED_STAGE_ROW = 128,    /* bytes of a row in a stage: 64 elements of k */
  HR_GROUPED_BAND = 8,           /* tiles of copies whose blocks run together, and share rows of W in the L2 */
  HR_GROUPED_THREADS = 256 + 32, /* two warpgroups that multiply, a warp that loads */
  HR_GROUPED_TILE = 128,         /* rows and columns of a tile of grouped_backward_sm80.cu, */
  HR_GROUPED_DEPTH = 32,         /* and of a stage in the other direction */
  HR_GROUPED_STAGES = 4,
  HR_GROUPED_WIDE_STAGES = 4, /* of grouped_backward_sm90.cu, whose tiles have HR_GROUPED_WIDE_TILE columns */
  HR_GROUPED_WIDE_THREADS = 384,
  HR_GROUPED_SMALL_TILE = 64, /* of grouped_backward.cu */
  HR_GROUPED_SMALL_THREADS = 256
};

/** The parameter of choose_experts and place_copies; the members of hr_route_arguments. */
typedef struct hr_route_call {
  HR_DEVICE_POINTER(const element) logits;
  HR_DEVICE_POINTER(const float) bias; /* NULL: none */
  HR_DEVICE_POINTER(float) weights;
  HR_DEVICE_POINTER(int) chosen;
  HR_DEVICE_POINTER(int) places;
  HR_DEVICE_POINTER(int) copied;
  HR_DEVICE_POINTER(int) experts_of;
  HR_DEVICE_POINTER(int) offsets;
  HR_DEVICE_POINTER(float) weights_of; /* NULL: none */
  hr_layout_int64 tokens;
  int experts, active, groups, active_groups;
  int first, held;
  int sigmoid, normalized, group_pairs;
  float scale;
} hr_route_call;

/** The parameter of route_tokens: the router's linear layer, whose y are the logits, and what it is followed by. */
typedef struct hr_router_call {
  hr_route_call route;
  hr_gemv_call linear;
  HR_DEVICE_POINTER(element) normed; /* [tokens, k]; NULL: none */
} hr_router_call;

/** The parameter of grouped_gemm: y of each expert's copies, of tiles of its copies and of rows of W. */
typedef struct hr_grouped_call {
  HR_DEVICE_POINTER(element) y; /* [copies, n] */
  HR_DEVICE_POINTER(const int) offsets;
  hr_layout_int64 n, k;
  int experts;
  int row_tiles; /* of W */
} hr_grouped_call;

/** The parameter of route_backward; the members of hr_route_backward_arguments. */
typedef struct hr_route_backward_call {
  HR_DEVICE_POINTER(const element) logits;
  HR_DEVICE_POINTER(const float) weights;
  HR_DEVICE_POINTER(const int) chosen;
  HR_DEVICE_POINTER(const int) places;
  HR_DEVICE_POINTER(const float) d_weights;
  HR_DEVICE_POINTER(element) d_logits;
  hr_layout_int64 tokens;
  int experts, active;
  int sigmoid, normalized;
  float scale;
} hr_route_backward_call;

/** The parameter of grouped_inputs and grouped_weights: n and k are those of W [experts, n, k]. */
typedef struct hr_grouped_backward_call {
  HR_DEVICE_POINTER(const element) left;  /* dY [copies, n] */
  HR_DEVICE_POINTER(const element) right; /* W; X [copies, k] */
  HR_DEVICE_POINTER(element) out;         /* dX [copies, k]; dW */
  HR_DEVICE_POINTER(const int) offsets;
  hr_layout_int64 n, k;
  int experts;
  int row_tiles, column_tiles; /* of a matrix of W */
} hr_grouped_backward_call;

#endif
