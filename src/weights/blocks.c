/* SPDX-License-Identifier: Apache-2.0 */
/* A block has the weights that stand side by side; all blocks are parts of one allocation. */
#include "weights/weights.h"

#include "base/checked.h"
#include "base/error.h"
#include "model/layers/linears.h"
#include "model/layers/operator_builder.h"
#include "runtime/device/buffer.h"
#include "runtime/device/q8.h"

#include <headroom/experimental/model.h>
#include <headroom/experimental/operators.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ALIGNMENT 256    /* bytes */
#define MEMORY_ALIGNMENT 16384 /* the same, of all: rows of the optimizer, training/buckets.h */

hr_buffer **hr_weight_buffer(const hr_placed_weights *w, int64_t layer, int role)
{
  return &w->of[(layer + 1) * HR_WEIGHT_ROLE_COUNT + role];
}

void *hr_placed_weight(const hr_placed_weights *w, int64_t layer, int role)
{
  const hr_buffer *buffer = *hr_weight_buffer(w, layer, role);
  return buffer ? hr_buffer_data(buffer) : NULL;
}

bool hr_weight_is_bias(int role)
{
  static const char ending[] = "_bias";
  const char *name = hr_weight_role_name(role);
  const size_t length = strlen(name), end = sizeof ending - 1;
  return length > end && strcmp(name + length - end, ending) == 0;
}

/* ---- fp8 ---- */

void hr_keep_fp8(hr_model *model)
{
  model->quantization.logit = model->quantization.tied_logit = 0;
  for (size_t g = 0; g < model->group_count; g++)
    for (int id = 0; id < HR_LINEAR_COUNT; id++)
      if (!hr_linear_stays_fp8((hr_linear_id)id))
        model->groups[g].formats[id] = 0;
}

/* Scales of a tensor become those of its rows, which cost 4 bytes each. Matrices side by side have blocks of their own
 * where the rows of each are multiples of a block's. */
static bool scales_of(const hr_weight_format *format, const hr_operator *op, const hr_weight_shapes *shapes,
                      hr_fp8_scales *scales)
{
  const int64_t columns = shapes->of[op->weights[0]].columns;
  int64_t rows = HR_FP8_BLOCK;
  bool fits = columns % HR_FP8_COLUMNS == 0;
  for (int i = 0; i < HR_OPERATOR_WEIGHTS_MAX && op->weights[i] && !hr_weight_is_bias(op->weights[i]); i++) {
    const hr_weight_shape *shape = &shapes->of[op->weights[i]];
    const bool last = i + 1 == HR_OPERATOR_WEIGHTS_MAX || !op->weights[i + 1] || hr_weight_is_bias(op->weights[i + 1]);
    fits = fits && shape->count == 1 && shape->columns == columns && shape->rows > 0;
    while (!last && rows > 1 && shape->rows % rows != 0)
      rows /= 2;
  }
  const bool blocks = format->block_inputs > 0;
  *scales = blocks ? hr_fp8_scales_of_blocks(rows, columns) : hr_fp8_scales_of_rows();
  return fits && (!blocks || (format->block_inputs == HR_FP8_BLOCK && format->block_outputs == HR_FP8_BLOCK &&
                              rows >= HR_FP8_ROWS_LEAST));
}

bool hr_multiplies_fp8(const hr_placed_weights *w, const hr_layer_group *group, const hr_operator *op,
                       hr_fp8_scales *scales)
{
  hr_weight_shapes shapes;
  const hr_weight_format *format =
      w->fp8 && group && op->kind == HR_KIND_GEMM ? hr_format_of_operator(w->model, group, op->id) : NULL;
  if (!format)
    return false;
  hr_list_weights(w->model, group, &shapes);
  return scales_of(format, op, &shapes, scales);
}

/* ---- blocks ---- */

static void add_to_block(hr_weight_block *block, const hr_weight_shapes *shapes, int role, int64_t elements)
{
  const size_t at = block->count++;
  block->roles[at] = (uint8_t)role;
  block->shapes[at] = shapes->of[role];
  block->elements[at] = elements;
  block->total += elements;
}

static int64_t elements_of(const hr_weight_shape *shape)
{
  return shape->count * shape->rows * shape->columns;
}

/* Sinks are in fp32 for decode kernels, a router's bias that chooses for the choice. */
static hr_dtype dtype_of(const hr_placed_weights *w, int role)
{
  const bool chooses = role == HR_WEIGHT_ROUTER_BIAS && w->model->numerics.router.bias_chooses;
  return role == HR_WEIGHT_SINKS || chooses ? HR_FP32 : w->dtype;
}

static bool joins(const hr_operator *op)
{
  return op->kind == HR_KIND_GEMM;
}

typedef struct block_walk {
  const hr_placed_weights *of;
  int64_t layer;
  const hr_layer_group *group;
  hr_weight_shapes shapes;
  hr_weight_block_fn take;
  void *context;
} block_walk;

/* Matrices of linear layers and logits, and with these an embedding that is theirs. */
static bool is_q8(const block_walk *w, const hr_operator *op, int role)
{
  const bool tied = op->id == HR_OP_EMBEDDING && role == HR_WEIGHT_TOKEN_EMBEDDING && w->of->model->tied_embeddings;
  return w->of->q8 && (hr_multiplies_q8(w->of, op) || tied);
}

/* Matrices of one GEMM one after another, or the weight at `first`. Returns the index behind them. */
static size_t take_matrices(const hr_operator *op, size_t first, const hr_weight_shapes *shapes, hr_weight_block *block)
{
  size_t i = first;
  do
    add_to_block(block, shapes, op->weights[i], elements_of(&shapes->of[op->weights[i]])), i++;
  while (joins(op) && i < HR_OPERATOR_WEIGHTS_MAX && op->weights[i] && !hr_weight_is_bias(op->weights[i]));
  return i;
}

