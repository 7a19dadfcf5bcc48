/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint in safetensors files, mapped into memory.
 *
 * Thread safety: an hr_weights is immutable and may be used from several threads at once. */
#ifndef HEADROOM_EXPERIMENTAL_WEIGHTS_H
#define HEADROOM_EXPERIMENTAL_WEIGHTS_H

#include <headroom/experimental/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_weights hr_weights;

#define HR_TENSOR_DIMS_MAX 8

/** A tensor, row-major. Its bytes are those of the file, and may be aligned to one byte only. */
typedef struct hr_weights_tensor {
  const char *name; /* valid until hr_weights_close(), as `data` */
  hr_tensor_format format;
  int64_t rank;
  int64_t dims[HR_TENSOR_DIMS_MAX];
  const void *data;
  int64_t bytes;
} hr_weights_tensor;

/** Opens the files that hr_resolve_checkpoint() reads for `what`, with its errors, and maps each into memory once its
 *  header is checked. HR_ERROR_NOT_FOUND if there are none. Pages are read when they are used: a file that another
 *  program cuts short while it is open ends this one (SIGBUS). The caller closes *weights. */
HR_API hr_status hr_weights_open(const char *what, hr_weights **weights, hr_error *error);

/** The tensor of this name. HR_ERROR_NOT_FOUND if there is none. */
HR_API hr_status hr_weights_find(const hr_weights *weights, const char *name, hr_weights_tensor *tensor,
                                 hr_error *error);

/** Unmaps the files. NULL is ignored. */
HR_API void hr_weights_close(hr_weights *weights);

#ifdef __cplusplus
}
#endif
#endif
