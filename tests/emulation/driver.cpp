/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver's interface (driver/driver.h) over host threads: a device "cuda:0". A call does its work
 * before it returns; launches of several threads run at the same time (turns.h).
 * HEADROOM_EMULATED_CAPABILITY (90) is its compute capability, such as 80, and decides how much shared memory it
 * has. */
#include "block.h"
#include "image.h"
#include "memory.h"
#include "order.h"
#include "tensor.h"
#include "turns.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <unistd.h>

#define _Alignas alignas
extern "C" {
#include "runtime/cuda/driver/driver.h"

#define DECLARE(name, parameters) cu_result name parameters;
HR_DRIVER_LIST(DECLARE)
HR_DRIVER_NEWER_LIST(DECLARE)
#undef DECLARE
}

namespace emulation {
extern unsigned reserved_bytes;
}

using namespace emulation;

constexpr cu_result INVALID_VALUE = 1, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500, LAUNCH_FAILED = 719,
                    INVALID_HANDLE = 400, CAPTURE_UNSUPPORTED = 900, CAPTURE_UNJOINED = 904, SUCCESS = CU_SUCCESS,
                    OUT_OF_MEMORY = CU_ERROR_OUT_OF_MEMORY;

/* Few, so that a block of a persistent grid processes many work items; two clusters of 2. */
constexpr int MULTIPROCESSORS = 4;
constexpr int GPUS_MAX = 8;
constexpr int SHARED_USUAL = 48 << 10;

struct cu_context_st {
  cu_device device = 0;
};
using work = std::function<cu_result()>;

struct cu_stream_st {
  cu_context owner; /* NULL: made without a current context */
  bool captures;
  unsigned capture;                   /* its number, which grows */
  std::vector<cu_stream_st *> others; /* that have joined its capture */
  cu_stream_st *joined;               /* to the capture of this one, */
  unsigned joined_number;             /* while it is at that number */
  size_t awaited;                     /* how much of what it has put there that stream has waited for */
  std::vector<work> captured;

  /* The stream whose capture has what is put on this one; NULL: none. */
  cu_stream_st *capturing()
  {
    if (captures)
      return this;
    return joined && joined->captures && joined->capture == joined_number ? joined : nullptr;
  }
};
struct cu_event_st {
  cu_stream_st *of;     /* that it was recorded on, if that was captured */
  cu_stream_st *origin; /* of that capture */
  unsigned capture;
  size_t place; /* in what that stream has put there */
};
struct cu_graph_st {
  std::vector<work> nodes;
};
struct cu_graph_exec_st {
  std::vector<work> nodes;
};
struct cu_module_st {
  void *handle;
  unsigned static_bytes;
  std::vector<cu_function_st *> functions;
};
struct cu_function_st {
  const kernel *program;
  unsigned static_bytes, shared_max;
};

static cu_context_st primaries[GPUS_MAX];
static thread_local std::string problem;              /* of the last call that failed */
static thread_local std::vector<cu_context> contexts; /* the last one is current */

static cu_context current()
{
  return contexts.empty() ? nullptr : contexts.back();
}

