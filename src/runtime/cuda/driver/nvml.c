/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/nvml.h"

#include "base/error.h"
#include "runtime/device/library.h"

static const hr_library_source source = {
    .title = "NVML",
    .files = {"libnvidia-ml.so.1"},
    .how_to_get = "it comes with the driver; without it clocks, throttling and energy are not monitored",
};

static const hr_symbol symbols[] = {
#define HR_NVML_SYMBOL(name, parameters) {#name, offsetof(hr_nvml, name)},
    HR_NVML_LIST(HR_NVML_SYMBOL)};

static const hr_symbol optional_symbols[] = {HR_NVML_OPTIONAL_LIST(HR_NVML_SYMBOL)
#undef HR_NVML_SYMBOL
};

hr_status hr_nvml_open(hr_nvml *nvml, hr_error *error)
{
  *nvml = (hr_nvml){.handle = NULL};
  HR_TRY(hr_library_open(&source, symbols, sizeof symbols / sizeof *symbols, nvml, &nvml->handle, error));
  hr_library_find(nvml->handle, optional_symbols, sizeof optional_symbols / sizeof *optional_symbols, nvml);
  nvml_result result = nvml->nvmlInit_v2();
  if (result != NVML_SUCCESS) {
    hr_library_close(nvml->handle);
    nvml->handle = NULL;
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "nvmlInit_v2: error %d", result);
  }
  if (nvml->nvmlSystemGetDriverVersion(nvml->driver_version, sizeof nvml->driver_version) != NVML_SUCCESS)
    nvml->driver_version[0] = '\0';
  return HR_OK;
}

void hr_nvml_close(hr_nvml *nvml)
{
  if (!nvml->handle)
    return;
  nvml->nvmlShutdown();
  hr_library_close(nvml->handle);
  nvml->handle = NULL;
}
