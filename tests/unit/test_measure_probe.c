/* SPDX-License-Identifier: Apache-2.0 */
/* Probing under load: a GEMM that other programs delay says nothing about the device. */
#include "hardware/hardware.h"
#include "measure_doubles.h"

#include <headroom/experimental/hardware.h>

#define FP32_FLOPS_PER_S 1e11

static hr_status detect(const hr_device *device, hr_hardware *hardware, hr_error *error)
{
  (void)device, (void)error;
  *hardware = hr_hardware_default();
  hardware->about.kind = HR_HARDWARE_CPU;
  hardware->dense_flops_per_s[HR_FP32] = hardware->dense_flops_per_s[HR_FP16] = FP32_FLOPS_PER_S;
  hardware->dense_flops_per_s[HR_BF16] = 2 * FP32_FLOPS_PER_S;
  hardware->library_share[HR_FP32] = hardware->library_share[HR_BF16] = 0.5;
  return HR_OK;
}

static hr_status copy_rate(hr_device *device, double *bytes_per_s, hr_error *error)
{
  (void)device, (void)error;
  *bytes_per_s = 1e10;
  return HR_OK;
}

static hr_status measure_ceilings(hr_device *device, const hr_progress_range *watch, hr_ceiling *ceilings,
                                  size_t *count, hr_error *error)
{
  (void)device, (void)watch, (void)error;
  ceilings[0] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_FP32, .per_s = FP32_FLOPS_PER_S};
  *count = 1;
  return HR_OK;
}

/* bf16 GEMMs take longer than a probe waits for one; fp32 GEMMs end at once. */
static hr_status run_bf16_late(const hr_plan *plan, const hr_run *run, hr_error *error)
{
  const struct timespec pause = {.tv_nsec = 400000000};
  (void)run, (void)error;
  if (plan->problem.gemm.dtype == HR_BF16)
    nanosleep(&pause, NULL);
  return HR_OK;
}

static void a_format_whose_gemms_end_too_late_keeps_its_estimate(void **state)
{
  static const hr_kernel_functions late = {.prepare = prepare, .run = run_bf16_late};
  static const hr_kernel_info info = {"late", "gemm", "reference", "fp32 bf16", "", "a"};
  static const hr_kernel one[] = {{&info, &late}};
  hr_device *device = *state;
  const hr_backend *own = device->backend;
  hr_backend loaded = *own;
  loaded.detect = detect;
  loaded.copy_rate = copy_rate;
  loaded.measure_ceilings = measure_ceilings;
  device->backend = &loaded;
  device->kernels = one;
  device->kernel_count = 1;
  hr_hardware probed;
  hr_error error = {.status = HR_OK};
  assert_ok(hr_device_probe(device, NULL, NULL, &probed, &error), error);
  device->backend = own;
  assert_true(probed.dense_flops_per_s[HR_BF16] == 2 * FP32_FLOPS_PER_S);
  assert_true(probed.library_share[HR_BF16] == 0.5);
  assert_int_equal(probed.about.calibration, hr_hardware_default().about.calibration); /* not every rate is measured */
  assert_int_equal(hr_hardware_usual_dtype(&probed), HR_BF16);
  assert_true(probed.dense_flops_per_s[HR_FP32] == FP32_FLOPS_PER_S);
  assert_true(probed.library_share[HR_FP32] != 0.5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_format_whose_gemms_end_too_late_keeps_its_estimate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