static bool is_default(cu_stream stream)
{
  return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

cu_result emulation::order(cu_stream stream, work job)
{
  if (!is_default(stream) && stream->owner && stream->owner != current())
    return INVALID_HANDLE;
  cu_stream_st *captured = is_default(stream) ? nullptr : stream->capturing();
  if (!captured) {
    turn mine;
    return job();
  }
  stream->captured.push_back(std::move(job));
  return SUCCESS;
}

/* ---- the device ---- */

cu_result cuInit(unsigned)
{
  return SUCCESS;
}

cu_result cuDriverGetVersion(int *version)
{
  *version = 13000;
  return SUCCESS;
}

cu_result cuGetErrorName(cu_result result, const char **name)
{
  *name = result == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
  return SUCCESS;
}

cu_result cuGetErrorString(cu_result result, const char **text)
{
  *text = result == LAUNCH_FAILED    ? problem.c_str()
          : result == OUT_OF_MEMORY  ? "out of memory"
          : result == INVALID_HANDLE ? "a stream of another context than the current one"
                                     : "invalid value";
  return SUCCESS;
}

/* They are one machine, whose kernels take turns. */
static int gpus()
{
  const char *text = getenv("HEADROOM_EMULATED_GPUS");
  const int asked = text && *text ? atoi(text) : 1;
  return asked < 1 ? 1 : asked > GPUS_MAX ? GPUS_MAX : asked;
}

cu_result cuDeviceGetCount(int *count)
{
  *count = gpus();
  return SUCCESS;
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
  *device = ordinal;
  return ordinal >= 0 && ordinal < gpus() ? SUCCESS : INVALID_VALUE;
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device, cu_device)
{
  *can = 1;
  return SUCCESS;
}

cu_result cuDeviceGetName(char *name, int size, cu_device)
{
  snprintf(name, (size_t)size, "emulated GPU");
  return SUCCESS;
}

static int capability()
{
  const char *text = getenv("HEADROOM_EMULATED_CAPABILITY");
  return text && *text ? atoi(text) : 90;
}

/* Shared memory by compute capability, from the CUDA programming guide. */
static int shared_max()
{
  switch (capability()) {
  case 80:
  case 87: return 163 << 10;
  case 86:
  case 89:
  case 120: return 99 << 10;
  default: return 227 << 10;
  }
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device)
{
  switch (attribute) {
  case CU_MAX_SHARED_OPTIN: *value = shared_max(); break;
  case CU_CLOCK_KHZ: *value = 1000000; break;
  case CU_MULTIPROCESSORS: *value = MULTIPROCESSORS; break;
  case CU_MEMORY_CLOCK_KHZ: *value = 1000000; break;
  case CU_MEMORY_BUS_BITS: *value = 64; break;
  case CU_L2_BYTES: *value = 1 << 20; break;
  case CU_CAPABILITY_MAJOR: *value = capability() / 10; break;
  case CU_CAPABILITY_MINOR: *value = capability() % 10; break;
  case CU_SHARED_BYTES: *value = shared_max() + 1024; break;
  default: return INVALID_VALUE;
  }
  return SUCCESS;
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device)
{
  *bytes = MEMORY_BYTES;
  return SUCCESS;
}

cu_result cuDeviceGetPCIBusId(char *id, int size, cu_device)
{
  snprintf(id, (size_t)size, "0000:00:00.0");
  return SUCCESS;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *retained, cu_device device)
{
  primaries[device].device = device;
  *retained = &primaries[device];
  return SUCCESS;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device)
{
  return SUCCESS;
}

/* Tests make a context of their own by these two, which the backend does not use. */
extern "C" cu_result cuCtxCreate_v2(cu_context *made, unsigned, cu_device)
{
  *made = new cu_context_st();
  contexts.push_back(*made);
  return SUCCESS;
}

extern "C" cu_result cuCtxDestroy_v2(cu_context context)
{
  if (current() == context)
    contexts.pop_back();
  delete context;
  return SUCCESS;
}

extern "C" cu_result cuCtxGetCurrent(cu_context *context)
{
  *context = current();
  return SUCCESS;
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
  contexts.push_back(context);
  return SUCCESS;
}

cu_result cuCtxPopCurrent_v2(cu_context *popped)
{
  if (contexts.empty())
    return INVALID_CONTEXT;
  *popped = contexts.back();
  contexts.pop_back();
  return SUCCESS;
}

cu_result cuCtxGetDevice(cu_device *device)
{
  *device = current() ? current()->device : 0;
  return current() ? SUCCESS : INVALID_CONTEXT;
}

cu_result cuCtxEnablePeerAccess(cu_context peer, unsigned)
{
  return peer != current() ? SUCCESS : INVALID_VALUE;
}

/* ---- memory ---- */

cu_result cuMemGetInfo_v2(size_t *available, size_t *total)
{
  turn mine;
  *total = MEMORY_BYTES;
  *available = MEMORY_BYTES - memory_used();
  return SUCCESS;
}

cu_result cuMemAlloc_v2(cu_address *address, size_t bytes)
{
  turn mine;
  if (bytes == 0)
    return INVALID_VALUE;
  *address = (cu_address)memory_allocate(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}

cu_result cuMemFree_v2(cu_address address)
{
  turn mine;
  return !address || memory_free((void *)address) ? SUCCESS : INVALID_VALUE;
}

/* The host's memory is the device's. */
cu_result cuMemHostAlloc(void **address, size_t bytes, unsigned)
{
  cu_address on_device;
  const cu_result result = cuMemAlloc_v2(&on_device, bytes);
  if (result == SUCCESS)
    *address = (void *)on_device;
  return result;
}

cu_result cuMemHostGetDevicePointer_v2(cu_address *on_device, void *address, unsigned)
{
  *on_device = (cu_address)address;
  return SUCCESS;
}

cu_result cuMemFreeHost(void *address)
{
  return cuMemFree_v2((cu_address)address);
}

/* A process alone has no others to show its memory to. */
cu_result cuIpcGetMemHandle(cu_ipc_handle *, cu_address)
{
  return INVALID_VALUE;
}

cu_result cuIpcOpenMemHandle_v2(cu_address *, cu_ipc_handle, unsigned)
{
  return INVALID_VALUE;
}

cu_result cuIpcCloseMemHandle(cu_address)
{
  return INVALID_VALUE;
}

cu_result cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, cu_stream stream)
{
  turn mine;
  if (!memory_holds((void *)to, bytes))
    return INVALID_VALUE;
  return order(stream, [=] { return memcpy((void *)to, from, bytes), SUCCESS; });
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, cu_stream stream)
{
  turn mine;
  if (!memory_holds((void *)from, bytes))
    return INVALID_VALUE;
  return order(stream, [=] { return memcpy(to, (void *)from, bytes), SUCCESS; });
}

cu_result cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream stream)
{
  turn mine;
  if (!memory_holds((void *)to, bytes) || !memory_holds((void *)from, bytes))
    return INVALID_VALUE;
  return order(stream, [=] { return memmove((void *)to, (void *)from, bytes), SUCCESS; });
}

