/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the host, passed as a parameter, to memory: page tables, lengths. */
#include "runtime/cuda/kernels/dtype.cuh"
#include "runtime/cuda/kernels/kv_cache_layout.h"

extern "C" __global__ void put_numbers(const hr_put_numbers put)
{
  for (int range = 0; range < put.count; range++) {
    const int begin = range > 0 ? put.ends[range - 1] : 0;
    for (int i = begin + (int)threadIdx.x; i < put.ends[range]; i += (int)blockDim.x)
      put.to[range][i - begin] = put.numbers[i];
  }
}
