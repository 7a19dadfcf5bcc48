/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/headroom.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void the_library_and_its_headers_are_of_one_version(void **state)
{
  (void)state;
  assert_string_equal(hr_version(), HR_VERSION);
  assert_int_equal(hr_version_number(), HR_VERSION_NUMBER);
}

static void the_string_has_the_three_numbers(void **state)
{
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
  assert_string_equal(text, HR_VERSION);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_library_and_its_headers_are_of_one_version),
      cmocka_unit_test(the_string_has_the_three_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