cu_result cuMemsetD8Async(cu_address to, unsigned char value, size_t bytes, cu_stream stream)
{
  turn mine;
  if (!memory_holds((void *)to, bytes))
    return INVALID_VALUE;
  return order(stream, [=] { return memset((void *)to, value, bytes), SUCCESS; });
}

/* ---- streams, graphs, events: all work is synchronous, and no time is measured ---- */

cu_result cuStreamCreate(cu_stream *stream, unsigned)
{
  *stream = new cu_stream_st();
  (*stream)->owner = current();
  return SUCCESS;
}

cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
  *least = 0;
  *greatest = -5;
  return SUCCESS;
}

cu_result cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int)
{
  return cuStreamCreate(stream, flags);
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
  delete stream;
  return SUCCESS;
}

cu_result cuStreamGetCtx(cu_stream stream, cu_context *context)
{
  *context = is_default(stream) ? current() : stream->owner;
  return *context ? SUCCESS : INVALID_CONTEXT;
}

cu_result cuStreamSynchronize(cu_stream stream)
{
  return !is_default(stream) && stream->capturing() ? CAPTURE_UNSUPPORTED : SUCCESS;
}

cu_result cuCtxSynchronize()
{
  return SUCCESS;
}

cu_result cuStreamBeginCapture_v2(cu_stream stream, int)
{
  if (is_default(stream))
    return CAPTURE_UNSUPPORTED;
  stream->captures = true;
  stream->capture++;
  stream->others.clear();
  stream->captured.clear();
  return SUCCESS;
}

cu_result cuStreamEndCapture(cu_stream stream, cu_graph *graph)
{
  stream->captures = false;
  for (const cu_stream_st *other : stream->others) {
    if (other->awaited < other->captured.size())
      return CAPTURE_UNJOINED;
  }
  *graph = new cu_graph_st{std::move(stream->captured)};
  stream->captured.clear();
  return SUCCESS;
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *executable, cu_graph graph, unsigned long long)
{
  *executable = new cu_graph_exec_st{graph->nodes};
  return SUCCESS;
}

cu_result cuGraphLaunch(cu_graph_exec executable, cu_stream)
{
  for (const auto &node : executable->nodes) {
    turn mine;
    cu_result result = node();
    if (result != SUCCESS)
      return result;
  }
  return SUCCESS;
}

cu_result cuGraphDestroy(cu_graph graph)
{
  delete graph;
  return SUCCESS;
}

