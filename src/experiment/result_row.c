/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a result in the store: its device, the device's rates, and a measurement. */
#include <headroom/experimental/store.h>

#include "base/names.h"
#include "hardware/hardware.h"
#include "runtime/device/device.h"

#include <headroom/experimental/hardware.h>
#include <math.h>
#include <string.h>

static const hr_library *find_library(const hr_library *libraries, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++) {
    if (libraries[i].status == HR_OK && strcmp(libraries[i].name, name) == 0)
      return &libraries[i];
  }
  return NULL;
}

/* Writes "cuBLASLt 12.4.5, NVRTC 12.4". NVML reports the driver's version. */
static void name_libraries(hr_result *result, const char *device)
{
  hr_library libraries[HR_LIBRARIES_MAX];
  size_t count, used = 0;
  hr_libraries(device, libraries, &count);
  const hr_library *watch = find_library(libraries, count, "NVML");
  const hr_library *driver = watch ? watch : find_library(libraries, count, "NVIDIA driver");
  result->driver[0] = result->libraries[0] = '\0';
  if (driver)
    hr_copy_text(result->driver, sizeof result->driver, driver->version);
  for (size_t i = 0; i < count; i++) {
    const hr_library *library = &libraries[i];
    bool drives = strcmp(library->name, "NVML") == 0 || strcmp(library->name, "NVIDIA driver") == 0;
    if (library->status != HR_OK || drives)
      continue;
    int length = snprintf(result->libraries + used, sizeof result->libraries - used, "%s%s %s", used > 0 ? ", " : "",
                          library->name, library->version);
    used += length > 0 ? (size_t)length : 0;
    if (used >= sizeof result->libraries)
      return; /* does not fit */
  }
}

void hr_result_set_device(hr_result *result, const hr_device *device, const hr_hardware *hardware)
{
  bool gpu = hardware->about.kind == HR_HARDWARE_GPU;
  hr_copy_text(result->device, sizeof result->device, hr_device_name(device));
  hr_copy_text(result->product, sizeof result->product, hardware->about.product);
  result->threads = gpu ? 0 : device->threads;
  name_libraries(result, device->backend->name);
}

static hr_dtype dtype_of(const hr_result *result)
{
  switch (result->kind) {
  case HR_RESULT_GEMM: return result->gemm.dtype;
  case HR_RESULT_DECODE: return result->decode.dtype;
  default: return result->attention.dtype;
  }
}

void hr_result_set_measurement(hr_result *result, const hr_measurement *measurement, const hr_hardware *hardware)
{
  result->measurement = *measurement;
  result->library_share = result->ceiling_share = (double)NAN;
  if (!hardware || measurement->samples == 0 || result->kind == HR_RESULT_OTHER)
    return;
  hr_dtype dtype = dtype_of(result);
  result->ceiling_share = hr_hardware_ceiling_share(hardware, dtype, measurement->flops_per_s);
  if (hardware->about.calibration != HR_CALIBRATION_MEASURED)
    return;
  double best = hr_hardware_library_flops_per_s(hardware, dtype);
  if (best > 0)
    result->library_share = measurement->flops_per_s / best;
}
