/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/hardware.h"
#include "machine.h"

#include "runtime/device/device.h"

#include <headroom/experimental/hardware.h>
#include <string.h>

static void a_probed_cpu_can_be_predicted_with_and_keeps_what_was_detected(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware detected, probed;
  hr_error error;
  assert_ok(hr_device_open("cpu", 0, &device, &error), error);
  assert_ok(hr_device_detect(device, &detected, &error), error);
  device->cache_bytes = 0; /* slabs of memory far larger than a cache of hundreds of megabytes take seconds to touch */
  hr_status status = hr_device_probe(device, NULL, NULL, &probed, &error);
  if (status == HR_ERROR_UNAVAILABLE) { /* a machine without oneDNN and without ceiling loops */
    print_message("%s\n", error.message);
    hr_device_close(device);
    skip();
  }
  assert_ok(status, error);
  assert_ok(hr_hardware_check(&probed, &error), error);
  assert_string_equal(probed.about.product, detected.about.product);
  assert_int_equal(probed.multiprocessors, detected.multiprocessors);
  assert_int_equal(probed.l2_bytes, detected.l2_bytes);
  assert_true(probed.bandwidth_bytes_per_s > 0);
  assert_true(probed.launch_ns > 0);
  assert_true(hr_hardware_library_flops_per_s(&probed, HR_FP32) > 0);
  /* Measured rates do not replace those of the data sheet; 0 is a format without a kernel. */
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    assert_true(probed.dense_flops_per_s[i] == detected.dense_flops_per_s[i] || probed.dense_flops_per_s[i] == 0);
  assert_true(probed.dense_flops_per_s[HR_FP32] > 0 && probed.library_share[HR_FP32] > 0);
  hr_device_close(device);
}

/* For every format that the architecture has a ceiling loop for, with the clock during the loop. */
static void a_probed_gpu_has_a_ceiling_for_each_of_its_units(void **state)
{
  (void)state;
  hr_device *device = open_gpu();
  hr_hardware probed;
  hr_error error;
  assert_ok(hr_device_probe(device, NULL, NULL, &probed, &error), error);
  assert_ok(hr_hardware_check(&probed, &error), error);
  for (hr_ceiling_kind kind = HR_CEILING_GEMM; kind <= HR_CEILING_COPY; kind++)
    assert_true(hr_hardware_ceiling(&probed, kind, HR_FP32) > 0);
  if (probed.dense_flops_per_s[HR_BF16] > 0)
    assert_true(hr_hardware_ceiling(&probed, HR_CEILING_GEMM, HR_BF16) >
                hr_hardware_ceiling(&probed, HR_CEILING_GEMM, HR_FP32));
  for (size_t i = 0; i < probed.ceiling_count; i++)
    assert_true(probed.ceilings[i].instruction[0] &&
                (probed.ceilings[i].clock_hz > 0 || probed.ceilings[i].kind == HR_CEILING_COPY));
  hr_device_close(device);
}

static void the_reference_is_no_device_to_predict_for(void **state)
{
  (void)state;
  hr_device *device;
  hr_hardware probed;
  hr_error error = {.message = ""};
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_int_not_equal(hr_device_probe(device, NULL, NULL, &probed, &error), HR_OK);
  assert_true(strlen(error.message) > 0);
  hr_device_close(device);
}

/* Requests a stop at the asked-th call, counted from 1, and fails if called again. */
typedef struct stopper {
  int asked, stop_at;
  double last_done;
} stopper;

static int stop_once(void *context, double done, const char *what)
{
  stopper *s = context;
  assert_true(done >= s->last_done && done <= 1 && what && what[0]);
  assert_true(s->asked < s->stop_at);
  s->last_done = done;
  return ++s->asked == s->stop_at;
}

/* Stops at the beginning, among the instruction loops, and from there on in growing steps up to the last GEMMs. */
static void a_probe_stops_whenever_its_caller_asks(void **state)
{
  (void)state;
  hr_device *device;
  hr_error error;
  assert_ok(hr_device_open("cpu", 1, &device, &error), error);
  device->cache_bytes = 0; /* as above */
  hr_status status = HR_ERROR_INTERRUPTED;
  for (int stop_at = 1, tries = 0; status == HR_ERROR_INTERRUPTED; stop_at *= 3, tries++) {
    stopper s = {.stop_at = stop_at};
    hr_hardware probed = hr_hardware_default();
    status = hr_device_probe(device, stop_once, &s, &probed, &error);
    assert_true(tries < 20 && (status == HR_OK || status == HR_ERROR_INTERRUPTED));
    assert_true((status == HR_OK) == (probed.multiprocessors > 0)); /* untouched on failure */
    if (status != HR_OK)
      assert_string_equal(error.message, "stopped by the caller");
    assert_true(stop_at > 3 || status == HR_ERROR_INTERRUPTED);
  }
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_probed_cpu_can_be_predicted_with_and_keeps_what_was_detected),
      cmocka_unit_test(a_probed_gpu_has_a_ceiling_for_each_of_its_units),
      cmocka_unit_test(the_reference_is_no_device_to_predict_for),
      cmocka_unit_test(a_probe_stops_whenever_its_caller_asks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
