/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver/nvrtc.h"

#include "base/error.h"
#include "runtime/device/library.h"

static const hr_library_source source = {
    .title = "NVRTC",
    .files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so",
              "/usr/local/cuda/lib64/libnvrtc.so"},
    .how_to_get = "install the CUDA toolkit's libnvrtc, or add the folder that has it (such as nvidia/cu13/lib or "
                  "nvidia/cuda_nvrtc/lib of a Python environment) to LD_LIBRARY_PATH",
};

static const hr_symbol symbols[] = {{"nvrtcGetErrorString", offsetof(hr_nvrtc, nvrtcGetErrorString)},
#define HR_NVRTC_SYMBOL(name, parameters) {#name, offsetof(hr_nvrtc, name)},
                                    HR_NVRTC_LIST(HR_NVRTC_SYMBOL)
#undef HR_NVRTC_SYMBOL
};

hr_status hr_nvrtc_check(const hr_nvrtc *nvrtc, rtc_result result, const char *call, hr_error *error)
{
  if (result == RTC_SUCCESS)
    return HR_OK;
  hr_status status = result == RTC_OUT_OF_MEMORY ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_BACKEND;
  return hr_fail(error, status, "%s: %s", call, nvrtc->nvrtcGetErrorString(result));
}

hr_status hr_nvrtc_open(hr_nvrtc *nvrtc, hr_error *error)
{
  *nvrtc = (hr_nvrtc){.handle = NULL};
  HR_TRY(hr_library_open(&source, symbols, sizeof symbols / sizeof *symbols, nvrtc, &nvrtc->handle, error));
  hr_status status = HR_RTC(nvrtc, nvrtcVersion, (&nvrtc->major, &nvrtc->minor), error);
  if (status != HR_OK)
    hr_nvrtc_close(nvrtc);
  return status;
}

void hr_nvrtc_close(hr_nvrtc *nvrtc)
{
  hr_library_close(nvrtc->handle);
  nvrtc->handle = NULL;
}
