/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of kernels/attention_backward_sm90.cu, and what it and attention_backward_rows.cu are compiled with. */
#ifndef HR_RUNTIME_CUDA_ATTENTION_BACKWARD_SM90_H
#define HR_RUNTIME_CUDA_ATTENTION_BACKWARD_SM90_H

#include "runtime/cuda/driver/program.h"
#include "shape/attention_backward.h"

typedef struct hr_backward_sm90 {
  int qk, v;               /* head sizes, rounded up to 16 */
  int keys, rows;          /* of a K/V tile, of a Q tile */
  int stages;              /* of Q and dO */
  int dq_first, dq_second; /* columns of dQ that each consumer warpgroup computes; with Q tiles of 128 rows all */
  bool split_products;     /* consumer warpgroups share a K/V tile by its products, not by its keys */
  bool ahead;              /* such products are issued a tile ahead */
  bool varlen, clears, deterministic;
  const char *scores; /* hr_cuda_attention_score_defines() */
  size_t shared_bytes;
} hr_backward_sm90;

/** Head sizes up to 256. */
hr_backward_sm90 hr_backward_sm90_choose(const hr_backward *backward);
void hr_backward_sm90_defines(const hr_backward_sm90 *tiles, char text[HR_DEFINES_SIZE]);
void hr_backward_rows_defines(const hr_backward_sm90 *tiles, char text[HR_DEFINES_SIZE]);

#endif
