/* SPDX-License-Identifier: Apache-2.0 */
/* An open GPU: the loaded libraries, the context, the device's own stream; launches on any stream. */
#ifndef HR_RUNTIME_CUDA_DRIVER_CONTEXT_H
#define HR_RUNTIME_CUDA_DRIVER_CONTEXT_H

#include "runtime/cuda/driver/cache.h"
#include "runtime/cuda/driver/cublaslt.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/nvml.h"
#include "runtime/cuda/driver/nvrtc.h"
#include "runtime/device/device.h"

/** hr_device.state of a CUDA device. Immutable after open, except for the contents of `modules`. Libraries other than
 *  the driver may be closed (handle NULL).
 *
 *  The context is the caller's, or the device's primary context, which the other libraries of the process share; every
 *  function pushes it and pops it again, so that the caller's own current context stays. */
typedef struct hr_cuda {
  hr_driver driver;
  hr_cublaslt cublaslt;
  hr_nvrtc nvrtc;
  hr_nvml nvml;
  nvml_device nvml_device; /* NULL: NVML does not know the device */
  cu_device device;
  cu_context context;
  cu_stream stream;    /* the device's own: copies, random numbers, what is timed */
  bool retained;       /* the primary context, which is released on closing */
  bool own_stream;     /* which is destroyed on closing */
  cu_event start, end; /* of timed runs */
  cu_stream side;      /* hr_cuda_fork(); NULL until it is needed, as the events */
  cu_event forked, marks[HR_SIDE_MARKS];
  lt_handle lt;   /* NULL: no cuBLASLt */
  int capability; /* 90: compute capability 9.0 */
  char cache_folder[HR_CACHE_PATH_SIZE];
  struct hr_modules *modules; /* driver/module.h; owned by whoever opened the context */
} hr_cuda;

/** Opens `device` ("cuda:N") with its stream and context, if the caller gave any, into the zeroed *cuda, and sets
 *  device->cache_bytes. After an error *cuda has to be closed, too. HR_ERROR_UNAVAILABLE without a driver or such a
 *  device, HR_ERROR_UNSUPPORTED for one that is too old, HR_ERROR_INVALID for a stream or context of another. */
hr_status hr_cuda_open(hr_cuda *cuda, hr_device *device, hr_error *error);

/** Waits for the stream and releases everything but `modules`, which have to be freed before. */
void hr_cuda_close(hr_cuda *cuda);

/** Makes the device's context current; pair with hr_cuda_leave(). */
hr_status hr_cuda_enter(const hr_cuda *cuda, hr_error *error);
void hr_cuda_leave(const hr_cuda *cuda);

/** Reads a device attribute of driver.h (CU_MULTIPROCESSORS …). */
hr_status hr_cuda_attribute(const hr_cuda *cuda, int attribute, int64_t *value, hr_error *error);

/** Where a run puts its kernels: a stream of the device's context. */
typedef struct hr_cuda_queue {
  const hr_cuda *cuda;
  cu_stream stream; /* NULL: the context's default stream */
} hr_cuda_queue;

/** One launch. */
typedef struct hr_cuda_kernel {
  cu_function function;
  int64_t blocks;                              /* in the first direction */
  unsigned grid_y, grid_z, threads, threads_y; /* 0 as 1 */
  size_t shared_bytes;
  /* The threads of the program wait for the kernel before (wait_for_kernel_before() of ptx_sm90.cuh) ahead of their
   * first access to global memory: its blocks may start while the last ones of that kernel run, if it allows it. */
  bool early;
} hr_cuda_kernel;

/** hr_backend.fork, .mark and .join. */
hr_status hr_cuda_fork(hr_device *device, void **stream, hr_error *error);
hr_status hr_cuda_mark(hr_device *device, int mark, hr_error *error);
hr_status hr_cuda_join(hr_device *device, int mark, hr_error *error);
void hr_cuda_close_side(hr_cuda *cuda);

/** Queues a kernel, in the device's context. */
hr_status hr_cuda_launch(const hr_cuda_queue *queue, const hr_cuda_kernel *kernel, void **parameters, hr_error *error);

#endif
