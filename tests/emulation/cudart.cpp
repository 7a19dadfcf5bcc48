/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime's calls of runtime/cuda_runtime.h over the emulated driver, in the primary context of device 0. */
#include "runtime/cuda_runtime.h"

#define _Alignas alignas
extern "C" {
#include "runtime/cuda/driver/driver.h"

#define DECLARE(name, parameters) cu_result name parameters;
HR_DRIVER_LIST(DECLARE)
#undef DECLARE
}

/* The primary context is current in each thread from its first call on. */
static void enter()
{
  static thread_local bool entered;
  cu_context context = nullptr;
  if (entered || cuDevicePrimaryCtxRetain(&context, 0) != CU_SUCCESS)
    return;
  entered = cuCtxPushCurrent_v2(context) == CU_SUCCESS;
}

static cudaError_t result_of(cu_result result)
{
  return (cudaError_t)result;
}

static cu_stream driver_stream(cudaStream_t stream)
{
  return (cu_stream)(void *)stream;
}

const char *cudaGetErrorString(cudaError_t result)
{
  const char *text = "";
  cuGetErrorString(result, &text);
  return text;
}

cudaError_t cudaMalloc(void **data, size_t bytes)
{
  enter();
  return result_of(cuMemAlloc_v2((cu_address *)data, bytes));
}

cudaError_t cudaFree(void *data)
{
  return result_of(cuMemFree_v2(hr_cuda_address(data)));
}

cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
  enter();
  return result_of(cuMemsetD8Async(hr_cuda_address(data), (unsigned char)value, bytes, nullptr));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  enter();
  const cu_stream on = driver_stream(stream);
  switch (kind) {
  case cudaMemcpyHostToDevice: return result_of(cuMemcpyHtoDAsync_v2(hr_cuda_address(to), from, bytes, on));
  case cudaMemcpyDeviceToHost: return result_of(cuMemcpyDtoHAsync_v2(to, hr_cuda_address(from), bytes, on));
  default: return result_of(cuMemcpyDtoDAsync_v2(hr_cuda_address(to), hr_cuda_address(from), bytes, on));
  }
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
  cudaError_t result = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return result == cudaSuccess ? cudaStreamSynchronize(nullptr) : result;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
  enter();
  return result_of(cuStreamCreate((cu_stream *)(void *)stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  return result_of(cuStreamDestroy_v2(driver_stream(stream)));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  return result_of(cuStreamSynchronize(driver_stream(stream)));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
  return result_of(cuStreamBeginCapture_v2(driver_stream(stream), mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
  return result_of(cuStreamEndCapture(driver_stream(stream), (cu_graph *)(void *)graph));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
  return result_of(cuGraphInstantiateWithFlags((cu_graph_exec *)(void *)executable, (cu_graph)(void *)graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
  enter();
  return result_of(cuGraphLaunch((cu_graph_exec)(void *)executable, driver_stream(stream)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  return result_of(cuGraphDestroy((cu_graph)(void *)graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
  return result_of(cuGraphExecDestroy((cu_graph_exec)(void *)executable));
}
