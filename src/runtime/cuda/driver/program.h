/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the embedded programs of kernels/ by NVRTC, or takes them from the cache on disk. */
#ifndef HR_RUNTIME_CUDA_DRIVER_PROGRAM_H
#define HR_RUNTIME_CUDA_DRIVER_PROGRAM_H

#include "runtime/cuda/driver/nvrtc.h"

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>

/** A program: a source of kernels/ by name ("fill"), for a dtype and an architecture ("sm_90a"), with preprocessor
 *  definitions separated by spaces ("HR_QK=128 HR_V=64"). */
typedef struct hr_program {
  const char *source;
  hr_dtype dtype;
  const char *defines; /* NULL: none */
  char architecture[16];
} hr_program;

#define HR_DEFINES_SIZE 336 /* of the longest list of definitions, with its NUL */

/** The sources that need no definitions, NULL at the end. Static storage. */
const char *const *hr_program_sources(void);

/** Whether programs can be compiled for a dtype. */
bool hr_program_takes(hr_dtype dtype);

/** The architecture of a device of compute capability `capability` (90: 9.0), from Hopper on with its own instructions:
 *  "sm_80", "sm_90a". */
void hr_program_architecture(int capability, char text[16]);

/** Compiles the program, or reads it from the cache in `folder` ("": no cache). The caller frees *image.
 *  HR_ERROR_BACKEND with the compiler's first error, HR_ERROR_INVALID for too long a list of definitions,
 *  HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_program_build(const hr_nvrtc *nvrtc, const hr_program *program, const char *folder, char **image,
                           size_t *bytes, hr_error *error);

#endif
