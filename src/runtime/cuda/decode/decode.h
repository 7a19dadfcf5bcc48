/* SPDX-License-Identifier: Apache-2.0 */
/* How the CUDA decode kernels are configured for a problem. */
#ifndef HR_RUNTIME_CUDA_DECODE_DECODE_H
#define HR_RUNTIME_CUDA_DECODE_DECODE_H

#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/kernels/decode_topk_layout.h"
#include "runtime/device/plan.h"
#include "runtime/operation/decode_sequences.h"
#include "schedule/decode_tiles.h"

/** " HR_CACHE_FP8", " HR_CACHE_INT8", or "" of an unquantized cache. */
const char *hr_decode_cache_define(const hr_decode *decode);

/** copy_bytes: of which rows of K and V are multiples, 16 or 4; 0: neither. */
void hr_decode_split_defines(const hr_decode_split *tiles, const hr_decode *decode, int copy_bytes,
                             char text[HR_DEFINES_SIZE]);

/** Sizes of decode_topk.cu. */
typedef struct hr_decode_topk {
  int qk, v;               /* head sizes, rounded up to 32 and to a power of two */
  int tiles, score_blocks; /* Q tiles of a K head; blocks of a sequence's keys */
  int splits;              /* of a query row's chosen keys */
  int64_t pitch;           /* floats of a query row's scores */
  bool in_shared;          /* a query row's scores fit shared memory */
  size_t shared_bytes;     /* of topk_gather */
} hr_decode_topk;

/** Head sizes up to 256. */
hr_decode_topk hr_decode_topk_choose(const hr_decode *decode, const hr_decode_gpu *gpu);
void hr_decode_topk_defines(const hr_decode_topk *t, const hr_decode *d, bool aligned, char text[HR_DEFINES_SIZE]);

/** Row blocks and teams of decode_latent_sm90.cu. */
typedef struct hr_decode_latent {
  int qk, v;          /* head sizes, rounded up */
  int heads, queries; /* of a row block */
  int head_blocks, row_blocks;
  int teams;       /* of one thread block per row block; they share the batch's keys equally */
  int box;         /* keys of a TMA copy */
  bool half_boxes; /* TMA copies of half a tile instead of a panel of 64 columns */
  size_t shared_bytes;
} hr_decode_latent;

/** Latent attention with head sizes up to 576 of K and 512 of V. */
hr_decode_latent hr_decode_latent_choose(const hr_decode *decode, int64_t multiprocessors);
void hr_decode_latent_defines(const hr_decode_latent *tiles, const hr_decode *decode, char text[HR_DEFINES_SIZE]);

#endif
