/* SPDX-License-Identifier: Apache-2.0 */
/* What persistent.cu runs. C includes this header, and NVRTC compiles it into the program. Strides in elements. */
#ifndef HR_RUNTIME_CUDA_KERNELS_PERSISTENT_LAYOUT_H
#define HR_RUNTIME_CUDA_KERNELS_PERSISTENT_LAYOUT_H

#include "runtime/cuda/kernels/attention_layout.h"

enum {
  HR_PERSISTENT_WARPS = 8,                  /* that compute; one more copies */
  HR_PERSISTENT_ROWS = 8,                   /* of W in a slot: half of the rows of an mma.sync */
  HR_PERSISTENT_BYTES = 2 * 1024,           /* of each row */
  HR_PERSISTENT_STEP = 32,                  /* columns of a warp at once: k is a multiple */
  HR_PERSISTENT_PITCH = 2 * 1024 + 64,      /* bytes from a row to the next: a warp's loads meet no bank twice */
  HR_PERSISTENT_SLOT = 8 * (2 * 1024 + 64), /* bytes */
  HR_PERSISTENT_X_PADDING = 8,              /* elements behind each row of x */
  HR_PERSISTENT_TILES = 16,                 /* of rows whose sums wait for the other warps, of one matrix */
  HR_PERSISTENT_SPLITS_MAX = 32,            /* of the keys of a group of heads */
  HR_PERSISTENT_GROUP = 8,                  /* heads of Q of an item at most: rows of half an mma.sync */
  HR_PERSISTENT_QUERY_PADDING = 32,         /* elements behind a head of Q: the chunks of two rarely meet in a bank */
  HR_PERSISTENT_OUT_PADDING = 4,            /* behind the columns of a head, so that lanes meet in no bank */
  HR_PERSISTENT_TILE_KEYS = 16,             /* that a TMA load copies: pages have a multiple */
  HR_PERSISTENT_INSTRUCTIONS = 5,           /* in shared memory */
  HR_PERSISTENT_COUNTERS = 4                /* two, and what keeps all behind them at 16 bytes */
};

/** What W and the gate are: elements, or fp8 with a scale for each row or for blocks of 128 columns. */
enum { HR_PERSISTENT_ELEMENTS = 0, HR_PERSISTENT_FP8_ROWS = 1, HR_PERSISTENT_FP8_BLOCKS = 2 };

enum { HR_PERSISTENT_NO_NORM, HR_PERSISTENT_RMS_NORM, HR_PERSISTENT_LAYER_NORM };

enum {
  HR_PERSISTENT_IDENTITY,
  HR_PERSISTENT_GELU,
  HR_PERSISTENT_GELU_TANH,
  HR_PERSISTENT_RELU,
  HR_PERSISTENT_RELU2,
  HR_PERSISTENT_SWIGLU,
  HR_PERSISTENT_SWIGLU_CLAMPED,
  HR_PERSISTENT_GEGLU,
  HR_PERSISTENT_GEGLU_TANH
};

/** It is an hr_linear_arguments whose y is packed. */
typedef struct hr_persistent_linear {
  HR_DEVICE_POINTER(const element) x;
  HR_DEVICE_POINTER(const element) w;
  HR_DEVICE_POINTER(const element) gate; /* NULL: none, as the next five */
  HR_DEVICE_POINTER(const element) bias;
  HR_DEVICE_POINTER(const element) gate_bias;
  HR_DEVICE_POINTER(const element) residual;
  HR_DEVICE_POINTER(const element) norm_weight;
  HR_DEVICE_POINTER(const element) norm_bias;
  HR_DEVICE_POINTER(element) y; /* NULL: none, y is posted alone */
  hr_layout_int64 x_row, residual_row;
  hr_layout_int64 n, k;
  HR_DEVICE_POINTER(element) posted; /* y for other instructions, NULL: none read it */
  int norm, activation;
  int x_arrives, residual_arrives; /* from other instructions, and the address is what they posted */
  float epsilon, limit, factor;
  int format;
  HR_DEVICE_POINTER(const float) scales; /* of fp8 */
  HR_DEVICE_POINTER(const float) gate_scales;
  HR_DEVICE_POINTER(const element) logits; /* posted by a router: rows are those of the experts that it chooses */
  int matrix_rows;                         /* of an expert */
  int scale_row;                           /* from the scales of some rows to the next */
  int scale_rows_log2;
  int unit;                   /* of rows that a block has */
  int units_each, units_more; /* of a block, and blocks that have one more */
  int width;      /* with logits rows of an expert; else columns, of the experts chosen before; 0: no experts */
  int normalized; /* shares of the chosen experts add up to share_scale */
  float share_scale;
  int padding;
} hr_persistent_linear;

