/* What the files of the CUDA backend share. */
#ifndef HR_RUNTIME_CUDA_H
#define HR_RUNTIME_CUDA_H

#include "runtime/cuda/driver/cache.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/nvml.h"
#include "runtime/cuda/driver/nvrtc.h"
#include "runtime/cuda/driver/program.h"
#include "runtime/cuda/gemm/cublaslt.h"
#include "runtime/device/device.h"

#include <pthread.h>

/** A program on the device, by what hr_program has. */
typedef struct hr_loaded_module {
  const char *source;
  hr_dtype dtype;
  char defines[HR_DEFINES_SIZE];
  cu_module module;
} hr_loaded_module;

/** Programs that were loaded, each once; `gate` is held while one is looked for or loaded. */
typedef struct hr_modules {
  pthread_mutex_t gate;
  size_t count, capacity;
  hr_loaded_module *loaded;
} hr_modules;

/** hr_device.state of a CUDA device. Immutable after open, but for `modules`. Libraries other than the driver may be
 *  closed (handle NULL).
 *
 *  The device's primary context is used, which other libraries of the process share; every function pushes it and pops
 *  it again, so that a caller's own current context stays. Work goes to one stream. */
typedef struct hr_cuda {
  hr_driver driver;
  hr_cublaslt cublaslt;
  hr_nvrtc nvrtc;
  hr_nvml nvml;
  nvml_device watched; /* NULL: NVML does not know the device */
  cu_device device;
  bool retained;
  cu_context context;
  cu_stream stream;
  cu_event start, end;
  lt_handle lt;
  int capability; /* 90: compute capability 9.0 */
  char cache_folder[HR_CACHE_PATH_SIZE];
  hr_modules *modules;
} hr_cuda;

/** Makes the device's context current; pair with hr_cuda_leave(). */
hr_status hr_cuda_enter(const hr_cuda *cuda, hr_error *error);
void hr_cuda_leave(const hr_cuda *cuda);

/** The function `name` of a program of kernels/ (module.c) for definitions as in hr_program, built or taken from the
 *  cache when it is first asked for; it lives as long as the device. `source` is static. HR_ERROR_UNSUPPORTED without
 *  NVRTC or for another format. */
hr_status hr_cuda_function(const hr_cuda *cuda, const char *source, hr_dtype dtype, const char *defines,
                           const char *name, cu_function *function, hr_error *error);
hr_modules *hr_cuda_modules_create(void);       /* NULL: memory ran out */
void hr_cuda_modules_free(const hr_cuda *cuda); /* in the device's context */

/** hr_backend.fill_uniform (fill.c). */
hr_status hr_cuda_fill_uniform(hr_device *device, void *to, hr_dtype dtype, uint64_t seed, size_t count,
                               hr_error *error);

/** hr_backend.detect. */
hr_status hr_cuda_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** hr_backend.time_runs, forget and copy_rate (timing.c). */
hr_status hr_cuda_time_runs(hr_device *device, hr_run_fn run, void *context, int64_t count, void **kept,
                            double *time_ns, hr_error *error);
void hr_cuda_forget(hr_device *device, void *recorded);
hr_status hr_cuda_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error);

/** hr_backend.measure_ceilings (ceilings.c). */
hr_status hr_cuda_measure_ceilings(hr_device *device, const hr_watch *watch, hr_ceiling *ceilings, size_t *count,
                                   hr_error *error);

/** hr_backend.conditions (conditions.c). */
void hr_cuda_conditions(const hr_device *device, hr_conditions *conditions);

#endif
