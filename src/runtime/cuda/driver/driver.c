/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/driver.h"

#include "base/error.h"
#include "runtime/device/library.h"

static const hr_library_source source = {
    .title = "the NVIDIA driver",
    .files = {"libcuda.so.1"},
    .how_to_get = "install the driver of the machine's GPU; in a container, start it with GPU access",
};

static const hr_symbol symbols[] = {
#define HR_DRIVER_SYMBOL(name, parameters) {#name, offsetof(hr_driver, name)},
    HR_DRIVER_LIST(HR_DRIVER_SYMBOL)
#undef HR_DRIVER_SYMBOL
};

static const hr_symbol newer_symbols[] = {
#define HR_DRIVER_SYMBOL(name, parameters) {#name, offsetof(hr_driver, name)},
    HR_DRIVER_NEWER_LIST(HR_DRIVER_SYMBOL)
#undef HR_DRIVER_SYMBOL
};

hr_status hr_driver_check(const hr_driver *driver, cu_result result, const char *call, hr_error *error)
{
  if (result == CU_SUCCESS)
    return HR_OK;
  const char *name = NULL, *text = NULL;
  driver->cuGetErrorName(result, &name);
  driver->cuGetErrorString(result, &text);
  hr_status status = result == CU_ERROR_OUT_OF_MEMORY ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_BACKEND;
  return hr_fail(error, status, "%s: %s (%s, %d)", call, text ? text : "failed", name ? name : "unknown", result);
}

static hr_status initialise(hr_driver *driver, hr_error *error)
{
  cu_result result = driver->cuInit(0);
  if (result == CU_ERROR_NO_DEVICE)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "the NVIDIA driver sees no GPU here (cuInit)");
  hr_error reason = {.message = ""};
  if (hr_driver_check(driver, result, "cuInit", &reason) != HR_OK)
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s", reason.message);
  return HR_CU(driver, cuDriverGetVersion, (&driver->version), error);
}

hr_status hr_driver_open(hr_driver *driver, hr_error *error)
{
  *driver = (hr_driver){.handle = NULL};
  HR_TRY(hr_library_open(&source, symbols, sizeof symbols / sizeof *symbols, driver, &driver->handle, error));
  hr_library_find(driver->handle, newer_symbols, sizeof newer_symbols / sizeof *newer_symbols, driver);
  hr_status status = initialise(driver, error);
  if (status != HR_OK)
    hr_driver_close(driver);
  return status;
}

void hr_driver_close(hr_driver *driver)
{
  hr_library_close(driver->handle);
  driver->handle = NULL;
}
