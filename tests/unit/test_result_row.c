/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a result that describe where it was measured. */
#include "test.h"

#include "hardware/hardware.h"

#include <headroom/experimental/store.h>
#include <math.h>
#include <string.h>

static void a_row_of_the_cpu_names_its_product_threads_and_library(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware hardware;
  hr_error error = {.status = HR_OK};
  hr_result result = hr_result_default();
  strcpy(result.driver, "of a row before");
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  assert_ok(hr_device_detect(device, &hardware, &error), error);
  hr_result_set_device(&result, device, &hardware);
  hr_device_close(device);
  assert_string_equal(result.device, "cpu");
  assert_string_equal(result.product, hardware.about.product);
  assert_int_equal(result.threads, 1);
  assert_string_equal(result.driver, "");
  hr_library libraries[HR_LIBRARIES_MAX];
  size_t count = 0;
  hr_libraries("cpu", libraries, &count);
  assert_int_equal(count, 1);
  assert_int_equal(strncmp(result.libraries, "oneDNN ", 7) == 0, libraries[0].status == HR_OK);
}

static void a_share_is_relative_to_a_probed_rate_and_never_to_an_estimate(void **state)
{
  (void)state;
  hr_hardware hardware = hr_hardware_default();
  hardware.dense_flops_per_s[HR_BF16] = 100e12;
  hardware.library_share[HR_BF16] = 0.5;
  hardware.about.calibration = HR_CALIBRATION_MEASURED;
  hr_result result = hr_result_default();
  hr_measurement measurement = result.measurement;
  measurement.samples = 10;
  measurement.flops_per_s = 40e12;
  hr_result_set_measurement(&result, &measurement, &hardware);
  assert_true(fabs(result.library_share - 0.8) < 1e-12); /* 40 / (100 · 0.5) */
  assert_int_equal(result.measurement.samples, 10);

  assert_true(isnan(result.ceiling_share));

  hardware.ceiling_count = 1; /* measured even where the library's rate is not */
  hardware.ceilings[0] = (hr_ceiling){.kind = HR_CEILING_GEMM, .dtype = HR_BF16, .per_s = 80e12};
  hardware.about.calibration = HR_CALIBRATION_ESTIMATED;
  hr_result_set_measurement(&result, &measurement, &hardware);
  assert_true(isnan(result.library_share));
  assert_true(fabs(result.ceiling_share - 0.5) < 1e-12); /* 40 / 80 */
  result.gemm.dtype = HR_FP16;
  hr_result_set_measurement(&result, &measurement, &hardware);
  assert_true(isnan(result.ceiling_share));
  result.gemm.dtype = HR_BF16;
  hr_result_set_measurement(&result, &measurement, NULL);
  assert_true(isnan(result.library_share) && isnan(result.ceiling_share));

  hardware.about.calibration = HR_CALIBRATION_MEASURED;
  measurement.samples = 0; /* out of memory, for instance */
  hr_result_set_measurement(&result, &measurement, &hardware);
  assert_true(isnan(result.library_share) && isnan(result.ceiling_share));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_of_the_cpu_names_its_product_threads_and_library),
      cmocka_unit_test(a_share_is_relative_to_a_probed_rate_and_never_to_an_estimate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
