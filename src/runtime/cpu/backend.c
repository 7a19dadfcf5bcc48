/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: host memory, kernels of its own and oneDNN's GEMMs, topology from the system. */
#include "base/error.h"
#include "runtime/cpu/ceilings/ceilings.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/gemv/q8.h"
#include "runtime/cpu/onednn/engine.h"
#include "runtime/device/host.h"
#include "runtime/device/kv_cache.h"

#include <stdlib.h>
#include <string.h>

static void close_cpu(hr_device *device)
{
  hr_cpu *cpu = device->state;
  hr_onednn_close(cpu->onednn);
  hr_cpu_close(cpu);
  free(cpu);
}

static hr_status open_cpu(hr_device *device, hr_error *error)
{
  hr_cpu *cpu = calloc(1, sizeof *cpu);
  if (!cpu)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "cpu: not enough memory to open it");
  device->state = cpu;
  hr_status status = hr_cpu_open(device, cpu, error);
  hr_onednn *onednn;
  if (status == HR_OK && hr_onednn_named_file()) /* or else the first plan that asks for oneDNN opens it */
    status = hr_onednn_of(device, &onednn, error);
  if (status != HR_OK)
    close_cpu(device);
  return status;
}

static bool has(const hr_device *device, const char *need)
{
  hr_onednn *onednn;
  if (strcmp(need, "onednn") != 0)
    return hr_isa_has(&hr_cpu_of(device)->isa, need);
  return hr_onednn_of(device, &onednn, NULL) != HR_OK || onednn; /* the plan reports the error */
}

/* With several NUMA nodes, pages are interleaved over the nodes of the cores in use. */
static hr_status allocate(hr_device *device, size_t bytes, void **data, hr_error *error)
{
  const hr_cpu *cpu = hr_cpu_of(device);
  HR_TRY(hr_host_allocate(device, bytes, data, error));
  if (cpu->affinity.interleaved)
    hr_affinity_interleave(&cpu->affinity, *data, bytes);
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
    .append_tokens = hr_host_append_tokens,
    .multiply_q8 = hr_cpu_multiply_q8,
    .widen_q8 = hr_cpu_widen_q8,
};
