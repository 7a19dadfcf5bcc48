#include "test.h"

#include <headroom/device.h>

#include <string.h>

static void a_probed_cpu_can_be_predicted_with_and_keeps_what_was_detected(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware detected, probed;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  assert_ok(hr_device_detect(device, &detected, &error), error);
  hr_status status = hr_device_probe(device, &probed, &error);
  if (status == HR_ERROR_UNAVAILABLE) { /* a machine without oneDNN, and no loops */
    print_message("%s\n", error.message);
    hr_device_close(device);
    skip();
  }
  assert_ok(status, error);
  assert_ok(hr_hardware_check(&probed, &error), error);
  assert_string_equal(probed.product, detected.product);
  assert_int_equal(probed.multiprocessors, detected.multiprocessors);
  assert_int_equal(probed.l2_bytes, detected.l2_bytes);
  assert_true(probed.bandwidth_bytes_per_s > 0);
  assert_true(probed.launch_ns > 0);
  assert_true(hr_hardware_library_flops_per_s(&probed, HR_FP32) > 0);
  /* A share is of the dense rate, which a faster product raises: never more than all of it. */
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    assert_in_range((int64_t)(probed.library_share[i] * 1e6), 0, 1000000);
  hr_device_close(device);
}

static void the_reference_is_no_device_to_predict_for(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware probed;
  hr_error error = {.message = ""};
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_int_not_equal(hr_device_probe(device, &probed, &error), HR_OK);
  assert_true(strlen(error.message) > 0);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_probed_cpu_can_be_predicted_with_and_keeps_what_was_detected),
      cmocka_unit_test(the_reference_is_no_device_to_predict_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
