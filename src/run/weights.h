/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of an executor: buffers by layer and role. */
#ifndef HR_RUN_WEIGHTS_H
#define HR_RUN_WEIGHTS_H

#include "model/layers/weight_shapes.h"
#include "run/executor.h"

/** Weights that stand side by side in one buffer: those of the matrices of a GEMM, its biases, or a single one. */
typedef struct hr_weight_block {
  int64_t layer; /* −1: outside of layers */
  const hr_layer_group *group;
  int key; /* the role by which hr_run_weight() finds it */
  size_t count;
  uint8_t roles[HR_OPERATOR_WEIGHTS_MAX];
  hr_weight_shape shapes[HR_OPERATOR_WEIGHTS_MAX]; /* 0 rows: zeros in the place of a bias that the layer lacks */
  int64_t elements[HR_OPERATOR_WEIGHTS_MAX];
  int64_t total;
  hr_dtype dtype; /* in which they are read */
  bool q8;        /* stored in q8_0, as one matrix of all rows */
} hr_weight_block;

typedef hr_status (*hr_weight_block_fn)(hr_executor *x, const hr_weight_block *block, void *context, hr_error *error);

/** Calls `take` for each block of the model once, those outside of layers first. */
hr_status hr_each_weight_block(hr_executor *x, hr_weight_block_fn take, void *context, hr_error *error);

/** Bytes of the block as it is stored. */
int64_t hr_weight_block_bytes(const hr_weight_block *block);

/** Where the block's buffer is kept. */
hr_buffer **hr_weight_buffer(const hr_executor *x, int64_t layer, int role);

#endif
