/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the header of a safetensors file: 8 bytes with the length of a JSON object (little-endian), the object with the
 * format, shape and place of each tensor, then the tensors' bytes, which are not read.
 * Source: github.com/huggingface/safetensors, "Format".
 *
 * Bytes are fed as they come. Memory is that of the largest tensor's entry and 16 bytes a tensor, and is taken as
 * tensors are found, not by a length that the file claims. */
#ifndef HR_MODEL_CHECKPOINT_SAFETENSORS_H
#define HR_MODEL_CHECKPOINT_SAFETENSORS_H

#include "json/json_members.h"

#include <headroom/experimental/weights.h>

#define HR_SAFETENSORS_HEADER_MAX 100000000 /* the format's own limit */

typedef struct hr_tensor_entry {
  const char *name;
  hr_tensor_format format;
  int64_t elements, bytes;
  int64_t rank;                     /* number of dimensions */
  int64_t dims[HR_TENSOR_DIMS_MAX]; /* the first of them */
  int64_t offset;                   /* of its bytes in the file */
} hr_tensor_entry;

/** Receives a tensor, which is valid during the call. A failure ends the reading. */
typedef hr_status (*hr_tensor_entry_fn)(void *context, const hr_tensor_entry *tensor, hr_error *error);

typedef struct hr_tensor_extent {
  int64_t begin, end;
} hr_tensor_extent;

typedef struct hr_safetensors {
  const char *input; /* in messages */
  int64_t file_bytes;
  hr_tensor_entry_fn take;
  void *context;

  unsigned char length[8];
  int64_t taken, header_bytes, data_bytes; /* bytes fed; header_bytes is valid from the 8th on */
  hr_json_members members;
  hr_tensor_extent *extents;
  size_t count, capacity;
} hr_safetensors;

/** Begins a file of so many bytes. `input` must stay valid. */
void hr_safetensors_begin(hr_safetensors *file, const char *input, int64_t file_bytes, hr_tensor_entry_fn take,
                          void *context);

/** How many bytes the header needs still, as far as is known; 0: it is complete. */
int64_t hr_safetensors_wanted(const hr_safetensors *file);

/** Reads the next bytes, of which it ignores those beyond the header. HR_ERROR_UNREADABLE for what no safetensors file
 *  has, naming tensor and field; HR_ERROR_NOT_FOUND for a pointer of Git LFS, which stands in for a file;
 *  HR_ERROR_OUT_OF_MEMORY; errors of `take`. Tensors before a mistake have been taken. */
hr_status hr_safetensors_feed(hr_safetensors *file, const char *bytes, size_t count, hr_error *error);

/** Checks that the header was whole, and that the tensors fill the rest of the file without gap or overlap. */
hr_status hr_safetensors_end(hr_safetensors *file, hr_error *error);

/** Frees what was allocated, also after a failure. */
void hr_safetensors_free(hr_safetensors *file);

#endif
