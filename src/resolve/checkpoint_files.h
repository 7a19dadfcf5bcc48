/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the headers of a checkpoint's files, in their order. */
#ifndef HR_RESOLVE_CHECKPOINT_FILES_H
#define HR_RESOLVE_CHECKPOINT_FILES_H

#include "model/checkpoint/safetensors.h"

/** Receives the tensors of a file, then the file itself: its descriptor, which is closed afterwards, and its size. */
typedef struct hr_checkpoint_visitor {
  hr_tensor_entry_fn tensor;
  hr_status (*file)(void *context, int descriptor, const char *path, int64_t bytes, hr_error *error);
  void *context;
} hr_checkpoint_visitor;

/** hr_resolve_checkpoint(), with a visitor that may be NULL. After a failure the visitor has received a part. */
hr_status hr_checkpoint_visit(const char *what, const hr_checkpoint_visitor *visitor, hr_checkpoint *checkpoint,
                              hr_error *error);

#endif
