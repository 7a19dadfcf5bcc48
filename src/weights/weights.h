/* SPDX-License-Identifier: Apache-2.0 */
/* A model's weights in the memory of a device: buffers by layer and role, filled from a checkpoint or with random
 * numbers. */
#ifndef HR_WEIGHTS_WEIGHTS_H
#define HR_WEIGHTS_WEIGHTS_H

#include "model/layers/weight_shapes.h"
#include "runtime/device/fp8.h"

#include <headroom/buffer.h>
#include <headroom/operators.h>
#include <headroom/status.h>

/** The group of a layer. */
static inline const hr_layer_group *hr_group_of_layer(const hr_model *model, int64_t layer)
{
  return &model->groups[model->group_count > 1 ? model->order[layer] : 0];
}

/** The members above `memory` are the caller's, and outlive it. */
typedef struct hr_placed_weights {
  hr_device *device;
  const hr_model *model; /* what the rank has */
  const hr_model *whole; /* what all have; the same of one rank */
  int64_t rank, ranks;
  const hr_operators *operators; /* of a forward step, which say what stands side by side */
  hr_dtype dtype;
  bool q8;             /* those of linear layers and logits are in q8_0 */
  bool fp8;            /* those that the model has in fp8 stay so, where hr_keep_fp8() says so */
  int64_t parts;       /* that all of them are divided into for the optimizer; 0 as 1 */
  int64_t first_layer; /* of the whole model, where a pipeline stage has some */
  bool begins, ends;   /* with the embedding, with the logits */
  hr_buffer *memory;   /* of which the weights are parts */
  hr_buffer **of;      /* [layers + 1, HR_WEIGHT_ROLE_COUNT], those outside of layers first */
} hr_placed_weights;

/** Whether an operator outside of layers is the stage's. */
static inline bool hr_stage_has(const hr_placed_weights *w, const hr_operator *op)
{
  return op->id < HR_OP_ATTENTION_NORM ? w->begins : w->ends;
}

/** Weights that stand side by side in one buffer: those of the matrices of a GEMM, its biases, or a single one. */
typedef struct hr_weight_block {
  int64_t layer; /* −1: outside of layers */
  const hr_layer_group *group;
  int key; /* the role by which hr_placed_weight() finds it */
  size_t count;
  uint8_t roles[HR_OPERATOR_WEIGHTS_MAX];
  hr_weight_shape shapes[HR_OPERATOR_WEIGHTS_MAX]; /* 0 rows: zeros in the place of a bias that the layer lacks */
  int64_t elements[HR_OPERATOR_WEIGHTS_MAX];
  int64_t total;
  hr_dtype dtype; /* in which they are read */
  bool q8;        /* stored in q8_0, as one matrix of all rows */
  bool fp8;       /* stored in fp8, as one matrix of all rows, with scales of: */
  hr_fp8_scales scales;
} hr_weight_block;

typedef hr_status (*hr_weight_block_fn)(const hr_placed_weights *weights, const hr_weight_block *block, void *context,
                                        hr_error *error);

/** Where the rank's part of a weight is in the whole one. Rows behind its end are zeros. */
typedef struct hr_weight_slice {
  const hr_layer_group *group; /* of the whole model */
  hr_weight_shape whole;
  int64_t first_matrix, first_row, first_column;
  bool zeros; /* of all: a bias that rank 0 adds to a sum */
} hr_weight_slice;

hr_weight_slice hr_weight_slice_of(const hr_placed_weights *weights, const hr_weight_block *block, size_t index);

/** Whether the rank has all of the weight. */
static inline bool hr_is_whole(const hr_weight_slice *slice, const hr_weight_shape *part)
{
  return !slice->zeros && slice->whole.count == part->count && slice->whole.rows == part->rows &&
         slice->whole.columns == part->columns;
}

/** Calls `take` for each block of the model once, those outside of layers first. */
hr_status hr_each_weight_block(const hr_placed_weights *weights, hr_weight_block_fn take, void *context,
                               hr_error *error);

/** Bytes of the block as it is stored. */
int64_t hr_weight_block_bytes(const hr_weight_block *block);

/** Where the block's buffer is kept. */
hr_buffer **hr_weight_buffer(const hr_placed_weights *weights, int64_t layer, int role);

/** The bytes of all blocks. */
hr_status hr_placed_weights_bytes(const hr_placed_weights *weights, int64_t *bytes, hr_error *error);

/** Allocates all blocks. Errors of hr_buffer_create(). */
hr_status hr_placed_weights_allocate(hr_placed_weights *weights, hr_error *error);

/** Frees them. */
void hr_placed_weights_free(hr_placed_weights *weights);

/** Fills them from a checkpoint (`what` as hr_weights_open() takes it), or without one with random numbers of `seed`.
 *  Errors of hr_weights_open() and of its reader; HR_ERROR_INTERRUPTED where `progress` asks to stop. */
hr_status hr_placed_weights_fill(const hr_placed_weights *weights, const char *what, uint64_t seed,
                                 hr_progress_fn progress, void *context, hr_error *error);

/** The address of the weights that begin with `role`: those of an operator that is one GEMM are side by side. NULL if
 *  there are none. `layer` −1: outside of layers. */
void *hr_placed_weight(const hr_placed_weights *weights, int64_t layer, int role);

/** Whether the operator multiplies with weights in q8_0. */
static inline bool hr_multiplies_q8(const hr_placed_weights *weights, const hr_operator *op)
{
  return weights->q8 && op->kind == HR_KIND_GEMM && (op->in_layer || op->id == HR_OP_LOGIT);
}

/** Whether the operator of a layer multiplies with weights that stay in fp8, and what of them has a scale. */
bool hr_multiplies_fp8(const hr_placed_weights *weights, const hr_layer_group *group, const hr_operator *op,
                       hr_fp8_scales *scales);

/** The scales of weights in fp8 that begin at `data`. */
static inline const float *hr_fp8_scales_at(const void *data, int64_t rows, int64_t columns)
{
  return (const float *)(const void *)((const char *)data + rows * columns);
}

/** Leaves formats to those linear layers alone whose weights can stay in fp8: not to experts, latent attention's K and
 *  V and logits. */
void hr_keep_fp8(hr_model *model);

/** Whether the role is a bias, which stands behind its matrix. */
bool hr_weight_is_bias(int role);

#endif
