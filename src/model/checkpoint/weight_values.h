/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a weight in a tensor: where they are, their scales, and their conversion. Thread safety: pure
 * functions. */
#ifndef HR_MODEL_CHECKPOINT_WEIGHT_VALUES_H
#define HR_MODEL_CHECKPOINT_WEIGHT_VALUES_H

#include "model/checkpoint/weight_reader.h"

/** What one tensor has of a weight. */
typedef struct hr_weight_part {
  const hr_weights_tensor *tensor;
  hr_tensor_row row;
  int64_t matrices;      /* in the tensor */
  int64_t rows, columns; /* of the role, in each */
  int64_t joined_rows;   /* of the tensor, in each */
  bool transposed;
} hr_weight_part;

/** Whether weights in this format are read. */
bool hr_weight_format_is_read(hr_tensor_format format);

/** Converts a part, whose shape and format have been checked, to elements `first` and following of `to`.
 *  HR_ERROR_NOT_FOUND, HR_ERROR_INVALID for scales of fp8 that are missing or have another shape. */
hr_status hr_convert_weight(const hr_weights *weights, const hr_weight_part *part, const hr_weight_request *request,
                            void *to, int64_t first, hr_error *error);

#endif
