/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver API that is used: types, constants and entry points as in its documentation, so that
 * building needs no CUDA headers. */
#ifndef HR_RUNTIME_CUDA_DRIVER_DRIVER_H
#define HR_RUNTIME_CUDA_DRIVER_DRIVER_H

#include <headroom/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_address;

/** The driver's form of an address on the device. */
static inline cu_address hr_cuda_address(const void *data)
{
  return (cu_address)(uintptr_t)data;
}

typedef struct cu_context_st *cu_context;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;

enum { CU_SUCCESS = 0, CU_ERROR_OUT_OF_MEMORY = 2, CU_ERROR_NO_DEVICE = 100, CU_NOT_READY = 600 };

enum { CU_HOST_MAPPED = 2, CU_EVENT_NO_TIMES = 2 }; /* of cuMemHostAlloc() and cuEventCreate() */

typedef struct cu_ipc_handle { /* CUipcMemHandle */
  char bytes[64];
} cu_ipc_handle;

enum {
  CU_MAX_SHARED_OPTIN = 97, /* CUdevice_attribute */
  CU_CLOCK_KHZ = 13,
  CU_MULTIPROCESSORS = 16,
  CU_MEMORY_CLOCK_KHZ = 36,
  CU_MEMORY_BUS_BITS = 37,
  CU_L2_BYTES = 38,
  CU_CAPABILITY_MAJOR = 75,
  CU_CAPABILITY_MINOR = 76,
  CU_SHARED_BYTES = 81
};

enum { /* CUfunction_attribute: limit of dynamic shared memory; clusters of more than 8 blocks */
       CU_FUNCTION_SHARED_MAX = 8,
       CU_FUNCTION_ANY_CLUSTER = 14
};

typedef struct cu_launch_config { /* CUlaunchConfig */
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  cu_stream stream;
  struct cu_launch_attribute *attributes;
  unsigned attribute_count;
} cu_launch_config;

typedef struct cu_launch_attribute { /* CUlaunchAttribute */
  unsigned id;
  union {
    int programmatic_serialization;
    uint64_t words[8];
  } value;
} cu_launch_attribute;

/* CUlaunchAttributeID: blocks may start before the kernel before has ended, once all its blocks allow it */
enum { CU_PROGRAMMATIC_SERIALIZATION = 6 };

enum { /* of cuTensorMapEncodeTiled: CUtensorMapDataType, Swizzle, L2promotion */
       CU_TENSOR_UINT8 = 0,
       CU_TENSOR_FP16 = 6,
       CU_TENSOR_BF16 = 9,
       CU_SWIZZLE_NONE = 0,
       CU_SWIZZLE_64 = 2,
       CU_SWIZZLE_128 = 3,
       CU_PROMOTE_256 = 3
};

typedef struct cu_tensor_map {
  _Alignas(64) uint64_t opaque[16];
} cu_tensor_map;

/* Handles that need no cuStreamCreate(): the default stream of the current context, and that of thread and context. */
#define CU_STREAM_LEGACY ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD ((cu_stream)0x2)

enum {
  CU_STREAM_DEFAULT = 0,      /* waits for the default stream, which waits for it */
  CU_STREAM_NON_BLOCKING = 1, /* does not */
  CU_CAPTURE_THREAD_LOCAL = 1,
  CU_EVENT_RECORD_EXTERNAL = 1 /* in a capture: records the event by a node of the graph */
};

