/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/host/host.h"

#include "base/error.h"
#include "runtime/device/host.h"

/* One thread for each core in the affinity mask, but no more than the control group's quota of processor time. */
static int usable_threads(const hr_topology *topology)
{
  int quota = hr_host_cpu_quota();
  return quota > 0 && quota < topology->cores ? quota : topology->cores;
}

hr_status hr_cpu_open(hr_device *device, hr_cpu *cpu, hr_error *error)
{
  pthread_mutex_init(&cpu->lock, NULL);
  HR_TRY(hr_isa_read(&cpu->isa, error));
  HR_TRY(hr_topology_read(&cpu->topology, error));
  if (device->threads > cpu->topology.processors)
    return hr_fail(error, HR_ERROR_INVALID, "threads: %d, but this process may use %d processors", device->threads,
                   cpu->topology.processors);
  if (device->parts > 1)
    device->threads = hr_topology_take_part(&cpu->topology, device->part, device->parts);
  else if (device->threads == 0)
    device->threads = usable_threads(&cpu->topology);
  device->cache_bytes = (size_t)cpu->topology.cache_bytes;
  return hr_affinity_choose(&cpu->topology, device->threads, &cpu->affinity, error);
}

void hr_cpu_close(hr_cpu *cpu)
{
  hr_thread_pool_free(cpu->pool);
  pthread_mutex_destroy(&cpu->lock);
  hr_affinity_free(&cpu->affinity);
  hr_topology_free(&cpu->topology);
}

hr_status hr_cpu_thread_pool(hr_device *device, hr_thread_pool **pool, hr_error *error)
{
  hr_cpu *cpu = device->state;
  pthread_mutex_lock(&cpu->lock);
  hr_status status = cpu->pool ? HR_OK : hr_thread_pool_create(device->threads, &cpu->affinity, &cpu->pool, error);
  *pool = cpu->pool;
  pthread_mutex_unlock(&cpu->lock);
  return status;
}
