/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the devices of this machine for tests. */
#ifndef HEADROOM_TEST_MACHINE_H
#define HEADROOM_TEST_MACHINE_H

#include "test.h"

#include "runtime/device/device.h"
#include "runtime/device/kernel.h"

#include <headroom/plan.h>

/** Opens the first GPU; the caller closes it. Skips the test where there is none. */
static inline hr_device *open_gpu(void)
{
  hr_device *device = NULL;
  hr_error error;
  if (hr_device_open("cuda:0", 0, &device, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  return device;
}

/** Whether the device has a GEMM of many rows in the format, which a CPU without AVX-512 has not in bf16; if not, it
 *  prints a line. */
static inline bool multiplies(hr_device *device, hr_dtype dtype)
{
  hr_gemm gemm = hr_gemm_default();
  hr_plan *plan = NULL;
  hr_error error = {.message = ""};
  gemm.m = gemm.n = gemm.k = 64;
  gemm.dtype = dtype;
  const hr_status status = hr_plan_gemm(device, &gemm, NULL, &plan, &error);
  hr_plan_free(plan);
  if (status != HR_OK)
    print_message("%s\n", error.message);
  return status == HR_OK;
}

/** Opens a device that runs the kernel; the caller closes it. Prints a line and returns NULL where this machine has
 *  none. */
static inline hr_device *open_for_kernel(const hr_kernel_info *kernel)
{
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  char why[160] = "";
  hr_status status = hr_device_open(kernel->device, 0, &device, &error);
  if (status == HR_OK && hr_kernel_runs(device, kernel->name, why, sizeof why))
    return device;
  if (test_asks_for("required") || (status != HR_OK && status != HR_ERROR_UNAVAILABLE))
    fail_msg("%s: not on this machine: %s%s", kernel->name, error.message, why);
  print_message("%s: not on this machine: %s%s\n", kernel->name, error.message, why);
  hr_device_close(device);
  return NULL;
}

/** Opens a CPU that has this kernel alone; the caller closes it. Prints a line and returns NULL where the processor
 *  lacks what it needs. */
static inline hr_device *open_with_kernel(const hr_kernel *kernel)
{
  hr_device *device = NULL;
  hr_error error;
  char why[160];
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  device->kernels = kernel;
  device->kernel_count = 1;
  if (hr_kernel_runs(device, kernel->info->name, why, sizeof why))
    return device;
  print_message("%s: not on this machine: %s\n", kernel->info->name, why);
  hr_device_close(device);
  return NULL;
}

/** Calls `check` with a CPU that has this kernel alone, where one runs and the tests are not asked for others. */
static inline void check_with_kernel(const hr_kernel *kernel, hr_dtype dtype,
                                     void (*check)(hr_device *device, const char *kernel, hr_dtype dtype))
{
  hr_device *device = getenv("HEADROOM_TEST_KERNEL") || test_asks_for("gpu") ? NULL : open_with_kernel(kernel);
  if (device)
    check(device, kernel->info->name, dtype);
  hr_device_close(device);
}

#endif
