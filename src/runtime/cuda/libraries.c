/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the CUDA libraries this machine has. Each is opened, asked for its version and closed again. */
#include "base/names.h"
#include "runtime/cuda/collective/nccl.h"
#include "runtime/cuda/driver/cublaslt.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/nvml.h"
#include "runtime/cuda/driver/nvrtc.h"
#include "runtime/device/device.h"

#include <stdio.h>

static void put(hr_library *library, const char *name, const char *purpose)
{
  *library = (hr_library){.status = HR_OK};
  hr_copy_text(library->name, sizeof library->name, name);
  hr_copy_text(library->device, sizeof library->device, "cuda");
  hr_copy_text(library->purpose, sizeof library->purpose, purpose);
}

static bool note(hr_library *library, hr_status status, const hr_error *error)
{
  library->status = status;
  if (status != HR_OK)
    hr_copy_text(library->detail, sizeof library->detail, error->message);
  return status == HR_OK;
}

static void look_for_driver(hr_library *library)
{
  hr_driver driver;
  hr_error error = {.message = ""};
  put(library, "NVIDIA driver", "devices named cuda:N");
  if (!note(library, hr_driver_open(&driver, &error), &error))
    return;
  snprintf(library->version, sizeof library->version, "CUDA %d.%d", driver.version / 1000, driver.version % 1000 / 10);
  hr_driver_close(&driver);
}

static void look_for_cublaslt(hr_library *library)
{
  hr_cublaslt lt;
  hr_error error = {.message = ""};
  put(library, "cuBLASLt", "GEMM on cuda:N");
  if (!note(library, hr_cublaslt_open(&lt, &error), &error))
    return;
  hr_cublaslt_version(&lt, library->version, sizeof library->version);
  hr_cublaslt_close(&lt);
}

static void look_for_nvrtc(hr_library *library)
{
  hr_nvrtc nvrtc;
  hr_error error = {.message = ""};
  put(library, "NVRTC", "Headroom's own kernels on cuda:N");
  if (!note(library, hr_nvrtc_open(&nvrtc, &error), &error))
    return;
  snprintf(library->version, sizeof library->version, "%d.%d", nvrtc.major, nvrtc.minor);
  hr_nvrtc_close(&nvrtc);
}

static void look_for_nvml(hr_library *library)
{
  hr_nvml nvml;
  hr_error error = {.message = ""};
  put(library, "NVML", "clocks and throttling while cuda:N is measured");
  if (!note(library, hr_nvml_open(&nvml, &error), &error))
    return;
  hr_copy_text(library->version, sizeof library->version, nvml.driver_version);
  hr_nvml_close(&nvml);
}

static void look_for_nccl(hr_library *library)
{
  hr_nccl nccl;
  hr_error error = {.message = ""};
  put(library, "NCCL", "steps of several cuda:N");
  if (!note(library, hr_nccl_open(&nccl, &error), &error))
    return;
  hr_nccl_version(&nccl, library->version, sizeof library->version);
  hr_nccl_close(&nccl);
}

void hr_cuda_libraries(hr_library libraries[HR_LIBRARIES_MAX], size_t *count)
{
  look_for_driver(&libraries[0]);
  look_for_cublaslt(&libraries[1]);
  look_for_nvrtc(&libraries[2]);
  look_for_nvml(&libraries[3]);
  look_for_nccl(&libraries[4]);
  *count = 5;
}
