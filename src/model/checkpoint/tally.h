/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the tensors of a checkpoint by format and by what they are. */
#ifndef HR_MODEL_CHECKPOINT_TALLY_H
#define HR_MODEL_CHECKPOINT_TALLY_H

#include "model/checkpoint/safetensors.h"

/** What a tensor is by its name, its format and its number of dimensions. */
hr_checkpoint_part hr_tensor_part(const hr_tensor_entry *tensor);

#define HR_TALLY_LAYERS_MAX 1024 /* numbered layers */

/** All zero at the beginning. */
typedef struct hr_tally {
  hr_checkpoint sums;
  int64_t layer_weights[HR_TALLY_LAYERS_MAX];
  bool layer_predicts[HR_TALLY_LAYERS_MAX]; /* a numbered layer that is multi-token prediction */
} hr_tally;

/** Adds a tensor. HR_ERROR_OVERFLOW if a sum does not fit; `input` is the file in messages. */
hr_status hr_tally_add(hr_tally *tally, const hr_tensor_entry *tensor, const char *input, hr_error *error);

/** The sums over all tensors added. */
hr_checkpoint hr_tally_sums(const hr_tally *tally);

#endif
