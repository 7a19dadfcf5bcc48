/* SPDX-License-Identifier: Apache-2.0 */
/* Measured ceilings of the CPU: instruction rates, 2^x, memory reads and copies. */
#ifndef HR_RUNTIME_CPU_CEILINGS_CEILINGS_H
#define HR_RUNTIME_CPU_CEILINGS_CEILINGS_H

#include "hardware/hardware.h"
#include "runtime/cpu/ceilings/loops.h"
#include "runtime/cpu/host/host.h"

/** Bytes per second, read plus written, of a copy by all threads. */
hr_status hr_cpu_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error);

/** Bytes per second that `threads` threads read. */
hr_status hr_cpu_read_rate(hr_device *device, hr_read_loop read, int threads, double *bytes_per_s, hr_error *error);

#define HR_CPU_ROUNDS_MAX 24

/** Operations per second of a loop on `threads` threads at once: the best of `rounds` rounds of 1.5 ms, because other
 *  programs may have had a core in the rest. */
hr_status hr_cpu_time_loop(const hr_cpu *cpu, const hr_cpu_loop *loop, int threads, int rounds, double *per_s,
                           hr_error *error);

/** hr_backend.measure_ceilings. */
hr_status hr_cpu_measure_ceilings(hr_device *device, const hr_progress_range *range, hr_ceiling *ceilings,
                                  size_t *count, hr_error *error);

#endif
