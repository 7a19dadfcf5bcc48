/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/plan.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hr_device_close(hr_device *device)
{
  if (!device)
    return;
  device->backend->close(device);
  free(device);
}

const char *hr_device_name(const hr_device *device)
{
  return device->name;
}

hr_status hr_device_detect(const hr_device *device, hr_hardware *hardware, hr_error *error)
{
  HR_NEED(error, device, hardware);
  return device->backend->detect(device, hardware, error);
}

hr_status hr_progress_range_report(const hr_progress_range *range, double done, const char *what, hr_error *error)
{
  if (range->progress && range->progress(range->context, range->first + range->share * done, what) != 0)
    return hr_fail(error, HR_ERROR_INTERRUPTED, "stopped by the caller");
  return HR_OK;
}

size_t hr_device_memory_available(const hr_device *device)
{
  return device->backend->memory_available(device);
}

void *hr_device_stream(const hr_device *device)
{
  return device->backend->stream ? device->backend->stream(device) : NULL;
}

void hr_device_conditions(const hr_device *device, hr_conditions *conditions)
{
  double none = (double)NAN;
  *conditions = (hr_conditions){.clock_hz = none, .memory_clock_hz = none, .power_w = none, .temperature_c = none};
  if (device->backend->conditions)
    device->backend->conditions(device, conditions);
}

bool hr_has_word(const char *words, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    if (strcspn(at, " ") == length && strncmp(at, word, length) == 0)
      return true;
  }
  return false;
}