/** The heads of a new token of each sequence as hr_kv_heads, its K and V into the cache, and attention. Groups of Q
 *  heads have one head of K and one of V each. */
typedef struct hr_persistent_attention {
  HR_DEVICE_POINTER(const element) q;
  HR_DEVICE_POINTER(const element) k;
  HR_DEVICE_POINTER(const element) v;
  HR_DEVICE_POINTER(const element) q_norm; /* NULL: none, as the next two */
  HR_DEVICE_POINTER(const element) k_norm;
  HR_DEVICE_POINTER(const element) angles; /* [position, rotated] */
  HR_DEVICE_POINTER(element) k_cache;
  HR_DEVICE_POINTER(element) v_cache;
  HR_DEVICE_POINTER(const int) pages;
  HR_DEVICE_POINTER(const int) lengths;            /* with the new token */
  HR_DEVICE_POINTER(element) o;                    /* posted, or with `keeps_o` not */
  HR_DEVICE_POINTER(float) partial;                /* of splits: [item][split][largest scores, sums, columns] */
  HR_DEVICE_POINTER(const float) slopes;           /* NULL: none */
  HR_DEVICE_POINTER(const struct tensor_map) maps; /* of the caches of K and of V: columns, heads, tokens, pages */
  hr_layout_int64 q_row, k_row, v_row, o_row;
  int table_pitch, window;
  int rotated, interleaved;
  int q_arrives, k_arrives, v_arrives, keeps_o;
  float epsilon, scale;
  int padding[2];
} hr_persistent_attention;

typedef struct hr_persistent_instruction {
  int attends; /* else it is linear */
  int padding[3];
  union {
    hr_persistent_linear linear;
    hr_persistent_attention attention;
  };
} hr_persistent_instruction;

HR_LAYOUT_ASSERT(sizeof(hr_persistent_linear) == 17 * 8 + 18 * 4);
HR_LAYOUT_ASSERT(sizeof(hr_persistent_attention) == 18 * 8 + 12 * 4);
HR_LAYOUT_ASSERT(sizeof(hr_persistent_instruction) % 16 == 0);

/** Columns of a head that a TMA load copies. Rows of 128 and of 64 bytes are swizzled, so that keys meet in no bank;
 *  others are whole heads, as parts of 64 columns would need more of the ring. */
HR_LAYOUT_FUNCTION int hr_persistent_panel(int dim)
{
  return dim % 64 == 0 ? 64 : dim % 32 == 0 ? 32 : dim;
}

/** Floats of what a split of the keys sends to each of `splits` others: of each head the largest score and the sum of
 *  weights, and some of all heads' columns of V, both of whole 16 bytes. */
HR_LAYOUT_FUNCTION int hr_persistent_states(int heads)
{
  return (2 * heads + 3) / 4 * 4;
}
HR_LAYOUT_FUNCTION int hr_persistent_share(int heads, int v_dim, int splits)
{
  return ((heads * v_dim + splits - 1) / splits + 3) / 4 * 4;
}

/** Bits that no result has: NaN is stored as another NaN. */
#define HR_PERSISTENT_ABSENT 0xFFFF
#define HR_PERSISTENT_ABSENT_PARTIAL 0xFFFFFFFFu

/** The parameter of run_persistent. What is posted has two places, of every other launch, `set` elements apart; all
 *  elements of the one that a launch does not use are absent when it ends. */
typedef struct hr_persistent_call {
  HR_DEVICE_POINTER(const hr_persistent_instruction) instructions;
  HR_DEVICE_POINTER(unsigned) counters; /* the number of launches, and of blocks of this one that have ended */
  hr_layout_int64 set;
  int count; /* of instructions */
  int slots; /* in shared memory, then x, sums, instructions and mbarriers */
  int x_bytes;
  int padding;
} hr_persistent_call;

HR_LAYOUT_ASSERT(sizeof(hr_persistent_call) == 3 * 8 + 4 * 4);

#endif
