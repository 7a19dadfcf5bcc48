/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/points/limits.h"

#include "hardware/hardware.h"

#include <math.h>

#define CPU_CORE_FLOPS 2e9
#define CPU_BYTES 2e8
#define MEMORY_SHARE 16 /* of the device's memory, one set of operands */

bool hr_point_keeps_limits(const hr_hardware *hardware, const hr_point *point, double gpu_most_s)
{
  const bool gpu = hardware->about.kind == HR_HARDWARE_GPU;
  const bool attends = point->kind == HR_INTERVAL_ATTENTION || point->kind == HR_INTERVAL_DECODE;
  int64_t flops, bytes;
  hr_status counted = attends ? hr_attention_flops(&point->attention, &flops) : hr_gemm_flops(&point->gemm, &flops);
  if (counted == HR_OK)
    counted = attends ? hr_attention_bytes(&point->attention, &bytes) : hr_gemm_bytes(&point->gemm, &bytes);
  if (counted != HR_OK)
    return false;
  hr_dtype dtype = attends ? point->attention.dtype : point->gemm.dtype;
  double flops_max =
      gpu ? hardware->dense_flops_per_s[dtype] * gpu_most_s : CPU_CORE_FLOPS * (double)hardware->multiprocessors;
  double bytes_max = gpu ? hardware->bandwidth_bytes_per_s * gpu_most_s : CPU_BYTES;
  return (double)flops <= flops_max && (double)bytes <= fmin(bytes_max, (double)hardware->memory_bytes / MEMORY_SHARE);
}