cu_result cuGraphExecDestroy(cu_graph_exec executable)
{
  delete executable;
  return SUCCESS;
}

cu_result cuEventCreate(cu_event *event, unsigned)
{
  *event = new cu_event_st();
  return SUCCESS;
}

cu_result cuEventDestroy_v2(cu_event event)
{
  delete event;
  return SUCCESS;
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
  cu_stream_st *origin = is_default(stream) ? nullptr : stream->capturing();
  *event = {stream, origin, origin ? origin->capture : 0, origin ? stream->captured.size() : 0};
  return SUCCESS;
}

/* A stream that waits for an event of a capture takes part in it from there on. What it has comes as late as it may:
 * where the first stream waits for it. */
cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned)
{
  if (is_default(stream) || !event->origin || !event->origin->captures || event->origin->capture != event->capture)
    return SUCCESS;
  if (event->of == event->origin && !stream->capturing()) {
    stream->joined = event->origin;
    stream->joined_number = event->capture;
    stream->captured.clear();
    stream->awaited = 0;
    event->origin->others.push_back(stream);
  }
  if (stream == event->origin && event->of != event->origin) {
    for (cu_stream_st *late = event->of; late->awaited < event->place; late->awaited++)
      stream->captured.push_back(late->captured[late->awaited]);
  }
  return SUCCESS;
}

cu_result cuEventRecordWithFlags(cu_event, cu_stream, unsigned)
{
  return SUCCESS;
}

cu_result cuEventSynchronize(cu_event)
{
  return SUCCESS;
}

cu_result cuEventQuery(cu_event)
{
  return SUCCESS;
}

cu_result cuStreamIsCapturing(cu_stream stream, int *status)
{
  *status = !is_default(stream) && stream->capturing();
  return SUCCESS;
}

cu_result cuEventElapsedTime(float *ms, cu_event, cu_event)
{
  *ms = 1;
  return SUCCESS;
}

/* ---- modules and launches ---- */

/* Loads the image from a temporary file, which is deleted right after loading. */
static void *load_library(const char *library, size_t bytes)
{
  char path[] = "/tmp/headroom-emulation-XXXXXX";
  int file = mkstemp(path);
  void *handle = nullptr;
  if (file < 0)
    return nullptr;
  if (write(file, library, bytes) == (ssize_t)bytes)
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fprintf(stderr, "emulation: %s\n", dlerror());
  close(file);
  unlink(path);
  return handle;
}

cu_result cuModuleLoadData(cu_module *module, const void *image)
{
  turn mine;
  const image_header *header = (const image_header *)image;
  if (header->magic != IMAGE_MAGIC)
    return INVALID_IMAGE;
  reserved_bytes = 0;
  void *handle = load_library((const char *)(header + 1), header->bytes);
  if (!handle)
    return INVALID_IMAGE;
  *module = new cu_module_st{handle, reserved_bytes, {}};
  return SUCCESS;
}

cu_result cuModuleUnload(cu_module module)
{
  turn mine;
  for (cu_function function : module->functions)
    delete function;
  dlclose(module->handle);
  delete module;
  return SUCCESS;
}

