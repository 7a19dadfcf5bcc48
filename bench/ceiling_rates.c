/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library for bench/attention_cpu_vs_torch.py: the rates of the ceiling loops in some milliseconds, so that
 * they are measured beside each call. hr_device_probe() takes seconds, for it measures memory too. */
#include "best_loop.h"
#include "runtime/cpu/host/host.h"
#include "runtime/device/device.h"

#include <headroom/experimental/headroom.h>
#include <stddef.h>

#define ROUNDS 3 /* of a loop, 1.5 ms each; the best counts */

__attribute__((visibility("default"))) int bench_ceiling_rates(int dtype, int threads, double rates[2]);

/** rates: FLOP/s of the format's best instruction, or of fp32's where it has none, and exponentials per second.
 *  HEADROOM_CPU_MASK counts. 0: measured. */
int bench_ceiling_rates(int dtype, int threads, double rates[2])
{
  static hr_device *device; /* stays open while the process lives */
  hr_error error;
  if (!device && hr_device_open("cpu", threads, &device, &error) != HR_OK)
    return 1;
  const hr_cpu *cpu = hr_cpu_of(device);
  const hr_cpu_loop *gemm = best_loop(cpu, HR_CEILING_GEMM, (hr_dtype)dtype);
  if (!gemm)
    gemm = best_loop(cpu, HR_CEILING_GEMM, HR_FP32);
  const hr_cpu_loop *exponentials = best_loop(cpu, HR_CEILING_EXP, HR_FP32);
  if (!gemm || !exponentials || hr_cpu_time_loop(cpu, gemm, threads, ROUNDS, &rates[0], &error) != HR_OK)
    return 1;
  return hr_cpu_time_loop(cpu, exponentials, threads, ROUNDS, &rates[1], &error) == HR_OK ? 0 : 1;
}
