/* SPDX-License-Identifier: Apache-2.0 */
/* Host code that the CUDA attention kernels share: the call, how a program is configured for a problem, and its
 * launch. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_ATTENTION_H
#define HR_RUNTIME_CUDA_ATTENTION_ATTENTION_H

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/attention_layout.h"
#include "runtime/device/plan.h"
#include "runtime/operation/attention_sequences.h"
#include "schedule/flash_tiles.h"

/* ---- the call, the first parameter of every program ---- */

/** The call without its addresses, for Q tiles of `q_rows`. The problem has passed hr_cuda_attention_fits(). */
hr_attention_call hr_cuda_attention_call(const hr_attention *attention, int64_t q_rows);

/** Sets the addresses; those that the problem does not use become 0. */
void hr_cuda_attention_set_addresses(hr_attention_call *call, const hr_attention *attention,
                                     const hr_attention_arguments *arguments);

/* ---- what kernels support ---- */

#define HR_CUDA_ATTENTION_DIM_MAX 256

/** Whether head sizes are at most HR_CUDA_ATTENTION_DIM_MAX; if not, `why` says so. */
bool hr_cuda_attention_dims_fit(const hr_attention *attention, char *why, size_t why_size);

/** Whether lengths fit 31 bits and Q tiles of `q_rows` fit a grid; if not, `why` says which does not. */
bool hr_cuda_attention_fits(const hr_attention *attention, int64_t q_rows, char *why, size_t why_size);

/** Whether scores need more than a positive scale before the softmax: soft cap, ALiBi, negative scale. */
bool hr_cuda_attention_score_mod(const hr_attention *attention);

/** What defines that for a program, and first keys: " HR_SCORE_MOD", " HR_FIRST_KEYS", both, or "". */
const char *hr_cuda_attention_score_defines(const hr_attention *attention);

/** What defines the format of O for a program: " HR_OUT_bf16", " HR_OUT_fp16"; "" if it is that of the operands. */
const char *hr_cuda_attention_output_define(const hr_attention *attention);

/** Whether addresses, head sizes and strides keep every row of every head at a multiple of 16 bytes. */
bool hr_cuda_attention_aligned(const hr_attention *attention);

/** Bytes of shared memory that a thread block may use on the device. */
hr_status hr_cuda_attention_shared_max(const hr_cuda *cuda, size_t *bytes, hr_error *error);

/* ---- plans of one launch, with a thread block per Q tile of each head, and without a workspace ---- */

/** How such a program is configured for a problem. */
typedef struct hr_cuda_attention_config {
  const char *source;
  hr_dtype dtype;
  int64_t q_rows; /* of a Q tile */
  unsigned threads;
  size_t shared_bytes;
  int min_blocks; /* resident per multiprocessor, for a program that processes heads in bands; otherwise 0 */
  bool aligned;   /* the program assumes addresses and strides that are multiples of 16 bytes */
  char defines[HR_DEFINES_SIZE], text[128];
} hr_cuda_attention_config;

/** Configures a program for blocks of up to `shared_max` bytes of shared memory; `aligned`: strides and head sizes
 *  allow a program that assumes alignment. */
typedef hr_cuda_attention_config hr_cuda_attention_configure(const hr_attention *attention, size_t shared_max,
                                                             bool aligned);

/** How many heads are processed together, their longest Q tiles first, so that the blocks of a causal call end
 *  together: two Q tiles for each of the `slots` blocks that run at a time, as long as half of `cache_bytes`, the L2,
 *  holds their K and V; a divisor of the number of heads. 1 without a mask. */
int32_t hr_cuda_attention_band(const hr_attention *attention, int64_t q_tiles, int64_t slots, size_t cache_bytes);

typedef struct hr_cuda_attention_plan {
  const hr_cuda *cuda;
  hr_cuda_attention_config config;
  cu_function function;
  hr_attention_call call;
  int64_t slots;      /* blocks that run at a time, for bands of heads; 0: none */
  size_t cache_bytes; /* the L2 */
} hr_cuda_attention_plan;

/** Functions for hr_kernel_functions. */
hr_status hr_cuda_attention_prepare(hr_device *device, const hr_problem *problem,
                                    hr_cuda_attention_configure *configure, void *state, size_t *workspace_bytes,
                                    hr_error *error);
