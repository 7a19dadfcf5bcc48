/* The CPU as a device: memory of the host, kernels of oneDNN, described by CPUID and hwloc. */
#include "base/error.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device/host.h"

#include <stdlib.h>
#include <string.h>

/* A core of the affinity mask each, but no more than the control group's quota of processor time. */
static int usable_threads(const hr_topology *topology)
{
  int quota = hr_host_cpu_quota();
  return quota > 0 && quota < topology->cores ? quota : topology->cores;
}

static void close_cpu(hr_device *device)
{
  hr_cpu *cpu = device->state;
  hr_team_free(cpu->team);
  pthread_mutex_destroy(&cpu->team_lock);
  hr_onednn_close(cpu->onednn);
  hr_placement_free(&cpu->placement);
  hr_topology_free(&cpu->topology);
  free(cpu);
}

static hr_status open_cpu(hr_device *device, hr_error *error)
{
  hr_cpu *cpu = calloc(1, sizeof *cpu);
  if (!cpu)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: no memory to open it");
  pthread_mutex_init(&cpu->team_lock, NULL);
  hr_status status = hr_isa_read(&cpu->isa, error);
  if (status == HR_OK)
    status = hr_topology_read(&cpu->topology, error);
  if (status == HR_OK && device->threads > cpu->topology.processors)
    status = hr_fail(error, HR_ERROR_INVALID, "threads: %d, but this process may use %d processors", device->threads,
                     cpu->topology.processors);
  if (status == HR_OK) {
    if (device->parts > 1)
      device->threads = hr_topology_take_part(&cpu->topology, device->part, device->parts);
    else if (device->threads == 0)
      device->threads = usable_threads(&cpu->topology);
    device->cache_bytes = (size_t)cpu->topology.cache_bytes;
    status = hr_placement_make(&cpu->topology, device->threads, &cpu->placement, error);
  }
  if (status == HR_OK)
    status = hr_onednn_open(&cpu->isa, &cpu->placement, &cpu->onednn, error);
  if (status == HR_OK && cpu->onednn && !hr_onednn_binds(cpu->onednn))
    hr_placement_give_up(&cpu->placement, "this OpenMP library offers no regions");
  device->state = cpu;
  if (status != HR_OK)
    close_cpu(device);
  return status;
}

hr_status hr_cpu_team(hr_device *device, hr_team **team, hr_error *error)
{
  hr_cpu *cpu = device->state;
  pthread_mutex_lock(&cpu->team_lock);
  hr_status status = cpu->team ? HR_OK : hr_team_create(device->threads, &cpu->placement, &cpu->team, error);
  *team = cpu->team;
  pthread_mutex_unlock(&cpu->team_lock);
  return status;
}

static bool has(const hr_device *device, const char *need)
{
  const hr_cpu *cpu = device->state;
  return strcmp(need, "onednn") == 0 ? cpu->onednn != NULL : hr_isa_has(&cpu->isa, need);
}

/* On machines with several memory nodes pages go round those of the cores in use. */
static hr_status allocate(hr_device *device, size_t bytes, void **data, hr_error *error)
{
  const hr_cpu *cpu = device->state;
  HR_TRY(hr_host_allocate(device, bytes, data, error));
  if (cpu->placement.interleaved)
    hr_placement_interleave(&cpu->placement, *data, bytes);
  return HR_OK;
}

const hr_backend hr_backend_cpu = {
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .has = has,
    .detect = hr_cpu_detect,
    .copy_rate = hr_cpu_copy_rate,
    .measure_ceilings = hr_cpu_measure_ceilings,
    .waited_ns = hr_host_waited_ns,
    .memory_available = hr_host_device_memory,
    .allocate = allocate,
    .release = hr_host_release,
    .write = hr_host_write,
    .read = hr_host_read,
};
