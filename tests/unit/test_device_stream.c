/* SPDX-License-Identifier: Apache-2.0 */
/* Devices on a stream and in a context of the caller's. Without a GPU only what is refused is tested. */
#include "cuda_program.h"

#include "hardware/hardware.h"
#include "runtime/device/energy_meter.h"

#include <time.h>

/* ---- what is refused ---- */

static void expect_refused(const char *name, int threads, void *stream, void *context, const char *line)
{
  hr_device *device = NULL;
  hr_error error = {.message = ""};
  hr_device_options options = hr_device_options_default();
  options.threads = threads;
  options.stream = stream;
  options.context = context;
  assert_int_equal(hr_device_open_with(name, &options, &device, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, line);
  assert_null(device);
}

static void a_device_without_streams_refuses_one(void **state)
{
  (void)state;
  int some = 0;
  expect_refused("cpu", 0, &some, NULL, "cpu: expected no stream: only GPUs have one");
  expect_refused("reference", 0, NULL, &some, "reference: expected no context: only GPUs have one");
  expect_refused("cpu", -1, NULL, NULL, "threads: expected at least 0, found -1");
  hr_device *device = NULL;
  hr_error error;
  hr_device_options options = hr_device_options_default();
  assert_int_equal(hr_device_open_with("gpu", &options, &device, &error), HR_ERROR_NOT_FOUND);
  options.threads = 1;
  assert_ok(hr_device_open_with("cpu", &options, &device, &error), error);
  hr_device_close(device);
}

static void a_stream_of_another_context_is_refused(void **state)
{
  const program *p = need_gpu(state);
  expect_refused("cuda:0", 0, p->primary_stream, p->own, "cuda:0: the stream given is not one of the context given");
  expect_refused("cuda:0", 0, p->own_stream, p->primary, "cuda:0: the stream given is not one of the context given");
  expect_refused("cuda:0", 0, CU_STREAM_PER_THREAD, p->primary,
                 "cuda:0: expected a stream, found the per-thread default stream");
}

/* ---- streams and contexts ---- */

static void runs_use_the_stream_and_context_that_stay_the_callers(void **state)
{
  static char expected[BYTES_MAX];
  const program *p = need_gpu(state);
  const struct {
    cu_stream stream;
    cu_context context;
  } given[] = {{p->primary_stream, NULL}, {p->primary_stream, p->primary}, {p->own_stream, NULL}, {NULL, p->own},
               {CU_STREAM_LEGACY, NULL},  {CU_STREAM_LEGACY, p->own}};
  run_elsewhere(decode_call, 3, expected);
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    cu_context current = NULL;
    hr_device *device = open_with(given[i].stream, given[i].context);
    if (given[i].stream)
      assert_ptr_equal(hr_device_stream(device), given[i].stream);
    else
      assert_non_null(hr_device_stream(device));
    call c = decode_call(device, 3);
    poison_result(&c);
    start_run(&c);
    expect_result(&c, expected);
    free_call(&c);
    hr_device_close(device);
    assert_int_equal(p->get_current(&current), CU_SUCCESS);
    assert_ptr_equal(current, p->primary);
  }
  const cu_stream streams[] = {p->primary_stream, p->own_stream};
  for (int i = 0; i < 2; i++)
    assert_int_equal(p->driver.cuStreamSynchronize(streams[i]), CU_SUCCESS);
}

static void short_runs_cannot_be_measured_on_the_default_stream(void **state)
{
  (void)need_gpu(state);
  hr_device *device = open_with(CU_STREAM_LEGACY, NULL);
  hr_error error;
  void *recording = NULL;
  double time_ns = 0;
  assert_int_equal(device->backend->time_runs(device, NULL, NULL, 2, &recording, &time_ns, &error),
                   HR_ERROR_UNSUPPORTED);
  assert_null(recording);
  hr_device_close(device);
}

/* Runs of both are queued without waiting for either. */
static void two_devices_on_two_streams_do_not_disturb_each_other(void **state)
{
  static char expected[2][BYTES_MAX];
  const program *p = need_gpu(state);
  hr_device *devices[] = {open_with(p->primary_stream, NULL), open_with(p->own_stream, p->own)};
  call calls[2];
  for (int i = 0; i < 2; i++) {
    run_elsewhere(decode_call, 7 + 10 * (uint64_t)i, expected[i]);
    calls[i] = decode_call(devices[i], 7 + 10 * (uint64_t)i);
    poison_result(&calls[i]);
  }
  for (int round = 0; round < 6; round++)
    start_run(&calls[round % 2]);
  for (int i = 0; i < 2; i++) {
    expect_result(&calls[i], expected[i]);
    free_call(&calls[i]);
    hr_device_close(devices[i]);
  }
}

/* ---- energy ---- */

static void a_gpu_counts_its_energy_and_knows_its_power_limit(void **state)
{
  need_gpu(state);
  hr_device *device = NULL;
  hr_energy_meter *meter = NULL;
  hr_hardware hardware;
  hr_error error;
  double power_w = 0, clock_hz = 0;
  const struct timespec steps = {.tv_nsec = 350000000}; /* at least three of the counter, of which two tell a power */
  assert_ok(hr_device_open("cuda:0", 0, &device, &error), error);
  assert_ok(hr_device_detect(device, &hardware, &error), error);
  assert_true(hardware.power_limit_w > 0);
  assert_true(hr_energy_is_counted(device));
  assert_ok(hr_energy_meter_start(device, &meter, &error), error);
  nanosleep(&steps, NULL);
  hr_energy_meter_stop(meter, &power_w, &clock_hz);
  assert_true(power_w > 0 && clock_hz > 0);
  hr_device_close(device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_without_streams_refuses_one),
      cmocka_unit_test(a_stream_of_another_context_is_refused),
      cmocka_unit_test(runs_use_the_stream_and_context_that_stay_the_callers),
      cmocka_unit_test(short_runs_cannot_be_measured_on_the_default_stream),
      cmocka_unit_test(two_devices_on_two_streams_do_not_disturb_each_other),
      cmocka_unit_test(a_gpu_counts_its_energy_and_knows_its_power_limit),
  };
  return cmocka_run_group_tests(tests, start_program, end_program);
}
