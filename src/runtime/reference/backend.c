/* SPDX-License-Identifier: Apache-2.0 */
/* The reference as a device: plain C on the host, one thread, every dtype. It is for checking results and has no rates
 * for predictions. */
#include "base/error.h"
#include "runtime/device/host.h"
#include "runtime/device/kv_cache.h"

static hr_status open_reference(hr_device *device, hr_error *error)
{
  (void)error;
  device->threads = 1;
  return HR_OK;
}

static void close_reference(hr_device *device)
{
  (void)device;
}

static bool has(const hr_device *device, const char *need)
{
  (void)device;
  (void)need;
  return false;
}

static hr_status detect(const hr_device *device, hr_hardware *hardware, hr_error *error)
{
  (void)hardware;
  return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: is for checking results and has no rates; see cpu", device->name);
}

const hr_backend hr_backend_reference = {
    .name = "reference",
    .open = open_reference,
    .close = close_reference,
    .has = has,
    .detect = detect,
    .waited_ns = hr_host_waited_ns,
    .memory_available = hr_host_device_memory,
    .allocate = hr_host_allocate,
    .release = hr_host_release,
    .write = hr_host_write,
    .read = hr_host_read,
    .append_tokens = hr_host_append_tokens,
};