/* A row per entry point: name, parameters. */
#define HR_DRIVER_LIST(ROW)                                                                                         \
  ROW(cuInit, (unsigned flags))                                                                                     \
  ROW(cuDriverGetVersion, (int *version))                                                                           \
  ROW(cuGetErrorName, (cu_result result, const char **name))                                                        \
  ROW(cuGetErrorString, (cu_result result, const char **text))                                                      \
  ROW(cuDeviceGetCount, (int *count))                                                                               \
  ROW(cuDeviceGet, (cu_device * device, int ordinal))                                                               \
  ROW(cuDeviceGetName, (char *name, int size, cu_device device))                                                    \
  ROW(cuDeviceGetAttribute, (int *value, int attribute, cu_device device))                                          \
  ROW(cuDeviceTotalMem_v2, (size_t * bytes, cu_device device))                                                      \
  ROW(cuDeviceGetPCIBusId, (char *id, int size, cu_device device))                                                  \
  ROW(cuDevicePrimaryCtxRetain, (cu_context * context, cu_device device))                                           \
  ROW(cuDevicePrimaryCtxRelease_v2, (cu_device device))                                                             \
  ROW(cuCtxPushCurrent_v2, (cu_context context))                                                                    \
  ROW(cuCtxPopCurrent_v2, (cu_context * context))                                                                   \
  ROW(cuCtxGetDevice, (cu_device * device))                                                                         \
  ROW(cuCtxSynchronize, (void))                                                                                     \
  ROW(cuMemGetInfo_v2, (size_t * available, size_t * total))                                                        \
  ROW(cuMemAlloc_v2, (cu_address * address, size_t bytes))                                                          \
  ROW(cuMemFree_v2, (cu_address address))                                                                           \
  ROW(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                                               \
  ROW(cuMemHostGetDevicePointer_v2, (cu_address * on_device, void *address, unsigned flags))                        \
  ROW(cuMemFreeHost, (void *address))                                                                               \
  ROW(cuDeviceCanAccessPeer, (int *can, cu_device device, cu_device peer))                                          \
  ROW(cuCtxEnablePeerAccess, (cu_context peer, unsigned flags))                                                     \
  ROW(cuIpcGetMemHandle, (cu_ipc_handle * handle, cu_address address))                                              \
  ROW(cuIpcOpenMemHandle_v2, (cu_address * address, cu_ipc_handle handle, unsigned flags))                          \
  ROW(cuIpcCloseMemHandle, (cu_address address))                                                                    \
  ROW(cuMemcpyHtoDAsync_v2, (cu_address to, const void *from, size_t bytes, cu_stream stream))                      \
  ROW(cuMemcpyDtoHAsync_v2, (void *to, cu_address from, size_t bytes, cu_stream stream))                            \
  ROW(cuMemcpyDtoDAsync_v2, (cu_address to, cu_address from, size_t bytes, cu_stream stream))                       \
  ROW(cuMemsetD8Async, (cu_address to, unsigned char value, size_t bytes, cu_stream stream))                        \
  ROW(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                     \
  ROW(cuStreamCreate, (cu_stream * stream, unsigned flags))                                                         \
  ROW(cuStreamCreateWithPriority, (cu_stream * stream, unsigned flags, int priority))                               \
  ROW(cuStreamDestroy_v2, (cu_stream stream))                                                                       \
  ROW(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))                                        \
  ROW(cuStreamGetCtx, (cu_stream stream, cu_context * context))                                                     \
  ROW(cuStreamSynchronize, (cu_stream stream))                                                                      \
  ROW(cuStreamBeginCapture_v2, (cu_stream stream, int mode))                                                        \
  ROW(cuStreamEndCapture, (cu_stream stream, cu_graph * graph))                                                     \
  ROW(cuGraphInstantiateWithFlags, (cu_graph_exec * executable, cu_graph graph, unsigned long long flags))          \
  ROW(cuGraphLaunch, (cu_graph_exec executable, cu_stream stream))                                                  \
  ROW(cuGraphDestroy, (cu_graph graph))                                                                             \
  ROW(cuGraphExecDestroy, (cu_graph_exec executable))                                                               \
  ROW(cuEventCreate, (cu_event * event, unsigned flags))                                                            \
  ROW(cuEventDestroy_v2, (cu_event event))                                                                          \
  ROW(cuEventRecord, (cu_event event, cu_stream stream))                                                            \
  ROW(cuEventRecordWithFlags, (cu_event event, cu_stream stream, unsigned flags))                                   \
  ROW(cuEventSynchronize, (cu_event event))                                                                         \
  ROW(cuEventQuery, (cu_event event))                                                                               \
  ROW(cuStreamIsCapturing, (cu_stream stream, int *status))                                                         \
  ROW(cuEventElapsedTime, (float *ms, cu_event start, cu_event end))                                                \
  ROW(cuModuleLoadData, (cu_module * module, const void *image))                                                    \
  ROW(cuModuleUnload, (cu_module module))                                                                           \
  ROW(cuModuleGetFunction, (cu_function * function, cu_module module, const char *name))                            \
  ROW(cuFuncGetAttribute, (int *value, int attribute, cu_function function))                                        \
  ROW(cuFuncSetAttribute, (cu_function function, int attribute, int value))                                         \
  ROW(cuLaunchKernel,                                                                                               \
      (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, cu_stream stream, void **arguments, void **extra))

/* Entry points of CUDA 12 drivers; NULL in older ones. */
#define HR_DRIVER_NEWER_LIST(ROW)                                                                                  \
  ROW(cuOccupancyMaxActiveClusters, (int *count, cu_function function, const cu_launch_config *config))            \
  ROW(cuLaunchKernelEx, (const cu_launch_config *config, cu_function function, void **arguments, void **extra))    \
  ROW(cuTensorMapEncodeTiled,                                                                                      \
      (cu_tensor_map * map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides, \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))

typedef struct hr_driver {
  void *handle;
  int version; /* 13000: the CUDA version of the driver, 1000 · major + 10 · minor */
#define HR_DRIVER_MEMBER(name, parameters) cu_result(*name) parameters;
  HR_DRIVER_LIST(HR_DRIVER_MEMBER)
  HR_DRIVER_NEWER_LIST(HR_DRIVER_MEMBER)
#undef HR_DRIVER_MEMBER
} hr_driver;

/** Loads the driver and initialises it. HR_ERROR_UNAVAILABLE without a driver or a device; *driver is then closed. */
hr_status hr_driver_open(hr_driver *driver, hr_error *error);
void hr_driver_close(hr_driver *driver);

/** Turns the result of the call named `call` into a status with the driver's error text. */
hr_status hr_driver_check(const hr_driver *driver, cu_result result, const char *call, hr_error *error);

/** Calls an entry point and checks it: HR_CU(driver, cuMemFree_v2, (address), error). */
#define HR_CU(driver, name, arguments, error) hr_driver_check(driver, (driver)->name arguments, #name, error)

#endif
