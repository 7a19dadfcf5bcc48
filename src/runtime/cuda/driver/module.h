/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on the device: compiled, or read from the cache, when they are first needed, and loaded once. */
#ifndef HR_RUNTIME_CUDA_DRIVER_MODULE_H
#define HR_RUNTIME_CUDA_DRIVER_MODULE_H

#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/program.h"

/** The loaded modules of a device. */
typedef struct hr_modules hr_modules;

/** An empty list for hr_cuda.modules; NULL: out of memory. */
hr_modules *hr_modules_create(void);

/** Unloads the modules of a device whose context is open, and frees the list. NULL is allowed. */
void hr_modules_free(const hr_cuda *cuda, hr_modules *modules);

/** The function `name` of the program `source` of kernels/, compiled for a dtype with `defines` as in hr_program. It
 *  lives as long as the device; `source` is static. Thread-safe. HR_ERROR_UNSUPPORTED without NVRTC or for a dtype that
 *  no kernel takes. */
hr_status hr_cuda_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                           const char *name, cu_function *function, hr_error *error);

/** hr_cuda_function() whose launches may ask for `shared_bytes` of dynamic shared memory. */
hr_status hr_cuda_function_shared(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                                  const char *name, size_t shared_bytes, cu_function *function, hr_error *error);

#endif
