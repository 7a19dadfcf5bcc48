/* From the sources in kernels/ to machine code: embedded text, NVRTC, the cache on disk. */
#ifndef HR_RUNTIME_CUDA_DRIVER_PROGRAM_H
#define HR_RUNTIME_CUDA_DRIVER_PROGRAM_H

#include "runtime/cuda/driver/nvrtc.h"

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>

/** What to compile: a source of kernels/ by name ("fill"), for a format and an architecture ("sm_90a"), with
 *  definitions of the preprocessor, separated by spaces ("HR_QK=128 HR_V=64"). */
typedef struct hr_program {
  const char *source;
  hr_dtype dtype;
  const char *defines; /* NULL: none */
  char architecture[16];
} hr_program;

#define HR_DEFINES_SIZE 256 /* of the longest list of definitions, with its NUL */

/** The sources that need no definitions, NULL at the end. Static storage. */
const char *const *hr_program_sources(void);

/** The formats that they are compiled for. */
bool hr_program_takes(hr_dtype dtype);

/** The architecture to compile for on a device of compute capability `capability` (90: 9.0), with the instructions that
 *  only it has from Hopper on: "sm_80", "sm_90a". */
void hr_program_architecture(int capability, char text[16]);

/** Compiles, or finds in the cache in `folder` ("": no cache), the program. The caller frees *image.
 *  HR_ERROR_BACKEND with the compiler's first complaint, HR_ERROR_INVALID for too long a list of definitions,
 *  HR_ERROR_OUT_OF_MEMORY. */
hr_status hr_program_build(const hr_nvrtc *nvrtc, const hr_program *program, const char *folder, char **image,
                           size_t *bytes, hr_error *error);

#endif
