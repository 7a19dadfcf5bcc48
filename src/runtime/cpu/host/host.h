/* SPDX-License-Identifier: Apache-2.0 */
/* An opened CPU: what its kernels share. */
#ifndef HR_RUNTIME_CPU_HOST_HOST_H
#define HR_RUNTIME_CPU_HOST_HOST_H

#include "runtime/cpu/host/affinity.h"
#include "runtime/cpu/host/isa.h"
#include "runtime/cpu/host/thread_pool.h"
#include "runtime/cpu/host/topology.h"
#include "runtime/device/device.h"

#include <pthread.h>

/** hr_device.state of the CPU. Immutable after open, except for oneDNN and the thread pool. */
typedef struct hr_cpu {
  hr_isa isa;
  hr_topology topology;
  hr_affinity affinity;
  pthread_mutex_t lock;     /* of what follows */
  bool asked_onednn;        /* hr_onednn_of() has succeeded */
  struct hr_onednn *onednn; /* closed by the backend; NULL where oneDNN is not installed */
  hr_thread_pool *pool;     /* NULL until the first call of hr_cpu_thread_pool() */
} hr_cpu;

static inline const hr_cpu *hr_cpu_of(const hr_device *device)
{
  return device->state;
}

/** Reads instruction sets and topology, sets device->threads and cache_bytes, and chooses each thread's affinity.
 *  HR_ERROR_INVALID for more threads than processors. *cpu must be zero before, and is closed by hr_cpu_close(), also
 *  after an error. */
hr_status hr_cpu_open(hr_device *device, hr_cpu *cpu, hr_error *error);
void hr_cpu_close(hr_cpu *cpu);

/** The device's thread pool of hr_device.threads threads. The first call creates it; it lives as long as the device.
 *  Thread-safe. */
hr_status hr_cpu_thread_pool(hr_device *device, hr_thread_pool **pool, hr_error *error);

#endif