hr_status hr_cuda_attention_run(const hr_plan *plan, const hr_run *run, hr_error *error);
void hr_cuda_attention_describe_config(const void *state, char *text, size_t size);

/* ---- tiles of each program: NAME_choose() picks them for a problem, NAME_defines() writes them for hr_program ---- */

/** Tiles of attention_flash_sm90.cu. */
typedef struct hr_flash_sm90 {
  int element_bytes;           /* of Q, K and V */
  int qk, v;                   /* head sizes, rounded up to 16; of Q and K of fp8 to 32 */
  int teams;                   /* of consumer warpgroups, each with Q tiles of its own */
  int consumers;               /* warpgroups of a team, 64 rows of a Q tile each */
  int cluster;                 /* blocks that share K/V tiles */
  int kv_tile;                 /* keys of a K/V tile */
  int stages, q_stages;        /* of K and V; of Q */
  bool stage_o;                /* O is staged through its own shared memory buffer */
  bool ping_pong;              /* consumers issue their WGMMAs in turn */
  bool left_to_right;          /* the order of K/V tiles */
  bool causal, window, varlen; /* what the program has to support */
  bool head_scales;
  const char *scores; /* hr_cuda_attention_score_defines() */
  const char *output; /* hr_cuda_attention_output_define() */
  size_t shared_bytes;
} hr_flash_sm90;

/** Head sizes up to 256. */
hr_flash_sm90 hr_flash_sm90_choose(const hr_attention *attention);
void hr_flash_sm90_defines(const hr_flash_sm90 *tiles, char text[HR_DEFINES_SIZE]);

/** Tiles of attention_flash_sm80.cu. */
typedef struct hr_flash_sm80 {
  int qk, v;      /* head sizes, rounded up */
  int warps;      /* of a block */
  int m_tiles;    /* of 16 rows, per warp */
  int row_warps;  /* warps that share rows: 1, or 2, each with half of a tile's keys and half of O's columns */
  int kv_tile;    /* keys of a K/V tile */
  int min_blocks; /* resident per multiprocessor: limits registers */
  int stages;     /* of K and V: 2, or 1 of each, filled alternately */
  size_t shared_bytes;
} hr_flash_sm80;

/** For blocks of up to `shared_max` bytes of shared memory. Head sizes up to 256. */
hr_flash_sm80 hr_flash_sm80_choose(const hr_attention *attention, size_t shared_max);
void hr_flash_sm80_defines(const hr_flash_sm80 *tiles, const char *scores, bool aligned, char text[HR_DEFINES_SIZE]);

/** Tiles of attention_flash_fp32.cu. */
typedef struct hr_flash_fp32 {
  int qk, v;   /* head sizes, rounded up to 16 */
  int kv_tile; /* keys of a K/V tile */
  size_t shared_bytes;
} hr_flash_fp32;

hr_flash_fp32 hr_flash_fp32_choose(const hr_attention *attention, size_t shared_max);
void hr_flash_fp32_defines(const hr_flash_fp32 *tiles, const char *scores, bool aligned, char text[HR_DEFINES_SIZE]);

/** Tiles of attention_blocked.cu, or in exact fp32 of attention_blocked_fp32.cu. */
typedef struct hr_blocked {
  int v;               /* head size of V, rounded up to 16 */
  int q_rows, kv_tile; /* queries and keys of a tile */
  int threads;         /* of a block */
  int min_blocks;      /* resident per multiprocessor */
  size_t shared_bytes;
} hr_blocked;

/** Head sizes of V up to 256. */
hr_blocked hr_blocked_choose(const hr_attention *attention, size_t shared_max);
void hr_blocked_defines(const hr_blocked *tiles, hr_dtype dtype, const char *scores, bool aligned,
                        char text[HR_DEFINES_SIZE]);
const char *hr_blocked_source(hr_dtype dtype);

/** The definitions of attention_transpose_v.cu. */
void hr_transpose_v_defines(const hr_flash_sm90 *tiles, char text[HR_DEFINES_SIZE]);

/** The definitions of attention_naive.cu for a problem. */
void hr_naive_cuda_defines(const hr_attention *attention, char text[HR_DEFINES_SIZE]);

#endif
