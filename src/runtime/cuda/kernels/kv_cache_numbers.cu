/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the host, passed as a parameter, to memory: page tables, lengths. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/kv_cache_layout.h"

extern "C" __global__ void put_numbers(hr_put_numbers put)
{
  for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < put.count; i += (int)(gridDim.x * blockDim.x))
    put.to[i] = put.numbers[i];
}
