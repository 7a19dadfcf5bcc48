/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that measure concurrently on one machine: each has its own cores. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "test.h"

#include "runtime/device/device.h"

#include <headroom/experimental/device.h>
#include <sched.h>

#define PARTS 3

/* Opens a part, records the affinity mask of the thread, and restores the process's own mask. */
static int open_part(int part, int parts, const cpu_set_t *before, cpu_set_t *bound)
{
  hr_device *device = NULL;
  hr_error error;
  assert_ok(hr_device_open_part("cpu", part, parts, &device, &error), error);
  int threads = device->threads;
  assert_int_equal(sched_getaffinity(0, sizeof *bound, bound), 0);
  hr_device_close(device);
  assert_int_equal(sched_setaffinity(0, sizeof *before, before), 0);
  return threads;
}

static void parts_of_a_machine_are_equal_and_disjoint(void **state)
{
  (void)state;
  cpu_set_t before, bound[PARTS], all;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  for (int parts = 1; parts <= PARTS; parts++) {
    int processors = 0, threads = open_part(0, parts, &before, &bound[0]);
    CPU_ZERO(&all);
    for (int part = 0; part < parts; part++) {
      assert_int_equal(open_part(part, parts, &before, &bound[part]), threads);
      assert_true(threads >= 1 && threads <= CPU_COUNT(&bound[part]));
      CPU_OR(&all, &all, &bound[part]);
      processors += CPU_COUNT(&bound[part]);
    }
    bool whole = CPU_COUNT(&bound[0]) < CPU_COUNT(&before); /* the mask was the machine's and has been divided */
    if (whole && parts <= CPU_COUNT(&before) / 2)           /* at most two hardware threads per core */
      assert_int_equal(CPU_COUNT(&all), processors);
    CPU_AND(&all, &all, &before);
    assert_true(CPU_COUNT(&all) >= 1);
  }
}

/* A smaller mask was set by a launcher on purpose. */
static void a_mask_smaller_than_the_machine_stays(void **state)
{
  (void)state;
  cpu_set_t before, one, bound;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2)
    skip();
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &one);
  }
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(open_part(1, 2, &one, &bound), 1);
  assert_true(CPU_EQUAL(&bound, &one));
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void an_invalid_part_is_refused(void **state)
{
  (void)state;
  hr_device *device = NULL;
  hr_error error;
  assert_int_equal(hr_device_open_part("cpu", 2, 2, &device, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_device_open_part("cpu", -1, 2, &device, &error), HR_ERROR_INVALID);
  assert_int_equal(hr_device_open_part("cpu", 0, 0, &device, &error), HR_ERROR_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_a_machine_are_equal_and_disjoint),
      cmocka_unit_test(a_mask_smaller_than_the_machine_stays),
      cmocka_unit_test(an_invalid_part_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
