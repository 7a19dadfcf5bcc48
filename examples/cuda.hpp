/* SPDX-License-Identifier: Apache-2.0 */
/* What both CUDA programs need: errors as exceptions, streams and memory that free themselves. */
#ifndef EXAMPLES_CUDA_HPP
#define EXAMPLES_CUDA_HPP

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <headroom/plan.h>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

static hr_error error; /* of the last call that failed */

static inline void check(hr_status status)
{
  if (status != HR_OK)
    throw std::runtime_error(error.message);
}

static inline void check(cudaError_t result)
{
  if (result != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(result));
}

template <auto FREE> struct frees {
  template <class T> void operator()(T *held) const
  {
    FREE(held);
  }
};
template <class T, auto FREE> using owned = std::unique_ptr<T, frees<FREE>>;
using memory = owned<char, cudaFree>;
using stream_handle = owned<CUstream_st, cudaStreamDestroy>;
using device_handle = owned<hr_device, hr_device_close>;
using plan_handle = owned<hr_plan, hr_plan_free>;

static inline stream_handle make_stream()
{
  cudaStream_t made;
  check(cudaStreamCreate(&made));
  return stream_handle(made);
}

static inline memory allocate(size_t bytes)
{
  void *made;
  check(cudaMalloc(&made, bytes));
  return memory(static_cast<char *>(made));
}

/* bf16 numbers from 0.5 to 1 of either sign. */
static inline memory make_numbers(size_t count)
{
  static std::mt19937 random;
  std::vector<uint16_t> numbers(count);
  for (uint16_t &number : numbers)
    number = static_cast<uint16_t>(0x3F00 | (random() & 0x807F));
  memory made = allocate(count * sizeof(uint16_t));
  check(cudaMemcpy(made.get(), numbers.data(), count * sizeof(uint16_t), cudaMemcpyHostToDevice));
  return made;
}

static inline std::vector<uint16_t> read_numbers(const memory &from, size_t count)
{
  std::vector<uint16_t> numbers(count);
  check(cudaMemcpy(numbers.data(), from.get(), count * sizeof(uint16_t), cudaMemcpyDeviceToHost));
  return numbers;
}

static inline device_handle open_device()
{
  hr_device *made;
  check(hr_device_open("cuda:0", 0, &made, &error)); /* in the context of the CUDA runtime */
  return device_handle(made);
}

/* Memory of the program is a workspace once its counters are 0. */
static inline memory make_workspace(hr_device *device, const plan_handle &plan, cudaStream_t stream)
{
  memory made = allocate(hr_plan_workspace_bytes(plan.get()) + HR_WORKSPACE_COUNTER_BYTES);
  check(hr_workspace_clear(device, made.get(), stream, &error));
  return made;
}

/* The body of main(): 0 if `run` is true, 1 if it is false or a call failed. */
static inline int status_of(bool (*run)())
{
  try {
    return run() ? 0 : 1;
  } catch (const std::exception &e) {
    fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

#endif