/* The biases of one GEMM as its results are, with zeros for those that are not there. */
static void take_biases(const hr_operator *op, const hr_weight_shapes *shapes, hr_weight_block *block)
{
  for (size_t i = 0; op->weights[i] && !hr_weight_is_bias(op->weights[i]); i++)
    add_to_block(block, shapes, op->weights[i] + 1, shapes->of[op->weights[i]].rows);
}

static hr_status walk_operator(const block_walk *w, const hr_operator *op, hr_error *error)
{
  const bool tied = op->id == HR_OP_LOGIT && op->weights[0] == HR_WEIGHT_TOKEN_EMBEDDING;
  for (size_t i = tied && w->of->begins ? 1 : 0; i < HR_OPERATOR_WEIGHTS_MAX && op->weights[i];) {
    hr_weight_block block = {.layer = w->layer, .group = w->group, .key = op->weights[i]};
    block.dtype = dtype_of(w->of, block.key);
    if (joins(op) && hr_weight_is_bias(op->weights[i])) {
      if (tied)
        add_to_block(&block, &w->shapes, op->weights[i], elements_of(&w->shapes.of[op->weights[i]]));
      else
        take_biases(op, &w->shapes, &block);
      return w->take(w->of, &block, w->context, error);
    }
    block.q8 = is_q8(w, op, block.key);
    block.fp8 = hr_multiplies_fp8(w->of, w->group, op, &block.scales);
    block.dtype = block.q8 ? HR_FP32 : block.fp8 ? HR_FP8_E4M3 : block.dtype;
    i = take_matrices(op, i, &w->shapes, &block);
    HR_TRY(w->take(w->of, &block, w->context, error));
  }
  return HR_OK;
}

static hr_status walk_layer(block_walk *w, hr_error *error)
{
  const hr_operators *list = w->of->operators;
  const hr_model *model = w->of->model;
  hr_list_weights(model, w->group, &w->shapes);
  for (size_t i = 0; i < list->count; i++) {
    const hr_operator *op = &list->items[i];
    bool runs = w->group ? op->groups >> (w->group - model->groups) & 1 : !op->in_layer && hr_stage_has(w->of, op);
    if (runs)
      HR_TRY(walk_operator(w, op, error));
  }
  return HR_OK;
}

hr_status hr_each_weight_block(const hr_placed_weights *weights, hr_weight_block_fn take, void *context,
                               hr_error *error)
{
  const hr_model *model = weights->model;
  block_walk walk = {.of = weights, .layer = -1, .take = take, .context = context};
  HR_TRY(walk_layer(&walk, error));
  for (int64_t layer = 0; layer < hr_model_layers(model); layer++) {
    walk.layer = layer;
    walk.group = hr_group_of_layer(model, layer);
    HR_TRY(walk_layer(&walk, error));
  }
  return HR_OK;
}

/* ---- allocation ---- */

int64_t hr_weight_block_bytes(const hr_weight_block *block)
{
  const int64_t columns = block->shapes[0].columns;
  return block->q8    ? hr_q8_bytes(block->total / columns, columns)
         : block->fp8 ? hr_fp8_bytes(&block->scales, block->total / columns, columns)
                      : block->total * (int64_t)hr_dtype_bytes(block->dtype);
}

static hr_status add_bytes(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  (void)w, (void)error;
  *(int64_t *)context += hr_weight_block_bytes(block);
  return HR_OK;
}

static hr_status add_room(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  (void)w, (void)error;
  *(int64_t *)context += hr_ceil_div(hr_weight_block_bytes(block), BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT;
  return HR_OK;
}

/* `context`: where the block begins. */
static hr_status place(const hr_placed_weights *w, const hr_weight_block *block, void *context, hr_error *error)
{
  const size_t offset = (size_t) * (int64_t *)context;
  hr_buffer **buffer = hr_weight_buffer(w, block->layer, block->key);
  HR_TRY(hr_buffer_part(w->memory, offset, (size_t)hr_weight_block_bytes(block), buffer, error));
  return add_room(w, block, context, error);
}

static int64_t count_buffers(const hr_placed_weights *w)
{
  return (hr_model_layers(w->model) + 1) * HR_WEIGHT_ROLE_COUNT;
}

hr_status hr_placed_weights_allocate(hr_placed_weights *w, hr_error *error)
{
  int64_t bytes = 0, at = 0;
  w->of = calloc((size_t)count_buffers(w), sizeof *w->of);
  if (!w->of)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for a list of weights");
  HR_TRY(hr_each_weight_block(w, add_room, &bytes, error));
  bytes = hr_round_up(bytes, MEMORY_ALIGNMENT * hr_max64(1, w->parts));
  HR_TRY(hr_buffer_create(w->device, (size_t)bytes + (w->q8 ? HR_Q8_BYTES_AHEAD : 0), &w->memory, error));
  return hr_each_weight_block(w, place, &at, error);
}

void hr_placed_weights_free(hr_placed_weights *w)
{
  for (int64_t i = 0; w->of && i < count_buffers(w); i++)
    hr_buffer_free(w->of[i]);
  hr_buffer_free(w->memory);
  free(w->of);
  w->of = NULL;
  w->memory = NULL;
}

hr_status hr_placed_weights_bytes(const hr_placed_weights *w, int64_t *bytes, hr_error *error)
{
  *bytes = 0;
  return hr_each_weight_block(w, add_bytes, bytes, error);
}