/* A name has one function, as with the driver. */
cu_result cuModuleGetFunction(cu_function *function, cu_module module, const char *name)
{
  turn mine;
  for (cu_function known : module->functions) {
    if (strcmp(known->program->name, name) == 0) {
      *function = known;
      return SUCCESS;
    }
  }
  const kernel *list = (const kernel *)dlsym(module->handle, "emulation_kernels");
  for (; list && list->name; list++) {
    if (strcmp(list->name, name) == 0) {
      *function = new cu_function_st{list, module->static_bytes, SHARED_USUAL};
      module->functions.push_back(*function);
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}

cu_result cuFuncGetAttribute(int *value, int attribute, cu_function function)
{
  turn mine;
  if (attribute != CU_FUNCTION_SHARED_MAX)
    return INVALID_VALUE;
  *value = (int)function->shared_max;
  return SUCCESS;
}

cu_result cuFuncSetAttribute(cu_function function, int attribute, int value)
{
  if (attribute == CU_FUNCTION_ANY_CLUSTER)
    return SUCCESS;
  if (attribute != CU_FUNCTION_SHARED_MAX || value < 0 || value > shared_max())
    return INVALID_VALUE;
  function->shared_max = (unsigned)value;
  return SUCCESS;
}

/* Returns the reason why the driver refuses a launch, or NULL. */
static const char *refusal(const cu_function_st &f, const launch &job)
{
  const dim3 &grid = job.grid, &size = job.size;
  const kernel &k = *f.program;
  unsigned threads = size.x * size.y * size.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0)
    return "an empty grid or block";
  if (grid.x > 0x7FFFFFFF || grid.y > 0xFFFF || grid.z > 0xFFFF)
    return "too large a grid";
  if (size.x > 1024 || size.y > 1024 || size.z > 64 || threads > 1024)
    return "too large a block";
  if (k.max_threads > 0 && threads > k.max_threads)
    return "more threads than the kernel's launch bounds";
  if (job.shared_bytes > f.shared_max || job.shared_bytes + job.static_bytes > (unsigned)shared_max())
    return "more shared memory than the function was allowed";
  if (grid.x % k.cluster[0] != 0 || grid.y % k.cluster[1] != 0 || grid.z % k.cluster[2] != 0)
    return "a grid that is not a multiple of the cluster";
  if (k.cluster[1] * k.cluster[2] != 1)
    return "the emulation supports only clusters along x";
  return nullptr;
}

static cu_result run(const cu_function_st &f, const launch &job)
{
  const char *refused = refusal(f, job);
  if (refused) {
    problem = std::string("kernel ") + f.program->name + ": " + refused;
    return LAUNCH_FAILED;
  }
  if (!run_grid(job)) {
    problem = the.problem;
    return LAUNCH_FAILED;
  }
  std::string damage = memory_damage();
  if (damage.empty())
    return SUCCESS;
  problem = std::string("kernel ") + f.program->name + " " + damage;
  return LAUNCH_FAILED;
}

/* A captured launch keeps the values of its arguments. */
struct copied_arguments {
  std::vector<void *> addresses;

  copied_arguments(const unsigned *sizes, void **arguments)
  {
    for (size_t i = 0; sizes[i]; i++) {
      addresses.push_back(aligned_alloc(64, (sizes[i] + 63) / 64 * 64)); /* as tensor maps are */
      memcpy(addresses[i], arguments[i], sizes[i]);
    }
  }
  ~copied_arguments()
  {
    for (void *address : addresses)
      free(address);
  }
  copied_arguments(const copied_arguments &) = delete;
};

static cu_result queue_launch(cu_function function, const launch &job, cu_stream stream)
{
  if (is_default(stream) || !stream->capturing())
    return order(stream, [=] { return run(*function, job); });
  auto copied = std::make_shared<copied_arguments>(function->program->sizes, job.arguments);
  return order(stream, [=] {
    launch replay = job;
    replay.arguments = copied->addresses.data();
    return run(*function, replay);
  });
}

cu_result cuLaunchKernel(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream, void **arguments,
                         void **)
{
  launch job = {function->program,
                {grid_x, grid_y, grid_z},
                {block_x, block_y, block_z},
                shared_bytes,
                function->static_bytes,
                arguments,
                false};
  return queue_launch(function, job, stream);
}

cu_result cuLaunchKernelEx(const cu_launch_config *config, cu_function function, void **arguments, void **)
{
  const unsigned *grid = config->grid, *size = config->block;
  launch job = {function->program,
                {grid[0], grid[1], grid[2]},
                {size[0], size[1], size[2]},
                config->shared_bytes,
                function->static_bytes,
                arguments,
                false};
  for (unsigned i = 0; i < config->attribute_count; i++)
    job.early |= config->attributes[i].id == CU_PROGRAMMATIC_SERIALIZATION &&
                 config->attributes[i].value.programmatic_serialization;
  return queue_launch(function, job, config->stream);
}

/* ---- tensor maps ---- */

cu_result cuTensorMapEncodeTiled(cu_tensor_map *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                 const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                                 int swizzle, int, int)
{
  if (!current())
    return INVALID_CONTEXT;
  const char *refused = describe_tensor(map, type, rank, address, dims, strides, box, steps, interleave, swizzle);
  if (!refused)
    return SUCCESS;
  problem = refused;
  return LAUNCH_FAILED;
}
