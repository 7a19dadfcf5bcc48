/* SPDX-License-Identifier: Apache-2.0 */
/* The set of a checkpoint's tensor names, each with the file that has it. A name is kept as its 128-bit hash: some 50
 * bytes of memory each, whatever its length. */
#ifndef HR_MODEL_CHECKPOINT_TENSOR_NAMES_H
#define HR_MODEL_CHECKPOINT_TENSOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

/* Ten times the tensors of the largest public checkpoints (some 200,000, int4 with scales for each expert). */
#define HR_TENSORS_MAX ((size_t)1 << 21)

typedef struct hr_named_tensor {
  XXH128_hash_t hash;
  int32_t file;     /* in the caller's list */
  bool used, found; /* found: a header has it */
} hr_named_tensor;

/** All zero is the empty set. */
typedef struct hr_tensor_names {
  hr_named_tensor *slots;
  size_t count, capacity;
} hr_tensor_names;

/** The entry of a name, which is added with `file` if it is not there (*added). NULL if memory ran out or there
 *  would be more than HR_TENSORS_MAX. Valid until the next call. */
hr_named_tensor *hr_tensor_names_add(hr_tensor_names *names, const char *name, int32_t file, bool *added);

void hr_tensor_names_free(hr_tensor_names *names);

#endif
