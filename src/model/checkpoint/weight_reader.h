/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the weights of a model by role from a checkpoint, converted to the format that they are computed in.
 *
 * Thread safety: a reader is used by one thread at a time. */
#ifndef HR_MODEL_CHECKPOINT_WEIGHT_READER_H
#define HR_MODEL_CHECKPOINT_WEIGHT_READER_H

#include "model/checkpoint/tensor_roles.h"

#include <headroom/dtype.h>

#define HR_TENSOR_PREFIX_SIZE 96

typedef struct hr_weight_reader {
  const hr_weights *weights;
  const hr_model *model;
  char prefix[HR_TENSOR_PREFIX_SIZE]; /* of all tensors, but the head */
  bool *used;                         /* of each tensor */
} hr_weight_reader;

/** The scales of a weight that stays in fp8: one for each block of rows and columns, rows of blocks `stride` apart. */
typedef struct hr_weight_scales {
  int64_t rows, columns, stride;
  float *to;
} hr_weight_scales;

/** A weight that is wanted: `count` matrices (of experts; else 1) of [rows, columns], a bias or norm as one row. The
 *  layer has `group`, which is NULL outside of layers. */
typedef struct hr_weight_request {
  hr_weight_role role;
  int64_t layer;
  const hr_layer_group *group;
  int64_t count, rows, columns;
  hr_dtype dtype;
  const hr_weight_scales *scales; /* where they are written, of one matrix in HR_FP8_E4M3; NULL: they are multiplied */
} hr_weight_request;

/** Begins reading weights of a model, both of which must stay valid. HR_ERROR_UNSUPPORTED if the names of the family's
 *  tensors are not known; HR_ERROR_NOT_FOUND without a token embedding; HR_ERROR_OUT_OF_MEMORY. Freed by
 *  hr_weight_reader_free(). */
hr_status hr_weight_reader_begin(hr_weight_reader *reader, const hr_weights *weights, const hr_model *model,
                                 hr_error *error);

/** Writes count × rows × columns elements to `to`, row-major; NULL: it only looks for them. The weight of a norm is its
 *  factor, also where 1 is added to what is stored. fp8 (E4M3) is multiplied by its scales: of the tensor, of each row,
 *  or of blocks of 128 × 128. HR_ERROR_NOT_FOUND, HR_ERROR_INVALID for a tensor that is missing or misshapen,
 *  HR_ERROR_UNSUPPORTED for one in a format that is not read, or with request->scales in another than fp8 or with
 *  scales that differ within a block, each naming it with what was expected and found. */
hr_status hr_weight_read(hr_weight_reader *reader, const hr_weight_request *request, void *to, hr_error *error);

/** HR_ERROR_INVALID, naming the first one, if there are weights that have not been read. Buffers, scales, the copy of a
 *  tied head, multi-token prediction and other parts that a model leaves out are none. */
hr_status hr_weight_reader_end(const hr_weight_reader *reader, hr_error *error);

/** Frees what begin() allocated. */
void hr_weight_reader_free(hr_weight_reader *reader);

#endif
