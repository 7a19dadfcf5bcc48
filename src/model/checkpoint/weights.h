/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint by their names, and where its files are in memory. */
#ifndef HR_MODEL_CHECKPOINT_WEIGHTS_H
#define HR_MODEL_CHECKPOINT_WEIGHTS_H

#include "model/checkpoint/reader.h"

typedef struct hr_stored_tensor {
  size_t name;              /* in hr_weights.names */
  size_t file;              /* in hr_weights.files */
  int64_t offset;           /* in the file */
  hr_weights_tensor tensor; /* `name` and `data` are set by hr_weights_sort() */
} hr_stored_tensor;

typedef struct hr_mapped_file {
  const char *data;
  size_t bytes;
} hr_mapped_file;

/** All zero is empty. */
struct hr_weights {
  hr_stored_tensor *tensors;
  size_t count, capacity;
  char *names; /* one behind the other */
  size_t name_bytes, name_capacity;
  hr_mapped_file files[HR_SHARDS_MAX];
  size_t file_count;
};

/** Adds a tensor of the file behind the last one. HR_ERROR_UNSUPPORTED for more than HR_TENSOR_DIMS_MAX dimensions;
 *  HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_weights_add(hr_weights *weights, const hr_tensor_entry *entry, hr_error *error);

/** Sorts the tensors by their names, and lets each point to its bytes. */
void hr_weights_sort(hr_weights *weights);

/** The tensor of this name; NULL if there is none. */
const hr_weights_tensor *hr_weights_lookup(const hr_weights *weights, const char *name);

#define HR_DIMS_TEXT_SIZE 128

/** Writes "[4, 32]". */
void hr_write_dims(char text[HR_DIMS_TEXT_SIZE], const int64_t *dims, int64_t rank);

/** The product of the sizes. */
int64_t hr_tensor_elements(const hr_weights_tensor *tensor);

/** Frees the lists of tensors. */
void hr_weights_clear(hr_weights *weights);

#endif
